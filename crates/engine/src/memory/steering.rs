//! Commands of people.

use super::state::State;
use crate::model::{Refusal, RunHead, Steer, Steered, StepRecord, Subscribers, Timestamp, decide_steer};
use crate::store::{SteerOutcome, SteerRun};

impl State {
    pub(super) fn steer_run(&mut self, request: &SteerRun, now: Timestamp) -> SteerOutcome {
        let Some(row) = self.row_in(&request.workspace, request.run) else {
            return SteerOutcome::NoSuchRun;
        };
        let head = row.head.clone();
        if request.expected.is_some_and(|expected| expected != head.version) {
            return SteerOutcome::Refused(Refusal::Stale(head.version), head);
        }
        let steps: Vec<StepRecord> = match request.command {
            Steer::Retry { .. } => row.steps.values().cloned().collect(),
            Steer::Pause | Steer::Resume | Steer::Cancel { .. } => Vec::new(),
        };
        let steered = decide_steer(&head, &request.command, &steps, now);
        match steered.and_then(|steered| self.take_back(&request.command, &head, now).map(|()| steered)) {
            Ok(steered) => {
                self.append_notes(request.note.clone());
                SteerOutcome::Steered(self.carry_out(steered, &request.announce, now))
            }
            Err(refusal) => SteerOutcome::Refused(refusal, head),
        }
    }

    /// A retry needs its key and its subject again.
    fn take_back(&mut self, command: &Steer, head: &RunHead, now: Timestamp) -> Result<(), Refusal> {
        let Steer::Retry { .. } = command else { return Ok(()) };
        if let Some(holder) = self.key_holder(&head.facts, now) {
            return Err(Refusal::KeyTaken(holder));
        }
        if let Some(holder) = self.subject_holder(&head.facts) {
            return Err(Refusal::SubjectBusy(holder));
        }
        self.give_key(&head.facts, now);
        Ok(())
    }

    pub(super) fn carry_out(&mut self, steered: Steered, announce: &Subscribers, now: Timestamp) -> RunHead {
        let (id, ended) = (steered.head.id(), steered.head.status().is_closed());
        let head = steered.head.clone();
        self.apply(steered);
        if ended {
            // The runs that this makes due are found by the next claim; nobody here has workers to tell.
            self.announce_ending(id, announce, now);
            self.follow_ending(id, announce, now);
        }
        head
    }

    /// Writes what a command changes in the run itself.
    pub(super) fn apply(&mut self, steered: Steered) {
        let Steered { head, event, result, rerun, notes } = steered;
        self.append_notes(notes);
        if let Some(row) = self.row_mut(head.id()) {
            for step in &rerun {
                row.steps.remove(step);
            }
            // An open run has no result: only the command that ends it brings one.
            row.result = result;
        }
        self.change(head, event);
    }
}
