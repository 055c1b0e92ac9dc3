//! Definitions are archived and deleted, and every run keeps the definition it began with.

use serde_json::{Value, json};

use super::RUNS;
use super::support::{Setup, TestServer};

const DEFINITIONS: &str = "/api/v1/workflow-definitions";

/// A version of `order` that waits for a signal.
fn order(version: u32) -> Value {
    json!({ "name": "order", "version": version, "steps": [{ "name": "go", "type": "signal" }] })
}

async fn finish(server: &TestServer, run: &str) {
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go" }), &[]).await;
    server.until(run, "COMPLETED").await;
}

#[tokio::test]
async fn an_archived_definition_starts_no_new_runs_and_finishes_those_it_began() {
    for server in [TestServer::sqlite().await, TestServer::postgres().await] {
        let (first, second) = (server.upload(&order(1)).await, server.upload(&order(2)).await);
        let named = json!({ "workflow": "order@2", "idempotencyKey": "k", "input": { "n": 1 } });
        let begun = server.post(RUNS, &named, &[]).await.json();
        let run = begun["run"]["id"].as_str().unwrap().to_owned();
        let path = format!("{DEFINITIONS}/{second}");
        let shown = server.get(&path).await;
        assert_eq!((shown.header("etag"), &shown.json()["status"]), (Some("\"1\""), &json!("active")));
        let archive = json!({ "status": "archived", "reason": "it is broken" });
        let stale = server.patch(&path, &archive, &[("if-match", "\"7\"")]).await;
        assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
        let archived = server.patch(&path, &archive, &[("if-match", "\"1\"")]).await;
        assert_eq!(
            (archived.status, &archived.json()["status"]),
            (200, &json!("archived")),
            "{}",
            archived.text()
        );
        assert_eq!(server.patch(&path, &archive, &[]).await.json(), archived.json(), "the same again");

        for body in [json!({ "workflow": "order@2" }), json!({ "definitionId": second })] {
            let refused = server.post(RUNS, &body, &[]).await;
            assert_eq!(refused.told(), (409, "definition_archived".into()), "{body}: {}", refused.text());
        }
        let latest = server.post(RUNS, &json!({ "workflow": "order" }), &[]).await.json();
        assert_eq!(latest["run"]["definitionId"], first.as_str(), "the latest that is not archived");
        let again = server.post(RUNS, &named, &[]).await;
        assert_eq!((again.status, &again.json()["run"]["id"]), (200, &json!(run)), "a retry finds its run");
        finish(&server, &run).await;

        server.patch(&path, &json!({ "status": "active" }), &[]).await;
        let back = server.post(RUNS, &json!({ "workflow": "order" }), &[]).await.json();
        assert_eq!(back["run"]["workflow"], "order@2");
        let audit = server.get("/api/v1/audit?limit=200").await.text();
        assert!(
            audit.contains("archived: it is broken") && audit.contains("taken out of the archive"),
            "{audit}"
        );
    }
}

#[tokio::test]
async fn a_definition_is_deleted_once_no_open_run_needs_it() {
    let server = TestServer::sqlite().await;
    let id = server.upload(&order(1)).await;
    let path = format!("{DEFINITIONS}/{id}");
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(server.start(&id, json!({})).await);
    }
    let refused = server.delete(&path, &[]).await;
    assert_eq!((refused.told(), &refused.json()["openRuns"]), ((409, "definition_in_use".into()), &json!(3)));
    assert_eq!(server.get(&path).await.json()["status"], "active", "what is refused changes nothing");
    for run in &runs {
        finish(&server, run).await;
    }
    let deleted = server.delete(&format!("{path}?reason=unused"), &[]).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(server.get(&path).await.told(), (404, "definition_not_found".into()));
    assert_eq!(server.get(DEFINITIONS).await.json()["items"], json!([]));
    for body in
        [json!({ "workflow": "order" }), json!({ "workflow": "order@1" }), json!({ "definitionId": id })]
    {
        let refused = server.post(RUNS, &body, &[]).await;
        assert_eq!(refused.told(), (404, "definition_not_found".into()), "{body}: {}", refused.text());
    }
    let ended = server.get(&format!("{RUNS}/{}", runs[0])).await.json();
    assert_eq!(ended["run"]["workflow"], "order@1", "runs that ended are still shown");
    let mut other = order(1);
    other["steps"][0]["name"] = json!("elsewhere");
    let changed = server.post(DEFINITIONS, &other, &[]).await;
    assert_eq!(changed.told(), (409, "definition_exists".into()), "a version never changes");
    let again = server.post(DEFINITIONS, &order(1), &[]).await;
    assert_eq!((again.status, &again.json()["status"]), (201, &json!("active")), "the same is made again");
    let run = server.start(&id, json!({})).await;
    finish(&server, &run).await;
}

/// The limit is a setting; what answers at it says what helps, and deleting helps.
#[tokio::test]
async fn at_the_limit_deleting_a_definition_makes_room() {
    let setup = Setup { max_definitions_per_workspace: 2, ..Setup::default() };
    let server = TestServer::memory_with(setup).await;
    let first = server.upload(&order(1)).await;
    server.upload(&order(2)).await;
    let refused = server.post(DEFINITIONS, &order(3), &[]).await;
    assert_eq!(
        (refused.told(), &refused.json()["limit"]),
        ((409, "definition_limit_reached".into()), &json!(2))
    );
    assert_eq!(refused.json()["retryable"], false, "waiting does not help");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("DELETE") && detail.contains("max-definitions-per-workspace"), "{detail}");
    assert_eq!(server.post(DEFINITIONS, &order(2), &[]).await.status, 200, "what is there needs no room");
    assert_eq!(server.delete(&format!("{DEFINITIONS}/{first}"), &[]).await.status, 200);
    assert_eq!(server.post(DEFINITIONS, &order(3), &[]).await.status, 201);
}
