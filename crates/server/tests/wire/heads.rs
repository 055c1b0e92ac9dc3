//! Heads of requests that are slow, large or misleading.

use tokio::io::AsyncWriteExt;

use crate::wire::fixture::*;

fn get(path: &str, more: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: h\r\n{more}connection: close\r\n\r\n").into_bytes()
}

/// RELIABILITY, HTTP: slow client (fault 37).
#[tokio::test]
async fn a_client_that_dribbles_its_headers_is_cut_off_and_others_are_served() {
    let server = start(impatient()).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /hello HTTP/1.1\r\nhost: h\r\nx-a").await.unwrap();
    assert!(server.is_well().await);
    assert_eq!(read_to_end(&mut slow).await, "");
}

/// RELIABILITY, HTTP: Header 64 KiB, 10,000 headers.
#[tokio::test]
async fn a_header_of_64_kib_and_ten_thousand_headers_are_431() {
    let server = start(impatient()).await;
    let large = format!("x-large: {}\r\n", "a".repeat(64 * 1024));
    assert_eq!(status(&server.exchange(&get("/hello", &large)).await), 431);
    assert_eq!(status(&server.exchange(&get("/hello", &"a: b\r\n".repeat(10_000))).await), 431);
    let few_bytes_but_too_many = get("/hello", &"a:b\r\n".repeat(150));
    assert_eq!(status(&server.exchange(&few_bytes_but_too_many).await), 431);
    assert_eq!(status(&server.exchange(&get("/hello", &"a: b\r\n".repeat(50))).await), 200);
}

/// RELIABILITY, HTTP: bad bytes, obs-fold, NUL.
#[tokio::test]
async fn bad_bytes_folded_lines_and_nul_in_headers_are_400() {
    let server = start(impatient()).await;
    for header in [
        "x: a\0b\r\n",
        "x: a\r\n folded\r\n",
        "x y: a\r\n",
        "x\u{1}: a\r\n",
        ": a\r\n",
        "x : a\r\n",
        "x: a\rb\r\n",
    ] {
        assert_eq!(status(&server.exchange(&get("/hello", header)).await), 400, "{header:?}");
    }
    assert_eq!(status(&server.exchange(b"GET /hello HTTP/1.1\r\nhost: h\r\n\xff\xfe: a\r\n\r\n").await), 400);
    assert!(server.is_well().await);
}

/// RELIABILITY, HTTP: method unknown, 8 KiB URL.
#[tokio::test]
async fn an_unknown_method_is_405_and_an_address_of_8_kib_is_414() {
    let server = start(impatient()).await;
    let answer = server.exchange(b"BREW /hello HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status(&answer), 405);
    assert!(answer.contains("method_not_allowed") && answer.contains("allow: GET,HEAD"), "{answer}");
    assert_eq!(status(&server.exchange(b"CONNECT h:80 HTTP/1.1\r\nhost: h\r\n\r\n").await), 405);
    let answer = server.exchange(&get(&format!("/hello?{}", "a".repeat(8 * 1024)), "")).await;
    assert_eq!(status(&answer), 414);
    assert!(answer.contains("uri_too_long"), "{answer}");
}

/// RELIABILITY, HTTP: path `//`, `/../`, `%00`, `%2e%2e`, invalid percent: never another route.
#[tokio::test]
async fn a_path_in_disguise_reaches_no_route() {
    let server = start(impatient()).await;
    for path in [
        "//secret",
        "/secret/",
        "/hello/../secret",
        "/./secret",
        "/hello/%2e%2e/secret",
        "/%2e/secret",
        "/%73ecret%00",
        "/secret%00",
        "/%",
        "/secret%zz",
        "/..%2fsecret",
        "/hello\\..\\secret",
        "/SECRET",
        "/secret;x",
        "secret",
        "*",
    ] {
        let got = status(&server.exchange(&get(path, "")).await);
        assert!(matches!(got, 400 | 404), "{path}: {got}");
    }
    assert_eq!(server.secrets.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(status(&server.exchange(&get("/secret", "")).await), 200);
}

/// RELIABILITY, HTTP: Host missing / twice.
#[tokio::test]
async fn a_request_without_a_host_or_with_two_is_400_and_the_connection_is_closed() {
    let server = start(impatient()).await;
    for head in ["", "host: a\r\nhost: b\r\n", "host: a\r\nHost: a\r\n", "host: a/b\r\n", "host:\r\n"] {
        let answer = server.exchange(format!("GET /hello HTTP/1.1\r\n{head}\r\n").as_bytes()).await;
        assert_eq!(status(&answer), 400, "{head:?}");
        assert!(answer.contains("invalid_request") && answer.contains("traceId"), "{answer}");
    }
    assert!(server.exchange(b"GET /hello HTTP/1.0\r\n\r\n").await.contains("200 OK"));
}
