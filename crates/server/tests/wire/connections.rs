//! How many connections there may be, how long they last, and how they end.

use std::sync::Arc;
use std::time::Duration;

use hapax_server::listen::{Drained, ListenOptions};
use hapax_server::proxies::Proxies;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::fixture::*;

const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n";
const HELLO: &[u8] = b"GET /hello HTTP/1.1\r\nhost: h\r\n\r\n";

#[tokio::test]
async fn a_connection_is_reused_and_closed_when_idle_too_long() {
    let server = start(impatient()).await;
    let mut socket = server.connect().await;
    for _ in 0..3 {
        socket.write_all(HELLO).await.unwrap();
        assert_eq!(status(&read_answer(&mut socket).await), 200);
    }
    assert_eq!(read_to_end(&mut socket).await, "");
    let mut silent = server.connect().await;
    assert_eq!(read_to_end(&mut silent).await, "", "one that never says anything is closed, too");
}

/// A connection that says nothing holds one of the seats of everybody.
#[tokio::test]
async fn a_connection_that_never_asks_is_cut_long_before_it_would_count_as_idle() {
    let server = start(ListenOptions { idle_timeout: Duration::from_secs(3600), ..impatient() }).await;
    let mut silent = server.connect().await;
    assert_eq!(read_to_end(&mut silent).await, "");
    let mut begun = server.connect().await;
    begun.write_all(b"GET /hello HTTP/1.1\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut begun).await, "");
}

#[tokio::test]
async fn a_slow_handler_is_not_an_idle_connection() {
    let server = start(impatient()).await;
    let mut socket = server.connect().await;
    socket.write_all(SLOW).await.unwrap();
    server.begun.notified().await;
    // Far beyond every timeout of a connection that waits for nothing: another one runs into its own first.
    let mut idle = server.connect().await;
    assert_eq!(read_to_end(&mut idle).await, "");
    server.may_end.add_permits(1);
    assert!(read_answer(&mut socket).await.ends_with("slow"));
}

/// RELIABILITY, Resource limits: connections, connections per address.
#[tokio::test]
async fn beyond_the_cap_a_connection_is_refused_politely_and_a_seat_that_is_free_again_is_given() {
    for options in [
        ListenOptions { max_connections: 2, ..ListenOptions::default() },
        ListenOptions { max_connections_per_address: 2, ..ListenOptions::default() },
    ] {
        let server = start(options).await;
        let mut first = server.connect().await;
        first.write_all(HELLO).await.unwrap();
        read_answer(&mut first).await;
        let mut second = server.connect().await;
        second.write_all(HELLO).await.unwrap();
        read_answer(&mut second).await;
        let answer = server.exchange(HELLO).await;
        assert_eq!(status(&answer), 503, "{answer}");
        assert!(answer.contains("too_many_connections") && answer.contains("retry-after: 1"), "{answer}");
        drop(first);
        // The server notices the closed connection after a while; until then it refuses others.
        timeout(PATIENCE, async { while !server.is_well().await {} }).await.expect("a seat");
    }
}

/// Behind a proxy many callers come from one address.
#[tokio::test]
async fn a_proxy_has_as_many_connections_as_there_are() {
    let proxies = Arc::new(Proxies::WhoeverConnects);
    let options = ListenOptions { max_connections_per_address: 1, proxies, ..ListenOptions::default() };
    let server = start(options).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut socket = server.connect().await;
        socket.write_all(HELLO).await.unwrap();
        assert_eq!(status(&read_answer(&mut socket).await), 200);
        open.push(socket);
    }
}

/// RELIABILITY, inv. 63: graceful stop.
#[tokio::test]
async fn a_drain_lets_requests_in_flight_end_and_closes_idle_connections_at_once() {
    let server = start(ListenOptions::default()).await;
    let mut idle = server.connect().await;
    idle.write_all(HELLO).await.unwrap();
    read_answer(&mut idle).await;
    let mut busy = server.connect().await;
    busy.write_all(SLOW).await.unwrap();
    server.begun.notified().await;
    server.drain.begin();
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!(
        timeout(PATIENCE, async { while TcpStream::connect(server.address).await.is_ok() {} }).await.is_ok()
    );
    server.may_end.add_permits(1);
    let answer = read_to_end(&mut busy).await;
    assert!(status(&answer) == 200 && answer.ends_with("slow"), "{answer}");
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap(), Drained { cut: 0 });
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_when_draining() {
    let server =
        start(ListenOptions { drain_timeout: Duration::from_millis(50), ..ListenOptions::default() }).await;
    let mut busy = server.connect().await;
    busy.write_all(SLOW).await.unwrap();
    server.begun.notified().await;
    server.drain.begin();
    assert_eq!(timeout(PATIENCE, server.ended).await.unwrap().unwrap(), Drained { cut: 1 });
    assert_eq!(read_to_end(&mut busy).await, "");
}
