//! What people may do to a run from outside.

use super::{
    Drive, Ending, EventKind, Failure, JournalEntry, PendingRequest, Repeat, RunEvent, RunHead, RunId,
    RunResult, RunState, RunStatus, StepId, StepRecord, Timestamp, Version, reopen,
};
use crate::limits::MAX_MESSAGE_CHARS;

/// A person's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCommand {
    /// Stop at the next boundary.
    Pause,
    /// Go on.
    Resume,
    /// Undo what can be undone, and end.
    Cancel {
        /// Why, for the history.
        reason: String,
    },
    /// Reopen a failed run.
    Retry {
        /// Run again from this step on; without it, only what failed last runs again.
        from: Option<StepId>,
        /// Permission to run effects again that have happened, where there are any.
        repeat: Option<Box<Repeat>>,
    },
}

impl RunCommand {
    /// A retry that runs nothing again that has happened.
    pub fn retry(from: Option<StepId>) -> Self {
        RunCommand::Retry { from, repeat: None }
    }

    /// The command as the audit log spells it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            RunCommand::Pause => "pause",
            RunCommand::Resume => "resume",
            RunCommand::Cancel { .. } => "cancel",
            RunCommand::Retry { .. } => "retry",
        }
    }

    /// What the end of a parent says to a child that asks for it; one wording for all stores.
    pub fn parent_ended(parent: RunId) -> Self {
        RunCommand::Cancel { reason: format!("its parent {parent} ended") }
    }
}

/// Why a command was refused; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run has ended.
    #[error("the run has ended as {}", .0.as_str())]
    Ended(RunStatus),
    /// It is so already.
    #[error("this was asked before and is under way or done")]
    AlreadyAsked,
    /// Only a paused run can be resumed.
    #[error("the run is {}, not PAUSED", .0.as_str())]
    NotPaused(RunStatus),
    /// Only a failed run can be retried.
    #[error("the run is {}, not FAILED; only a failed run can be retried", .0.as_str())]
    NotFailed(RunStatus),
    /// The named step has no record.
    #[error("the run has no step {0}; its history lists the steps it has")]
    NoSuchStep(StepId),
    /// Compensations have run, so the recorded outcomes no longer hold.
    #[error(
        "effects of this run were undone, so it cannot go on. Start a new run under a new key, or release the key of this one first \
         (`hapax keys release run <key> --reason <why>`) and start it again under the same key"
    )]
    Undone,
    /// An effect that is to run again is in doubt.
    #[error(
        "step {0} may have happened, and a retry would run it again; rule on it while it is in doubt, or start a new run"
    )]
    InDoubt(StepId),
    /// Effects that have happened would run again, and nobody has allowed that for each of them.
    #[error(
        "a retry would run effects again that have happened: {}. Look at what a retry would do, then name each of them in a retry that a \
         manager allows",
        listed(.0)
    )]
    WouldRepeat(Vec<StepId>),
    /// Another run has taken its key meanwhile.
    #[error("its key was released and now names run {0}")]
    KeyTaken(RunId),
    /// Another run on the same subject is open.
    #[error("run {0} is open on the same subject")]
    SubjectBusy(RunId),
    /// The run moved on since the caller looked.
    #[error("the run is at version {0} now; look at it again and decide anew")]
    Stale(Version),
}

fn listed(steps: &[StepId]) -> String {
    let steps: Vec<&str> = steps.iter().map(StepId::as_str).collect();
    steps.join(", ")
}

/// The change a command makes.
#[derive(Debug, Clone)]
pub struct CommandResult {
    /// The run after it.
    pub head: RunHead,
    /// Its entry in the history.
    pub event: RunEvent,
    /// What the run ended with, if the command ended it.
    pub result: Option<RunResult>,
    /// Step records that no longer stand: they run again.
    pub rerun: Vec<StepId>,
    /// What was known of the effects among them, for the journal.
    pub notes: Vec<JournalEntry>,
}

/// Decides on `command`; `steps` are the records of the run (only a retry looks at them).
pub fn decide_command(
    head: &RunHead,
    command: &RunCommand,
    steps: &[StepRecord],
    now: Timestamp,
) -> Result<CommandResult, Refusal> {
    match command {
        RunCommand::Pause => pause(head, now),
        RunCommand::Resume => resume(head, now),
        RunCommand::Cancel { reason } => cancel(head, reason, now),
        RunCommand::Retry { from, repeat } => reopen(head, from.as_ref(), repeat.as_deref(), steps, now),
    }
}

