//! Keys of promises, as support looks them up and frees them.

use serde_json::{Value, json};

use super::promises::PROMISES;
use super::support::{Role, TestServer};

/// G4.4, CONTRACT §2: the same key of a promise and of a run are two keys, and each shows its own
/// object.
#[tokio::test]
async fn a_key_tells_which_promise_it_names() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let run = json!({ "definitionId": echo, "idempotencyKey": "order-7" });
    assert_eq!(server.post(super::RUNS, &run, &[]).await.status, 201);
    let made = server.post(PROMISES, &json!({ "id": "p", "idempotencyKey": "order-7" }), &[]).await;
    assert_eq!(made.status, 201, "the key of a run is another key: {}", made.text());
    let path = "/api/v1/keys/promise/order-7";
    let shown = server.get(path).await.json();
    assert_eq!(shown["holder"], json!({ "kind": "promise", "id": "p" }));
    assert_eq!((&shown["scope"], &shown["status"]), (&json!("promise"), &json!("live")));
    assert!(
        shown["expiresAt"].is_null() && shown["fingerprint"].is_null(),
        "it lives while it can be settled: {shown}"
    );
    let settle = |value: Value| {
        let server = &server;
        async move {
            let body = json!({ "value": value });
            server.post(&format!("{PROMISES}/key:order-7/resolve"), &body, &[]).await.status
        }
    };
    assert_eq!([settle(json!(1)).await, settle(json!(1)).await, settle(json!(2)).await], [200, 200, 409]);
    let shown = server.get(path).await.json();
    assert_eq!((&shown["replays"], &shown["conflicts"]), (&json!(1), &json!(1)), "{shown}");
    assert!(shown["expiresAt"].is_string());
    server.post(&format!("{PROMISES}/key:early/resolve"), &json!({ "value": 1 }), &[]).await;
    let claimed = server.get("/api/v1/keys/promise/early").await.json();
    assert_eq!((&claimed["status"], &claimed["holder"]), (&json!("claimed"), &Value::Null), "{claimed}");
}

/// A manager releases the key of an ended promise, with a reason; the key of a pending one is not
/// released.
#[tokio::test]
async fn a_key_of_a_promise_is_freed_by_a_manager_once_the_promise_is_over() {
    let server = TestServer::memory().await;
    let operator = server.key("acme", Role::Operator).await;
    server.post(PROMISES, &json!({ "id": "p", "idempotencyKey": "k" }), &[]).await;
    let release = "/api/v1/keys/promise/k/release";
    let why = json!({ "reason": "the charge was made anew" });
    assert_eq!(server.send("POST", release, Some(why.to_string()), &operator, &[]).await.status, 403);
    let pending = server.post(release, &why, &[]).await;
    assert_eq!(pending.told(), (409, "operation_pending".into()));
    assert_eq!(pending.json()["pending"], json!({ "kind": "promise", "id": "p" }));
    server.post(&format!("{PROMISES}/id:p/resolve"), &json!({ "value": 1 }), &[]).await;
    let freed = server.post(release, &why, &[]).await;
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(server.post(PROMISES, &json!({ "id": "q", "idempotencyKey": "k" }), &[]).await.status, 201);
    // Releasing a claimed key also drops its early settlement.
    server.post(&format!("{PROMISES}/key:early/resolve"), &json!({ "value": 1 }), &[]).await;
    assert_eq!(server.post("/api/v1/keys/promise/early/release", &why, &[]).await.status, 200);
    assert_eq!(server.get("/api/v1/early-settlements").await.json()["items"], json!([]));
    let audit = server.get("/api/v1/audit").await.text();
    assert!(audit.contains("promise key k") && audit.contains("the charge was made anew"), "{audit}");
}
