//! The documents of the storm: workflows, a business object and a webhook source, all of whose requests go to the provider.

use serde_json::{Value, json};

use crate::limits::{SETTLE, STEP_TIMEOUT};
use crate::nodes::MODULE;

/// The type of the business objects.
pub const ENTITY: &str = "invoice";
/// The name of their document.
pub const ENTITY_WORKFLOW: &str = "invoices";
/// The webhook source.
pub const SOURCE: &str = "storm-hook";

/// Every workflow, for a provider at `base`.
pub fn workflows(base: &str) -> Vec<Value> {
    let confirm = || idempotent(base, "confirm", None);
    vec![
        workflow("pay", &[idempotent(base, "charge", Some("refund")), idempotent(base, "pack", None)]),
        workflow(
            "order",
            &[
                idempotent(base, "charge", Some("refund")),
                json!({ "name": "paid", "type": "promise", "key": "pay:{{ input.op }}", "timeout": "1h" }),
                with_probe(base, claimed(base, "ship", "unship")),
            ],
        ),
        workflow("wire", &[claimed(base, "wire", "unwire"), confirm()]),
        workflow("fax", &[with_probe(base, claimed(base, "fax", "unfax")), confirm()]),
        workflow("declined", &[idempotent(base, "charge", Some("refund")), idempotent(base, "book", None)]),
        workflow("flaky", &[idempotent(base, "check", None), confirm()]),
        workflow("redo", &[idempotent(base, "note", None), idempotent(base, "check", None), confirm()]),
        workflow("stamped", &[with_probe(base, stamp(base)), idempotent(base, "check", None), confirm()]),
    ]
}

/// A step that must not happen twice and cannot be undone.
fn stamp(base: &str) -> Value {
    let mut step = idempotent(base, "stamp", None);
    step["effect"] = json!("claimed");
    step["nonIdempotent"] = json!(true);
    step
}

/// The business object: paid once, by an action that must not happen twice, then closed. Its requests tell the number of the document.
pub fn entity_workflow(base: &str, number: u64) -> Value {
    let request = |kind: &str| {
        json!({ "http": {
            "method": "POST", "url": format!("{base}/{kind}"), "body": { "op": "{{ entity.id }}", "document": number },
            "timeout": timeout(), "output": { "id": "{{ result.id }}" },
        } })
    };
    json!({
        "name": ENTITY_WORKFLOW, "kind": "entity", "module": MODULE, "entity": ENTITY,
        "statusTypes": ["open", "paying", "paid", "closing", "closed"], "initial": "open",
        "steps": [
            { "stepId": 10, "stepKey": "pay", "status": "open", "claimState": ["paying", "open"],
              "successfulState": "paid", "effect": "non_idempotent", "irreversible": true, "recovery": "hold",
              "action": request("pay") },
            { "stepId": 20, "stepKey": "close", "status": "paid", "claimState": ["closing", "paid"],
              "successfulState": "closed", "effect": "idempotent", "retry": "returns", "action": request("close") },
        ],
    })
}

/// The source: settles promises and starts wires.
pub fn source() -> Value {
    json!({
        "name": SOURCE, "preset": "standard-webhooks", "secrets": ["secret://hook"],
        "actions": [
            { "when": "body.type == \"paid\"", "settle": { "key": "pay:{{ body.op }}", "value": "{{ body.value }}" } },
            { "when": "body.type == \"wire\"",
              "start": { "workflow": "wire", "key": "run:{{ body.op }}", "input": { "op": "{{ body.op }}" } } },
        ],
    })
}

fn workflow(name: &str, steps: &[Value]) -> Value {
    json!({ "name": name, "version": 1, "idempotency": "required", "steps": steps })
}

fn timeout() -> String {
    format!("{}ms", STEP_TIMEOUT.as_millis())
}

fn request(base: &str, kind: &str) -> Value {
    json!({ "type": "http", "method": "POST", "url": format!("{base}/{kind}"), "body": { "op": "{{ input.op }}" } })
}

/// A step that may run again under its key, at a provider that honours keys.
fn idempotent(base: &str, kind: &str, undo: Option<&str>) -> Value {
    let mut step = request(base, kind);
    step["name"] = json!(kind);
    step["timeout"] = json!(timeout());
    step["retry"] = json!({ "maxAttempts": 12, "first": "800ms", "factor": 2, "cap": "2s" });
    step["output"] = json!({ kind: "{{ response.body.id }}" });
    if let Some(undo) = undo {
        step["compensate"] = request(base, undo);
    }
    step
}

/// A step that must not happen twice, at a provider that ignores keys.
fn claimed(base: &str, kind: &str, undo: &str) -> Value {
    let mut step = idempotent(base, kind, Some(undo));
    step["effect"] = json!("claimed");
    step["nonIdempotent"] = json!(true);
    step
}

fn with_probe(base: &str, mut step: Value) -> Value {
    let kind = step["name"].as_str().unwrap_or_default().to_owned();
    step["probe"] = json!({
        "method": "GET", "url": format!("{base}/lookup/{kind}/{{{{ key }}}}"),
        "happened": "response.status == 200", "didNotHappen": "response.status == 404",
        "output": { kind: "{{ response.body.id }}" }, "settle": format!("{}s", SETTLE.as_secs()),
    });
    step
}
