//! The durable promise endpoints: the whole product of states, actions, keys and strictness, against the sentences of CONTRACT §7.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::Timestamp;
use serde_json::{Value, json};

use super::support::{Answer, Role, TestServer};

const BEGIN: i64 = 1_800_000_000_000;
const NEVER: i64 = 9_007_199_254_740_991;

/// State of the promise before the action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Absent,
    Pending,
    Settled(&'static str),
    TimedOut,
}

const BEFORE: [Before; 6] = [
    Before::Absent,
    Before::Pending,
    Before::Settled("RESOLVED"),
    Before::Settled("REJECTED"),
    Before::Settled("REJECTED_CANCELED"),
    Before::TimedOut,
];

/// Action under test: create, or complete with this state.
const ACTIONS: [Option<&str>; 4] = [None, Some("RESOLVED"), Some("REJECTED"), Some("REJECTED_CANCELED")];

/// The rules of the contract, as a table. `same` says whether the given key equals the stored one;
/// an absent key equals nothing. Returns the status and the state afterwards.
fn oracle(
    before: Before,
    action: Option<&'static str>,
    same: bool,
    strict: bool,
) -> (u16, Option<&'static str>) {
    let stands = match before {
        Before::Absent => None,
        Before::Pending => Some("PENDING"),
        Before::Settled(state) => Some(state),
        Before::TimedOut => Some("REJECTED_TIMEDOUT"),
    };
    match (action, stands) {
        // Create: 201 new.
        (None, None) => (201, Some("PENDING")),
        // "deduplicated (200) if the stored create key equals the given one and, when strict, it is still pending; otherwise refused" (409).
        (None, Some(state)) => {
            let is_deduplicated = same && (!strict || state == "PENDING");
            (if is_deduplicated { 200 } else { 409 }, stands)
        }
        // Complete: 404 unknown.
        (Some(_), None) => (404, None),
        (Some(asked), Some("PENDING")) => (200, Some(asked)),
        // "a timed-out one is deduplicated for any completion that is not strict, and refused for any that is".
        (Some(_), Some("REJECTED_TIMEDOUT")) => (if strict { 403 } else { 200 }, stands),
        // "deduplicated if the stored complete key equals the given one and, when strict, the state asked for is the state it has" (200), else 403.
        (Some(asked), Some(state)) => {
            let is_deduplicated = same && (!strict || asked == state);
            (if is_deduplicated { 200 } else { 403 }, stands)
        }
    }
}

async fn act(
    server: &TestServer,
    id: &str,
    action: Option<&str>,
    timeout: i64,
    key: Option<&str>,
    strict: Option<bool>,
) -> Answer {
    let strict = strict.map(|strict| strict.to_string());
    let mut headers = Vec::new();
    headers.extend(key.map(|key| ("idempotency-key", key)));
    headers.extend(strict.as_deref().map(|strict| ("strict", strict)));
    match action {
        None => {
            let body = json!({ "id": id, "timeout": timeout, "param": { "data": "cGFyYW0=" }, "tags": { "a": "b" } });
            server.post("/promises", &body, &headers).await
        }
        Some(state) => {
            let body = json!({ "state": state, "value": { "headers": { "h": "1" }, "data": "dmFsdWU=" } });
            let path = format!("/promises/{id}");
            server.send("PATCH", &path, Some(body.to_string()), &server.admin, &headers).await
        }
    }
}

