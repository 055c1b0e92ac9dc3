//! Checks after the storm.

mod effects;
mod steering;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use serde_json::Value;

use crate::clients::{WorkDone, run_key};
use crate::documents::ENTITY;
use crate::http::Request;
use crate::limits::MAX_STORIES;
use crate::plan::WorkKind;
use crate::provider::Call;
use crate::world::World;

/// Records of both sides after the storm.
#[derive(Debug, Default)]
pub struct Evidence {
    pub runs: HashMap<String, Value>,
    /// Steps of each run, in order.
    pub steps: HashMap<String, Vec<Value>>,
    pub events: HashMap<String, Vec<Value>>,
    /// Ledger of the runs that violate a check.
    pub journals: HashMap<String, Vec<Value>>,
    /// Entries of the ledger by effect key.
    pub ledger: BTreeMap<String, Vec<Value>>,
    /// Operations by business object.
    pub operations: HashMap<String, Vec<Value>>,
    /// Webhooks by event id.
    pub webhooks: HashMap<String, Value>,
    pub calls: Vec<Call>,
    /// Run of each business operation.
    pub run_of: HashMap<String, String>,
    pub replays: usize,
}

/// Gathers the evidence and compares it with the responses that clients received.
pub async fn check(world: &World, done: &[WorkDone]) -> Result<Evidence> {
    let mut evidence = gather(world).await?;
    check_runs(world, done, &evidence);
    check_settlements(world, done, &evidence);
    check_webhooks(world, done, &evidence);
    check_invoices(world, done, &evidence).await?;
    evidence.replays = check_replays(world, done).await?;
    effects::check(world, done, &evidence);
    effects::check_metrics(world, &evidence).await?;
    steering::check(world, done, &evidence);
    Ok(evidence)
}

/// Fetches what only stories need, for the operations that violate something.
pub async fn gather_journals(world: &World, evidence: &mut Evidence) -> Result<()> {
    let ops: BTreeSet<String> = world.violations().into_iter().filter_map(|violation| violation.op).collect();
    for op in ops.iter().take(MAX_STORIES) {
        let Some(run) = evidence.run_of.get(op).cloned() else { continue };
        let journal = world.list(&format!("/api/v1/workflow-runs/{run}/notes")).await?;
        evidence.journals.insert(run, journal);
    }
    Ok(())
}

async fn gather(world: &World) -> Result<Evidence> {
    let mut evidence = Evidence { calls: world.provider.calls(), ..Evidence::default() };
    for run in world.list("/api/v1/workflow-runs").await? {
        let id = run["id"].as_str().unwrap_or_default().to_owned();
        if let Some(op) = run["input"]["op"].as_str() {
            evidence.run_of.insert(op.to_owned(), id.clone());
        }
        evidence.runs.insert(id, run);
    }
    let ids: BTreeSet<String> = evidence.runs.keys().cloned().collect();
    for id in ids {
        let detail = world.ask(0, &Request::get(format!("/api/v1/workflow-runs/{id}"))).await?.json();
        evidence.steps.insert(id.clone(), detail["steps"].as_array().cloned().unwrap_or_default());
        evidence.events.insert(id.clone(), world.list(&format!("/api/v1/workflow-runs/{id}/events")).await?);
    }
    for entry in world.list("/api/v1/ledger").await? {
        let key = entry["effectKey"].as_str().unwrap_or_default().to_owned();
        evidence.ledger.entry(key).or_default().push(entry);
    }
    for operation in world.list("/api/v1/operations").await? {
        let entity = operation["entityId"].as_str().unwrap_or_default().to_owned();
        evidence.operations.entry(entity).or_default().push(operation);
    }
    for event in world.list("/api/v1/webhook-events").await? {
        evidence.webhooks.insert(event["eventId"].as_str().unwrap_or_default().to_owned(), event);
    }
    Ok(evidence)
}

/// No acknowledged run is lost, each key names one run, and each run is over.
fn check_runs(world: &World, done: &[WorkDone], evidence: &Evidence) {
    let mut by_key: HashMap<&str, Vec<&str>> = HashMap::new();
    for (id, run) in &evidence.runs {
        if let Some(key) = run["idempotencyKey"].as_str() {
            by_key.entry(key).or_default().push(id);
        }
    }
    for work in done {
        let op = &work.work.op;
        let Some(run) = &work.run else { continue };
        if !evidence.runs.contains_key(run) {
            world.report("no acknowledged run is lost", Some(op), format!("{run} is gone"));
        }
        let named = by_key.get(run_key(op).as_str()).map_or(0, Vec::len);
        if named != 1 {
            world.report("one run per key", Some(op), format!("the key of {run} names {named} runs"));
        }
    }
}

