//! What people asked of runs and were told had been accepted: it takes effect, or something is broken.

use std::collections::BTreeMap;

use hapax_engine::model::{Asked, EventKind, RunEvent, RunHead, RunId, RunState, RunStatus};

/// Requests that the store accepted.
#[derive(Default)]
pub struct Requests {
    /// How many requests to pause took effect on each run.
    pauses: BTreeMap<RunId, u64>,
    /// For each run that people were told goes on: how many of them had taken effect when they asked.
    resumed: BTreeMap<RunId, u64>,
}

impl Requests {
    /// A request to pause took effect at the store.
    pub fn note_pause(&mut self, run: RunId) {
        *self.pauses.entry(run).or_default() += 1;
    }

    pub fn pauses(&self, run: RunId) -> u64 {
        self.pauses.get(&run).copied().unwrap_or(0)
    }

    /// People were told that the run goes on; when they asked, it had been paused `pauses` times.
    pub fn note_resumed(&mut self, run: RunId, pauses: u64) {
        self.resumed.insert(run, pauses);
    }

    /// Looks at a run after a write; what was accepted and got lost, in words.
    pub fn look(&mut self, before: Option<&RunHead>, head: &RunHead, events: &[RunEvent]) -> Option<String> {
        let happened = |kind: EventKind| events.iter().any(|event| event.kind == kind);
        if happened(EventKind::Quarantined) {
            // It is stopped by the engine, not by people.
            self.resumed.remove(&head.id());
        }
        if let Some(before) = before
            && !happened(EventKind::Retried)
        {
            match before.asked {
                Asked::Cancel if head.status() == RunStatus::Completed => {
                    return Some("a cancellation was accepted, and the run completed".into());
                }
                Asked::Cancel if head.asked != Asked::Cancel && !head.status().is_closed() => {
                    return Some("a cancellation was accepted, and the run goes on".into());
                }
                Asked::Pause
                    if head.asked == Asked::Nothing
                        && head.state != RunState::Paused
                        && !head.status().is_closed()
                        && !happened(EventKind::Resumed)
                        && !happened(EventKind::Paused) =>
                {
                    return Some("a pause was accepted, and the run goes on".into());
                }
                Asked::Nothing | Asked::Pause | Asked::Cancel => {}
            }
        }
        self.lost_resume(head)
    }

    /// Does the run stand still, or is it about to, though people let it go on after the last pause?
    pub fn lost_resume(&self, head: &RunHead) -> Option<String> {
        let resumed_after = self.resumed.get(&head.id())?;
        let is_stopping = head.state == RunState::Paused || head.asked == Asked::Pause;
        (is_stopping && self.pauses(head.id()) == *resumed_after)
            .then(|| "people were told that it goes on, and it is paused".into())
    }
}