/// Every state × every action × key absent, same, other × strict or not × whether a key is stored at all.
#[tokio::test]
async fn every_combination_answers_as_the_contract_says() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(BEGIN)));
    let server = TestServer::memory_at(clock.clone()).await;
    let mut tried = 0;
    for before in BEFORE {
        for action in ACTIONS {
            for given in [None, Some("same"), Some("other")] {
                for strict in [false, true] {
                    for stored in [None, Some("same")] {
                        tried += 1;
                        let id = format!("p{tried}");
                        let place = format!(
                            "{before:?} {action:?} given {given:?} stored {stored:?} strict {strict}"
                        );
                        let now = server.store.now().as_millis();
                        let timeout = if before == Before::TimedOut { now + 1 } else { NEVER };
                        if before != Before::Absent {
                            assert_eq!(
                                act(&server, &id, None, timeout, stored, None).await.status,
                                201,
                                "{place}"
                            );
                        }
                        match before {
                            Before::Settled(state) => {
                                let done = act(&server, &id, Some(state), timeout, stored, Some(true)).await;
                                assert_eq!(done.status, 200, "{place}");
                            }
                            Before::TimedOut => clock.advance(Duration::from_millis(1)),
                            Before::Absent | Before::Pending => {}
                        }
                        let is_same = given.is_some() && given == stored;
                        let (status, state) = oracle(before, action, is_same, strict);
                        let answer = act(&server, &id, action, NEVER, given, Some(strict)).await;
                        assert_eq!(answer.status, status, "{place}: {}", answer.text());
                        let read = server.get(&format!("/promises/{id}")).await;
                        assert_eq!(read.json()["state"].as_str(), state, "{place}");
                        if answer.status < 300 {
                            assert_eq!(answer.json(), read.json(), "{place}: the answer is the promise");
                        }
                        let complete_key = match (before, action) {
                            (Before::Pending, Some(_)) => given,
                            (Before::Settled(_), _) => stored,
                            _ => None,
                        };
                        assert_eq!(
                            read.json()["idempotencyKeyForComplete"].as_str(),
                            complete_key,
                            "{place}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(tried, 6 * 4 * 3 * 2 * 2);
}

/// CONTRACT §7: the body, word for word, from creation to completion.
#[tokio::test]
async fn the_body_is_that_of_the_specification() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(BEGIN)));
    let server = TestServer::memory_at(clock.clone()).await;
    let made = act(&server, "order%2F1", None, BEGIN + 60_000, Some("ck"), None).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let expected = json!({
        "id": "order%2F1", "state": "PENDING", "timeout": BEGIN + 60_000, "param": { "data": "cGFyYW0=" }, "value": {},
        "tags": { "a": "b" }, "idempotencyKeyForCreate": "ck", "createdOn": BEGIN,
    });
    assert_eq!(made.json(), expected);
    clock.advance(Duration::from_millis(7));
    let body =
        json!({ "state": "RESOLVED", "value": { "headers": { "h": "1" }, "data": "dmFsdWU=" } }).to_string();
    let headers = [("idempotency-key", "\"dk\""), ("strict", "TRUE")];
    let done = server.send("PATCH", "/promises/order%252F1", Some(body), &server.admin, &headers).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let mut expected = expected;
    expected["state"] = json!("RESOLVED");
    expected["value"] = json!({ "headers": { "h": "1" }, "data": "dmFsdWU=" });
    expected["idempotencyKeyForComplete"] = json!("dk");
    expected["completedOn"] = json!(BEGIN + 7);
    assert_eq!(done.json(), expected);
    // It is one promise, whichever way one looks.
    let ours = server.get("/api/v1/promises/id:order%252F1").await.json();
    assert_eq!((&ours["status"], &ours["value"]), (&json!("RESOLVED"), &json!("dmFsdWU=")));
}

/// Promises that other clients create and settle appear here, and the other way round.
#[tokio::test]
async fn both_ways_in_lead_to_the_same_promises() {
    let server = TestServer::memory().await;
    server.post("/api/v1/promises", &json!({ "id": "ours", "about": [1] }), &[]).await;
    let seen = server.get("/promises/ours").await.json();
    assert_eq!(
        (&seen["state"], &seen["timeout"], &seen["param"]),
        (&json!("PENDING"), &json!(NEVER), &json!({}))
    );
    let body = json!({ "message": "no stock" });
    server.post("/api/v1/promises/id:ours/reject", &body, &[]).await;
    let seen = server.get("/promises/ours").await.json();
    assert_eq!((&seen["state"], &seen["value"]["data"]), (&json!("REJECTED"), &json!("no stock")));
    act(&server, "theirs", None, NEVER, None, None).await;
    act(&server, "theirs", Some("REJECTED_CANCELED"), NEVER, None, None).await;
    let seen = server.get("/api/v1/promises/id:theirs").await.json();
    assert_eq!((&seen["status"], &seen["failure"]["code"]), (&json!("CANCELLED"), &json!("cancelled")));
    let stranger = server.key("globex", Role::Admin).await;
    assert_eq!(server.send("GET", "/promises/ours", None, &stranger, &[]).await.status, 404);
    assert_eq!(server.send("GET", "/promises/ours", None, "", &[]).await.status, 401);
}

/// `idempotency-key` has the specification's meaning, so nothing is replayed; malformed headers and
/// bodies are rejected.
#[tokio::test]
async fn headers_and_bodies_follow_the_specification() {
    let server = TestServer::memory().await;
    let first = act(&server, "p", None, NEVER, Some("k"), None).await;
    let again = act(&server, "p", None, NEVER, Some("k"), None).await;
    assert_eq!((first.status, again.status), (201, 200), "deduplicated, not replayed");
    assert_eq!(again.header("idempotency-replayed"), None);
    let other = act(&server, "q", None, NEVER, Some("k"), None).await;
    assert_eq!(other.status, 201, "the key belongs to the promise, not to the request");
    let send = async |body: Value, headers: &[(&str, &str)]| server.post("/promises", &body, headers).await;
    let good = || json!({ "id": "r", "timeout": NEVER });
    for (body, headers, code) in [
        (good(), &[("strict", "yes")][..], "invalid_request"),
        (good(), &[("strict", "true"), ("strict", "true")], "invalid_request"),
        (good(), &[("idempotency-key", "")], "invalid_idempotency_key"),
        (good(), &[("idempotency-key", "a"), ("idempotency-key", "b")], "invalid_idempotency_key"),
        (json!({ "id": "r" }), &[], "invalid_request"),
        (json!({ "id": "", "timeout": 1 }), &[], "invalid_request"),
        (json!({ "id": "r", "timeout": "soon" }), &[], "invalid_request"),
        (json!({ "id": "r", "timeout": 1, "param": { "data": 1, "more": 2 } }), &[], "invalid_request"),
    ] {
        assert_eq!(send(body.clone(), headers).await.told(), (400, code.into()), "{body} {headers:?}");
    }
    for bad in ["PENDING", "REJECTED_TIMEDOUT", "resolved", ""] {
        let body = json!({ "state": bad }).to_string();
        assert_eq!(
            server.send("PATCH", "/promises/p", Some(body), &server.admin, &[]).await.status,
            400,
            "{bad}"
        );
    }
    assert_eq!(server.get("/promises/p").await.json()["state"], "PENDING");
}
