//! Rejected callers all get the same response. RELIABILITY, HTTP: "Auth: …".

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use hapax_server::credentials::key::{ApiKey, KeyId};
use hapax_server::limits;
use hapax_server::listen::ListenOptions;
use hapax_server::proxies::Proxies;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::RUNS;
use super::support::{Role, Setup, TestServer};

/// Missing, of another scheme, twice, garbled, unknown, revoked, expired: one response for all.
#[tokio::test]
async fn all_callers_without_a_valid_key_get_the_same_response() {
    let server = TestServer::memory().await;
    let revoked =
        server.post("/api/v1/credentials", &json!({ "name": "r", "role": "viewer" }), &[]).await.json();
    let id = revoked["credential"]["id"].as_str().unwrap();
    server.post(&format!("/api/v1/credentials/{id}/revoke"), &json!({}), &[]).await;
    let revoked = revoked["apiKey"].as_str().unwrap().to_owned();
    let good = server.admin.clone();
    let wrong_secret = {
        // Another good key's secret under this one's id: its shape is right, its checksum is not.
        let other = server.key("acme", Role::Viewer).await;
        format!("{}{}", &good[..good.len() / 2], &other[good.len() / 2..])
    };
    let unknown = ApiKey::generate().unwrap().reveal().to_owned();
    let cases: Vec<Vec<(&str, String)>> = vec![
        vec![],
        vec![("authorization", good.clone())],
        vec![("authorization", format!("Basic {good}"))],
        vec![("authorization", format!("Bearer{good}"))],
        vec![("authorization", "Bearer ".into())],
        vec![("authorization", format!("Bearer {good} {good}"))],
        vec![("authorization", format!("Bearer {good}")), ("authorization", format!("Bearer {good}"))],
        vec![("authorization", format!("Bearer {good}")), ("x-api-key", good.clone())],
        vec![("x-api-key", good.clone()), ("x-api-key", good.clone())],
        vec![("x-api-key", format!("{good}\\n"))],
        vec![("x-api-key", good.to_uppercase())],
        vec![("x-api-key", good[..good.len() - 1].into())],
        vec![("x-api-key", wrong_secret)],
        vec![("x-api-key", unknown)],
        vec![("x-api-key", revoked)],
        vec![("authorization", "Bearer \u{e9}".into())],
    ];
    let mut told = BTreeSet::new();
    for (number, headers) in cases.iter().enumerate() {
        let client = server.client_at(u8::try_from(number + 1).unwrap());
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = server.send_by(&client, "GET", RUNS, None, "", &headers).await;
        assert_eq!(answer.told(), (401, "unauthorized".into()), "{number}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"hapax\""));
        let id = answer.json()["traceId"].as_str().unwrap().to_owned();
        told.insert(answer.text().replace(&id, ""));
    }
    assert_eq!(told.len(), 1, "{told:?}");
    for good in [[("authorization", format!("bearer {good}"))], [("x-api-key", good)]] {
        let headers: Vec<(&str, &str)> = good.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(server.send("GET", RUNS, None, "", &headers).await.status, 200);
    }
    // A key in the address is none.
    let in_query = server.send("GET", &format!("{RUNS}?api_key={}", server.admin), None, "", &[]).await;
    assert_eq!(in_query.status, 401);
}

