//! The ledger of effects and the audit log.

use serde_json::json;

use super::recorder::{Recorder, call};
use super::support::{Provider, TestServer};

#[tokio::test]
async fn the_examples_of_the_ledger_are_what_a_server_answers() {
    let (server, provider) = (TestServer::memory().await, Provider::start().await);
    let mut examples = Recorder::new(&server, "ledger");
    let definition = server.upload(&provider.payment("payment")).await;
    let run = server.start(&definition, json!({ "amount": 1999 })).await;
    server.until(&run, "COMPLETED").await;
    examples.send(call("list_run_ledger").at(&run)).await;
    let listed = examples.send(call("list_ledger").query("limit=1")).await;
    examples.send(call("get_effect").at(listed["items"][0]["effectKey"].as_str().unwrap())).await;
    let asked = json!({ "name": "console", "role": "viewer" });
    server.post("/api/v1/credentials", &asked, &[]).await;
    server.post(&format!("/api/v1/workflow-runs/{run}/notes"), &json!({ "text": "Checked." }), &[]).await;
    let listed = examples.send(call("list_audit").query("limit=2")).await;
    examples.send(call("get_audit_entry").at(listed["items"][1]["id"].as_str().unwrap())).await;
    examples.finish();
}
