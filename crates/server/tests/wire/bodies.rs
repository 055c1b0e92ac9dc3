//! Bodies that are slow, too large, or of another length than they say.

use std::sync::atomic::Ordering;

use hapax_server::listen::ListenOptions;
use tokio::io::AsyncWriteExt;

use crate::wire::fixture::*;

const JSON: &str = "POST /json HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n";
const SMUGGLED: &str = "GET /secret HTTP/1.1\r\nhost: h\r\n\r\n";

/// RELIABILITY, HTTP: slow client, body.
#[tokio::test]
async fn a_client_that_dribbles_its_body_gets_408_and_is_cut_off() {
    let server = start(impatient()).await;
    let answer = server.exchange(format!("{JSON}content-length: 100\r\n\r\n{{\"a\"").as_bytes()).await;
    assert_eq!(status(&answer), 408);
    assert!(answer.contains("request_timeout"), "{answer}");
    let answer =
        server.exchange(format!("{JSON}transfer-encoding: chunked\r\n\r\n2\r\n{{\"").as_bytes()).await;
    assert_eq!(status(&answer), 408);
    assert!(server.is_well().await);
}

/// RELIABILITY, HTTP: body > limit, with and without Content-Length, chunked.
#[tokio::test]
async fn a_body_beyond_the_limit_is_413_and_reading_stops() {
    let server = start(impatient()).await;
    let declared = server.exchange(format!("{JSON}content-length: 999999999\r\n\r\n").as_bytes()).await;
    assert_eq!(status(&declared), 413, "{declared}");
    let mut socket = server.connect().await;
    socket.write_all(format!("{JSON}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let (mut reader, mut writer) = socket.split();
    // More than any buffer on the way holds; the server stops reading, so this ends by an error or never.
    let pour = async {
        for _ in 0..1_000 {
            if writer.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = read_to_end(&mut reader) => answer,
        () = pour => unreachable!(),
    };
    assert_eq!(status(&answer), 413, "{answer}");
    assert!(server.is_well().await);
}

/// RELIABILITY, HTTP: two CL; malformed lengths.
#[tokio::test]
async fn two_lengths_or_a_length_that_is_none_are_400_and_the_connection_is_closed() {
    let server = start(impatient()).await;
    for lengths in [
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: 2, 3\r\n",
        "content-length: +2\r\n",
        "content-length: -1\r\n",
        "content-length: 0x2\r\n",
        "content-length: 99999999999999999999999\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: xchunked\r\n",
    ] {
        let answer = server.exchange(format!("{JSON}{lengths}\r\n{{}}{SMUGGLED}").as_bytes()).await;
        assert_eq!(status(&answer), 400, "{lengths:?}: {answer}");
    }
    assert_eq!(server.secrets.load(Ordering::SeqCst), 0);
}

/// RELIABILITY, HTTP: both CL and Transfer-Encoding. By RFC 9112 §6.1 the chunks count, and later
/// bytes on the connection are not read, so a second request hidden by the length never runs.
#[tokio::test]
async fn a_length_beside_chunks_smuggles_nothing_and_ends_the_connection() {
    let server = start(impatient()).await;
    for lengths in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 60\r\n",
    ] {
        let answer =
            server.exchange(format!("{JSON}{lengths}\r\n2\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}").as_bytes()).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    assert_eq!(server.secrets.load(Ordering::SeqCst), 0);
}

/// RELIABILITY, HTTP: Content-Length ≠ body.
#[tokio::test]
async fn a_body_of_another_length_than_it_says_is_400() {
    let server = start(impatient()).await;
    let mut short = server.connect().await;
    short.write_all(format!("{JSON}content-length: 10\r\n\r\n{{}}").as_bytes()).await.unwrap();
    short.shutdown().await.unwrap();
    let answer = read_to_end(&mut short).await;
    assert!(matches!(status(&answer), 0 | 400), "cut, or told: {answer}");
    // Bytes beyond the length are the next request, which is invalid.
    let answer =
        server.exchange(format!("{JSON}content-length: 2\r\n\r\n{{}}garbage\x01\r\n\r\n").as_bytes()).await;
    let statuses: Vec<&str> =
        answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "400"], "{answer}");
}

/// RELIABILITY, HTTP: pipelined and keep-alive after error.
#[tokio::test]
async fn the_next_request_on_a_connection_is_unaffected_by_an_error_or_a_panic_before_it() {
    let server = start(impatient()).await;
    let pipelined = format!(
        "{JSON}content-length: 3\r\n\r\n{{x}}GET /nothing HTTP/1.1\r\nhost: h\r\n\r\nGET /panics HTTP/1.1\r\nhost: h\r\n\r\n\
         GET /hello HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
    );
    let answer = server.exchange(pipelined.as_bytes()).await;
    let statuses: Vec<&str> =
        answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["400", "404", "500", "200"], "{answer}");
    assert!(answer.ends_with("hello") && !answer.contains("on purpose"));
}

/// A client that sends the whole body before it reads sees the response, and may keep using the
/// connection. Python's clients do so, and got a broken pipe while the rest of the body was left
/// unread.
#[tokio::test]
async fn pythons_clients_are_told_413_and_not_cut_off() {
    let server = start(ListenOptions::default()).await;
    let answers = oversized_bodies(server.address, "/json", 20 << 20).await;
    for way in ["length", "again", "chunked"] {
        assert!(answers.contains(&format!("{way} 413 payload_too_large\n")), "{way}: {answers}");
    }
    assert!(
        !answers.contains("requests") || answers.contains("requests 413 payload_too_large\n"),
        "{answers}"
    );
    assert!(server.is_well().await);
}

/// A client that keeps sending after the response is cut off.
#[tokio::test]
async fn discarding_a_body_is_bounded() {
    let server = start(impatient()).await;
    let mut socket = server.connect().await;
    socket.write_all(format!("{JSON}content-length: 999999999\r\n\r\n").as_bytes()).await.unwrap();
    let answer = read_to_end(&mut socket).await;
    assert_eq!(status(&answer), 413, "{answer}");
}

/// A client that asked first (`Expect: 100-continue`) does not send the body, and the server does
/// not wait for it.
#[tokio::test]
async fn a_body_that_was_only_announced_is_not_waited_for() {
    let server = start(ListenOptions::default()).await;
    let head = format!("{JSON}content-length: 99999999\r\nexpect: 100-continue\r\n\r\n");
    let answer = server.exchange(head.as_bytes()).await;
    assert_eq!(status(&answer), 413, "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
}