fn pause(head: &RunHead, now: Timestamp) -> Result<CommandResult, Refusal> {
    match head.state {
        RunState::Closed { .. } => Err(Refusal::Ended(head.status())),
        RunState::Paused => Err(Refusal::AlreadyAsked),
        _ if head.asked != PendingRequest::Nothing => Err(Refusal::AlreadyAsked),
        RunState::Running(Drive::Leased(_)) => {
            let mut steered = changed(head, EventKind::PauseAsked, None, now);
            steered.head.asked = PendingRequest::Pause;
            Ok(steered)
        }
        RunState::Pending { .. } | RunState::Waiting { .. } | RunState::Running(Drive::Ready { .. }) => {
            let mut steered = changed(head, EventKind::Paused, None, now);
            steered.head.state = RunState::Paused;
            Ok(steered)
        }
    }
}

fn resume(head: &RunHead, now: Timestamp) -> Result<CommandResult, Refusal> {
    match head.state {
        RunState::Paused => {
            let mut steered = changed(head, EventKind::Resumed, None, now);
            steered.head.state = RunState::Running(Drive::Ready { due_at: now });
            // It may stall as often again. That its holder vanished stays known, so that the attempt it may have cut off is counted.
            steered.head.stalls = head.stalls.min(1);
            Ok(steered)
        }
        RunState::Closed { .. } => Err(Refusal::Ended(head.status())),
        // The pause has not been carried out yet. Without this write the run would pause after it was told to go on.
        RunState::Running(_) | RunState::Waiting { .. } if head.asked == PendingRequest::Pause => {
            let mut steered = changed(head, EventKind::Resumed, None, now);
            steered.head.asked = PendingRequest::Nothing;
            Ok(steered)
        }
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } => {
            Err(Refusal::NotPaused(head.status()))
        }
    }
}

fn cancel(head: &RunHead, reason: &str, now: Timestamp) -> Result<CommandResult, Refusal> {
    let reason: String = reason.chars().filter(|c| *c != '\0').take(MAX_MESSAGE_CHARS).collect();
    match head.state {
        RunState::Closed { .. } => Err(Refusal::Ended(head.status())),
        _ if head.asked == PendingRequest::Cancel => Err(Refusal::AlreadyAsked),
        // Nothing has run, so there is nothing to undo.
        RunState::Pending { .. } | RunState::Paused if head.started_at.is_none() => {
            let mut steered = changed(head, EventKind::Cancelled, Some(reason.clone()), now);
            steered.head.state = RunState::Closed { at: now, ending: Ending::Cancelled };
            steered.result = Some(RunResult::Cancelled(Failure::permanent(reason).with_code("cancelled")));
            Ok(steered)
        }
        RunState::Running(Drive::Leased(_)) => {
            let mut steered = changed(head, EventKind::CancelAsked, Some(reason), now);
            steered.head.asked = PendingRequest::Cancel;
            Ok(steered)
        }
        RunState::Pending { .. }
        | RunState::Waiting { .. }
        | RunState::Paused
        | RunState::Running(Drive::Ready { .. }) => {
            let mut steered = changed(head, EventKind::CancelAsked, Some(reason), now);
            steered.head.asked = PendingRequest::Cancel;
            steered.head.state = RunState::Running(Drive::Ready { due_at: now });
            // A run that was put aside would be put aside again by the very claim that is to undo it. That its holder vanished stays known.
            steered.head.stalls = head.stalls.min(1);
            Ok(steered)
        }
    }
}