/// An acknowledged settlement is the value that the run saw.
fn check_settlements(world: &World, done: &[WorkDone], evidence: &Evidence) {
    for work in done.iter().filter(|work| matches!(work.work.kind, WorkKind::Order { .. })) {
        let op = &work.work.op;
        if work.settled.windows(2).any(|two| two[0] != two[1]) {
            world.report(
                "one settlement wins",
                Some(op),
                format!("two were acknowledged: {:?}", work.settled),
            );
        }
        let Some(run) = &work.run else { continue };
        let steps = evidence.steps.get(run).map_or(&[][..], Vec::as_slice);
        let paid = steps.iter().find(|step| step["id"] == "paid");
        let (Some(paid), Some(value)) = (paid, work.settled.first()) else { continue };
        if paid["status"] == "WAITING" {
            // It was cancelled, or is stuck, which another check tells.
            continue;
        }
        let is_cancelled = paid["status"] == "CANCELLED" || evidence.runs[run]["status"] == "CANCELLED";
        if paid["output"] != *value && !(is_cancelled && paid["output"].is_null()) {
            let what = format!("{value} was acknowledged, and the run has {}", paid["output"]);
            world.report("no acknowledged settlement is lost", Some(op), what);
        }
    }
}

/// An acknowledged webhook is on record, and was processed.
fn check_webhooks(world: &World, done: &[WorkDone], evidence: &Evidence) {
    for work in done {
        for event in &work.events {
            let op = Some(work.work.op.as_str());
            match evidence.webhooks.get(event) {
                None => world.report("no acknowledged webhook is lost", op, format!("{event} is gone")),
                Some(record) if ["applied", "unmatched"].iter().any(|status| record["status"] == *status) => {
                }
                Some(record) => {
                    world.report("webhooks are processed", op, format!("{event} is {}", record["status"]));
                }
            }
        }
    }
}

/// Acknowledged changes of a business object hold, and every effect on it is known.
async fn check_invoices(world: &World, done: &[WorkDone], evidence: &Evidence) -> Result<()> {
    for work in done {
        let Some(invoice) = &work.invoice else { continue };
        let op = work.work.op.as_str();
        let path = format!("/api/v1/entities/{ENTITY}/{op}");
        let answer = world.ask(0, &Request::get(path)).await?;
        let detail = answer.json();
        let entity = if detail["entity"].is_object() { &detail["entity"] } else { &detail };
        let status = entity["status"].as_str().unwrap_or("absent");
        let acknowledged: BTreeSet<&str> =
            invoice.done.iter().map(|(key, _)| key.split(':').next().unwrap_or_default()).collect();
        let fits = match (acknowledged.contains("close"), acknowledged.contains("pay")) {
            (true, _) => status == "closed",
            (false, true) => ["paid", "closed"].contains(&status),
            (false, false) => true,
        };
        if !fits {
            let what = format!("{acknowledged:?} was acknowledged, and it is {status}");
            world.report("no acknowledged operation is lost", Some(op), what);
        }
        let of_object = evidence.calls.iter().filter(|call| call.op == op);
        let is_early = |call: &&Call| call.document < invoice.document;
        for call in of_object.filter(is_early) {
            let (seen, least) = (call.document.unwrap_or(0), invoice.document.unwrap_or(0));
            let what = format!("{} began under document {seen}; {least} was acknowledged before", call.kind);
            world.report("a replaced document begins nothing", Some(op), what);
        }
        let paid = evidence
            .calls
            .iter()
            .filter(|call| call.kind == "pay" && call.op == op && call.is_effect())
            .count();
        if paid > 0 && status == "open" {
            let what = "the provider was paid, and the object says that it was not";
            world.report("effects of objects are known", Some(op), what);
        }
        if paid == 0 && ["paid", "closed"].contains(&status) {
            world.report(
                "effects of objects are known",
                Some(op),
                format!("it is {status}, and nothing was paid"),
            );
        }
    }
    Ok(())
}

/// The same request under the same key gets the same bytes.
async fn check_replays(world: &World, done: &[WorkDone]) -> Result<usize> {
    let mut replays = 0;
    for work in done {
        for (request, first) in &work.kept_answers {
            let again = world.ask(1, request).await?;
            replays += 1;
            if (again.status, &again.body) != (first.status, &first.body) {
                let what = format!("first {}, again {}", first.text(), again.text());
                world.report("replays are the same byte for byte", Some(&work.work.op), what);
            }
        }
    }
    Ok(replays)
}
