//! The lifecycle of a step as a table.

use super::StepStatus::{self, Cancelled, Completed, Failed, InDoubt, Pending, Running, Skipped, Waiting};

/// A transition of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepTransition {
    /// An attempt begins.
    Begin,
    /// It begins to wait for something outside.
    Await,
    /// The attempt failed, and another will follow.
    ScheduleRetry,
    /// It is done.
    Complete,
    /// It failed for good.
    Fail,
    /// It is skipped.
    Skip,
    /// It is cancelled. An attempt that was running may have happened.
    Cancel,
    /// It is cancelled after its attempt was recorded but before its code was entered.
    Withdraw,
    /// The outcome of a claimed effect was lost.
    Doubt,
    /// A probe or a ruling says that the effect happened.
    Happened,
    /// A probe or a ruling says that the effect did not happen. It may run.
    DidNotHappen,
    /// A ruling gives it up.
    Abandon,
}

/// Every legal transition: source (`None` if there is no record yet), transition, target.
pub const STEP_TRANSITIONS: &[(Option<StepStatus>, StepTransition, StepStatus)] = &[
    (None, StepTransition::Begin, Running),
    (None, StepTransition::Await, Waiting),
    (None, StepTransition::Skip, Skipped),
    (Some(Pending), StepTransition::Begin, Running),
    (Some(Pending), StepTransition::Cancel, Cancelled),
    (Some(Running), StepTransition::Begin, Running),
    (Some(Running), StepTransition::ScheduleRetry, Pending),
    (Some(Running), StepTransition::Complete, Completed),
    (Some(Running), StepTransition::Fail, Failed),
    (Some(Running), StepTransition::Cancel, Cancelled),
    (Some(Running), StepTransition::Withdraw, Cancelled),
    (Some(Running), StepTransition::Doubt, InDoubt),
    (Some(Waiting), StepTransition::Complete, Completed),
    (Some(Waiting), StepTransition::Fail, Failed),
    (Some(Waiting), StepTransition::Cancel, Cancelled),
    (Some(InDoubt), StepTransition::Begin, Running),
    (Some(InDoubt), StepTransition::Doubt, InDoubt),
    (Some(InDoubt), StepTransition::Happened, Completed),
    (Some(InDoubt), StepTransition::DidNotHappen, Pending),
    (Some(InDoubt), StepTransition::Abandon, Failed),
];

impl StepTransition {
    /// Target of this transition from `from`. `None` if the table does not have it.
    pub fn target(self, from: Option<StepStatus>) -> Option<StepStatus> {
        STEP_TRANSITIONS.iter().find(|(f, by, _)| *f == from && *by == self).map(|(_, _, to)| *to)
    }

    /// Returns true if it shows the outcome of the attempt itself. A probe or a ruling may speak about an attempt of
    /// another holder.
    pub const fn is_of_attempt(self) -> bool {
        match self {
            StepTransition::Complete | StepTransition::Fail | StepTransition::ScheduleRetry => true,
            StepTransition::Begin
            | StepTransition::Await
            | StepTransition::Skip
            | StepTransition::Cancel
            | StepTransition::Withdraw
            | StepTransition::Doubt
            | StepTransition::Happened
            | StepTransition::DidNotHappen
            | StepTransition::Abandon => false,
        }
    }

    /// Label in diagrams.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepTransition::Begin => "begin",
            StepTransition::Await => "await",
            StepTransition::ScheduleRetry => "schedule retry",
            StepTransition::Complete => "complete",
            StepTransition::Fail => "fail",
            StepTransition::Skip => "skip",
            StepTransition::Cancel => "cancel",
            StepTransition::Withdraw => "withdraw",
            StepTransition::Doubt => "doubt",
            StepTransition::Happened => "happened",
            StepTransition::DidNotHappen => "did not happen",
            StepTransition::Abandon => "abandon",
        }
    }
}

/// The table as a Mermaid state diagram, shown in ARCHITECTURE.md.
pub fn draw_step_lifecycle() -> String {
    let mut diagram = String::from("stateDiagram-v2\n");
    for (from, by, to) in STEP_TRANSITIONS {
        let from = from.map_or("[*]", StepStatus::as_str);
        diagram.push_str(&format!("    {from} --> {}: {}\n", to.as_str(), by.as_str()));
    }
    for status in StepStatus::ALL.into_iter().filter(|status| status.is_final()) {
        diagram.push_str(&format!("    {} --> [*]\n", status.as_str()));
    }
    diagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0.40, invariant 31: a final record is never changed.
    #[test]
    fn a_final_record_has_no_way_out() {
        for (from, by, _) in STEP_TRANSITIONS {
            assert!(!from.is_some_and(StepStatus::is_final), "{from:?} can be left by {by:?}");
        }
    }

    #[test]
    fn every_status_can_be_reached_and_left() {
        for status in StepStatus::ALL {
            assert!(STEP_TRANSITIONS.iter().any(|(_, _, to)| *to == status), "{status:?} is never reached");
            let left = STEP_TRANSITIONS.iter().any(|(from, _, to)| *from == Some(status) && *to != status);
            assert!(left || status.is_final(), "{status:?} is a trap");
        }
    }
}
