//! Commands that operators give to a run.

use super::{
    Ending, EventKind, Failure, JournalEntry, PendingRequest, RepeatPermission, RunEvent, RunHead, RunId,
    RunResult, RunState, RunStatus, RunningState, StepId, StepRecord, Timestamp, Version, reopen,
};
use crate::limits::MAX_MESSAGE_CHARS;

/// A command on a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunCommand {
    /// Stops the run at the next step boundary.
    Pause,
    /// Continues a paused run.
    Resume,
    /// Undoes what can be undone, then ends the run.
    Cancel {
        /// The reason, for the history.
        reason: String,
    },
    /// Reopens a failed run.
    Retry {
        /// The first step to run again. Without it, only the steps that failed last run again.
        from: Option<StepId>,
        /// Permission to repeat effects that have happened, if any would be repeated.
        repeat: Option<Box<RepeatPermission>>,
    },
}

impl RunCommand {
    /// A retry that repeats no effect that has happened.
    pub fn retry(from: Option<StepId>) -> Self {
        RunCommand::Retry { from, repeat: None }
    }

    /// Name of the command in the audit log.
    pub const fn as_str(&self) -> &'static str {
        match self {
            RunCommand::Pause => "pause",
            RunCommand::Resume => "resume",
            RunCommand::Cancel { .. } => "cancel",
            RunCommand::Retry { .. } => "retry",
        }
    }

    /// The command that the end of a parent sends to a child with [`super::ClosePolicy::Cancel`]. All stores
    /// use this wording.
    pub fn parent_ended(parent: RunId) -> Self {
        RunCommand::Cancel { reason: format!("its parent {parent} ended") }
    }
}

/// Why a command was refused. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run has ended.
    #[error("the run has ended as {}", .0.as_str())]
    Ended(RunStatus),
    /// The same request is pending or done.
    #[error("this was asked before and is under way or done")]
    AlreadyRequested,
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
    /// The retry would run an effect that is in doubt.
    #[error(
        "step {0} may have happened, and a retry would run it again; rule on it while it is in doubt, or start a new run"
    )]
    InDoubt(StepId),
    /// The retry would repeat effects that have happened, and no permission names each of them.
    #[error(
        "a retry would run effects again that have happened: {}. Look at what a retry would do, then name each of them in a retry that a \
         manager allows",
        listed(.0)
    )]
    WouldRepeat(Vec<StepId>),
    /// The key of the run now names another run.
    #[error("its key was released and now names run {0}")]
    KeyTaken(RunId),
    /// Another run on the same subject is open.
    #[error("run {0} is open on the same subject")]
    SubjectBusy(RunId),
    /// The run has changed since the caller read it.
    #[error("the run is at version {0} now; look at it again and decide anew")]
    Stale(Version),
}

fn listed(steps: &[StepId]) -> String {
    let steps: Vec<&str> = steps.iter().map(StepId::as_str).collect();
    steps.join(", ")
}

/// Changes that a command makes.
#[derive(Debug, Clone)]
pub struct CommandResult {
    /// The run afterwards.
    pub head: RunHead,
    /// Event for the history.
    pub event: RunEvent,
    /// Result of the run, if the command ended it.
    pub result: Option<RunResult>,
    /// Step records to delete. These steps run again.
    pub rerun: Vec<StepId>,
    /// Journal entries that preserve the evidence about the effects of those steps.
    pub notes: Vec<JournalEntry>,
}

