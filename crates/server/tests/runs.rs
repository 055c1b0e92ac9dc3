//! Runs over HTTP: S0 from the outside.

mod support;

use serde_json::json;
use support::TestServer;

/// S0.4-S0.7, S0.12-S0.14: a key makes the second request find the first one's run.
#[tokio::test]
async fn a_run_is_created_once_per_key() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let body = json!({"definitionId": echo, "input": {"order": 789}, "idempotencyKey": "process-order-789"});
    let first = server.post("/api/v1/workflow-runs", &body, &[]).await;
    assert_eq!((first.status, &first.json()["created"]), (201, &json!(true)), "{}", first.json());
    let run = first.json()["run"]["id"].as_str().unwrap().to_owned();
    assert!(run.starts_with("run_"));
    let ended = server.end(&run).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
    assert_eq!(ended["run"]["output"], json!({"said": {"order": 789}}));
    let again = server.post("/api/v1/workflow-runs", &body, &[]).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)));
    assert_eq!(again.json()["run"]["id"], json!(run));
    let other = json!({"definitionId": echo, "input": {"order": 790}, "idempotencyKey": "process-order-789"});
    let conflict = server.post("/api/v1/workflow-runs", &other, &[]).await;
    assert_eq!((conflict.status, conflict.code().as_str()), (422, "idempotency_key_conflict"));
    let stored = &conflict.json()["storedRequest"];
    assert_eq!((&stored["id"], &stored["differingPaths"]), (&json!(run), &json!(["/order"])), "{stored}");
}
