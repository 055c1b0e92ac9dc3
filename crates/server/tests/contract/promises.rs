//! Promises over HTTP (CONTRACT §7): settled once, by id or by key, early or late.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::Timestamp;
use serde_json::{Value, json};

use super::support::{Answer, Role, TestServer};

pub(super) const PROMISES: &str = "/api/v1/promises";

/// A document that waits for a payment under the key of its input.
fn pays() -> Value {
    json!({
        "name": "pays", "version": 1,
        "steps": [{ "name": "paid", "type": "promise", "timeout": "3d", "key": "stripe:{{ input.charge }}" }],
    })
}

async fn resolve(server: &TestServer, promise: &str, value: Value) -> Answer {
    server.post(&format!("{PROMISES}/{promise}/resolve"), &json!({ "value": value }), &[]).await
}

/// S4.6, S4.29, S4.30: found by the provider's own id; the first settlement stands, the same again is fine, another is refused.
#[tokio::test]
async fn a_promise_is_settled_by_key_once_and_the_run_goes_on() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&pays()).await, json!({ "charge": "ch_abc123" })).await;
    server.until(&run, "WAITING").await;
    let first = resolve(&server, "key:stripe:ch_abc123", json!({ "cents": 500 })).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let shown = first.json();
    assert_eq!((&shown["alreadySettled"], &shown["promise"]["status"]), (&json!(false), &json!("RESOLVED")));
    assert_eq!(shown["promise"]["id"], json!(format!("{run}:paid")));
    assert_eq!((&shown["promise"]["runId"], &shown["promise"]["value"]["cents"]), (&json!(run), &json!(500)));
    let again = resolve(&server, &format!("id:{run}:paid"), json!({ "cents": 500.0 })).await;
    assert_eq!((again.status, &again.json()["alreadySettled"]), (200, &json!(true)), "compared by meaning");
    let other = resolve(&server, "key:stripe:ch_abc123", json!({ "cents": 1 })).await;
    assert_eq!(other.told(), (409, "promise_already_settled".into()));
    assert_eq!(server.end(&run).await["run"]["output"]["cents"], 500);
}

/// S4.29: the form of the seed; another workspace than the credential's is "not found".
#[tokio::test]
async fn the_form_of_the_seed_works_for_ones_own_workspace() {
    let server = TestServer::memory().await;
    let stranger = server.key("globex", Role::Admin).await;
    let run = server.start(&server.upload(&pays()).await, json!({ "charge": "ch_1" })).await;
    server.until(&run, "WAITING").await;
    let path = "/api/tenants/acme/promises/key:stripe:ch_1";
    let body = json!({ "message": "the card was declined", "code": "declined" });
    for (slug, key) in [("globex", &server.admin), ("acme", &stranger), ("umbrella", &server.admin)] {
        let path = format!("/api/tenants/{slug}/promises/key:stripe:ch_1/reject");
        let refused = server.send("POST", &path, Some(body.to_string()), key, &[]).await;
        assert_eq!(refused.told(), (404, "not_found".into()), "{slug}");
    }
    assert_eq!(server.get(path).await.json()["status"], "PENDING");
    assert_eq!(server.post(&format!("{path}/reject"), &body, &[]).await.status, 200);
    let failed = server.until(&run, "FAILED").await;
    assert_eq!(failed["run"]["failure"]["code"], "declined");
    let shown = server.get(path).await.json();
    assert_eq!((&shown["status"], &shown["failure"]["message"]), (&json!("REJECTED"), &body["message"]));
    assert_eq!(
        server.post(&format!("{path}/resolve"), &json!({}), &[]).await.told(),
        (409, "promise_already_settled".into())
    );
}

/// S4.30: keys hold colons and more; a path segment is decoded once.
#[tokio::test]
async fn a_key_is_decoded_exactly_once() {
    let server = TestServer::memory().await;
    for (key, encoded) in [
        ("a/b c", "a%2Fb%20c"),
        ("a%2Fb", "a%252Fb"),
        ("stripe:ch:1", "stripe:ch:1"),
        ("stripe:ch:2", "stripe%3Ach%3A2"),
        ("..", "%2E%2E"),
        ("q?#&=+", "q%3F%23%26%3D+"),
    ] {
        let made = server.post(PROMISES, &json!({ "idempotencyKey": key }), &[]).await;
        assert_eq!(made.status, 201, "{key}: {}", made.text());
        let settled = resolve(&server, &format!("key:{encoded}"), json!(key)).await;
        assert_eq!(settled.status, 200, "{key}: {}", settled.text());
        assert_eq!(settled.json()["promise"]["id"], made.json()["id"], "{key}");
    }
    for bad in ["stripe:ch_1", "prm_1", "ID:x", "key", "keys:a"] {
        let refused = resolve(&server, bad, json!(1)).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{bad}");
        assert!(refused.text().contains("`key:`"), "{}", refused.text());
    }
    for bad in ["key:", "key:caf%C3%A9", &format!("key:{}", "k".repeat(256))] {
        assert_eq!(resolve(&server, bad, json!(1)).await.told(), (400, "invalid_idempotency_key".into()));
    }
    for absent in ["id:", "id:nothing", "id:run_1:paid", &format!("id:{}", "x".repeat(3_000))] {
        assert_eq!(resolve(&server, absent, json!(1)).await.told(), (404, "not_found".into()), "{absent}");
    }
}

