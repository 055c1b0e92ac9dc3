//! Looking keys up, and freeing them: for support.

use serde_json::json;

use super::support::{Role, TestServer};
use super::{RUNS, charge, run_of};

/// CONTRACT §11, S2.46: a key shows its object, its replays and its conflicts.
#[tokio::test]
async fn a_key_shows_its_object_replays_and_conflicts() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let mut body = charge(&echo, 1);
    body["idempotencyKey"] = json!("order/1 a");
    let first = server.post(RUNS, &body, &[]).await;
    server.end(&run_of(&first)).await;
    server.post(RUNS, &body, &[]).await;
    server.post(RUNS, &body, &[]).await;
    body["input"]["amount"] = json!(2);
    server.post(RUNS, &body, &[]).await;
    let shown = server.get("/api/v1/keys/run/order%2F1%20a").await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    let shown = shown.json();
    assert_eq!(shown["holder"], json!({ "kind": "run", "id": run_of(&first) }));
    assert_eq!((&shown["status"], &shown["key"]), (&json!("live"), &json!("order/1 a")));
    assert_eq!((&shown["replays"], &shown["conflicts"]), (&json!(2), &json!(1)), "{shown}");
    let key = [("idempotency-key", "req")];
    let body = charge(&echo, 5);
    server.post(RUNS, &body, &key).await;
    server.post(RUNS, &body, &key).await;
    server.post(RUNS, &charge(&echo, 6), &key).await;
    // How often request keys came is written once a second.
    let shown = server.until_shown("/api/v1/keys/request/req", |shown| shown["replays"] == 1).await;
    assert_eq!((&shown["conflicts"], &shown["answerStatus"]), (&json!(1), &json!(201)), "{shown}");
    assert_eq!(shown["request"], format!("POST {RUNS}"));
    assert!(shown["expiresAt"].is_string() && shown["credentialId"].is_string());
    for absent in ["run/none", "request/none", "promise/none", "other/none"] {
        assert_eq!(server.get(&format!("/api/v1/keys/{absent}")).await.status, 404, "{absent}");
    }
}

/// S2.46: freeing a key needs a role and a reason, is in the audit log, and makes room for a new operation.
#[tokio::test]
async fn a_key_is_freed_by_a_manager_with_a_reason() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let mut body = charge(&echo, 1);
    body["idempotencyKey"] = json!("order-1");
    let first = run_of(&server.post(RUNS, &body, &[]).await);
    server.end(&first).await;
    let release = "/api/v1/keys/run/order-1/release";
    let operator = server.key("acme", Role::Operator).await;
    let manager = server.key("acme", Role::Manager).await;
    let why = json!({ "reason": "the order was entered anew" });
    let refused = server.send("POST", release, Some(why.to_string()), &operator, &[]).await;
    assert_eq!(refused.told(), (403, "forbidden".into()));
    for bad in [json!({}), json!({ "reason": " " }), json!({ "reason": "x".repeat(4_097) })] {
        let refused = server.send("POST", release, Some(bad.to_string()), &manager, &[]).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{bad}");
    }
    let freed = server.send("POST", release, Some(why.to_string()), &manager, &[]).await;
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(freed.json()["holder"]["id"], json!(first));
    assert_eq!(server.send("POST", release, Some(why.to_string()), &manager, &[]).await.status, 404);
    let anew = server.post(RUNS, &body, &[]).await;
    assert_eq!((anew.status, &anew.json()["created"]), (201, &json!(true)));
    let audit = server.get("/api/v1/audit").await.json();
    let entry = audit["items"].as_array().unwrap().iter().find(|entry| entry["what"] == "key_released");
    let entry = entry.unwrap_or_else(|| panic!("no such entry in {audit}"));
    assert_eq!(entry["reason"], "the order was entered anew");
    assert_eq!(
        (&entry["actor"]["role"], &entry["target"]),
        (&json!("manager"), &json!("run key order-1")),
        "{entry}"
    );
}

/// CONTRACT §4: the key of an open run, or of a request in flight, is not freed.
#[tokio::test]
async fn a_key_in_use_is_not_freed() {
    let (server, store) = TestServer::planned().await;
    let document = json!({ "name": "waits", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    let waits = server.upload(&document).await;
    let body = json!({ "definitionId": waits, "idempotencyKey": "open" });
    let run = run_of(&server.post(RUNS, &body, &[]).await);
    let why = json!({ "reason": "in a hurry" });
    let refused = server.post("/api/v1/keys/run/open/release", &why, &[]).await;
    assert_eq!(refused.told(), (409, "operation_pending".into()));
    assert_eq!(refused.json()["pending"]["id"], json!(run));
    let server = std::sync::Arc::new(server);
    let asking = server.clone();
    // A request that starts one run holds nothing: its key is written with the run.
    let body = json!({ "runs": [{ "definitionId": waits, "subject": "gated" }] });
    let batch = format!("{RUNS}/batch");
    let first = tokio::spawn(async move { asking.post(&batch, &body, &[("idempotency-key", "slow")]).await });
    store.begun.notified().await;
    let shown = server.get("/api/v1/keys/request/slow").await.json();
    assert_eq!((&shown["status"], &shown["answerStatus"]), (&json!("in_flight"), &json!(null)));
    let refused = server.post("/api/v1/keys/request/slow/release", &why, &[]).await;
    assert_eq!(refused.told(), (409, "operation_pending".into()));
    store.gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    let freed = server.post("/api/v1/keys/request/slow/release", &why, &[]).await;
    assert_eq!(freed.status, 200, "{}", freed.text());
    assert_eq!(server.get("/api/v1/keys/request/slow").await.status, 404);
}
