//! A small service behind the real listener, and a client that sends bytes as they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use hapax_api::RawJson;
use hapax_server::answer::with_response_layers;
use hapax_server::drain::{Drain, drain};
use hapax_server::listen::{Drained, ListenOptions, serve};
use hapax_server::strict_json::StrictJson;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Nothing in these tests may take longer; a test that would hang fails instead.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Timeouts so short that a test can see them run out.
pub fn impatient() -> ListenOptions {
    ListenOptions {
        header_read_timeout: Duration::from_millis(200),
        body_read_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_millis(300),
        tls_handshake_timeout: Duration::from_millis(200),
        drain_timeout: Duration::from_secs(10),
        ..ListenOptions::default()
    }
}

/// The service under test.
pub struct Server {
    pub address: SocketAddr,
    /// Requests that reached the secret route.
    pub secrets: Arc<AtomicUsize>,
    /// Told each time a slow request has begun.
    pub begun: Arc<Notify>,
    /// Lets slow requests end, one per permit.
    pub may_end: Arc<Semaphore>,
    pub drain: Drain,
    pub ended: JoinHandle<Drained>,
}

pub async fn start(options: ListenOptions) -> Server {
    let secrets = Arc::new(AtomicUsize::new(0));
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let seen = secrets.clone();
    let (slow_begun, slow_may_end) = (begun.clone(), may_end.clone());
    let routes = Router::new()
        .route("/hello", get(|| async { "hello" }))
        .route("/json", post(|body: StrictJson<RawJson>| async move { body.value.into_text() }))
        .route("/panics", get(|| async { panic!("on purpose") as &'static str }))
        .route(
            "/secret",
            get(move || async move {
                seen.fetch_add(1, Ordering::SeqCst);
                "secret"
            }),
        )
        .route(
            "/endless",
            get(|| async {
                let events = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("event\n"));
                axum::body::Body::from_stream(events)
            }),
        )
        .route(
            "/slow",
            get(move || async move {
                slow_begun.notify_one();
                slow_may_end.acquire().await.unwrap().forget();
                "slow"
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (drain, draining) = drain();
    let ended = tokio::spawn(serve(listener, with_response_layers(routes), options, draining));
    Server { address, secrets, begun, may_end, drain, ended }
}

impl Server {
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends `bytes` on a new connection and reads until the server closes it or it has fallen silent after an answer.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        // The server may close before everything is sent; what it said counts.
        let _ = socket.write_all(bytes).await;
        read_to_end(&mut socket).await
    }

    pub async fn is_well(&self) -> bool {
        let answer = self.exchange(b"GET /hello HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello")
    }
}

/// Everything until the connection ends, be it by a reset.
pub async fn read_to_end(socket: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    let work = async {
        while let Ok(count @ 1..) = socket.read(&mut buffer).await {
            read.extend_from_slice(&buffer[..count]);
        }
    };
    timeout(PATIENCE, work).await.expect("the server must close the connection");
    String::from_utf8_lossy(&read).into_owned()
}

/// One answer with a declared length, leaving the connection open.
pub async fn read_answer(socket: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut read = Vec::new();
    let work = async {
        loop {
            let byte = socket.read_u8().await.expect("an answer, not the end");
            read.push(byte);
            let text = String::from_utf8_lossy(&read);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text.into_owned();
            }
        }
    };
    timeout(PATIENCE, work).await.expect("an answer in time")
}

/// The status of the first answer in `text`.
pub fn status(text: &str) -> u16 {
    text.strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}

/// Responses that Python's clients see for bodies of this size, a line for each way to send one.
pub async fn oversized_bodies(address: SocketAddr, path: &str, bytes: usize) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/oversized_bodies.py");
    let (port, bytes) = (address.port().to_string(), bytes.to_string());
    let python =
        tokio::process::Command::new("python3").args([script, "127.0.0.1", &port, path, &bytes]).output();
    let output = timeout(PATIENCE, python).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
