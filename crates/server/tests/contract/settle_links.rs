//! One-time addresses for strangers (RELIABILITY, security: promise tokens).

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::Timestamp;
use serde_json::{Value, json};

use super::promises::PROMISES;
use super::support::{Answer, Role, TestServer};

async fn token(server: &TestServer, promise: &str, body: Value) -> String {
    let issued = server.post(&format!("{PROMISES}/id:{promise}/tokens"), &body, &[]).await;
    assert_eq!(issued.status, 201, "{}", issued.text());
    let issued = issued.json();
    let token = issued["token"].as_str().unwrap().to_owned();
    assert_eq!(issued["url"], json!(format!("/settle/{token}")));
    assert!(token.starts_with("hps_") && token.len() == 47 && issued["expiresAt"].is_string());
    token
}

/// As a stranger, from an address of the test's own.
async fn settle(server: &TestServer, client: &reqwest::Client, token: &str, body: Value) -> Answer {
    server.send_by(client, "POST", &format!("/settle/{token}"), Some(body.to_string()), "", &[]).await
}

/// Content of a response, without the parts that differ per request.
fn said(answer: &Answer) -> Value {
    let mut said = answer.json();
    said["traceId"].take();
    said
}

/// A caller with the token settles the promise, once; repeating the settlement succeeds, and the
/// promise's id is not a token.
#[tokio::test]
async fn a_stranger_with_a_token_settles_one_promise() {
    let server = TestServer::memory().await;
    let client = server.client_at(1);
    for id in ["p", "q"] {
        server.post(PROMISES, &json!({ "id": id }), &[]).await;
    }
    let (good, rejecting) = (token(&server, "p", json!({})).await, token(&server, "q", json!({})).await);
    let answer = settle(&server, &client, &good, json!({ "value": { "ok": true } })).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "settled": true })),
        "no word about the promise"
    );
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(settle(&server, &client, &good, json!({ "value": { "ok": true } })).await.status, 200);
    let shown = server.get(&format!("{PROMISES}/id:p")).await.json();
    assert_eq!((&shown["status"], &shown["value"]["ok"]), (&json!("RESOLVED"), &json!(true)));
    let no = json!({ "reject": { "message": "not me" } });
    assert_eq!(settle(&server, &client, &rejecting, no).await.status, 200);
    assert_eq!(server.get(&format!("{PROMISES}/id:q")).await.json()["failure"]["message"], "not me");
}

/// Unknown, malformed, expired, otherwise settled, timed out: strangers get the same response for
/// all of these.
#[tokio::test]
async fn a_caller_without_a_valid_token_learns_nothing() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let server = TestServer::memory_at(clock.clone()).await;
    let client = server.client_at(2);
    for (id, more) in [("settled", json!({})), ("late", json!({ "timeout": "5s" })), ("waits", json!({}))] {
        let mut asked = more;
        asked["id"] = json!(id);
        assert_eq!(server.post(PROMISES, &asked, &[]).await.status, 201);
    }
    let settled = token(&server, "settled", json!({})).await;
    let late = token(&server, "late", json!({})).await;
    let expired = token(&server, "waits", json!({ "expiresIn": "5s" })).await;
    assert_eq!(settle(&server, &client, &settled, json!({ "value": 1 })).await.status, 200);
    clock.advance(Duration::from_secs(5));
    let unknown = format!("hps_{}", "0".repeat(43));
    let odd = "x".repeat(2_000);
    let mut answers = Vec::new();
    for bad in [unknown.as_str(), &settled, &late, &expired, "hps_", "a%2Fb", "id:waits", "waits", &odd] {
        let answer = settle(&server, &client, bad, json!({ "value": 2 })).await;
        assert_eq!(answer.told(), (404, "not_found".into()), "{bad}");
        answers.push((said(&answer), answer.headers.keys().map(ToString::to_string).collect::<Vec<_>>()));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    // Only a request with a token gets its body read and its errors explained.
    let bad_body = [json!({}), json!({ "value": 1, "reject": { "message": "x" } }), json!({ "val": 1 })];
    for body in bad_body {
        for (token, status) in [(unknown.as_str(), 404), (&settled, 400)] {
            assert_eq!(settle(&server, &client, token, body.clone()).await.status, status, "{body}");
        }
    }
    assert_eq!(server.get(&format!("{PROMISES}/id:waits")).await.json()["status"], "PENDING");
}

