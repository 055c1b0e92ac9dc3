//! Keys in the body: CONTRACT §2 to §5, and S0.

use serde_json::{Value, json};

use super::support::{Role, TestServer};
use super::{RUNS, charge, count_runs, run_of};

fn named(definition: &str, key: &str, amount: u64) -> Value {
    let mut body = charge(definition, amount);
    body["idempotencyKey"] = json!(key);
    body
}

/// S0.4-S0.8, S0.12-S0.14: a key makes the second request find the first one's run.
#[tokio::test]
async fn a_run_is_created_once_per_key() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let body =
        json!({ "definitionId": echo, "input": { "order": 789 }, "idempotencyKey": "process-order-789" });
    let first = server.post(RUNS, &body, &[]).await;
    assert_eq!((first.status, &first.json()["created"]), (201, &json!(true)), "{}", first.text());
    let run = run_of(&first);
    assert!(echo.starts_with("def_") && run.starts_with("run_"), "{echo} {run}");
    assert_eq!(first.header("location"), Some(format!("{RUNS}/{run}").as_str()));
    let ended = server.end(&run).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
    assert_eq!(ended["run"]["output"], json!({ "said": { "order": 789 } }));
    let again = server.post(RUNS, &body, &[]).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    assert_eq!(run_of(&again), run);
    assert_eq!(again.json()["run"]["status"], "COMPLETED", "the run as it is now, not as it was");
    let other =
        json!({ "definitionId": echo, "input": { "order": 790 }, "idempotencyKey": "process-order-789" });
    let conflict = server.post(RUNS, &other, &[]).await;
    assert_eq!(conflict.told(), (422, "idempotency_key_conflict".into()));
    let stored = &conflict.json()["storedRequest"];
    assert_eq!((&stored["kind"], &stored["id"]), (&json!("run"), &json!(run)), "{stored}");
    assert_eq!(stored["differingPaths"], json!(["/order"]));
    assert!(stored["definition"].as_str().is_some_and(|name| name.starts_with("echo")), "{stored}");
    assert_eq!(stored["fingerprint"].as_str().map(str::len), Some(64));
    assert_eq!(count_runs(&server).await, 1);
}

/// S0.18, S0.19, S2.9
#[tokio::test]
async fn malformed_business_keys_are_rejected() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    for key in ["", &"k".repeat(256), "caf\u{e9}", "a\tb", "a\nb"] {
        let refused = server.post(RUNS, &named(&echo, key, 1), &[]).await;
        assert_eq!(refused.told(), (400, "invalid_idempotency_key".into()), "{key:?} {}", refused.text());
    }
    assert_eq!(server.post(RUNS, &named(&echo, &"k".repeat(255), 1), &[]).await.status, 201);
    assert_eq!(count_runs(&server).await, 1);
}

/// S0.9, S0.11: the scope is the workspace.
#[tokio::test]
async fn two_workspaces_may_use_the_same_key() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let first = server.post(RUNS, &named(&echo, "order-1", 1), &[]).await;
    let stranger = server.key("globex", Role::Admin).await;
    let document =
        json!({ "name": "echo", "version": 1, "steps": [{ "name": "say", "type": "task", "task": "echo" }] });
    let uploaded =
        server.send("POST", "/api/v1/workflow-definitions", Some(document.to_string()), &stranger, &[]).await;
    let theirs = uploaded.json()["id"].as_str().unwrap().to_owned();
    assert_ne!(theirs, echo);
    let body = named(&theirs, "order-1", 2).to_string();
    let other = server.send("POST", RUNS, Some(body), &stranger, &[]).await;
    assert_eq!((other.status, &other.json()["created"]), (201, &json!(true)));
    assert_ne!(run_of(&first), run_of(&other));
}

/// S2.8: a definition may require a key; either kind will do.
#[tokio::test]
async fn a_definition_may_require_a_key() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "pay", "version": 1, "idempotency": "required",
        "steps": [{ "name": "say", "type": "task", "task": "echo" }],
    });
    let pay = server.upload(&document).await;
    let refused = server.post(RUNS, &charge(&pay, 1), &[]).await;
    assert_eq!(refused.told(), (400, "idempotency_key_missing".into()));
    let shown = server.get(&format!("/api/v1/workflow-definitions/{pay}")).await.json();
    assert_eq!(shown["idempotency"], "required");
    let by_request = server.post(RUNS, &charge(&pay, 1), &[("idempotency-key", "r")]).await;
    assert_eq!(by_request.status, 201, "{}", by_request.text());
    assert_eq!(server.post(RUNS, &named(&pay, "b", 1), &[]).await.status, 201);
    assert_eq!(count_runs(&server).await, 2);
}

