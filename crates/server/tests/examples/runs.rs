//! Runs, definitions, doubts and keys.

use serde_json::{Value, json};

use super::recorder::{Recorder, call};
use super::support::{Provider, Role, TestServer};

/// An order that waits for an approval and then for its payment.
fn order() -> Value {
    json!({
        "name": "order", "version": 1,
        "steps": [
            { "name": "reserve", "type": "task", "task": "echo", "input": { "sku": "{{ input.sku }}" } },
            {
                "name": "sign-off", "type": "approval", "by": { "roles": ["manager", "admin"] },
                "decisions": ["approve", "reject"], "show": { "amount": "{{ input.amount }}" }, "selfApproval": true,
            },
            { "name": "payment", "type": "signal", "signal": "payment-received" },
        ],
    })
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"))
        .to_owned()
}

async fn start(server: &TestServer, definition: &str, key: &str) -> String {
    let input = json!({ "sku": "tea-500g", "amount": 1999 });
    let body = json!({ "definitionId": definition, "input": input, "idempotencyKey": key });
    let started = server.post("/api/v1/workflow-runs", &body, &[]).await;
    assert_eq!(started.status, 201, "{}", started.text());
    text(&started.json(), "/run/id")
}

#[tokio::test]
async fn the_examples_of_runs_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "runs");
    let definition = server.upload(&order()).await;
    let input = json!({ "sku": "tea-500g", "amount": 1999 });
    let asked = json!({
        "workflow": "order", "input": input, "idempotencyKey": "process-order-4711", "subject": "order-4711",
    });
    let created = examples
        .send(
            call("create_run")
                .moving()
                .header("idempotency-key", "7e1c9a52-create-order-4711")
                .body(asked.clone()),
        )
        .await;
    let run = text(&created, "/run/id");
    server.until(&run, "WAITING").await;
    examples.send(call("create_run").moving().body(asked)).await;
    let batch = json!({ "runs": [
        { "workflow": "order@1", "input": input, "idempotencyKey": "process-order-4712" },
        { "workflow": "unknown", "input": input, "idempotencyKey": "process-order-4713" },
    ] });
    let started = examples.send(call("create_run_batch").moving().body(batch)).await;
    server.until(&text(&started, "/items/0/createdRun/run/id"), "WAITING").await;
    examples.send(call("list_runs").query("status=WAITING&workflow=order&limit=1")).await;
    examples.send(call("get_run").at(&run)).await;
    examples.send(call("get_run_result").at(&run)).await;
    let reason = json!({ "reason": "The warehouse is closed today." });
    let shown = server.get(&format!("/api/v1/workflow-runs/{run}")).await;
    let version = shown.header("etag").unwrap().to_owned();
    examples.send(call("pause_run").at(&run).header("if-match", version).body(reason)).await;
    examples
        .send(call("resume_run").moving().at(&run).body(json!({ "reason": "The warehouse is open again." })))
        .await;
    let approval = json!({ "decision": "approve", "comment": "Within the budget." });
    examples.send(call("answer_approval").at(&run).at("sign-off").body(approval)).await;
    let signal =
        json!({ "name": "payment-received", "value": { "charge": "ch_19" }, "signalId": "evt_1NG8Du" });
    examples.send(call("send_signal").at(&run).body(signal)).await;
    server.until(&run, "COMPLETED").await;
    examples.send(call("get_run_result").at(&run).header("prefer", "wait=30")).await;
    examples.send(call("list_steps").at(&run).query("limit=2&order=desc")).await;
    examples.send(call("list_run_events").at(&run).query("limit=2")).await;
    examples.send(call("stream_run_events").at(&run).header("last-event-id", "6")).await;
    let complaint = json!({ "reason": "The customer disputes the amount." });
    examples.send(call("reveal_run").at(&run).body(complaint)).await;
    let note = json!({ "text": "The customer asked for gift wrapping." });
    examples.send(call("add_run_note").at(&run).body(note)).await;
    examples.send(call("list_run_notes").at(&run)).await;
    let other = start(&server, &definition, "process-order-4714").await;
    server.until(&other, "WAITING").await;
    examples
        .send(
            call("cancel_run")
                .moving()
                .at(&other)
                .body(json!({ "reason": "The customer changed their mind." })),
        )
        .await;
    let failing = json!({ "name": "failing", "version": 1, "steps": [{ "name": "charge", "type": "task", "task": "fail" }] });
    let failed = start(&server, &server.upload(&failing).await, "process-order-4715").await;
    server.until(&failed, "FAILED").await;
    examples.send(call("get_retry_plan").at(&failed)).await;
    examples
        .send(call("retry_run").moving().at(&failed).body(json!({ "reason": "The card was unblocked." })))
        .await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_definitions_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "definitions");
    let made = examples.send(call("create_definition").body(order())).await;
    examples.send(call("create_definition").body(order())).await;
    examples.send(call("list_definitions").query("limit=10")).await;
    examples.send(call("get_definition").at(text(&made, "/id"))).await;
    let archived = json!({ "status": "archived" });
    examples.send(call("change_definition").at(text(&made, "/id")).body(archived)).await;
    examples.send(call("delete_definition").at(text(&made, "/id"))).await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_doubts_are_what_a_server_answers() {
    let (server, provider) = (TestServer::memory().await, Provider::start().await);
    let mut examples = Recorder::new(&server, "doubts");
    // It hangs up after it has read the request, so the outcome is unknown.
    let wire = json!({
        "name": "wire-transfer", "version": 1,
        "steps": [{
            "name": "send", "type": "http", "method": "POST", "url": provider.url("/cut"), "body": { "cents": 1999 },
            "effect": "claimed", "nonIdempotent": true, "output": { "transfer": "{{ response.body.id }}" },
        }],
    });
    let run = start(&server, &server.upload(&wire).await, "pay-invoice-117").await;
    let is_listed = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
    server.until_shown("/api/v1/doubts", is_listed).await;
    let listed = examples.send(call("list_doubts")).await;
    examples.send(call("get_doubt").at(&run).at("send")).await;
    let ruling = json!({
        "resolution": "happened", "output": { "transfer": "w_9" }, "version": listed["items"][0]["version"],
        "reason": "The bank confirmed the transfer by phone.",
    });
    examples.send(call("resolve_doubt").at(&run).at("send").body(ruling)).await;
    let other = start(&server, &server.upload(&wire).await, "pay-invoice-118").await;
    let page = server.until_shown("/api/v1/doubts", is_listed).await;
    let proposal = json!({
        "resolution": "abandon", "version": page["items"][0]["version"], "reason": "The bank has no record of it.",
    });
    let proposed = examples.send(call("propose_ruling").at(&other).at("send").body(proposal)).await;
    let confirmation = json!({
        "proposalId": proposed["proposalId"], "version": page["items"][0]["version"], "reason": "I called the bank as well.",
    });
    let manager = server.key("acme", Role::Manager).await;
    examples.send(call("confirm_ruling").at(&other).at("send").by(&manager).body(confirmation)).await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_keys_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "keys");
    let run = start(&server, &server.echo().await, "process-order-4711").await;
    server.until(&run, "COMPLETED").await;
    examples.send(call("get_key").at("run").at("process-order-4711")).await;
    examples.send(call("explain").query("q=process-order-4711")).await;
    let reason = json!({ "reason": "The order was deleted and must be processed anew." });
    examples.send(call("release_key").at("run").at("process-order-4711").body(reason)).await;
    examples.send(call("get_idempotency_policy").by("")).await;
    examples.finish();
}