/// Only POST settles: mail scanners and previews follow links. A GET looks the same for every
/// token.
#[tokio::test]
async fn opening_the_address_settles_nothing_and_says_nothing() {
    let server = TestServer::memory().await;
    server.post(PROMISES, &json!({ "id": "p" }), &[]).await;
    let good = token(&server, "p", json!({})).await;
    let mut seen = Vec::new();
    for token in [good.as_str(), "hps_nothing"] {
        let answer = server.send("GET", &format!("/settle/{token}"), None, "", &[]).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text().contains(token));
        seen.push(answer.bytes);
        for method in ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let answer = server.send(method, &format!("/settle/{token}"), None, "", &[]).await;
            assert!(matches!(answer.status, 200 | 405), "{method}: {}", answer.status);
        }
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(server.get(&format!("{PROMISES}/id:p")).await.json()["status"], "PENDING");
}

/// Guessing is slowed down by address. A good token works from any address, and so do credentials.
#[tokio::test]
async fn guessing_is_slowed_down() {
    let server = TestServer::memory().await;
    let (guesser, other) = (server.client_at(3), server.client_at(4));
    server.post(PROMISES, &json!({ "id": "p" }), &[]).await;
    let good = token(&server, "p", json!({})).await;
    let mut told = Vec::new();
    for guess in 0..25 {
        told.push(settle(&server, &guesser, &format!("hps_{guess}"), json!({ "value": 1 })).await.status);
    }
    assert!(told[..20].iter().all(|status| *status == 404) && told.ends_with(&[429]), "{told:?}");
    let slowed = settle(&server, &guesser, "hps_again", json!({ "value": 1 })).await;
    assert_eq!((slowed.status, slowed.header("retry-after").is_some()), (429, true));
    assert_eq!(settle(&server, &other, "hps_again", json!({ "value": 1 })).await.status, 404);
    let as_admin =
        server.send_by(&guesser, "GET", &format!("{PROMISES}/id:p"), None, &server.admin, &[]).await;
    assert_eq!(as_admin.json()["status"], "PENDING");
    assert_eq!(settle(&server, &guesser, &good, json!({ "value": 1 })).await.status, 200);
}

/// A token settles one promise of one workspace, for a limited time, and only a caller who may
/// settle can create it.
#[tokio::test]
async fn a_token_expires_and_needs_permission_to_settle() {
    let server = TestServer::memory().await;
    let (viewer, stranger) =
        (server.key("acme", Role::Viewer).await, server.key("globex", Role::Admin).await);
    server.post(PROMISES, &json!({ "id": "p", "idempotencyKey": "k" }), &[]).await;
    let path = format!("{PROMISES}/key:k/tokens");
    assert_eq!(server.send("POST", &path, None, &viewer, &[]).await.status, 403);
    assert_eq!(server.send("POST", &path, None, &stranger, &[]).await.status, 404);
    for bad in [json!({ "expiresIn": "0s" }), json!({ "expiresIn": "7776001s" }), json!({ "for": 1 })] {
        assert_eq!(server.post(&path, &bad, &[]).await.told(), (400, "invalid_request".into()), "{bad}");
    }
    // Shown once: the same request again makes another.
    let (one, two) = (server.post(&path, &json!({}), &[]).await, server.post(&path, &json!({}), &[]).await);
    assert_eq!((one.status, two.status), (201, 201));
    assert_ne!(one.json()["token"], two.json()["token"]);
    assert_eq!(server.post(&format!("{PROMISES}/key:none/tokens"), &json!({}), &[]).await.status, 404);
}

/// The token is looked up before the body is read, and a body has 64 kB: a caller without a
/// credential cannot fill the memory.
#[tokio::test]
async fn the_token_is_looked_up_before_the_body_and_a_body_is_small() {
    let server = TestServer::memory().await;
    let client = server.client_at(9);
    server.post(PROMISES, &json!({ "id": "p" }), &[]).await;
    let good = token(&server, "p", json!({})).await;
    let broken =
        server.send_by(&client, "POST", "/settle/hps_nothing", Some("not JSON".into()), "", &[]).await;
    assert_eq!(broken.told(), (404, "not_found".into()), "nothing was read of it: {}", broken.text());
    let large = json!({ "value": "x".repeat(64 * 1024) });
    let refused = settle(&server, &client, &good, large).await;
    assert_eq!(refused.told(), (413, "payload_too_large".into()), "{}", refused.text());
    assert_eq!(refused.json()["maxBytes"], 64 * 1024);
    let most = json!({ "value": "x".repeat(60 * 1024) });
    assert_eq!(settle(&server, &client, &good, most).await.status, 200);
}
