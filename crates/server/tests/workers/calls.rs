//! Tasks of documents and actions of entity workflows, run by a worker.

use serde_json::{Value, json};

use super::support::TestServer;
use super::worker::TestWorker;

async fn result(worker: &TestWorker<'_>, result: Value) {
    let asked = json!({ "sequence": worker.next_request(), "free": 9, "results": [result] });
    let answer = worker.send("commit", &asked).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn mails() -> Value {
    json!({ "name": "mails", "version": 1, "steps": [{ "name": "mail", "type": "task", "task": "send-mail", "input": { "to": "ada" } }] })
}

#[tokio::test]
async fn a_document_calls_a_task_of_a_worker() {
    let server = TestServer::memory().await;
    let unknown = server.post("/api/v1/workflow-definitions", &mails(), &[]).await;
    assert_eq!(unknown.told(), (422, "definition_invalid".into()), "{}", unknown.text());
    let worker = TestWorker::with(&server, json!({ "tasks": ["send-mail"] })).await;
    let run = server.start(&server.upload(&mails()).await, json!({})).await;
    let task = worker.next("task", |message| message["type"] == "task").await;
    assert_eq!((&task["name"], &task["input"]), (&json!("send-mail"), &json!({ "to": "ada" })));
    assert_eq!(task["key"], format!("{run}:mail"));
    result(&worker, json!({ "call": task["call"], "output": { "sent": true } })).await;
    let ended = server.end(&run).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
}

#[tokio::test]
async fn a_task_whose_worker_vanished_is_called_again_under_the_same_key() {
    let server = TestServer::memory().await;
    let slot = json!({ "instance": "slot", "tasks": ["send-mail"] });
    let older = TestWorker::with(&server, slot.clone()).await;
    server.start(&server.upload(&mails()).await, json!({})).await;
    let first = older.next("task", |message| message["type"] == "task").await;
    older.close().await;
    let newer = TestWorker::with(&server, slot).await;
    let again = newer.next("task", |message| message["type"] == "task").await;
    assert_eq!((&again["key"], &again["attempt"]), (&first["key"], &json!(2)));
}

fn billing() -> Value {
    json!({
        "name": "billing-flow", "module": "billing", "entity": "invoice",
        "status_types": ["approved", "closing", "closed"], "initial": ["approved"],
        "steps": [{
            "step_key": "close", "step_id": 20, "status": "approved", "successful_state": "closed",
            "claim_state": ["closing", "approved"], "action": { "admin": "CloseBillingActionUseCase" },
        }],
    })
}

/// S1.19
#[tokio::test]
async fn a_step_of_an_entity_runs_the_action_of_a_worker() {
    let server = TestServer::memory().await;
    let document = billing();
    let refused = server.post("/api/v1/entity-workflows", &document, &[]).await;
    assert!(refused.text().contains("unknown_action"), "{}", refused.text());
    let worker = TestWorker::with(&server, json!({ "actions": ["CloseBillingActionUseCase"] })).await;
    let made = server.post("/api/v1/entity-workflows", &document, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let created = server
        .post(
            "/api/v1/entities/invoice",
            &json!({ "id": "INV-1", "status": "approved", "data": { "total": 5 } }),
            &[],
        )
        .await;
    assert_eq!(created.status, 201, "{}", created.text());
    let key = server.key_for("admin", super::support::Role::Operator).await;
    let step = async {
        let path = "/api/v1/entities/invoice/INV-1/steps/close";
        server.send("POST", path, Some(json!({ "input": { "why": "paid" } }).to_string()), &key, &[]).await
    };
    let acting = async {
        let action = worker.next("action", |message| message["type"] == "action").await;
        assert_eq!(action["name"], "CloseBillingActionUseCase");
        assert_eq!(
            (&action["entity"]["id"], &action["entity"]["data"]),
            (&json!("INV-1"), &json!({ "total": 5 }))
        );
        result(&worker, json!({ "call": action["call"], "output": { "receipt": 7 } })).await;
    };
    let (taken, ()) = tokio::join!(step, acting);
    assert_eq!(taken.status, 200, "{}", taken.text());
    let shown = server.get("/api/v1/entities/invoice/INV-1").await.json();
    assert!(shown.to_string().contains("\"closed\""), "{shown}");
}
