//! Checks versions: each belongs to one event or one step change, and none is missing without a reason.
//!
//! Only the last change of a step is stored. The versions of its earlier attempts may be missing, but no more
//! than it can have used, and only between its first and its last. Records deleted by a retry or a new
//! generation leave gaps before that event, but only while a worker held the lease (see `history`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Found;
use super::invariant::{COMMITTED_TOGETHER, ONE_OUTCOME, VERSIONS_COUNT};
use super::snapshot::Snapshot;
use crate::model::{EventKind, PromiseId, StepKind, StepRecord, StepStatus, Version};

pub(super) fn check(snapshot: &Snapshot, found: &mut Found) {
    let taken = taken_versions(snapshot, found);
    let head = snapshot.log.head.version;
    match taken.last_key_value() {
        Some((last, what)) if *last > head => {
            found.push((COMMITTED_TOGETHER, format!("{what} has version {last}, the run only {head}")));
        }
        Some((last, _)) if *last < head => {
            found
                .push((COMMITTED_TOGETHER, format!("version {head} belongs to nothing; the last is {last}")));
        }
        Some(_) => {}
        None => found.push((COMMITTED_TOGETHER, "it has no history".into())),
    }
    check_generation(snapshot, found);
    let begun_anew = |kind| matches!(kind, EventKind::Retried | EventKind::ContinuedAsNew);
    let base = snapshot.events.iter().rfind(|event| begun_anew(event.kind));
    let base = base.map_or(Version::default(), |event| event.version);
    check_holes(snapshot, base, taken.into_keys(), found);
}

/// Every version with an event or step change, and a description of it.
fn taken_versions(snapshot: &Snapshot, found: &mut Found) -> BTreeMap<Version, String> {
    let mut taken = BTreeMap::new();
    let mut take = |version: Version, what: String, found: &mut Found| {
        if let Some(other) = taken.insert(version, what.clone()) {
            found.push((VERSIONS_COUNT, format!("version {version} is used by both {other} and {what}")));
        }
    };
    let mut last = Version::default();
    for event in &snapshot.events {
        if event.version <= last {
            found.push((VERSIONS_COUNT, format!("version {} follows {last} in the history", event.version)));
        }
        last = event.version;
        take(event.version, format!("event {}", event.kind.as_str()), found);
    }
    for step in &snapshot.log.steps {
        if step.started_version > step.changed_version {
            found.push((ONE_OUTCOME, format!("step {} changed before it started", step.id)));
        }
        take(step.changed_version, format!("step {}", step.id), found);
        if step.started_version != step.changed_version {
            take(step.started_version, format!("the start of step {}", step.id), found);
        }
    }
    taken
}

fn check_generation(snapshot: &Snapshot, found: &mut Found) {
    let continued = |kind| kind == EventKind::ContinuedAsNew;
    let times = snapshot.events.iter().filter(|event| continued(event.kind)).count();
    let generation = snapshot.log.head.generation;
    if times as u64 != u64::from(generation.get()) {
        found.push((VERSIONS_COUNT, format!("it continued {times} times but is in generation {generation}")));
    }
    let Some(last) = snapshot.events.iter().rfind(|event| continued(event.kind)) else { return };
    for step in snapshot.log.steps.iter().filter(|step| step.started_version < last.version) {
        found.push((VERSIONS_COUNT, format!("step {} is of a generation that is over", step.id)));
    }
}

/// Every gap after `base` must lie within a step that used more versions than it shows. Steps that end first
/// are charged first: if any assignment of gaps to steps works, this one does.
fn check_holes(snapshot: &Snapshot, base: Version, taken: impl Iterator<Item = Version>, found: &mut Found) {
    let mut steps: Vec<&StepRecord> = snapshot.log.steps.iter().collect();
    steps.sort_by_key(|step| Reverse(step.started_version));
    let mut open: BinaryHeap<Reverse<(Version, u64)>> = BinaryHeap::new();
    let mut last = base;
    for next in taken.filter(|version| *version > base) {
        let mut missing = next.get() - last.get() - 1;
        while missing > 0 {
            while let Some(step) = steps.pop_if(|step| step.started_version <= last) {
                open.push(Reverse((step.changed_version, unseen_versions(step, rulings_on(snapshot, step)))));
            }
            match open.pop() {
                Some(Reverse((changed, _))) if changed < next => {}
                Some(Reverse((changed, unseen))) => {
                    let charged = unseen.min(missing);
                    missing -= charged;
                    if unseen > charged {
                        open.push(Reverse((changed, unseen - charged)));
                    }
                }
                None => {
                    let what =
                        format!("{missing} of the versions between {last} and {next} belong to nothing");
                    found.push((VERSIONS_COUNT, what));
                    missing = 0;
                }
            }
        }
        last = next;
    }
}

/// Number of rulings requested on a step: one each time it came into doubt.
fn rulings_on(snapshot: &Snapshot, step: &StepRecord) -> u64 {
    let head = &snapshot.log.head;
    let doubts = format!("{}~doubt-", PromiseId::for_step(head.id(), head.generation, &step.id));
    snapshot.log.promises.iter().filter(|promise| promise.id.as_str().starts_with(&doubts)).count() as u64
}

/// Maximum number of versions a step used beyond those its record shows. An attempt begins and ends, its end
/// may be doubted first, and a step may be cancelled or left to people between two attempts. Each request for
/// a ruling takes one version.
fn unseen_versions(step: &StepRecord, rulings: u64) -> u64 {
    let per_attempt = match step.kind {
        StepKind::Effect | StepKind::Claimed | StepKind::Transaction | StepKind::Undo => 3,
        StepKind::Sleep
        | StepKind::Promise
        | StepKind::Signal
        | StepKind::Child
        | StepKind::Value
        | StepKind::Select
        | StepKind::AfterEffect => 2,
    };
    // A ruling sends the step back to be tried, and then it may still be cancelled.
    let given_up = u64::from(step.state.status() == StepStatus::Cancelled) + u64::from(rulings > 0);
    let shown = if step.started_version == step.changed_version { 1 } else { 2 };
    (u64::from(step.attempts.max(1)) * per_attempt + given_up + rulings).saturating_sub(shown)
}