/// G4.1: a settlement that comes before its promise is kept, seen while it waits, and used when the promise is made.
#[tokio::test]
async fn a_settlement_that_comes_early_is_kept_for_its_promise() {
    let server = TestServer::memory().await;
    let early = resolve(&server, "key:stripe:ch_9", json!({ "cents": 7 })).await;
    assert_eq!((early.status, &early.json()["kept"]), (202, &json!(true)), "{}", early.text());
    assert!(early.json()["until"].is_string() && early.json()["idempotencyKey"] == "stripe:ch_9");
    assert_eq!(
        resolve(&server, "key:stripe:ch_9", json!({ "cents": 7 })).await.status,
        202,
        "the same again"
    );
    let other = resolve(&server, "key:stripe:ch_9", json!({ "cents": 8 })).await;
    assert_eq!(other.told(), (409, "promise_already_settled".into()));
    assert_eq!(
        server.get(&format!("{PROMISES}/key:stripe:ch_9")).await.status,
        404,
        "there is no promise yet"
    );
    let listed = server.get("/api/v1/early-settlements").await.json();
    assert_eq!(listed["items"][0]["idempotencyKey"], "stripe:ch_9", "{listed}");
    assert_eq!(
        (&listed["items"][0]["status"], &listed["items"][0]["value"]["cents"]),
        (&json!("RESOLVED"), &json!(7))
    );
    let run = server.start(&server.upload(&pays()).await, json!({ "charge": "ch_9" })).await;
    assert_eq!(server.end(&run).await["run"]["output"]["cents"], 7);
    assert_eq!(server.get("/api/v1/early-settlements").await.json()["items"], json!([]));
}

/// S4.26, CONTRACT §7: created once by id and once by key; a request key repeats the response.
#[tokio::test]
async fn a_promise_that_stands_alone_is_made_once() {
    let server = TestServer::memory().await;
    let asked = json!({
        "id": "order/7", "idempotencyKey": "stripe:ch_7", "idempotencyKeyTtlSeconds": 60, "timeout": "60s", "about": { "order": 7 },
    });
    let request = [("idempotency-key", "make-7")];
    let made = server.post(PROMISES, &asked, &request).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("location"), Some("/api/v1/promises/id:order%2F7"));
    let shown = made.json();
    assert_eq!((&shown["id"], &shown["about"]["order"]), (&json!("order/7"), &json!(7)));
    assert!(shown["runId"].is_null() && shown["deadlineAt"].is_string() && shown["keyExpiresAt"].is_string());
    let again = server.post(PROMISES, &asked, &request).await;
    assert_eq!((again.status, again.bytes), (201, made.bytes.clone()), "byte for byte");
    assert_eq!(server.post(PROMISES, &asked, &[]).await.told(), (409, "promise_exists".into()));
    let taken = server.post(PROMISES, &json!({ "id": "other", "idempotencyKey": "stripe:ch_7" }), &[]).await;
    assert_eq!(taken.told(), (409, "promise_key_conflict".into()));
    assert_eq!(taken.json()["holder"], json!({ "kind": "promise", "id": "order/7" }));
    assert_eq!(server.get(&format!("{PROMISES}/id:other")).await.status, 404, "nothing was made");
    let own = server.post(PROMISES, &json!({}), &[]).await.json();
    assert!(own["id"].as_str().unwrap().starts_with("prm_"), "{own}");
}

