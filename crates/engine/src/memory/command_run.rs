//! Operator commands.

use super::state::State;
use crate::model::{
    CommandResult, Refusal, RunCommand, RunHead, StepRecord, Subscribers, Timestamp, decide_command,
};
use crate::store::{CommandRun, RunCommandOutcome};

impl State {
    pub(super) fn command_run(&mut self, request: &CommandRun, now: Timestamp) -> RunCommandOutcome {
        let Some(row) = self.row_in(&request.workspace, request.run) else {
            return RunCommandOutcome::NoSuchRun;
        };
        let head = row.head.clone();
        if request.expected.is_some_and(|expected| expected != head.version) {
            return RunCommandOutcome::Refused(Refusal::Stale(head.version), head);
        }
        let steps: Vec<StepRecord> = match request.command {
            RunCommand::Retry { .. } => row.steps.values().cloned().collect(),
            RunCommand::Pause | RunCommand::Resume | RunCommand::Cancel { .. } => Vec::new(),
        };
        let steered = decide_command(&head, &request.command, &steps, now);
        match steered.and_then(|steered| self.take_back(&request.command, &head, now).map(|()| steered)) {
            Ok(steered) => {
                self.append_journal(request.note.clone());
                RunCommandOutcome::Accepted(self.carry_out(steered, &request.announce, now))
            }
            Err(refusal) => RunCommandOutcome::Refused(refusal, head),
        }
    }

    /// Takes the key and the subject again, which a retry needs.
    fn take_back(&mut self, command: &RunCommand, head: &RunHead, now: Timestamp) -> Result<(), Refusal> {
        let RunCommand::Retry { .. } = command else { return Ok(()) };
        if let Some(holder) = self.key_holder(&head.facts, now) {
            return Err(Refusal::KeyTaken(holder));
        }
        if let Some(holder) = self.subject_holder(&head.facts) {
            return Err(Refusal::SubjectBusy(holder));
        }
        self.give_key(&head.facts, now);
        Ok(())
    }

    pub(super) fn carry_out(
        &mut self,
        steered: CommandResult,
        announce: &Subscribers,
        now: Timestamp,
    ) -> RunHead {
        let (id, ended) = (steered.head.id(), steered.head.status().is_closed());
        let head = steered.head.clone();
        self.apply(steered);
        if ended {
            // The next claim finds the runs that this makes due. There are no workers here to notify.
            self.announce_ending(id, announce, now);
            self.follow_ending(id, announce, now);
        }
        head
    }

    /// Writes what a command changes in the run itself.
    pub(super) fn apply(&mut self, steered: CommandResult) {
        let CommandResult { head, event, result, rerun, notes } = steered;
        self.append_journal(notes);
        if let Some(row) = self.row_mut(head.id()) {
            for step in &rerun {
                row.steps.remove(step);
            }
            // An open run has no result. Only a command that ends the run sets one.
            row.result = result;
        }
        self.change(head, event);
    }
}
