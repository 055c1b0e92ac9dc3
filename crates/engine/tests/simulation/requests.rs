//! Acknowledged requests of people. Each one must take effect.

use std::collections::BTreeMap;

use hapax_engine::model::{
    CANCEL_TOO_LATE, EventKind, Generation, PendingRequest, RunEvent, RunHead, RunId, RunState, RunStatus,
    StepId, StepRecord, Version,
};
use hapax_engine::store::RunLog;

/// Requests that the store accepted.
#[derive(Default)]
pub struct Requests {
    /// Number of pause requests that took effect on each run.
    pauses: BTreeMap<RunId, u64>,
    /// Runs that people successfully resumed, with the number of pauses that had taken effect when they asked.
    resumed: BTreeMap<RunId, u64>,
    /// Acknowledged retries.
    retried: Vec<AcknowledgedRetry>,
}

/// A retry that was acknowledged.
struct AcknowledgedRetry {
    run: RunId,
    generation: Generation,
    /// Version that the retry wrote.
    version: Version,
    from: Option<StepId>,
}

impl Requests {
    /// Notes that a pause request took effect at the store.
    pub fn note_pause(&mut self, run: RunId) {
        *self.pauses.entry(run).or_default() += 1;
    }

    pub fn pauses(&self, run: RunId) -> u64 {
        self.pauses.get(&run).copied().unwrap_or(0)
    }

    /// Notes an acknowledged resume; when people asked, the run had been paused `pauses` times.
    pub fn note_resumed(&mut self, run: RunId, pauses: u64) {
        self.resumed.insert(run, pauses);
    }

    /// Checks a run after a write; describes an accepted request that got lost.
    pub fn look(&mut self, before: Option<&RunHead>, head: &RunHead, events: &[RunEvent]) -> Option<String> {
        let happened = |kind: EventKind| events.iter().any(|event| event.kind == kind);
        if happened(EventKind::Quarantined) {
            // The engine stopped it, not people.
            self.resumed.remove(&head.id());
        }
        if let Some(before) = before
            && !happened(EventKind::Retried)
        {
            match before.asked {
                PendingRequest::Cancel if head.status() == RunStatus::Completed => {
                    return Some("a cancellation was accepted, and the run completed".into());
                }
                PendingRequest::Cancel
                    if head.status() == RunStatus::Failed && !is_told_of_cancel(events) =>
                {
                    return Some(
                        "a cancellation was accepted, and the run failed without a word of it".into(),
                    );
                }
                PendingRequest::Cancel
                    if head.asked != PendingRequest::Cancel && !head.status().is_closed() =>
                {
                    return Some("a cancellation was accepted, and the run goes on".into());
                }
                PendingRequest::Pause
                    if head.asked == PendingRequest::Nothing
                        && head.state != RunState::Paused
                        && !head.status().is_closed()
                        && !happened(EventKind::Resumed)
                        && !happened(EventKind::Paused) =>
                {
                    return Some("a pause was accepted, and the run goes on".into());
                }
                PendingRequest::Nothing | PendingRequest::Pause | PendingRequest::Cancel => {}
            }
        }
        self.lost_resume(head)
    }

    /// Notes an acknowledged retry of a failed run.
    pub fn note_retried(&mut self, head: &RunHead, from: Option<&str>) {
        self.retried.push(AcknowledgedRetry {
            run: head.id(),
            generation: head.generation,
            version: head.version,
            from: from.map(StepId::from_stored),
        });
    }

    /// Describes an acknowledged retry that was not carried out. One that was carried out reopened the run, the run has
    /// been driven and has ended since, and the step to repeat has no record from before.
    pub fn lost_retry(&self, log: &RunLog, events: &[RunEvent]) -> Option<String> {
        let mine = self.retried.iter().filter(|retried| retried.run == log.head.id());
        for AcknowledgedRetry { generation, version, from, .. } in mine {
            let is_it = |event: &&RunEvent| event.version == *version && event.kind == EventKind::Retried;
            let Some(retried) = events.iter().find(is_it) else {
                return Some(format!("a retry was accepted at version {version}, and is not in the history"));
            };
            let since = |kinds: &[EventKind]| {
                events.iter().any(|event| event.version > retried.version && kinds.contains(&event.kind))
            };
            if !since(&[EventKind::Claimed, EventKind::TakenOver, EventKind::Cancelled]) {
                return Some(format!(
                    "a retry was accepted at version {version}, and nobody took the run up"
                ));
            }
            if !since(&[EventKind::Completed, EventKind::Failed, EventKind::Cancelled]) {
                return Some(format!(
                    "a retry was accepted at version {version}, and the run did not end since"
                ));
            }
            let stands = |step: &&StepRecord| {
                Some(&step.id) == from.as_ref()
                    && log.head.generation == *generation
                    && step.started_version < *version
            };
            if let Some(step) = log.steps.iter().find(stands) {
                return Some(format!("a retry from {} was accepted, and its old record stands", step.id));
            }
        }
        None
    }

    /// Describes a lost resume: the run is paused, or about to be, although people resumed it after the last pause.
    pub fn lost_resume(&self, head: &RunHead) -> Option<String> {
        let resumed_after = self.resumed.get(&head.id())?;
        let is_stopping = head.state == RunState::Paused || head.asked == PendingRequest::Pause;
        (is_stopping && self.pauses(head.id()) == *resumed_after)
            .then(|| "people were told that it goes on, and it is paused".into())
    }
}

/// Returns true if the history reports the outcome of a cancellation: it came too late, or the undoing that it
/// requested failed.
fn is_told_of_cancel(events: &[RunEvent]) -> bool {
    let is_told = |event: &RunEvent| {
        let note = event.note.as_deref().unwrap_or_default();
        note.contains(CANCEL_TOO_LATE) || note.contains("the run was cancelled")
    };
    events.iter().any(|event| event.kind == EventKind::Failed && is_told(event))
}
