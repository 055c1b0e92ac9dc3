//! Several nodes over one PostgreSQL database.

use serde_json::json;

use super::support::TestServer;
use super::{RUNS, waits};

/// Every node can run, show and decide everything that another node has stored, at once.
#[tokio::test]
async fn a_definition_that_one_node_was_given_is_run_by_another() {
    let server = TestServer::postgres().await;
    let node = server.another_node().await;
    let document = json!({
        "name": "asks", "version": 1,
        "steps": [
            { "name": "say", "type": "task", "task": "echo", "input": { "n": "{{ input.n }}" } },
            { "name": "sign-off", "type": "approval", "selfApproval": true },
        ],
    });
    let id = server.upload(&document).await;
    assert_eq!(node.get(&format!("/api/v1/workflow-definitions/{id}")).await.status, 200);
    let run = node.start(&id, json!({ "n": 3 })).await;
    server.until(&run, "WAITING").await;
    let approved = server
        .post(&format!("{RUNS}/{run}/approvals/sign-off"), &json!({ "decision": "approve" }), &[])
        .await;
    assert_eq!(approved.status, 200, "{}", approved.text());
    let ended = node.end(&run).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
    // The other way round, and without having been looked at there.
    let id = node.upload(&waits("later")).await;
    let run = server.start(&id, json!({})).await;
    node.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go", "value": { "by": "node" } }), &[])
        .await;
    assert_eq!(server.end(&run).await["run"]["output"], json!({ "by": "node" }));
}

/// CONTRACT §3: a retry that lands on another node sees the same store; a cursor of one is good on the other.
#[tokio::test]
async fn a_retry_may_land_on_another_node() {
    let server = TestServer::postgres().await;
    let node = server.another_node().await;
    let echo = server.echo().await;
    let body = json!({ "definitionId": echo, "input": { "n": 1 } });
    let key = [("idempotency-key", "roaming")];
    let (one, other) = tokio::join!(server.post(RUNS, &body, &key), node.post(RUNS, &body, &key));
    assert_eq!((one.status, other.status, &one.bytes), (201, 201, &other.bytes), "{}", other.text());
    let conflict = node.post(RUNS, &json!({ "definitionId": echo, "input": { "n": 2 } }), &key).await;
    assert_eq!(conflict.told(), (422, "idempotency_key_conflict".into()));
    server.start(&echo, json!({})).await;
    let page = server.get(&format!("{RUNS}?limit=1")).await.json();
    let cursor = page["nextCursor"].as_str().unwrap();
    let next = node.get(&format!("{RUNS}?limit=1&cursor={cursor}")).await;
    assert_eq!((next.status, next.json()["items"].as_array().unwrap().len()), (200, 1));
}
