//! Memory that bodies cost a server while strangers send as much as they can, over HTTP/2, without a key.

use crate::support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use support::dev::Dev;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

/// Connections of the attack, each from an address of its own, as many as brought a server without limits to 6.7 GB.
const CONNECTIONS: u8 = 12;
const STREAMS: usize = 128;
const BODY: usize = 1024 * 1024;
/// Most that the server may have in memory: what it has at rest, twice the budget of 128 MB for bodies (they are copied as they grow), and 128 MB for
/// everything else.
const BOUND: usize = 2 * 128 + 128;
const PATIENCE: Duration = Duration::from_secs(60);
/// How long each stream is held open.
const HOLD: Duration = Duration::from_secs(5);

const SOURCE: &str =
    r#"{"name":"pay","preset":"stripe","secrets":["secret://pay"],"actions":[{"start":{"workflow":"w"}}]}"#;

/// One connection whose streams each send a body as far as they are let, and never end it. Counts the bytes that were taken.
async fn pour(server: SocketAddr, from: u8, path: String, sent: Arc<AtomicUsize>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, from), 0).into()).unwrap();
    let Ok(socket) = socket.connect(server).await else { return };
    let Ok((sender, connection)) = h2::client::handshake(socket).await else { return };
    let driver = tokio::spawn(connection);
    let mut streams = JoinSet::new();
    for _ in 0..STREAMS {
        let Ok(mut sender) = sender.clone().ready().await else { break };
        let request = Request::post(format!("http://h{path}"))
            .header("content-type", "application/json")
            .header("stripe-signature", "t=1,v1=00");
        let Ok((answer, mut body)) = sender.send_request(request.body(()).unwrap(), false) else { break };
        let sent = sent.clone();
        let pouring = async move {
            let mut left = BODY;
            while left > 0 {
                body.reserve_capacity(left.min(16 * 1024));
                let Some(Ok(room)) = std::future::poll_fn(|cx| body.poll_capacity(cx)).await else { break };
                let piece = room.min(left);
                if body.send_data(Bytes::from(vec![b' '; piece]), false).is_err() {
                    break;
                }
                left -= piece;
                sent.fetch_add(piece, Ordering::Relaxed);
            }
            // Held open: what was sent so far stays where it is.
            let _ = answer.await;
        };
        streams.spawn(tokio::time::timeout(HOLD, pouring));
    }
    while streams.join_next().await.is_some() {}
    driver.abort();
}

/// Sends on all connections at once. Returns the peak memory of the server in megabytes.
async fn attack(dev: &Dev, path: &str) -> (usize, usize) {
    let server: SocketAddr = dev.told("url").trim_start_matches("http://").parse().unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let mut pouring = JoinSet::new();
    for from in 1..=CONNECTIONS {
        pouring.spawn(pour(server, from, path.to_owned(), sent.clone()));
    }
    let (mut peak, mut looking) = (0, tokio::time::interval(Duration::from_millis(20)));
    loop {
        tokio::select! {
            ended = pouring.join_next() => if ended.is_none() { break },
            _ = looking.tick() => peak = peak.max(dev.resident_megabytes()),
        }
    }
    (peak, sent.load(Ordering::Relaxed) / (1024 * 1024))
}

/// Several calls at the same time, for the threads of a server to share.
fn call_at_once(server: SocketAddr) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connection = TcpStream::connect(server).unwrap();
                connection
                    .write_all(b"GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
                    .unwrap();
                connection.read_to_end(&mut Vec::new()).unwrap();
            });
        }
    });
}

/// Settle tokens and webhooks were buffered before anybody looked at the token or the source. Over HTTP/2, 12 connections took a server from
/// 60 MB to 6.7 GB.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_who_send_all_they_can_do_not_fill_the_memory() {
    let folder = Rc::new(tempfile::tempdir().unwrap());
    let dev = Dev::start_knowing(folder, &[("HAPAX_SECRET_DEV__PAY", "whsec_1")]);
    let source = dev.post("/api/v1/webhook-sources", SOURCE);
    let known = source["path"].as_str().unwrap_or_else(|| panic!("{source}")).to_owned();
    let server: SocketAddr = dev.told("url").trim_start_matches("http://").parse().unwrap();
    let at_rest = dev.resident_megabytes();
    for path in ["/settle/hps_nothing", "/api/v1/webhooks/dev/nothing", &known] {
        let (peak, sent) = attack(&dev, path).await;
        println!("{path}: {sent} MB sent, {peak} MB at most, {at_rest} MB at rest");
        assert!(
            peak <= at_rest + BOUND,
            "{path}: {peak} MB of memory for {sent} MB sent; {at_rest} MB at rest"
        );
    }
    // It is given back once the attack is over, and the server serves.
    let since = Instant::now();
    while dev.resident_megabytes() > at_rest + 64 {
        assert!(since.elapsed() < PATIENCE, "{} MB are kept", dev.resident_megabytes());
        // An allocator gives the memory of a thread back only while the thread uses it, so the test calls all of them.
        call_at_once(server);
    }
    let promise = dev.post("/api/v1/promises", r#"{"id":"p"}"#);
    assert_eq!(promise["status"], "PENDING", "{promise}");
}