/// A newline cannot be smuggled in behind a key: it ends the header, and what follows is read as HTTP has it.
#[tokio::test]
async fn a_key_with_a_newline_behind_it_lets_nobody_else_in() {
    let server = TestServer::memory().await;
    for (tail, expected) in [("\r\n x", "400"), ("\u{0}\r\n", "400"), ("\rX\r\n", "400")] {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let request = format!(
            "GET {RUNS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}{tail}\r\n\r\n",
            server.admin
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{tail:?}: {answer}");
    }
}

/// RELIABILITY, resource limits: requests per key. A credential that asks too often waits, and others do not.
#[tokio::test]
async fn a_credential_may_ask_as_often_as_the_operator_says() {
    let setup = Setup { requests_per_second: NonZeroU32::new(2), ..Setup::default() };
    let server = TestServer::memory_with(setup).await;
    let other = server.key("acme", Role::Viewer).await;
    // On a slow machine the bucket refills by one during the loop.
    let mut asked = 0;
    let refused = loop {
        let answer = server.get(RUNS).await;
        if answer.status != 200 {
            break answer;
        }
        asked += 1;
        assert!(asked < 100, "nobody is told to wait");
    };
    assert!(asked >= 2, "{asked}");
    assert_eq!(refused.told(), (429, "rate_limited".into()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(server.send("GET", RUNS, None, &other, &[]).await.status, 200);
}

/// A caller with too many failures must wait. A good key works from any address, whatever others
/// try from there or with its id.
#[tokio::test]
async fn failures_are_limited_by_address_and_by_key() {
    let server = TestServer::memory().await;
    let guesser = server.client_at(1);
    // The bucket refills now and then, so a slow machine may need a few more tries.
    let mut refused = 0;
    let last = loop {
        let answer = server.send_by(&guesser, "GET", RUNS, None, "hpx_guess", &[]).await;
        if answer.status != 401 {
            break answer;
        }
        refused += 1;
        assert!(refused < 100, "nobody is told to wait");
    };
    assert!(refused >= limits::FAILED_AUTH_BURST_PER_ADDRESS, "{refused}");
    assert_eq!(last.told(), (429, "rate_limited".into()));
    assert!(last.header("retry-after").is_some());
    assert_eq!(server.get(RUNS).await.status, 200, "another address is let in");
    let good = server.send_by(&guesser, "GET", RUNS, None, &server.admin, &[]).await;
    assert_eq!(good.status, 200, "a good key is let in from there: {}", good.text());
    // One key is guessed from many addresses.
    let id = KeyId::parse(&server.admin["hpx_".len()..][..16]).unwrap();
    let guess = ApiKey::generate_for(id).unwrap();
    let mut refused = 0;
    for number in 2..100 {
        let client = server.client_at(number);
        match server.send_by(&client, "GET", RUNS, None, guess.reveal(), &[]).await.status {
            401 => refused += 1,
            status => {
                assert_eq!(status, 429);
                break;
            }
        }
    }
    assert!((limits::FAILED_AUTH_BURST_PER_KEY..90).contains(&refused), "{refused}");
    assert_eq!(server.get(RUNS).await.status, 200, "whoever has the secret is let in");
}

/// Behind a proxy all connections come from one address. The proxy's header identifies each caller,
/// and a caller that bypasses the proxy is not trusted.
#[tokio::test]
async fn behind_a_proxy_callers_are_told_apart() {
    let server = TestServer::memory().await;
    let proxied = |proxies| ListenOptions { proxies: Arc::new(proxies), ..ListenOptions::default() };
    let behind = server.also_listening(proxied(Proxies::WhoeverConnects)).await;
    let elsewhere = server.also_listening(proxied(Proxies::within(&["192.0.2.0/24"]).unwrap())).await;
    let guess = async |server: &TestServer, from: &str| {
        let said = format!("198.51.100.9, {from}");
        server.send("GET", RUNS, None, "hpx_guess", &[("x-forwarded-for", said.as_str())]).await.status
    };
    let mut refused = 0;
    while guess(&behind, "203.0.113.1").await == 401 {
        refused += 1;
        assert!(refused < 100, "nobody is told to wait");
    }
    assert!(refused >= limits::FAILED_AUTH_BURST_PER_ADDRESS, "{refused}");
    assert_eq!(guess(&behind, "203.0.113.2").await, 401, "another caller is another matter");
    let mut told = Vec::new();
    for last in 0..60 {
        told.push(guess(&elsewhere, &format!("203.0.113.{last}")).await);
    }
    assert!(told.contains(&429), "whoever is no proxy of ours cannot say who they are: {told:?}");
}
