//! Responses within their limits, and faults that say whether the request may have happened.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::server::{PlannedDns, Server, dev};
use hapax_outgoing::{
    Answers, Fault, InvalidRules, Lookup, Outgoing, Part, Request, Rules, SendCheck, limits,
};
use http::{HeaderValue, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Long enough for a loopback connection on a busy machine, and short enough for a test.
const SOON: Duration = Duration::from_millis(700);

fn hurried() -> Outgoing {
    let hurried =
        Rules { total_timeout: SOON, longest_timeout: SOON, connect_timeout: Duration::MAX, ..dev() };
    Outgoing::new(hurried).unwrap()
}

#[tokio::test]
async fn a_request_arrives_as_it_was_given_and_says_who_sends_it() {
    let server =
        Server::answering("HTTP/1.1 201 Created\r\nx-own: yes\r\ncontent-length: 4\r\n\r\n{\"\"}").await;
    let mut request = Request::post(server.url("/charges?a=1#part"), r#"{"amount":100}"#);
    request.headers.insert("idempotency-key", HeaderValue::from_static("run-1:charge"));
    let answer = Outgoing::new(dev()).unwrap().send(request).await.unwrap();
    assert_eq!((answer.status, answer.is_success()), (201, true));
    assert_eq!(answer.headers["x-own"], "yes");
    assert_eq!(answer.body, "{\"\"}");
    let seen = server.seen().remove(0);
    assert!(seen.starts_with("POST /charges?a=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\n{\"amount\":100}"), "{seen}");
    let agent = format!("user-agent: hapax/{}\r\n", env!("CARGO_PKG_VERSION"));
    for field in [
        "idempotency-key: run-1:charge\r\n",
        "accept-encoding: identity\r\n",
        "content-length: 14\r\n",
        &agent,
    ] {
        assert!(seen.contains(field), "{field} in {seen}");
    }
    assert!(seen.contains(&format!("host: {}\r\n", server.at)), "{seen}");
}

#[tokio::test]
async fn a_senders_own_agent_goes_before_ours() {
    let server = Server::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let mut request = Request::new(Method::DELETE, server.url("/"));
    request.headers.insert("user-agent", HeaderValue::from_static("shop/2"));
    assert_eq!(Outgoing::new(dev()).unwrap().send(request).await.unwrap().status, 204);
    assert!(
        server.seen()[0].contains(&format!("user-agent: shop/2 hapax/{}\r\n", env!("CARGO_PKG_VERSION")))
    );
}

#[tokio::test]
async fn failures_of_the_receiver_are_answers_too() {
    for status in [304, 400, 404, 429, 500, 503] {
        let server = Server::answering(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(
            Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap().status,
            status
        );
    }
}

#[tokio::test]
async fn redirects_are_reported_and_not_followed() {
    let inside = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for status in [300, 301, 302, 303, 307, 308] {
        let location = inside.url("/secret");
        let server = Server::answering(format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\n\r\n")).await;
        let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
        assert_eq!(fault, Fault::Redirected { status, location });
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_refused_connection_means_that_nothing_was_sent() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fault = hurried().send(Request::post(format!("http://{free}/"), "x")).await.unwrap_err();
    assert!(matches!(fault, Fault::NotSent { .. }), "{fault}");
    assert!(fault.is_harmless());
}

#[tokio::test]
async fn a_name_without_an_address_means_that_nothing_was_sent() {
    let told = PlannedDns::default().name("empty.example", &[&[]]);
    let outgoing = Outgoing::with_lookup(dev(), told).unwrap();
    for name in ["empty.example", "unknown.example"] {
        let fault = outgoing.send(Request::get(format!("http://{name}/"))).await.unwrap_err();
        assert!(matches!(fault, Fault::NotSent { .. }), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_hangs_ends_with_the_time_to_connect() {
    struct NeverResolves;
    impl Lookup for NeverResolves {
        fn lookup<'a>(&'a self, _: &'a str) -> Answers<'a> {
            Box::pin(pending())
        }
    }
    let outgoing = Outgoing::with_lookup(Rules::default(), NeverResolves).unwrap();
    let start = tokio::time::Instant::now();
    let fault = outgoing.send(Request::get("http://hangs.example/")).await.unwrap_err();
    assert!(matches!(fault, Fault::NotSent { .. }), "{fault}");
    assert_eq!(start.elapsed().as_secs(), limits::CONNECT_TIMEOUT.as_secs());
}

#[tokio::test]
async fn an_address_that_is_dead_does_not_hide_a_living_one() {
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let told = PlannedDns::default().name("two.example", &[&["127.0.0.9", "::1", "127.0.0.1"]]);
    let outgoing = Outgoing::with_lookup(dev(), told).unwrap();
    let url = format!("http://two.example:{}/", server.at.port());
    assert_eq!(outgoing.send(Request::get(url)).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_receiver_that_never_answers_leaves_the_outcome_unknown() {
    let server = Server::after_reading(|stream| async move {
        let _held = stream;
        pending::<()>().await;
    })
    .await;
    let fault = hurried().send(Request::post(server.url("/"), "x")).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { status: None, .. }), "{fault:?}");
    assert!(!fault.is_harmless());
}

#[tokio::test]
async fn slow_headers_and_slow_bodies_end_with_the_total_time() {
    let drip = |first: &'static str, drop: &'static str| {
        Server::after_reading(move |mut stream| async move {
            let _ = stream.write_all(first.as_bytes()).await;
            while stream.write_all(drop.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    };
    let headers = drip("HTTP/1.1 200 OK\r\n", "x-a: b\r\n").await;
    let fault = hurried().send(Request::get(headers.url("/"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { status: None, .. }), "{fault:?}");
    let body = drip("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", "x").await;
    let fault = hurried().send(Request::get(body.url("/"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { status: Some(200), .. }), "{fault:?}");
}

#[tokio::test]
async fn a_request_may_ask_for_less_time_and_not_for_more() {
    let server = Server::after_reading(|stream| async move {
        let _held = stream;
        pending::<()>().await;
    })
    .await;
    let patient = Outgoing::new(dev()).unwrap();
    let request = Request { timeout: Some(SOON), ..Request::get(server.url("/")) };
    assert!(matches!(patient.send(request).await, Err(Fault::Unknown { .. })));
    let request = Request { timeout: Some(Duration::MAX), ..Request::get(server.url("/")) };
    assert!(matches!(hurried().send(request).await, Err(Fault::Unknown { .. })));
}

/// The limits of a request take precedence over the default limits of the rules.
#[tokio::test]
async fn a_request_that_asks_for_more_time_than_most_gets_it() {
    let (answer, answered) = tokio::sync::watch::channel(false);
    let server = Server::after_reading(move |mut stream| {
        let mut answered = answered.clone();
        async move {
            let _ = answered.wait_for(|answered| *answered).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let outgoing = Outgoing::new(Rules { total_timeout: SOON, ..dev() }).unwrap();
    let patient = Request { timeout: Some(SOON * 100), ..Request::get(server.url("/")) };
    let patient = tokio::spawn({
        let outgoing = outgoing.clone();
        async move { outgoing.send(patient).await }
    });
    let other = outgoing.send(Request::get(server.url("/"))).await;
    assert!(matches!(other, Err(Fault::Unknown { .. })), "{other:?}");
    answer.send_replace(true);
    assert_eq!(patient.await.unwrap().unwrap().status, 200);
}

#[tokio::test]
async fn a_body_without_end_is_cut_at_its_limit() {
    let endless = Server::after_reading(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
    })
    .await;
    let chunked = Server::after_reading(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"5\r\nhello\r\n").await.is_ok() {}
    })
    .await;
    let announced = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
    for server in [endless, chunked, announced] {
        let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
        let limit = limits::MAX_RESPONSE_BYTES;
        assert_eq!(fault, Fault::TooLarge { part: Part::Body, limit, status: Some(200) });
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    let rules = Rules { max_response_bytes: 5, ..dev() };
    let outgoing = Outgoing::new(rules).unwrap();
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n12345").await;
    assert_eq!(outgoing.send(Request::get(server.url("/"))).await.unwrap().body, "12345");
    let server = Server::answering("HTTP/1.1 200 OK\r\n\r\n123456").await;
    assert!(matches!(
        outgoing.send(Request::get(server.url("/"))).await,
        Err(Fault::TooLarge { limit: 5, .. })
    ));
}

/// A few kilobytes that would unpack to gigabytes: nothing is decompressed, so nothing grows.
#[tokio::test]
async fn compressed_bodies_are_handed_over_as_they_came() {
    let packed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 20\r\n\r\n".to_vec();
    bytes.extend_from_slice(&packed);
    let server = Server::answering(bytes).await;
    let answer = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap();
    assert_eq!(answer.body.as_ref(), packed);
    assert_eq!(answer.headers["content-encoding"], "gzip");
}

#[tokio::test]
async fn floods_of_header_fields_are_cut() {
    let many = Server::after_reading(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        for number in 0..=limits::MAX_RESPONSE_HEADERS {
            let _ = stream.write_all(format!("x-{number}: y\r\n").as_bytes()).await;
        }
        let _ = stream.write_all(b"content-length: 0\r\n\r\n").await;
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let long = Server::after_reading(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await;
        while stream.write_all(&[b'y'; 8192]).await.is_ok() {}
    })
    .await;
    for server in [many, long] {
        let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { part: Part::Head, status: None, .. }), "{fault:?}");
    }
}

#[tokio::test]
async fn a_connection_cut_after_the_request_was_read_leaves_the_outcome_unknown() {
    for (bytes, status) in [
        ("", None),
        ("HTTP/1.1 200", None),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Some(200)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", Some(200)),
    ] {
        let server = Server::answering(bytes).await;
        match Outgoing::new(dev()).unwrap().send(Request::post(server.url("/"), "x")).await {
            Err(Fault::Unknown { status: known, .. }) => assert_eq!(known, status, "{bytes:?}"),
            other => panic!("{bytes:?}: {other:?}"),
        }
    }
}

/// The receiver closes without reading. Whether bytes had left by then is a race. The client must never invent an
/// answer, nor report that a partly sent body had no effect.
#[tokio::test]
async fn a_connection_cut_before_the_request_was_read_is_no_answer() {
    let server = Server::raw("127.0.0.1:0", |stream| async move { drop(stream) }).await;
    for body in [1, 4 * 1024 * 1024] {
        let fault =
            Outgoing::new(dev()).unwrap().send(Request::post(server.url("/"), vec![b'x'; body])).await;
        let fault = fault.unwrap_err();
        assert!(matches!(fault, Fault::Unknown { status: None, .. } | Fault::NotSent { .. }), "{fault:?}");
    }
}

#[tokio::test]
async fn what_is_not_http_leaves_the_outcome_unknown() {
    for bytes in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "\0\0\x12\x04\0\0\0\0\0",
        "HTTP/1.1 9999 X\r\n\r\n",
    ] {
        let server = Server::answering(bytes).await;
        let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
        assert!(matches!(fault, Fault::Unknown { status: None, .. }), "{bytes:?}: {fault:?}");
    }
}

#[tokio::test]
async fn two_lengths_that_disagree_are_not_believed() {
    let server =
        Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 5\r\n\r\nhello").await;
    let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { .. }), "{fault:?}");
}

#[tokio::test]
async fn a_switch_of_protocols_is_no_answer() {
    let server =
        Server::answering("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")
            .await;
    let fault = Outgoing::new(dev()).unwrap().send(Request::get(server.url("/"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { .. }), "{fault:?}");
}

#[test]
fn rules_that_cannot_be_worked_by_are_refused() {
    let zero = Duration::ZERO;
    for rules in [
        Rules { total_timeout: zero, ..Rules::default() },
        Rules { connect_timeout: zero, ..Rules::default() },
        Rules { max_response_headers: 0, ..Rules::default() },
        Rules { total_timeout: Duration::MAX, ..Rules::default() },
        Rules { longest_timeout: Duration::MAX, ..Rules::default() },
        Rules { longest_timeout: Duration::from_secs(29), ..Rules::default() },
    ] {
        assert!(matches!(Outgoing::new(rules), Err(InvalidRules::Limit { .. })));
    }
    assert!(
        Outgoing::new(Rules { connect_timeout: Duration::MAX, ..Rules::default() }).is_ok(),
        "the total bounds it"
    );
    let agent = Rules { user_agent: "two\nlines".into(), ..Rules::default() };
    assert!(matches!(Outgoing::new(agent), Err(InvalidRules::UserAgent { .. })));
    let root = Rules { extra_roots: vec![b"not a certificate".to_vec()], ..Rules::default() };
    assert!(matches!(Outgoing::new(root), Err(InvalidRules::Root { .. })));
}

/// The right to send ended while connecting: no byte leaves, and the sender gets an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_who_lost_the_right_to_send_sends_nothing() {
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let mut request = Request::post(server.url("/charges"), r#"{"amount":100}"#);
    let (counted, connections) = (asked.clone(), server.connections_counter());
    request.send_check = Some(SendCheck::new(move || {
        // The pause can happen at any earlier point, so check after the connection is made.
        while connections.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        counted.fetch_add(1, Ordering::SeqCst);
        false
    }));
    let fault = Outgoing::new(dev()).unwrap().send(request).await.unwrap_err();
    assert_eq!(fault, Fault::NoLongerHeld);
    assert!(fault.is_harmless());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    server.wait_for_seen(1).await;
    assert_eq!(server.seen(), [""], "the connection was closed without a byte");
}

/// A receiver acts once it has the whole request, so the rest of a large one is not sent either.
#[tokio::test]
async fn a_right_that_ends_in_the_middle_of_a_request_leaves_it_unfinished() {
    let body = vec![b'x'; 4 * 1024 * 1024];
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let mut request = Request::post(server.url("/charges"), body.clone());
    let counted = asked.clone();
    request.send_check = Some(SendCheck::new(move || counted.fetch_add(1, Ordering::SeqCst) == 0));
    let fault = Outgoing::new(dev()).unwrap().send(request).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown { status: None, .. }), "part of it was sent: {fault:?}");
    server.wait_for_seen(1).await;
    assert!(server.seen()[0].len() < body.len(), "the receiver never had the whole request");
}
