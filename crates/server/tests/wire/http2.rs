//! HTTP/2 from a well-behaved client, and from a hostile one.

use std::time::Duration;

use h2::client::{self, SendRequest};
use hapax_server::limits::MAX_HTTP2_STREAMS;
use hapax_server::listen::ListenOptions;
use http::{Request, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::wire::fixture::*;

type Connection = (SendRequest<bytes::Bytes>, JoinHandle<Result<(), h2::Error>>);

async fn connect(server: &Server) -> Connection {
    let (sender, connection) = client::handshake(server.connect().await).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(path: &str) -> Request<()> {
    Request::builder().version(Version::HTTP_2).uri(format!("http://h{path}")).body(()).unwrap()
}

#[tokio::test]
async fn many_requests_share_a_connection_up_to_the_cap_on_streams() {
    let server = start(ListenOptions::default()).await;
    let (sender, _connection) = connect(&server).await;
    let mut sender = sender.ready().await.unwrap();
    let (response, _) = sender.send_request(request("/hello"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    assert_eq!(sender.current_max_send_streams(), MAX_HTTP2_STREAMS as usize);
}

/// A frame of HTTP/2: length, type, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// GET / of host h, in HPACK.
const GET: &[u8] = &[0x82, 0x84, 0x86, 0x41, 0x01, b'h'];
const ENHANCE_YOUR_CALM: &str = "\0\0\0\u{b}";

/// RELIABILITY, HTTP: HTTP/2 rapid reset. The streams come in one piece, as in an attack: a polite client library would not
/// even send what it resets at once.
#[tokio::test]
async fn a_client_that_opens_and_resets_streams_without_end_is_sent_away() {
    let server = start(ListenOptions::default()).await;
    let mut flood = [PREFACE, &frame(4, 0, 0, &[])].concat();
    for stream in (1..2_001).step_by(2) {
        flood.extend(frame(1, 0x4, stream, GET));
        flood.extend(frame(3, 0, stream, &[0, 0, 0, 8]));
    }
    let answer = server.exchange(&flood).await;
    assert!(answer.contains(ENHANCE_YOUR_CALM), "{answer:?}");
    assert!(server.is_well().await);
}

/// RELIABILITY, HTTP: CONTINUATION flood, empty DATA frames, SETTINGS and PING floods: the connection ends, or the flood is
/// worked off without an answer piling up; others are served.
#[tokio::test]
async fn floods_of_frames_that_say_nothing_do_not_hurt_others() {
    let server = start(impatient()).await;
    let open = [PREFACE, &frame(4, 0, 0, &[])].concat();
    let continuation = [frame(1, 0, 1, GET), frame(9, 0, 1, &[]).repeat(100_000)].concat();
    let empty_data = [frame(1, 0x4, 1, GET), frame(0, 0, 1, &[]).repeat(100_000)].concat();
    let settings = frame(4, 0, 0, &[]).repeat(100_000);
    let pings = frame(6, 0, 0, &[0; 8]).repeat(100_000);
    for flood in [continuation, empty_data, settings, pings] {
        let mut socket = server.connect().await;
        let bytes = [open.clone(), flood].concat();
        // The client never reads, so whatever the server answers piles up on its side.
        let _ = timeout(Duration::from_millis(500), socket.write_all(&bytes)).await;
        assert!(server.is_well().await);
    }
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A client that says by itself how much of an answer it will take.
struct SlowReader {
    socket: TcpStream,
}

impl SlowReader {
    /// Opens the window of each stream by so much to begin with.
    async fn connect(server: &Server, window: u32) -> Self {
        let mut socket = server.connect().await;
        let settings = [&[0, 4][..], &window.to_be_bytes()].concat();
        socket.write_all(&[PREFACE, &frame(4, 0, 0, &settings)].concat()).await.unwrap();
        SlowReader { socket }
    }

    async fn get(&mut self, stream: u32, path: &str) {
        let length = u8::try_from(path.len()).unwrap();
        let head = [&[0x82, 0x86, 0x41, 0x01, b'h', 0x04, length][..], path.as_bytes()].concat();
        self.socket.write_all(&frame(HEADERS, 0x5, stream, &head)).await.unwrap();
    }

    async fn take_more(&mut self, stream: u32, bytes: u32) {
        self.socket.write_all(&frame(8, 0, stream, &bytes.to_be_bytes())).await.unwrap();
    }

    /// The next frame of this stream: its kind, flags and payload.
    async fn next(&mut self, stream: u32) -> (u8, u8, Vec<u8>) {
        let next = async {
            loop {
                let mut head = [0; 9];
                self.socket.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                self.socket.read_exact(&mut payload).await.unwrap();
                if u32::from_be_bytes([head[5], head[6], head[7], head[8]]) == stream {
                    return (head[3], head[4], payload);
                }
            }
        };
        timeout(PATIENCE, next).await.expect("a frame in time")
    }
}

/// RELIABILITY, HTTP: 1-byte windows. A client that never opens the window of a stream is cut as
/// soon as one that does not read, for a short or an endless response; the connection and its other
/// streams survive.
#[tokio::test]
async fn a_client_that_leaves_its_window_closed_has_the_stream_reset() {
    for window in [0, 1] {
        let server = start(ListenOptions {
            write_stall_timeout: Duration::from_millis(200),
            ..ListenOptions::default()
        })
        .await;
        let mut miser = SlowReader::connect(&server, window).await;
        miser.get(1, "/slow").await;
        server.begun.notified().await;
        for (stream, path) in [(3, "/hello"), (5, "/endless"), (7, "/hello")] {
            miser.get(stream, path).await;
            assert_eq!(miser.next(stream).await.0, HEADERS, "{path}");
            if window == 1 {
                let (kind, flags, bytes) = miser.next(stream).await;
                assert_eq!((kind, flags & END_STREAM, bytes.len()), (DATA, 0, 1), "{path}");
            }
            let (kind, _, why) = miser.next(stream).await;
            assert_eq!((kind, why), (RESET, CANCEL.to_vec()), "{path}");
        }
        server.may_end.add_permits(1);
        assert_eq!(miser.next(1).await.0, HEADERS, "its handler was slow, not its client");
    }
}

#[tokio::test]
async fn a_client_that_takes_an_answer_byte_by_byte_gets_all_of_it() {
    let server =
        start(ListenOptions { write_stall_timeout: Duration::from_secs(5), ..ListenOptions::default() })
            .await;
    let mut miser = SlowReader::connect(&server, 1).await;
    miser.get(1, "/hello").await;
    assert_eq!(miser.next(1).await.0, HEADERS);
    let mut read = Vec::new();
    loop {
        let (kind, flags, bytes) = miser.next(1).await;
        assert_eq!(kind, DATA);
        read.extend(bytes);
        if flags & END_STREAM != 0 {
            break;
        }
        miser.take_more(1, 1).await;
    }
    assert_eq!(read, b"hello");
}

#[tokio::test]
async fn a_header_list_beyond_16_kib_is_refused() {
    let server = start(ListenOptions::default()).await;
    let (sender, _connection) = connect(&server).await;
    let mut sender = sender.ready().await.unwrap();
    let mut large = request("/hello");
    for i in 0..40 {
        let name = http::HeaderName::try_from(format!("x-{i}")).unwrap();
        large.headers_mut().insert(name, "a".repeat(1024).parse().unwrap());
    }
    let (response, _) = sender.send_request(large, true).unwrap();
    match response.await {
        Ok(response) => assert_eq!(response.status(), 431),
        Err(error) => assert!(error.is_reset() || error.is_go_away(), "{error}"),
    }
    assert!(server.is_well().await);
}

#[tokio::test]
async fn a_drain_lets_a_stream_end_and_then_closes() {
    let server = start(ListenOptions::default()).await;
    let (sender, connection) = connect(&server).await;
    let mut sender = sender.ready().await.unwrap();
    let (response, _) = sender.send_request(request("/slow"), true).unwrap();
    server.begun.notified().await;
    server.drain.begin();
    server.may_end.add_permits(1);
    assert_eq!(timeout(PATIENCE, response).await.unwrap().unwrap().status(), 200);
    drop(sender);
    let _ = timeout(PATIENCE, connection).await.expect("the connection must end");
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap().cut, 0);
}