/// Decides on `command`. `steps` are the records of the run; only a retry reads them.
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
        RunState::Paused => Err(Refusal::AlreadyRequested),
        _ if head.asked != PendingRequest::Nothing => Err(Refusal::AlreadyRequested),
        RunState::Running(RunningState::Leased(_)) => {
            let mut steered = changed(head, EventKind::PauseRequested, None, now);
            steered.head.asked = PendingRequest::Pause;
            Ok(steered)
        }
        RunState::Pending { .. }
        | RunState::Waiting { .. }
        | RunState::Running(RunningState::Ready { .. }) => {
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
            steered.head.state = RunState::Running(RunningState::Ready { due_at: now });
            // The run gets a fresh allowance of stalls. The count stays at 1 if it was above 0, because the
            // next driver must know that a holder vanished and count the attempt it may have cut off.
            steered.head.stalls = head.stalls.min(1);
            // A run that was quarantined while a pause was pending still has that request. It must not pause
            // again.
            if head.asked == PendingRequest::Pause {
                steered.head.asked = PendingRequest::Nothing;
            }
            Ok(steered)
        }
        RunState::Closed { .. } => Err(Refusal::Ended(head.status())),
        // The pause has not taken effect yet. Without this write the run would pause after it was resumed.
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
        _ if head.asked == PendingRequest::Cancel => Err(Refusal::AlreadyRequested),
        // Nothing has run, so there is nothing to undo.
        RunState::Pending { .. } | RunState::Paused if head.started_at.is_none() => {
            let mut steered = changed(head, EventKind::Cancelled, Some(reason.clone()), now);
            steered.head.state = RunState::Closed { at: now, ending: Ending::Cancelled };
            steered.result = Some(RunResult::Cancelled(Failure::permanent(reason).with_code("cancelled")));
            Ok(steered)
        }
        RunState::Running(RunningState::Leased(_)) => {
            let mut steered = changed(head, EventKind::CancelRequested, Some(reason), now);
            steered.head.asked = PendingRequest::Cancel;
            Ok(steered)
        }
        RunState::Pending { .. }
        | RunState::Waiting { .. }
        | RunState::Paused
        | RunState::Running(RunningState::Ready { .. }) => {
            let mut steered = changed(head, EventKind::CancelRequested, Some(reason), now);
            steered.head.asked = PendingRequest::Cancel;
            steered.head.state = RunState::Running(RunningState::Ready { due_at: now });
            // With its old count, a quarantined run would be quarantined again by the claim that should undo
            // it. The count stays at 1 for the same reason as in `resume`.
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
        assert_eq!(woken.state, RunState::Running(RunningState::Ready { due_at: NOW }));
    }

    #[test]
    fn a_run_in_quarantine_can_be_cancelled() {
        let aside = RunHead { state: RunState::Paused, stalls: MAX_STALLS + 1, ..leased() };
        let asked = steer(&aside, cancel_it()).unwrap().head;
        let claim = decide_claim(&asked, owner(2), Duration::from_secs(30), NOW, false);
        assert!(matches!(claim, ClaimDecision::Granted(..)), "{claim:?}");
    }

    /// Invariant 45: cancelling a run that has ended changes nothing and says so.
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
        assert_eq!(steer(&paused, RunCommand::Pause).unwrap_err(), Refusal::AlreadyRequested);
        assert_eq!(steer(&paused, RunCommand::Resume).unwrap().head.state.wake_at(), Some(NOW));
        assert_eq!(steer(&head(), RunCommand::Resume).unwrap_err(), Refusal::NotPaused(RunStatus::Pending));
    }

    /// A resume that was acknowledged must not be followed by the pause it cancelled.
    #[test]
    fn a_resume_of_a_quarantined_run_withdraws_the_pause_that_it_never_carried_out() {
        let asked = steer(&leased(), RunCommand::Pause).unwrap().head;
        let quarantined = RunHead { state: RunState::Paused, ..asked };
        let resumed = steer(&quarantined, RunCommand::Resume).unwrap().head;
        assert_eq!((resumed.asked, resumed.state.wake_at()), (PendingRequest::Nothing, Some(NOW)));
        let cancelled = RunHead { asked: PendingRequest::Cancel, ..quarantined };
        let resumed = steer(&cancelled, RunCommand::Resume).unwrap().head;
        assert_eq!(resumed.asked, PendingRequest::Cancel, "a cancellation is not taken back");
    }

    #[test]
    fn a_resume_withdraws_a_pause_that_is_still_pending() {
        let asked = steer(&leased(), RunCommand::Pause).unwrap().head;
        assert_eq!(asked.asked, PendingRequest::Pause);
        let resumed = steer(&asked, RunCommand::Resume).unwrap();
        assert_eq!((resumed.head.asked, resumed.event.kind), (PendingRequest::Nothing, EventKind::Resumed));
        assert_eq!(resumed.head.state, asked.state, "the holder keeps its lease");
        assert_eq!(resumed.head.version, asked.version.next());
        // A shielded run may park while the request is still pending.
        let parked = RunHead { state: RunState::Waiting { wake_at: None }, ..asked.clone() };
        let resumed = steer(&parked, RunCommand::Resume).unwrap().head;
        assert_eq!((resumed.asked, resumed.state), (PendingRequest::Nothing, parked.state));
        let cancelled = steer(&asked, cancel_it()).unwrap().head;
        let refused = steer(&cancelled, RunCommand::Resume).unwrap_err();
        assert_eq!(refused, Refusal::NotPaused(RunStatus::Running), "a cancellation is not taken back");
    }
}
