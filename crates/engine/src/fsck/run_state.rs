//! Checks the state of a run: a closed run has nothing pending, an open run will be woken, and its arrivals
//! are in order.

use std::collections::BTreeSet;

use super::Found;
use super::invariant::{
    BOUNDED_STALLS, CHILDREN_ARE_TOLD, COMMITTED_TOGETHER, NO_LOST_WAKE_UP, NOT_STRANDED, ONE_ENDING,
    ONE_OUTCOME, ONE_PROMISE, SIGNALS_IN_ORDER,
};
use super::snapshot::Snapshot;
use crate::limits::MAX_STALLS;
use crate::model::{
    ClosePolicy, EventKind, PendingRequest, Promise, PromiseId, PromiseState, RunState, StepKind, StepRecord,
    StepStatus, Timestamp,
};

pub(super) fn check(snapshot: &Snapshot, now: Timestamp, found: &mut Found) {
    check_result(snapshot, found);
    check_steps(snapshot, found);
    check_promises(snapshot, found);
    check_signals(snapshot, found);
    check_stalls(snapshot, found);
    check_parent(snapshot, found);
    if let RunState::Waiting { wake_at } = snapshot.log.head.state {
        check_waiting(snapshot, wake_at, now, found);
    }
}

fn check_result(snapshot: &Snapshot, found: &mut Found) {
    let ending = match snapshot.view.head.state {
        RunState::Closed { ending, .. } => Some(ending),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => None,
    };
    let result = snapshot.view.result.as_ref().map(|result| result.ending());
    if ending != result {
        found.push((COMMITTED_TOGETHER, format!("its state ends as {ending:?}, its result as {result:?}")));
    }
}

fn check_steps(snapshot: &Snapshot, found: &mut Found) {
    let mut seen = BTreeSet::new();
    let is_closed = snapshot.log.head.status().is_closed();
    for step in &snapshot.log.steps {
        if !seen.insert(&step.id) {
            found.push((ONE_OUTCOME, format!("step {} has two records", step.id)));
        }
        let status = step.state.status();
        // A doubt outlives its run. It must not be forgotten.
        if is_closed && !status.is_final() && status != StepStatus::InDoubt {
            found.push((ONE_ENDING, format!("it has ended, but step {} is {}", step.id, status.as_str())));
        }
    }
}

fn check_promises(snapshot: &Snapshot, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for promise in &snapshot.log.promises {
        if !seen.insert(&promise.id) {
            found.push((ONE_PROMISE, format!("there are two promises {}", promise.id)));
        }
        if !promise.is_standalone() && promise.run != snapshot.log.head.id() {
            found.push((ONE_PROMISE, format!("promise {} belongs to {}", promise.id, promise.run)));
        }
    }
}

fn check_signals(snapshot: &Snapshot, found: &mut Found) {
    let mut last = 0;
    for signal in &snapshot.log.signals {
        if signal.seq <= last || signal.seq > snapshot.log.head.arrivals || signal.consumed {
            let arrivals = snapshot.log.head.arrivals;
            let what = format!("a signal in place {} follows {last} of {arrivals} arrivals", signal.seq);
            found.push((SIGNALS_IN_ORDER, what));
        }
        last = signal.seq;
    }
}

fn check_stalls(snapshot: &Snapshot, found: &mut Found) {
    let head = &snapshot.log.head;
    let is_quarantined = head.state == RunState::Paused && head.stalls == MAX_STALLS + 1;
    if head.stalls > MAX_STALLS && !is_quarantined {
        found.push((BOUNDED_STALLS, format!("it lost {} leases in a row and goes on", head.stalls)));
    }
}

/// An operator may retry a child after its parent ended. The child is then on its own.
fn check_parent(snapshot: &Snapshot, found: &mut Found) {
    let head = &snapshot.log.head;
    let Some(parent) = &head.facts.parent else { return };
    let is_told = head.status().is_closed()
        || head.asked == PendingRequest::Cancel
        || parent.on_close == ClosePolicy::Abandon
        || snapshot.events.iter().any(|event| event.kind == EventKind::Retried);
    if !is_told && snapshot.parent.is_some_and(|status| status.is_closed()) {
        found.push((
            CHILDREN_ARE_TOLD,
            format!("its parent {} has ended, it knows nothing of it", parent.run),
        ));
    }
}

