//! One step of a run and its record.

use super::{Failure, Fence, Payload, RunId, StepId, Timestamp, Version};

/// What a step does; a replay that meets another kind under the same id is a determinism violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// Runs user code with an effect.
    Effect,
    /// Runs user code with an effect that is claimed before it begins.
    Claimed,
    /// Runs user code that commits together with the record.
    Transaction,
    /// Undoes an earlier effect.
    Undo,
    /// Waits for a span of time.
    Sleep,
    /// Waits for a promise.
    Promise,
    /// Waits for a signal.
    Signal,
    /// Waits for a child run.
    Child,
    /// Remembers a value: the time, a random number.
    Value,
    /// Remembers which of several branches came first.
    Select,
    /// Leaves an after-effect to be delivered.
    AfterEffect,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [StepKind; 11] = [
        StepKind::Effect,
        StepKind::Claimed,
        StepKind::Transaction,
        StepKind::Undo,
        StepKind::Sleep,
        StepKind::Promise,
        StepKind::Signal,
        StepKind::Child,
        StepKind::Value,
        StepKind::Select,
        StepKind::AfterEffect,
    ];

    /// The kind as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepKind::Effect => "effect",
            StepKind::Claimed => "claimed",
            StepKind::Transaction => "transaction",
            StepKind::Undo => "undo",
            StepKind::Sleep => "sleep",
            StepKind::Promise => "promise",
            StepKind::Signal => "signal",
            StepKind::Child => "child",
            StepKind::Value => "value",
            StepKind::Select => "select",
            StepKind::AfterEffect => "after_effect",
        }
    }

    /// May code that asks for this kind be given the outcome of a step of the `recorded` kind? How an effect is kept from
    /// happening twice may change from one version of the code to the next; once it has happened that no longer matters.
    pub fn takes_outcome_of(self, recorded: StepKind) -> bool {
        let is_forward = |kind| matches!(kind, StepKind::Effect | StepKind::Claimed | StepKind::Transaction);
        self == recorded || (is_forward(self) && is_forward(recorded))
    }

    /// The kind spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        StepKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The bare name of a step's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepStatus {
    /// Waiting for its next attempt.
    Pending,
    /// Marked as started.
    Running,
    /// Waiting for a timer, a promise, a signal or a child.
    Waiting,
    /// Done, with an output.
    Completed,
    /// Failed for good.
    Failed,
    /// Passed over.
    Skipped,
    /// Given up, because its run ended or another branch came first.
    Cancelled,
    /// Its effect may or may not have happened; people or a probe must say.
    InDoubt,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [StepStatus; 8] = [
        StepStatus::Pending,
        StepStatus::Running,
        StepStatus::Waiting,
        StepStatus::Completed,
        StepStatus::Failed,
        StepStatus::Skipped,
        StepStatus::Cancelled,
        StepStatus::InDoubt,
    ];

    /// The status as the contract spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepStatus::Pending => "PENDING",
            StepStatus::Running => "RUNNING",
            StepStatus::Waiting => "WAITING",
            StepStatus::Completed => "COMPLETED",
            StepStatus::Failed => "FAILED",
            StepStatus::Skipped => "SKIPPED",
            StepStatus::Cancelled => "CANCELLED",
            StepStatus::InDoubt => "IN_DOUBT",
        }
    }

    /// Is the record final? A final record is never run again.
    pub const fn is_final(self) -> bool {
        match self {
            StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped | StepStatus::Cancelled => true,
            StepStatus::Pending | StepStatus::Running | StepStatus::Waiting | StepStatus::InDoubt => false,
        }
    }
}

/// A step's state, each variant with only its own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// The last attempt failed; the next one is due at this instant.
    Pending {
        /// When the next attempt is due.
        due_at: Timestamp,
        /// Why the last one failed.
        failure: Failure,
    },
    /// Marked as started before its code ran.
    Running,
    /// Waiting for something outside.
    Waiting {
        /// The timer: the end of a sleep, the timeout of a promise or a signal.
        until: Option<Timestamp>,
    },
    /// Done.
    Completed {
        /// When.
        at: Timestamp,
        /// With what.
        output: Payload,
    },
    /// Failed for good.
    Failed {
        /// When.
        at: Timestamp,
        /// Why.
        failure: Failure,
    },
    /// Passed over.
    Skipped {
        /// When.
        at: Timestamp,
    },
    /// Given up.
    Cancelled {
        /// When.
        at: Timestamp,
    },
    /// The effect may or may not have happened.
    InDoubt {
        /// Since when nobody knows.
        since: Timestamp,
        /// Why.
        failure: Failure,
    },
}

impl StepState {
    /// The bare name of the state.
    pub const fn status(&self) -> StepStatus {
        match self {
            StepState::Pending { .. } => StepStatus::Pending,
            StepState::Running => StepStatus::Running,
            StepState::Waiting { .. } => StepStatus::Waiting,
            StepState::Completed { .. } => StepStatus::Completed,
            StepState::Failed { .. } => StepStatus::Failed,
            StepState::Skipped { .. } => StepStatus::Skipped,
            StepState::Cancelled { .. } => StepStatus::Cancelled,
            StepState::InDoubt { .. } => StepStatus::InDoubt,
        }
    }
}

/// What a store keeps of a step: one record per run, generation and step id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Which step.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// Where it stands.
    pub state: StepState,
    /// Attempts begun, crashed ones included.
    pub attempts: u32,
    /// When the first attempt began.
    pub started_at: Timestamp,
    /// The run's version at which it started.
    pub started_version: Version,
    /// The run's version at which it last changed.
    pub changed_version: Version,
    /// The fence under which it last changed.
    pub fence: Fence,
    /// The child run it waits for, if it is a [`StepKind::Child`].
    pub child: Option<RunId>,
}