pub(super) fn changed(
    head: &RunHead,
    kind: EventKind,
    note: Option<String>,
    now: Timestamp,
) -> CommandResult {
    let mut next = head.clone();
    next.version = head.version.next();
    next.changed_at = now;
    let event = RunEvent { version: next.version, at: now, fence: head.fence, kind, note };
    CommandResult { head: next, event, result: None, rerun: Vec::new(), notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::limits::MAX_STALLS;
    use crate::model::tests::{closed, head, leased, owner};
    use crate::model::{ClaimDecision, decide_claim};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn steer(head: &RunHead, command: RunCommand) -> Result<CommandResult, Refusal> {
        decide_command(head, &command, &[], NOW)
    }

    fn cancel_it() -> RunCommand {
        RunCommand::Cancel { reason: "customer left".into() }
    }

    #[test]
    fn a_run_that_never_ran_is_cancelled_at_once() {
        let steered = steer(&head(), cancel_it()).unwrap();
        assert_eq!(steered.head.status(), RunStatus::Cancelled);
        assert!(steered.result.is_some());
    }

    #[test]
    fn a_driven_run_is_asked_and_a_parked_one_is_woken_to_undo() {
        let asked = steer(&leased(), cancel_it()).unwrap().head;
        assert_eq!((asked.status(), asked.asked), (RunStatus::Running, PendingRequest::Cancel));
        assert_eq!(asked.state, leased().state, "the holder keeps its lease");
        let waiting = RunHead { state: RunState::Waiting { wake_at: None }, ..leased() };
        let woken = steer(&waiting, cancel_it()).unwrap().head;
        assert_eq!(woken.state, RunState::Running(Drive::Ready { due_at: NOW }));
    }

    #[test]
    fn a_run_that_was_put_aside_can_be_cancelled() {
        let aside = RunHead { state: RunState::Paused, stalls: MAX_STALLS + 1, ..leased() };
        let asked = steer(&aside, cancel_it()).unwrap().head;
        let claim = decide_claim(&asked, owner(2), Duration::from_secs(30), NOW, false);
        assert!(matches!(claim, ClaimDecision::Granted(..)), "{claim:?}");
    }

    /// Invariant 45: cancelling what has ended changes nothing and says so.
    #[test]
    fn an_ended_run_is_not_changed() {
        for ending in [Ending::Completed, Ending::Failed, Ending::Cancelled] {
            let run = closed(ending);
            assert_eq!(steer(&run, cancel_it()).unwrap_err(), Refusal::Ended(run.status()));
            assert_eq!(steer(&run, RunCommand::Pause).unwrap_err(), Refusal::Ended(run.status()));
            assert_eq!(steer(&run, RunCommand::Resume).unwrap_err(), Refusal::Ended(run.status()));
        }
        assert!(steer(&closed(Ending::Completed), RunCommand::retry(None)).is_err());
    }

    #[test]
    fn pause_and_resume_are_a_pair() {
        let paused = steer(&head(), RunCommand::Pause).unwrap().head;
        assert_eq!(paused.state, RunState::Paused);
        assert_eq!(steer(&paused, RunCommand::Pause).unwrap_err(), Refusal::AlreadyAsked);
        assert_eq!(steer(&paused, RunCommand::Resume).unwrap().head.state.wake_at(), Some(NOW));
        assert_eq!(steer(&head(), RunCommand::Resume).unwrap_err(), Refusal::NotPaused(RunStatus::Pending));
    }

    /// An acknowledged resume must not be followed by the pause it took back.
    #[test]
    fn a_resume_withdraws_a_pause_that_is_still_pending() {
        let asked = steer(&leased(), RunCommand::Pause).unwrap().head;
        assert_eq!(asked.asked, PendingRequest::Pause);
        let resumed = steer(&asked, RunCommand::Resume).unwrap();
        assert_eq!((resumed.head.asked, resumed.event.kind), (PendingRequest::Nothing, EventKind::Resumed));
        assert_eq!(resumed.head.state, asked.state, "the holder keeps its lease");
        assert_eq!(resumed.head.version, asked.version.next());
        // A shielded run may park with the request still pending.
        let parked = RunHead { state: RunState::Waiting { wake_at: None }, ..asked.clone() };
        let resumed = steer(&parked, RunCommand::Resume).unwrap().head;
        assert_eq!((resumed.asked, resumed.state), (PendingRequest::Nothing, parked.state));
        let cancelled = steer(&asked, cancel_it()).unwrap().head;
        let refused = steer(&cancelled, RunCommand::Resume).unwrap_err();
        assert_eq!(refused, Refusal::NotPaused(RunStatus::Running), "a cancellation is not taken back");
    }
}