/// Bad input gets an error that says what to do.
#[tokio::test]
async fn a_promise_is_asked_for_properly_or_not_at_all() {
    let server = TestServer::memory().await;
    for (bad, code) in [
        (json!({ "id": "" }), "invalid_request"),
        (json!({ "id": "x".repeat(256) }), "invalid_request"),
        (json!({ "id": "caf\u{e9}" }), "invalid_request"),
        (json!({ "id": format!("run_{:032x}:paid", 1) }), "invalid_request"),
        (json!({ "idempotencyKey": "" }), "invalid_idempotency_key"),
        (json!({ "idempotencyKey": 7 }), "invalid_request"),
        (json!({ "idempotencyKeyTtlSeconds": u64::MAX }), "invalid_request"),
        (json!({ "timeout": "0s" }), "invalid_request"),
        (json!({ "timeout": "-1s" }), "invalid_request"),
        (json!({ "timeout": "1ms", "deadlineAt": "2099-01-01T00:00:00Z" }), "invalid_request"),
        (json!({ "deadlineAt": "1999-01-01T00:00:00Z" }), "invalid_request"),
        (json!({ "deadlineAt": "soon" }), "invalid_request"),
        (json!({ "name": "x" }), "invalid_request"),
    ] {
        assert_eq!(server.post(PROMISES, &bad, &[]).await.told(), (400, code.into()), "{bad}");
    }
    server.post(PROMISES, &json!({ "id": "p" }), &[]).await;
    for (verb, bad) in [
        ("resolve", json!({ "vlaue": 1 })),
        ("resolve", json!([1])),
        ("reject", json!({})),
        ("reject", json!({ "message": " " })),
        ("reject", json!({ "message": "no", "class": "retryable" })),
    ] {
        let refused = server.post(&format!("{PROMISES}/id:p/{verb}"), &bad, &[]).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{verb} {bad}");
    }
    for query in
        ["standAlone=false", "standAlone=", "status=pending", "status=", "status=OPEN", "limit=0", "x=1"]
    {
        assert_eq!(server.get(&format!("{PROMISES}?{query}")).await.status, 400, "{query}");
    }
    let both = format!("{PROMISES}?standAlone=true&runId=run_{:032x}", 1);
    assert_eq!(server.get(&both).await.status, 400);
    assert_eq!(
        server.get(&format!("{PROMISES}/id:p")).await.json()["status"],
        "PENDING",
        "nothing was settled"
    );
}

/// A read after the deadline reports the timeout even without a sweep, and a settlement comes too
/// late.
#[tokio::test]
async fn after_its_deadline_a_promise_has_timed_out() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let server = TestServer::memory_at(clock.clone()).await;
    server.post(PROMISES, &json!({ "id": "late", "timeout": "1s", "idempotencyKey": "k" }), &[]).await;
    clock.advance(Duration::from_millis(999));
    assert_eq!(server.get(&format!("{PROMISES}/key:k")).await.json()["status"], "PENDING");
    clock.advance(Duration::from_millis(1));
    assert_eq!(server.get(&format!("{PROMISES}/key:k")).await.json()["status"], "TIMED_OUT");
    assert_eq!(resolve(&server, "id:late", json!(1)).await.told(), (409, "promise_timed_out".into()));
    let listed = server.get(&format!("{PROMISES}?status=TIMED_OUT")).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

/// A waiting caller gets the settlement, whether the wait or the settlement came first.
#[tokio::test]
async fn a_caller_may_wait_for_a_promise() {
    let server = Arc::new(TestServer::memory().await);
    server.post(PROMISES, &json!({ "id": "p" }), &[]).await;
    let asking = server.clone();
    let waiting = tokio::spawn(async move {
        let wait = [("prefer", "wait=20")];
        asking.send("GET", &format!("{PROMISES}/id:p"), None, &asking.admin, &wait).await
    });
    assert_eq!(resolve(&server, "id:p", Value::Null).await.status, 200);
    let told = waiting.await.unwrap();
    assert_eq!((told.status, &told.json()["status"]), (200, &json!("RESOLVED")));
    assert_eq!(told.json().get("value"), Some(&Value::Null), "a value of null is a value");
}

/// Lists are pages under signed cursors, filtered by run, by status, and by having no run.
#[tokio::test]
async fn promises_are_listed_by_what_they_are() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&pays()).await, json!({ "charge": "x" })).await;
    server.until(&run, "WAITING").await;
    for id in ["a", "b", "c"] {
        server.post(PROMISES, &json!({ "id": id }), &[]).await;
    }
    resolve(&server, "id:b", json!(1)).await;
    let ids = async |query: &str| {
        let page = server.get(&format!("{PROMISES}?{query}")).await.json();
        let items = page["items"].as_array().unwrap_or_else(|| panic!("{query}: {page}")).clone();
        items.iter().map(|promise| promise["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("standAlone=true").await, ["a", "b", "c"]);
    assert_eq!(ids("standAlone=true&status=PENDING").await, ["a", "c"]);
    assert_eq!(ids("status=RESOLVED").await, ["b"]);
    assert_eq!(ids(&format!("runId={run}")).await, [format!("{run}:paid")]);
    assert_eq!(ids("").await.len(), 4);
    let page = server.get(&format!("{PROMISES}?standAlone=true&limit=2")).await.json();
    let cursor = page["nextCursor"].as_str().unwrap();
    assert_eq!(ids(&format!("standAlone=true&limit=2&cursor={cursor}")).await, ["c"]);
    let foreign = server.get(&format!("{PROMISES}?limit=2&cursor={cursor}")).await;
    assert_eq!(foreign.told(), (400, "invalid_cursor".into()), "of another filter");
    for key in ["k1", "k2"] {
        resolve(&server, &format!("key:{key}"), json!(1)).await;
    }
    let page = server.get("/api/v1/early-settlements?limit=1").await.json();
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("/api/v1/early-settlements?limit=1&cursor={cursor}")).await.json();
    assert_eq!(
        (&page["items"][0]["idempotencyKey"], &rest["items"][0]["idempotencyKey"]),
        (&json!("k1"), &json!("k2"))
    );
    assert!(rest["nextCursor"].is_null());
}
