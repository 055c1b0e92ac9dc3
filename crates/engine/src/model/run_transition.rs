//! The lifecycle of a run as a table. Transitions that are not in the table cannot happen.

use super::RunStatus::{self, Cancelled, Completed, Failed, Paused, Pending, Running, Waiting};

/// A transition of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunTransition {
    /// It is accepted.
    Start,
    /// It is accepted and granted to the process that accepted it, in one write.
    StartLeased,
    /// A worker takes its lease.
    Claim,
    /// A step starts, waits, fails an attempt or finishes.
    Step,
    /// It parks until an arrival or a timer.
    Wait,
    /// The holder releases the lease, so that another worker can continue.
    Release,
    /// It pauses on request.
    Pause,
    /// It is resumed, or a pending pause is withdrawn.
    Resume,
    /// A cancellation is requested.
    RequestCancel,
    /// A pause at the next step boundary is requested.
    RequestPause,
    /// It lost its worker too often without progress and is quarantined.
    Quarantine,
    /// It starts again with a new input and an empty history.
    ContinueAsNew,
    /// It completes with an output.
    Complete,
    /// It fails.
    Fail,
    /// It ends by cancellation.
    Cancel,
    /// A failed run is reopened.
    Retry,
}

/// Every legal transition: source (`None` if the run does not exist yet), transition, target.
pub const RUN_TRANSITIONS: &[(Option<RunStatus>, RunTransition, RunStatus)] = &[
    (None, RunTransition::Start, Pending),
    (None, RunTransition::StartLeased, Running),
    (Some(Pending), RunTransition::Claim, Running),
    (Some(Pending), RunTransition::Pause, Paused),
    (Some(Pending), RunTransition::Cancel, Cancelled),
    (Some(Running), RunTransition::Claim, Running),
    (Some(Running), RunTransition::Step, Running),
    (Some(Running), RunTransition::Release, Running),
    (Some(Running), RunTransition::RequestPause, Running),
    (Some(Running), RunTransition::Resume, Running),
    (Some(Running), RunTransition::RequestCancel, Running),
    (Some(Running), RunTransition::ContinueAsNew, Running),
    (Some(Running), RunTransition::Wait, Waiting),
    (Some(Running), RunTransition::Pause, Paused),
    (Some(Running), RunTransition::Quarantine, Paused),
    (Some(Running), RunTransition::Complete, Completed),
    (Some(Running), RunTransition::Fail, Failed),
    (Some(Running), RunTransition::Cancel, Cancelled),
    (Some(Waiting), RunTransition::Claim, Running),
    (Some(Waiting), RunTransition::Pause, Paused),
    (Some(Waiting), RunTransition::Resume, Waiting),
    (Some(Waiting), RunTransition::RequestCancel, Running),
    (Some(Paused), RunTransition::Resume, Running),
    (Some(Paused), RunTransition::RequestCancel, Running),
    (Some(Paused), RunTransition::Cancel, Cancelled),
    (Some(Failed), RunTransition::Retry, Running),
];

impl RunTransition {
    /// Target of this transition from `from`. `None` if the table does not have it.
    pub fn target(self, from: Option<RunStatus>) -> Option<RunStatus> {
        RUN_TRANSITIONS.iter().find(|(f, by, _)| *f == from && *by == self).map(|(_, _, to)| *to)
    }

    /// Label in diagrams.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunTransition::Start => "start",
            RunTransition::StartLeased => "start leased",
            RunTransition::Claim => "claim",
            RunTransition::Step => "step",
            RunTransition::Wait => "wait",
            RunTransition::Release => "release",
            RunTransition::Pause => "pause",
            RunTransition::Resume => "resume",
            RunTransition::RequestCancel => "ask to cancel",
            RunTransition::RequestPause => "ask to pause",
            RunTransition::Quarantine => "quarantine",
            RunTransition::ContinueAsNew => "continue as new",
            RunTransition::Complete => "complete",
            RunTransition::Fail => "fail",
            RunTransition::Cancel => "cancel",
            RunTransition::Retry => "retry",
        }
    }
}

/// The table as a Mermaid state diagram, shown in ARCHITECTURE.md.
pub fn draw_run_lifecycle() -> String {
    let mut diagram = String::from("stateDiagram-v2\n");
    for (from, by, to) in RUN_TRANSITIONS {
        let from = from.map_or("[*]", RunStatus::as_str);
        diagram.push_str(&format!("    {from} --> {}: {}\n", to.as_str(), by.as_str()));
    }
    for status in RunStatus::ALL.into_iter().filter(|status| status.is_closed()) {
        diagram.push_str(&format!("    {} --> [*]\n", status.as_str()));
    }
    diagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Invariant 25: a terminal state never changes, except by the explicit retry of a failed run.
    #[test]
    fn only_a_failed_run_can_be_reopened() {
        for (from, by, _) in RUN_TRANSITIONS {
            if let Some(status) = from.filter(|status| status.is_closed()) {
                assert_eq!((status, *by), (Failed, RunTransition::Retry));
            }
        }
    }

    #[test]
    fn every_status_can_be_reached_and_left() {
        for status in RunStatus::ALL {
            assert!(RUN_TRANSITIONS.iter().any(|(_, _, to)| *to == status), "{status:?} is never reached");
            let left = RUN_TRANSITIONS.iter().any(|(from, _, to)| *from == Some(status) && *to != status);
            assert!(left || status.is_closed(), "{status:?} is a trap");
        }
    }

    #[test]
    fn no_change_is_listed_twice() {
        for (i, (from, by, _)) in RUN_TRANSITIONS.iter().enumerate() {
            assert!(!RUN_TRANSITIONS[..i].iter().any(|(f, b, _)| f == from && b == by), "{from:?} {by:?}");
        }
    }
}