/// CONTRACT §2: what a definition ignores does not make another request.
#[tokio::test]
async fn a_definition_may_narrow_what_counts() {
    let server = TestServer::memory().await;
    let document = json!({
        "name": "narrow", "version": 1, "fingerprint": { "ignore": ["/requestedAt"] },
        "steps": [{ "name": "say", "type": "task", "task": "echo" }],
    });
    let narrow = server.upload(&document).await;
    let body = |at: u64| json!({ "definitionId": narrow, "input": { "n": 1, "requestedAt": at }, "idempotencyKey": "k" });
    let first = server.post(RUNS, &body(1), &[]).await;
    let again = server.post(RUNS, &body(2), &[]).await;
    assert_eq!((again.status, run_of(&again)), (200, run_of(&first)));
}

/// CONTRACT §4: `onFailure` says whether a failed run frees its key.
#[tokio::test]
async fn a_failed_run_keeps_its_key_unless_the_definition_says_otherwise() {
    let server = TestServer::memory().await;
    for (name, on_failure, is_new) in [("keeps", "keep", false), ("frees", "release", true)] {
        let document = json!({
            "name": name, "version": 1, "onFailure": on_failure,
            "steps": [{ "name": "no", "type": "task", "task": "fail" }],
        });
        let id = server.upload(&document).await;
        let first = server.post(RUNS, &named(&id, name, 1), &[]).await;
        server.until(&run_of(&first), "FAILED").await;
        let again = server.post(RUNS, &named(&id, name, 1), &[]).await;
        assert_eq!(again.json()["created"], json!(is_new), "{on_failure}");
    }
}

/// S2.3, S2.44: a new key for the same thing is refused while the first is pending, and names it.
#[tokio::test]
async fn one_run_is_open_on_a_subject() {
    let server = TestServer::memory().await;
    let document =
        json!({ "name": "refund", "version": 1, "steps": [{ "name": "confirmed", "type": "signal" }] });
    let refund = server.upload(&document).await;
    let body = json!({ "definitionId": refund, "subject": "R123", "idempotencyKey": "first" });
    let first = run_of(&server.post(RUNS, &body, &[]).await);
    let mut second = body.clone();
    second["idempotencyKey"] = json!("second");
    let key = [("idempotency-key", "double-click")];
    let refused = server.post(RUNS, &second, &key).await;
    assert_eq!(refused.told(), (409, "operation_pending".into()));
    assert_eq!(refused.json()["pending"], json!({ "kind": "run", "id": first }));
    assert_eq!(run_of(&server.post(RUNS, &body, &[]).await), first, "the same key finds it");
    // A note can be added while the run is open.
    let note = server.post(&format!("{RUNS}/{first}/notes"), &json!({ "text": "asked the bank" }), &[]).await;
    assert_eq!(note.status, 201);
    server.post(&format!("{RUNS}/{first}/signals"), &json!({ "name": "confirmed" }), &[]).await;
    server.until(&first, "COMPLETED").await;
    let now = server.post(RUNS, &second, &key).await;
    assert_eq!((now.status, &now.json()["created"]), (201, &json!(true)), "a 409 is not stored");
}

/// S0.22, S0.25, S0.28-S0.30: a write on a version that is no more is refused, and changes nothing.
#[tokio::test]
async fn if_match_guards_against_lost_updates() {
    let server = TestServer::memory().await;
    let document = json!({ "name": "waits", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    let waits = server.upload(&document).await;
    let run = server.start(&waits, json!({})).await;
    let shown = server.until(&run, "WAITING").await;
    let version = shown["run"]["version"].as_u64().unwrap();
    let read = server.get(&format!("{RUNS}/{run}")).await;
    assert_eq!(read.header("etag"), Some(format!("\"{version}\"").as_str()));
    let pause = format!("{RUNS}/{run}/pause");
    let stale = server.post(&pause, &json!({}), &[("if-match", &format!("\"{}\"", version - 1))]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    let detail = stale.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(&format!("Workflow run {run} was modified concurrently")), "{detail}");
    assert_eq!(server.get(&format!("{RUNS}/{run}")).await.json()["run"]["version"], json!(version));
    let paused = server.post(&pause, &json!({}), &[("if-match", read.header("etag").unwrap())]).await;
    assert_eq!(paused.status, 200, "{}", paused.text());
    assert_eq!(paused.json()["status"], "PAUSED");
    for bad in ["x", "W/\"1\"", ""] {
        assert_eq!(server.post(&pause, &json!({}), &[("if-match", bad)]).await.status, 400, "{bad:?}");
    }
}
