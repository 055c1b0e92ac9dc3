//! Effects at the provider: how often they happened, what the ledger says of them, and whether they were undone.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::checks::Evidence;
use crate::clients::WorkDone;
use crate::provider::{Call, UNDONE_BY};
use crate::world::World;

/// A little more than nodes keep what they read of the store for metrics.
const FIGURES_ARE_READ_EVERY: Duration = Duration::from_millis(1_200);

pub fn check(world: &World, done: &[WorkDone], evidence: &Evidence) {
    check_once(world, evidence);
    check_ledger(world, evidence);
    check_undone(world, done, evidence);
}

/// No effect happened twice: not under one key, and not for one business operation.
fn check_once(world: &World, evidence: &Evidence) {
    let mut by_operation: BTreeMap<(&str, &str), Vec<&Call>> = BTreeMap::new();
    for call in evidence.calls.iter().filter(|call| call.is_effect()) {
        by_operation.entry((&call.op, &call.kind)).or_default().push(call);
    }
    for ((op, kind), calls) in by_operation.into_iter().filter(|(_, calls)| calls.len() > 1) {
        let lines: Vec<String> = calls.iter().map(|call| call.tell()).collect();
        let what = format!("{kind} happened {} times:\n      {}", calls.len(), lines.join("\n      "));
        world.report("nothing happens twice", Some(op), what);
    }
}

/// Checks, per effect key: known effects ≤ effects that the provider saw ≤ known plus possible
/// effects.
fn check_ledger(world: &World, evidence: &Evidence) {
    let mut seen: HashMap<&str, (u64, &str)> = HashMap::new();
    for call in evidence.calls.iter().filter(|call| call.is_processed()) {
        seen.entry(&call.key).or_insert((0, &call.op)).0 += 1;
    }
    for (key, entries) in &evidence.ledger {
        let count = |name: &str| entries.iter().filter_map(|entry| entry[name].as_u64()).sum::<u64>();
        let (known, may) = (count("happened"), count("mayHaveHappened"));
        let (saw, op) = seen.remove(key.as_str()).unwrap_or((0, ""));
        if known > saw || saw > known + may {
            let what = format!(
                "{key}: the ledger knows of {known} and {may} that may have happened; the provider saw {saw}"
            );
            let op = if op.is_empty() { op_of(evidence, entries) } else { op.to_owned() };
            world.report("the ledger is right", Some(&op), what);
        }
    }
    for (key, (saw, op)) in seen {
        let what = format!("{key}: the provider saw {saw}, and the ledger has no such effect");
        world.report("the ledger is complete", Some(op), what);
    }
}

fn op_of(evidence: &Evidence, entries: &[Value]) -> String {
    let run = entries[0]["runId"].as_str().unwrap_or_default();
    let of_run = evidence.runs.get(run).and_then(|run| run["input"]["op"].as_str());
    let of_object = entries[0]["entity"]["id"].as_str();
    of_run.or(of_object).unwrap_or_default().to_owned()
}

/// The metrics of every node say what the entries of the ledger add up to.
pub async fn check_metrics(world: &World, evidence: &Evidence) -> Result<()> {
    const METRICS: [(&str, &str); 2] = [
        ("hapax_effects_happened_twice", "happenedTwice"),
        ("hapax_effects_may_have_happened_twice", "mayHaveHappenedTwice"),
    ];
    // Nodes read the figures of the store at most once a second.
    tokio::time::sleep(FIGURES_ARE_READ_EVERY).await;
    for (index, metrics) in world.metrics().await?.iter().enumerate() {
        for (metric, field) in METRICS {
            // Every class that either of them knows.
            let mut by_class: BTreeMap<String, (u64, f64)> = BTreeMap::new();
            for entry in evidence.ledger.values().flatten() {
                let class = entry["class"].as_str().unwrap_or_default().to_owned();
                by_class.entry(class).or_default().0 += entry[field].as_u64().unwrap_or(0);
            }
            for (name, told) in metrics {
                let class = name.strip_prefix(metric).and_then(|rest| rest.strip_prefix("{class=\""));
                if let Some(class) = class.and_then(|rest| rest.strip_suffix("\"}")) {
                    by_class.entry(class.to_owned()).or_default().1 += told;
                }
            }
            for (class, (sum, told)) in by_class {
                if (told - sum as f64).abs() > f64::EPSILON {
                    let what = format!(
                        "node {index} tells {metric} of class {class} {told}, and the ledger adds up to {sum}"
                    );
                    world.report("metrics equal the ledger", None, what);
                }
            }
        }
    }
    Ok(())
}

/// A run that failed or was cancelled has undone what the provider saw; one that completed has undone nothing.
fn check_undone(world: &World, done: &[WorkDone], evidence: &Evidence) {
    let mut effects: HashMap<(&str, &str), usize> = HashMap::new();
    for call in evidence.calls.iter().filter(|call| call.is_effect()) {
        *effects.entry((&call.op, &call.kind)).or_default() += 1;
    }
    for work in done {
        let op = work.work.op.as_str();
        let Some(run) = work.run.as_ref().and_then(|id| evidence.runs.get(id)) else { continue };
        let status = run["status"].as_str().unwrap_or_default();
        for (kind, undo) in UNDONE_BY {
            let happened = effects.get(&(op, *kind)).copied().unwrap_or(0);
            let undone = effects.get(&(op, *undo)).copied().unwrap_or(0);
            let is_wrong = match status {
                "COMPLETED" => undone > 0,
                "FAILED" | "CANCELLED" => happened != undone,
                _ => false,
            };
            if is_wrong {
                let what = format!(
                    "the run is {status}; {kind} happened {happened} times and {undo} {undone} times"
                );
                world.report("compensation undoes every effect", Some(op), what);
            }
        }
    }
}
