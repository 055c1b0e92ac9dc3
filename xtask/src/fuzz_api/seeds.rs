//! Resources that exist before the first generated request, so that not every request names unknown
//! ids.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{CASE_HEADER, Server};

/// Number of resources of each kind.
const MANY: u32 = 6;
/// Longest wait for the janitor. A janitor first lets the timeout of the action pass, 30 s, because
/// a request of the dead server may still be in progress.
const PATIENCE: Duration = Duration::from_secs(90);

/// Names and ids of existing resources.
#[derive(Debug, Default)]
pub(super) struct Seeds {
    pub(super) workspace: String,
    pub(super) definition: String,
    pub(super) credential: String,
    pub(super) runs: Vec<String>,
    pub(super) promises: Vec<String>,
    pub(super) promise_refs: Vec<String>,
    pub(super) settle_tokens: Vec<String>,
    pub(super) entities: Vec<String>,
    pub(super) operations: Vec<String>,
    pub(super) letters_path: String,
    pub(super) events: Vec<String>,
    pub(super) subscriptions: Vec<String>,
    /// Resources that may be deleted.
    pub(super) doomed: Vec<String>,
    pub(super) deliveries: Vec<String>,
}

/// Begins steps whose action is never answered, and kills the server in the middle; returns their
/// operations, which the next server's janitor leaves to people.
pub(super) fn leave_steps_behind(server: Server) -> Result<Vec<String>> {
    // No program accepts the connection, but the system lets it open.
    let silent = TcpListener::bind("127.0.0.1:0").context("no port can be had")?;
    let url = format!("http://{}/", silent.local_addr()?);
    let document = json!({
        "name": "wires", "module": "fuzzed", "entity": "wire", "statusTypes": ["ready", "sending", "sent"],
        "steps": [{
            "stepId": 1, "stepKey": "send-it", "status": "ready", "successfulState": "sent",
            "claimState": ["sending", "ready"], "recovery": "hold", "effect": "non_idempotent",
            "action": { "http": { "method": "POST", "url": url } },
        }],
    });
    server.post("/api/v1/entity-workflows", &document)?;
    let mut left = Vec::new();
    for number in 0..MANY {
        server.post("/api/v1/entities/wire", &json!({ "id": format!("w-{number}"), "status": "ready" }))?;
        let begun = server.post(&format!("/api/v1/entities/wire/w-{number}/steps/send-it"), &json!({}))?;
        left.push(text(&begun, "/operation/id")?);
    }
    // The server dies first. Closing the listener resets the connections, and a server that saw
    // that would release the operations.
    drop(server);
    drop(silent);
    Ok(left)
}

/// Creates some resources of every kind.
pub(super) fn sow(server: &Server, left: Vec<String>) -> Result<Seeds> {
    let mut seeds = Seeds {
        workspace: server.workspace.clone(),
        definition: server.sample.clone(),
        operations: left,
        ..Seeds::default()
    };
    let made = server.post("/api/v1/credentials", &json!({ "name": "another", "role": "viewer" }))?;
    seeds.credential = text(&made, "/credential/id")?;
    tell_nobody(server, &mut seeds)?;
    start_runs(server, &mut seeds)?;
    make_promises(server, &mut seeds)?;
    make_entities(server, &mut seeds)?;
    take_in_events(server, &mut seeds)?;
    let delivered = until(server, "/api/v1/webhook-deliveries", |shown| !shown["items"][0].is_null())?;
    for delivery in delivered["items"].as_array().into_iter().flatten() {
        seeds.deliveries.push(text(delivery, "/id")?);
    }
    let in_doubt = "/api/v1/operations?status=IN_DOUBT";
    let is_all = |shown: &Value| shown["items"].as_array().map(Vec::len) == Some(MANY as usize);
    until(server, in_doubt, is_all)?;
    Ok(seeds)
}

/// A receiver at a closed port: every delivery to it fails at once.
fn tell_nobody(server: &Server, seeds: &mut Seeds) -> Result<()> {
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let events = ["run.completed", "run.failed", "run.cancelled", "effect.in_doubt"];
    for number in 0..MANY {
        let name = format!("nobody-{number}");
        let asked = json!({ "name": name, "url": format!("http://{free}/"), "events": events });
        let made = server.post("/api/v1/webhook-subscriptions", &asked)?;
        let list = if number % 2 == 0 { &mut seeds.subscriptions } else { &mut seeds.doomed };
        list.push(text(&made, "/subscription/id")?);
    }
    Ok(())
}