/// Source of the wake-up of a waiting step.
enum WakeSource {
    /// An arrival that is still to come.
    Arrival,
    /// An arrival that has come.
    Arrived,
    /// Only time, or another step.
    None,
}

fn check_waiting(snapshot: &Snapshot, wake_at: Option<Timestamp>, now: Timestamp, found: &mut Found) {
    let head = &snapshot.log.head;
    let is_to_end =
        head.asked == PendingRequest::Cancel || head.facts.deadline_at.is_some_and(|at| at <= now);
    let is_unsettled = |step: &StepRecord| match step.state.status() {
        StepStatus::InDoubt => true,
        // The step is tried again until the run knows whether to undo it.
        StepStatus::Pending => wake_at.is_some(),
        _ => false,
    };
    if is_to_end && snapshot.log.steps.iter().any(is_unsettled) {
        // The run is ending. It waits only until this is settled.
        return;
    }
    let mut is_moved = wake_at.is_some();
    for step in &snapshot.log.steps {
        match step.state.status() {
            // A probe or a ruling will wake it.
            StepStatus::InDoubt => is_moved = true,
            StepStatus::Waiting => match prospect(snapshot, step) {
                Ok(WakeSource::Arrival) => is_moved = true,
                Ok(WakeSource::Arrived) if wake_at.is_none_or(|at| at > now) => {
                    is_moved = true;
                    let what = format!("what step {} waits for has come, and the run sleeps on", step.id);
                    found.push((NO_LOST_WAKE_UP, what));
                }
                Ok(WakeSource::Arrived | WakeSource::None) => {}
                Err(what) => found.push((COMMITTED_TOGETHER, what)),
            },
            StepStatus::Pending
            | StepStatus::Running
            | StepStatus::Completed
            | StepStatus::Failed
            | StepStatus::Skipped
            | StepStatus::Cancelled => {}
        }
    }
    if !is_moved {
        found.push((NOT_STRANDED, "it waits, and nothing will wake it".into()));
    }
}

fn prospect(snapshot: &Snapshot, step: &StepRecord) -> Result<WakeSource, String> {
    let head = &snapshot.log.head;
    match step.kind {
        StepKind::Promise => {
            let id = PromiseId::for_step(head.id(), head.generation, &step.id);
            match snapshot.log.promises.iter().find(|promise| promise.id == id) {
                Some(promise) if promise.state == PromiseState::Pending => Ok(WakeSource::Arrival),
                Some(_) => Ok(WakeSource::Arrived),
                // The record does not name a standalone promise, and two steps may wait for the same one. So
                // it is only known whether one of the promises that the run waits for is still pending.
                None => {
                    let promises = snapshot.log.promises.iter();
                    let alone: Vec<&Promise> = promises.filter(|promise| promise.is_standalone()).collect();
                    let is_pending = |promise: &&Promise| promise.state == PromiseState::Pending;
                    match alone.iter().any(is_pending) {
                        true => Ok(WakeSource::Arrival),
                        false if alone.is_empty() => {
                            Err(format!("step {} waits for a promise that is not there", step.id))
                        }
                        false => Ok(WakeSource::Arrived),
                    }
                }
            }
        }
        StepKind::Child => match step.child.and_then(|child| snapshot.children.get(&child)) {
            Some(status) if status.is_closed() => Ok(WakeSource::Arrived),
            Some(_) => Ok(WakeSource::Arrival),
            None => Err(format!("step {} waits for a child that is not there", step.id)),
        },
        StepKind::Signal => Ok(WakeSource::Arrival),
        StepKind::Effect
        | StepKind::Claimed
        | StepKind::Transaction
        | StepKind::Undo
        | StepKind::Sleep
        | StepKind::Value
        | StepKind::Select
        | StepKind::AfterEffect => Ok(WakeSource::None),
    }
}
