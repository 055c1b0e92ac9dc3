//! Shared fixture for tests of entities: an invoice that is closed by an action that can be held.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_engine::Engine;
use hapax_engine::runtime::{ActionAnswer, StepCall};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use super::support::{Answer, PATIENCE, TestServer};

/// An action that waits for permission, and counts its entries.
pub struct Gate {
    entered: AtomicUsize,
    arrived: Notify,
    open: Semaphore,
}

impl Gate {
    /// Registers it under `name`; it returns `{"number": …}`, which the entity stores.
    pub fn register(engine: &Engine, name: &str) -> Arc<Self> {
        let gate =
            Arc::new(Gate { entered: AtomicUsize::new(0), arrived: Notify::new(), open: Semaphore::new(0) });
        let kept = gate.clone();
        let code = move |_: StepCall| {
            let gate = kept.clone();
            async move {
                let number = gate.entered.fetch_add(1, Ordering::SeqCst) + 1;
                gate.arrived.notify_one();
                gate.open.acquire().await.unwrap().forget();
                ActionAnswer::done(json!({ "number": number }))?.with_data(json!({ "number": number }))
            }
        };
        engine.register_action(name, code).unwrap();
        gate
    }

    /// Waits until the action is entered.
    pub async fn arrived(&self) {
        tokio::time::timeout(PATIENCE, self.arrived.notified()).await.expect("somebody enters");
    }

    /// Lets this many entries through.
    pub fn let_through(&self, many: usize) {
        self.open.add_permits(many);
    }

    pub fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }
}

/// Invoices of the module `billing`: approved, closing, closed. What closes them is the action `close`.
pub fn billing() -> Value {
    json!({
        "name": "billing-flow", "module": "billing", "entity": "invoice",
        "status_types": ["draft", "approved", "closing", "closed"], "initial": ["draft", "approved"],
        "steps": [
            { "step_id": 10, "step_key": "approve", "status": "draft", "successful_state": "approved" },
            {
                "step_id": 20, "step_key": "close", "status": "approved", "successful_state": "closed",
                "claim_state": ["closing", "approved"], "action": "close",
            },
        ],
    })
}

/// Uploads an entity workflow.
pub async fn upload(server: &TestServer, document: &Value) -> Value {
    let answer = server.post("/api/v1/entity-workflows", document, &[]).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

/// Makes an entity.
pub async fn make(server: &TestServer, kind: &str, id: &str, status: &str) {
    let asked = json!({ "id": id, "status": status });
    let answer = server.post(&format!("/api/v1/entities/{kind}"), &asked, &[]).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// A server that holds one approved invoice, `inv-1`, and the gate of its action.
pub async fn with_invoice(server: TestServer) -> (TestServer, Arc<Gate>) {
    let gate = Gate::register(&server.engine, "close");
    upload(&server, &billing()).await;
    make(&server, "invoice", "inv-1", "approved").await;
    (server, gate)
}

pub const INVOICE: &str = "/api/v1/entities/invoice/inv-1";
pub const CLOSE: &str = "/api/v1/entities/invoice/inv-1/steps/close";

/// Closes the invoice without waiting for it; answers the operation.
pub async fn begin_closing(server: &TestServer, gate: &Gate) -> String {
    let begun = server.post(CLOSE, &json!({}), &[("prefer", "wait=0")]).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    gate.arrived().await;
    begun.json()["operation"]["id"].as_str().unwrap().to_owned()
}

/// One of the allowed actions of an entity.
pub fn action(shown: &Value, step: &str) -> Value {
    let mut actions = shown["allowedActions"].as_array().expect("a list").iter();
    actions.find(|action| action["stepKey"] == step).cloned().unwrap_or(Value::Null)
}

/// The field `what` of each entry of a list, in order.
pub fn told(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
}

/// Waits for the end of an operation.
pub async fn until_ended(server: &TestServer, operation: &str) -> Value {
    let is_over = |shown: &Value| shown["operation"]["status"] != "PENDING";
    server.until_shown(&format!("/api/v1/operations/{operation}"), is_over).await
}

/// Sends with another key than the admin's.
pub async fn post_as(server: &TestServer, key: &str, path: &str, body: Value) -> Answer {
    server.send("POST", path, Some(body.to_string()), key, &[]).await
}
