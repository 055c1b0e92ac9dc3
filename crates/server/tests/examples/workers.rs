//! Sessions of workers.

use serde_json::json;

use super::recorder::{Recorder, call};
use super::support::{Role, TestServer};

#[tokio::test]
async fn the_examples_of_worker_sessions_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let worker = server.key("acme", Role::Worker).await;
    let mut examples = Recorder::new(&server, "workers");
    let asked = json!({
        "name": "billing-worker", "instance": "billing-worker-0", "sdk": "typescript", "sdkVersion": "0.1.0", "host": "web-3",
        "concurrency": 64, "workflows": [{ "name": "order", "version": 1 }], "tasks": ["send-mail"], "actions": ["CloseBilling"],
    });
    let opened = examples.send(call("open_worker_session").by(&worker).body(asked)).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    examples.send(call("list_worker_sessions").query("limit=10")).await;
    examples.send(call("list_worker_workflows").query("limit=10")).await;
    let opened_at = "2026-11-18T20:00:00.000Z";
    let news = json!({ "sessionId": session, "instance": "billing-worker-1", "openedAt": opened_at });
    examples.send(call("announce_worker_session").by(&worker).body(news)).await;
    let start = json!({ "workflow": "order", "input": { "order": "4711" } });
    server.post("/api/v1/workflow-runs", &start, &[]).await;
    let poll = json!({ "sequence": 1, "free": 64 });
    let polled = examples.send(call("poll_worker_session").by(&worker).at(&session).body(poll)).await;
    let activate = polled["messages"][0].clone();
    let (run, activation) = (activate["run"].as_str().unwrap(), activate["activation"].as_str().unwrap());
    let log = call("read_worker_log").by(&worker).at(&session).at(run);
    examples.send(log.query(format!("activation={activation}"))).await;
    let items =
        json!([{ "op": 1, "do": "value", "name": "attempt", "value": 1 }, { "return": { "shipped": true } }]);
    let runs = json!([{ "run": run, "activation": activation, "items": items }]);
    let commit = json!({ "sequence": 2, "free": 64, "runs": runs });
    examples.send(call("commit_worker_session").by(&worker).at(&session).body(commit).moving()).await;
    examples.send(call("close_worker_session").by(&worker).at(&session)).await;
    let function = json!({
        "name": "order-function", "url": "https://functions.example/hapax", "workflows": [{ "name": "pushed-order" }],
        "tasks": ["send-receipt"], "timeout": "30s",
    });
    let made = examples.send(call("create_push_worker").body(function)).await;
    examples.send(call("list_push_workers").query("limit=10")).await;
    let id = made["pushWorker"]["id"].as_str().unwrap();
    examples.send(call("get_push_worker").at(id)).await;
    examples.send(call("delete_push_worker").at(id)).await;
    examples.finish();
}
