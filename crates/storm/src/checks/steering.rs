//! Commands: what was acknowledged took effect, or the history says why not.

use serde_json::Value;

use crate::checks::Evidence;
use crate::clients::WorkDone;
use crate::world::World;

pub fn check(world: &World, done: &[WorkDone], evidence: &Evidence) {
    for work in done {
        let op = work.work.op.as_str();
        let Some(id) = &work.run else { continue };
        let Some(run) = evidence.runs.get(id) else { continue };
        let status = run["status"].as_str().unwrap_or_default();
        let events = evidence.events.get(id).map_or(&[][..], Vec::as_slice);
        let acknowledged =
            |command: &str| work.steered.iter().any(|it| it.command == command && it.answer.is_success());
        // A run that fails at the same time undoes as much as a cancelled one, and says why it failed.
        let is_undone = ["CANCELLED", "FAILED"].contains(&status);
        if acknowledged("cancel") && !is_undone && !says_too_late(work, events) {
            let what = format!(
                "a cancel was acknowledged, the run is {status}, and nothing says that it came too late"
            );
            world.report("cancels take effect", Some(op), what);
        }
        if acknowledged("resume") && status == "PAUSED" {
            world.report("resumes take effect", Some(op), "a resume was acknowledged, and the run is PAUSED");
        }
        if acknowledged("retry") && !has(events, "retried") {
            world.report(
                "retries take effect",
                Some(op),
                "a retry was acknowledged, and the history has none",
            );
        }
        if work.work.kind.is_retried() && status != "COMPLETED" {
            let what =
                format!("the provider accepts it the second time, people retried it, and it is {status}");
            world.report("retries take effect", Some(op), what);
        }
    }
}

fn has(events: &[Value], kind: &str) -> bool {
    events.iter().any(|event| event["kind"] == kind)
}

/// The answer to the cancel, or the history, tells that the run had ended.
fn says_too_late(work: &WorkDone, events: &[Value]) -> bool {
    let had_ended = work.steered.iter().filter(|it| it.command == "cancel").any(|it| {
        let status = it.answer.json()["status"].clone();
        ["COMPLETED", "FAILED"].iter().any(|ended| status == *ended)
    });
    had_ended || events.iter().any(|event| event["kind"].as_str().is_some_and(|kind| kind.contains("late")))
}
