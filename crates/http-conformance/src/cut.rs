//! A request whose sender disconnects: written to a raw connection, in full or in part, which is then closed.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use url::Url;

use crate::calls::{Bench, Call};
use crate::clause::Stop;
use crate::limits::LEAVE_AFTER;

/// Point where the sender stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPoint {
    /// One byte before the end of the body, so the request is barely incomplete.
    MidRequest,
    /// After the last byte, before any answer.
    BeforeAnswer,
}

/// Sends a call up to that point and closes the connection without reading.
pub(crate) async fn send_and_leave(bench: &Bench, call: &Call, cut: CutPoint) -> Result<(), Stop> {
    let failed = |saw: String| Stop::Failed { expected: "a connection".to_owned(), saw };
    match timeout(bench.max_wait(), write(bench, call, cut)).await {
        Ok(written) => written.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed("none in time".to_owned())),
    }
}

async fn write(bench: &Bench, call: &Call, cut: CutPoint) -> io::Result<()> {
    let url = Url::parse(&call.url).map_err(io::Error::other)?;
    let no_host = || io::Error::other("the base URL has no host");
    let host = url.host_str().ok_or_else(no_host)?.to_owned();
    let port = url.port_or_known_default().ok_or_else(no_host)?;
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    let bytes = written(call, &url, cut);
    match url.scheme() {
        "https" => {
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(&bench.tls)).connect(name, stream).await?;
            leave(stream, &bytes, cut).await
        }
        _ => leave(stream, &bytes, cut).await,
    }
}

async fn leave(mut stream: impl AsyncWrite + Unpin, bytes: &[u8], cut: CutPoint) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await?;
    if cut == CutPoint::BeforeAnswer {
        // Disconnecting at once would prove nothing: a service that sees request and end together may not even begin.
        sleep(LEAVE_AFTER).await;
    }
    stream.shutdown().await
}

fn written(call: &Call, url: &Url, cut: CutPoint) -> Vec<u8> {
    let body = call.body.as_deref().unwrap_or_default();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut bytes = format!("{} {target} HTTP/1.1\r\nhost: {host}\r\n", call.method).into_bytes();
    for (name, value) in &call.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(match cut {
        CutPoint::MidRequest => &body[..body.len().saturating_sub(1)],
        CutPoint::BeforeAnswer => body,
    });
    bytes
}
