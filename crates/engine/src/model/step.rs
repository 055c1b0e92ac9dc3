//! Steps of a run and their records.

use super::{Failure, Fence, Payload, RunId, StepId, Timestamp, Version};

/// Kind of a step. A replay that finds another kind under the same id is a determinism violation.
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
    /// Waits for a duration.
    Sleep,
    /// Waits for a promise.
    Promise,
    /// Waits for a signal.
    Signal,
    /// Waits for a child run.
    Child,
    /// Records a value, such as the time or a random number.
    Value,
    /// Records which of several branches finished first.
    Select,
    /// Adds a message to the outbox.
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

    /// Returns true if code that asks for this kind may use the outcome of a `recorded` step. The effect class may
    /// change between versions of the code. Once the effect has happened, its class no longer matters.
    pub fn takes_outcome_of(self, recorded: StepKind) -> bool {
        let is_forward = |kind| matches!(kind, StepKind::Effect | StepKind::Claimed | StepKind::Transaction);
        self == recorded || (is_forward(self) && is_forward(recorded))
    }

    /// The kind with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        StepKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Name of a step's state, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepStatus {
    /// Waiting for its next attempt.
    Pending,
    /// Started.
    Running,
    /// Waiting for a timer, a promise, a signal or a child.
    Waiting,
    /// Done, with an output.
    Completed,
    /// Failed for good.
    Failed,
    /// Skipped.
    Skipped,
    /// Cancelled, because its run ended or another branch finished first.
    Cancelled,
    /// The effect may or may not have happened. A probe or a ruling must resolve it.
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

    /// The status with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        StepStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns true if the code of the run receives an outcome: the step completed or failed.
    pub const fn has_outcome(self) -> bool {
        matches!(self, StepStatus::Completed | StepStatus::Failed)
    }

    /// Returns true if the record is final. A final record is never run again.
    pub const fn is_final(self) -> bool {
        match self {
            StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped | StepStatus::Cancelled => true,
            StepStatus::Pending | StepStatus::Running | StepStatus::Waiting | StepStatus::InDoubt => false,
        }
    }
}

/// State of a step. Each variant carries only its own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepState {
    /// The last attempt failed. Another will follow.
    Pending {
        /// When the next attempt is due.
        due_at: Timestamp,
        /// Failure of the last attempt.
        failure: Failure,
    },
    /// The start was recorded before the code ran.
    Running,
    /// Waiting for something outside.
    Waiting {
        /// End of a sleep, or timeout of a promise or signal.
        until: Option<Timestamp>,
    },
    /// Done.
    Completed {
        /// When it completed.
        at: Timestamp,
        /// The output.
        output: Payload,
    },
    /// Failed for good.
    Failed {
        /// When it failed.
        at: Timestamp,
        /// The failure.
        failure: Failure,
    },
    /// Skipped.
    Skipped {
        /// When it was skipped.
        at: Timestamp,
    },
    /// Cancelled.
    Cancelled {
        /// When it was cancelled.
        at: Timestamp,
    },
    /// The effect may or may not have happened.
    InDoubt {
        /// When it came into doubt.
        since: Timestamp,
        /// The failure.
        failure: Failure,
    },
}

impl StepState {
    /// The state without its data.
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

/// Stored record of a step: one per run, generation and step id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Id of the step.
    pub id: StepId,
    /// Kind of the step.
    pub kind: StepKind,
    /// Current state.
    pub state: StepState,
    /// Attempts begun, including crashed ones.
    pub attempts: u32,
    /// When the first attempt began.
    pub started_at: Timestamp,
    /// Version of the run at which it started.
    pub started_version: Version,
    /// Version of the run at which it last changed.
    pub changed_version: Version,
    /// Fence of its last change.
    pub fence: Fence,
    /// The child run it waits for, if it is a [`StepKind::Child`].
    pub child: Option<RunId>,
}

impl StepRecord {
    /// Returns true if the step waits for something outside.
    pub const fn is_waiting(&self) -> bool {
        matches!(self.state, StepState::Waiting { .. })
    }
}

/// The step that a run is at: the first that is not final, or else the last. `steps` are in the order they
/// started.
pub fn current_step(steps: &[StepRecord]) -> Option<&StepRecord> {
    steps.iter().find(|step| !step.state.status().is_final()).or(steps.last())
}

/// Name of a step without the numbers that count its repetitions: `charge` for `charge#2` and `charge.0`.
pub fn step_base_name(id: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match id.rsplit_once(['.', '#']) {
        Some((name, number)) if is_number(number) => step_base_name(name),
        _ => id,
    }
}