fn start_runs(server: &Server, seeds: &mut Seeds) -> Result<()> {
    for number in 0..MANY {
        let delay = if number % 2 == 0 { "0s" } else { "1h" };
        let body = json!({
            "definitionId": seeds.definition,
            "input": { "order": number },
            "idempotencyKey": format!("order-{number}"),
            "delay": delay,
        });
        let made = server.post("/api/v1/workflow-runs", &body)?;
        seeds.runs.push(text(&made, "/run/id")?);
    }
    Ok(())
}

fn make_promises(server: &Server, seeds: &mut Seeds) -> Result<()> {
    // Many, because each can be settled once.
    for number in 0..4 * MANY {
        let (id, key) = (format!("p-{number}"), format!("order-{number}"));
        server.post("/api/v1/promises", &json!({ "id": id, "idempotencyKey": key }))?;
        let issued = server.post(&format!("/api/v1/promises/id:{id}/tokens"), &json!({}))?;
        seeds.settle_tokens.push(text(&issued, "/token")?);
        seeds.promise_refs.extend([format!("id:{id}"), format!("key:{key}")]);
        seeds.promises.push(id);
    }
    Ok(())
}

/// Tickets that can be closed and reopened endlessly: a run closes them, and reopening has no
/// effect.
fn make_entities(server: &Server, seeds: &mut Seeds) -> Result<()> {
    let document = json!({
        "name": "tickets", "module": "fuzzed", "entity": "ticket", "statusTypes": ["open", "closing", "closed"],
        "initial": ["open", "closed"],
        "steps": [
            {
                "stepId": 1, "stepKey": "close", "status": "open", "successfulState": "closed",
                "claimState": ["closing", "open"], "action": { "workflow": "sample" },
            },
            { "stepId": 2, "stepKey": "reopen", "status": "closed", "successfulState": "open" },
        ],
    });
    server.post("/api/v1/entity-workflows", &document)?;
    for number in 0..MANY {
        let (id, status) = (format!("t-{number}"), if number % 2 == 0 { "open" } else { "closed" });
        server.post("/api/v1/entities/ticket", &json!({ "id": id, "status": status }))?;
        let step = if status == "open" { "close" } else { "reopen" };
        let asked = json!({ "idempotencyKey": format!("order-{number}") });
        let begun = server.post(&format!("/api/v1/entities/ticket/{id}/steps/{step}"), &asked)?;
        seeds.operations.push(text(&begun, "/operation/id")?);
        seeds.entities.push(id);
    }
    Ok(())
}

/// Letters without a signature, which settle the promise with their key. Generated requests that
/// disable or change sources use parcels, so letters keep working.
fn take_in_events(server: &Server, seeds: &mut Seeds) -> Result<()> {
    for name in ["parcels", "letters"] {
        let document = json!({
            "name": name,
            "signature": { "scheme": "none", "allowUnsigned": true },
            // Every request of schemathesis has it.
            "eventId": { "header": CASE_HEADER },
            "actions": [{ "settle": { "key": "{{ body.key }}", "value": "{{ body }}" } }],
        });
        let made = server.post("/api/v1/webhook-sources", &document)?;
        seeds.letters_path = text(&made, "/path")?;
    }
    for number in 0..MANY {
        // Some are for promises that do not exist.
        let told = server.post(&seeds.letters_path, &json!({ "key": format!("order-{}", number * 4) }))?;
        seeds.events.push(text(&told, "/eventId")?);
    }
    Ok(())
}

/// Polls a path until its content fits, and returns it.
fn until(server: &Server, path: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    let since = Instant::now();
    loop {
        let shown = server.get(path)?;
        if is_so(&shown) {
            return Ok(shown);
        }
        ensure!(since.elapsed() < PATIENCE, "{path} does not become what it should: {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text(answer: &Value, pointer: &str) -> Result<String> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    Ok(found.with_context(|| format!("there is no {pointer} in {answer}"))?.to_owned())
}
