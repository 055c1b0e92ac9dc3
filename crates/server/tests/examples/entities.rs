//! Entities, their workflows and operations.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::Failure;
use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::runtime::{ActionAnswer, StepCall};
use serde_json::{Value, json};

use super::recorder::{Recorder, call};
use super::support::{Setup, StoreKind, TestServer};

const PAST_THE_WINDOW: Duration = Duration::from_secs(5 * 60 + 1);

fn billing() -> Value {
    json!({
        "name": "billing", "module": "billing", "entity": "invoice",
        "status_types": ["draft", "approved", "closing", "closed", "refunded"], "initial": ["draft", "approved"],
        "steps": [
            { "step_id": 10, "step_key": "approve", "status": "draft", "successful_state": "approved" },
            {
                "step_id": 20, "step_key": "close", "status": "approved", "successful_state": "closed",
                "claim_state": ["closing", "approved"], "action": "echo", "recovery": "hold",
            },
            {
                "step_id": 30, "step_key": "refund", "status": "closed", "successful_state": "refunded",
                "action": "refund", "irreversible": true, "effect": "idempotent",
            },
        ],
    })
}

/// Registers a refund. The bank answers only if the input says `confirmed`.
fn register_refund(server: &TestServer) {
    let refund = |call: StepCall| async move {
        match call.input::<Value>()?["confirmed"] == true {
            true => ActionAnswer::done(json!({ "refund": "re_7" })),
            false => Err(Failure::unknown("The bank did not answer.").with_code("bank_silent")),
        }
    };
    server.engine.register_action("refund", refund).unwrap();
}

#[tokio::test]
async fn the_examples_of_entity_workflows_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    register_refund(&server);
    let mut examples = Recorder::new(&server, "entity_workflows");
    examples.send(call("create_entity_workflow").body(billing())).await;
    examples.send(call("create_entity_workflow").body(billing())).await;
    examples.send(call("list_entity_workflows")).await;
    let shown = server.get("/api/v1/entity-workflows/billing").await;
    let version = shown.header("etag").unwrap().to_owned();
    examples.send(call("get_entity_workflow").at("billing")).await;
    let mut changed = billing();
    changed["initial"] = json!(["draft"]);
    examples.send(call("put_entity_workflow").at("billing").header("if-match", version).body(changed)).await;
    examples.send(call("draw_entity_workflow").at("billing").query("format=mermaid")).await;
    examples.send(call("delete_entity_workflow").at("billing").query("reason=Invoices%20moved.")).await;
    examples.finish();
}

/// A node that finds an operation in doubt, because the node that began it died; answers the operation.
async fn after_a_crash() -> (TestServer, String) {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let setup = || Setup { clock: clock.clone(), ..Setup::default() };
    let crashing = TestServer::over(store.clone(), StoreKind::Memory, setup()).await;
    register_refund(&crashing);
    let (begun, has_begun) = tokio::sync::oneshot::channel::<()>();
    let begun = Arc::new(std::sync::Mutex::new(Some(begun)));
    let hang = move |_: StepCall| {
        let begun = begun.lock().unwrap().take();
        async move {
            begun.map(|begun| begun.send(()));
            std::future::pending::<Result<ActionAnswer, Failure>>().await
        }
    };
    crashing.engine.register_action("hang", hang).unwrap();
    let mut document = billing();
    document["steps"][1]["action"] = json!("hang");
    let made = crashing.post("/api/v1/entity-workflows", &document, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let invoice = json!({ "id": "inv-118", "status": "approved" });
    crashing.post("/api/v1/entities/invoice", &invoice, &[]).await;
    let path = "/api/v1/entities/invoice/inv-118/steps/close";
    let taken = crashing.post(path, &json!({}), &[("prefer", "wait=0")]).await;
    assert_eq!(taken.status, 202, "{}", taken.text());
    has_begun.await.unwrap();
    crashing.engine.kill();
    let server = TestServer::over(store, StoreKind::Memory, setup()).await;
    clock.advance(PAST_THE_WINDOW);
    let in_doubt = "/api/v1/operations?status=IN_DOUBT";
    let page = server.until_shown(in_doubt, |page| !page["items"][0].is_null()).await;
    let operation = page["items"][0]["id"].as_str().unwrap().to_owned();
    (server, operation)
}

#[tokio::test]
async fn the_examples_of_entities_are_what_a_server_answers() {
    let (server, (other_node, operation)) = (TestServer::memory().await, after_a_crash().await);
    register_refund(&server);
    server.post("/api/v1/entity-workflows", &billing(), &[]).await;
    let mut examples = Recorder::new(&server, "entities");
    let invoice = json!({ "id": "inv-117", "status": "approved", "data": { "amount": 1999 } });
    examples.send(call("create_entity").at("invoice").body(invoice.clone())).await;
    examples.send(call("create_entity").at("invoice").body(invoice)).await;
    examples.send(call("list_entities").at("invoice").query("status=approved&limit=1")).await;
    examples.send(call("get_entity").at("invoice").at("inv-117")).await;
    let close = json!({ "input": { "closedBy": "month-end" }, "idempotencyKey": "close-inv-117" });
    examples.send(call("take_step").at("invoice").at("inv-117").at("close").body(close)).await;
    // The bank is silent, so whether it happened is not known.
    let refund = "/api/v1/entities/invoice/inv-117/steps/refund";
    let silent = server.post(refund, &json!({ "idempotencyKey": "refund-inv-117" }), &[]).await;
    assert_eq!(silent.told(), (502, "action_failed".into()), "{}", silent.text());
    let anew = json!({
        "reason": "The bank confirmed that no refund arrived.", "input": { "confirmed": true },
        "idempotencyKey": "refund-inv-117-again",
    });
    examples.send(call("override_step").at("invoice").at("inv-117").at("refund").body(anew)).await;
    let note = json!({ "text": "The customer was informed." });
    examples.send(call("add_entity_note").at("invoice").at("inv-117").body(note)).await;
    let person = json!({ "by": "anna", "expiresIn": "5m" });
    examples.send(call("create_action_token").at("invoice").at("inv-117").body(person)).await;
    examples.send(call("list_entity_notes").at("invoice").at("inv-117").query("limit=2")).await;
    examples.send(call("list_entity_operations").at("invoice").at("inv-117").query("limit=1")).await;

    examples.turn_to(&other_node);
    examples.send(call("list_operations").query("status=IN_DOUBT&type=invoice")).await;
    examples.send(call("get_operation").at(&operation)).await;
    let ruling = json!({
        "attempt": 1, "resolution": "happened", "result": { "archived": true },
        "reason": "The archive shows the invoice as closed.",
    });
    examples.send(call("resolve_operation").at(&operation).body(ruling)).await;
    examples.finish();
}
