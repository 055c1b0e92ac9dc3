//! One request and its answer on one connection.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::LOCATION;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::fault::{Fault, Part};
use crate::limits::{MAX_LOCATION_CHARS, MAX_RESPONSE_HEAD_BYTES};
use crate::request::Answer;
use crate::rules::Rules;
use crate::tracked_stream::{Progress, TrackedStream};

/// Sends the request and reads the answer. The connection ends with this future: dropping it leaves no task behind.
pub(crate) async fn exchange<S>(
    rules: &Rules,
    stream: S,
    request: http::Request<Full<Bytes>>,
    progress: Arc<Progress>,
) -> Result<Answer, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(TrackedStream::new(stream, progress.clone()));
    let handshake = http1::Builder::new()
        .max_headers(rules.max_response_headers)
        .max_header_size(MAX_RESPONSE_HEAD_BYTES)
        .handshake(io)
        .await;
    let (mut sender, connection) = handshake.map_err(|error| sort(rules, &progress, &error))?;
    let answer = async {
        let response = sender.try_send_request(request).await;
        let response = response.map_err(|error| sort(rules, &progress, error.error()))?;
        progress.note_status(response.status().as_u16());
        read(rules, response, &progress).await
    };
    let mut answer = pin!(answer);
    let mut connection = pin!(connection);
    let mut is_closed = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            // Its error also ends the answer, which knows how far the request got.
            _ = &mut connection, if !is_closed => is_closed = true,
        }
    }
}

async fn read(
    rules: &Rules,
    response: http::Response<hyper::body::Incoming>,
    progress: &Progress,
) -> Result<Answer, Fault> {
    let (head, mut body) = response.into_parts();
    let status = head.status.as_u16();
    if matches!(status, 301 | 302 | 303 | 307 | 308) || (head.status.is_redirection() && status != 304) {
        let location = head.headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let location = location.unwrap_or_default().chars().take(MAX_LOCATION_CHARS).collect();
        return Err(Fault::Redirected { status, location });
    }
    if head.status.is_informational() {
        let why = format!("answered {status}, which is no answer to what was asked");
        return Err(Fault::Unknown { why, status: Some(status) });
    }
    let limit = rules.max_response_bytes;
    let too_large = || Fault::TooLarge { part: Part::Body, limit, status: Some(status) };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| sort(rules, progress, &error))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(Answer { status, headers: head.headers, body: whole.freeze() })
}

/// Maps a connection error to its meaning for the sender.
fn sort(rules: &Rules, progress: &Progress, error: &hyper::Error) -> Fault {
    let status = progress.find_status();
    if progress.is_refused() && !progress.is_sent() {
        return Fault::NoLongerHeld;
    }
    if progress.is_refused() {
        return Fault::Unknown { why: "its sender lost the right to send the rest of it".to_owned(), status };
    }
    if !progress.is_sent() {
        return Fault::NotSent {
            why: format!("the connection was lost before the request was sent ({error})"),
        };
    }
    if error.is_parse_too_large() {
        return Fault::TooLarge { part: Part::Head, limit: rules.max_response_headers, status };
    }
    let why = match (error.is_parse(), status) {
        (true, _) => format!("the answer is not HTTP/1.1 ({error})"),
        (false, Some(_)) => format!("the connection was lost in the middle of the answer ({error})"),
        (false, None) => format!("the connection was lost before an answer came ({error})"),
    };
    Fault::Unknown { why, status }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// A peer that has closed, or accepts nothing: its behaviour on read and on write.
    struct Peer {
        has_closed: bool,
    }

    impl AsyncRead for Peer {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if self.has_closed { Poll::Ready(Ok(())) } else { Poll::Pending }
        }
    }

    impl AsyncWrite for Peer {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            assert!(!self.has_closed, "nothing is written to a connection that was found closed");
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn request() -> http::Request<Full<Bytes>> {
        http::Request::post("/").body(Full::from("x")).unwrap()
    }

    #[tokio::test]
    async fn a_connection_found_closed_means_that_nothing_was_sent() {
        let progress = Arc::new(Progress::default());
        let fault = exchange(&Rules::default(), Peer { has_closed: true }, request(), progress.clone()).await;
        assert!(matches!(fault, Err(Fault::NotSent { .. })), "{fault:?}");
        assert!(!progress.is_sent());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_was_sent_nothing() {
        let progress = Arc::new(Progress::default());
        let rules = Rules::default();
        let exchange = exchange(&rules, Peer { has_closed: false }, request(), progress.clone());
        assert!(tokio::time::timeout(rules.total_timeout, exchange).await.is_err());
        assert!(!progress.is_sent());
    }
}
