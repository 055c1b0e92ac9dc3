//! A run: its immutable facts and its changing state.

use std::sync::Arc;

use super::{Failure, Payload};
use super::{
    Fence, Fingerprint, Generation, IdempotencyKey, KeyRetention, OwnerId, RunId, StepId, Subject, Timestamp,
    Version, WorkflowRef, WorkspaceId,
};

/// Name of a run's state, without its data; for lists and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Accepted, not yet driven.
    Pending,
    /// Being driven, or ready to be driven.
    Running,
    /// Waiting for a timer, a promise, a signal, a child or the next attempt of a step.
    Waiting,
    /// Stopped until it is resumed.
    Paused,
    /// Ended with an output.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended by a cancellation.
    Cancelled,
}

impl RunStatus {
    /// Every status, in the order of a run's life.
    pub const ALL: [RunStatus; 7] = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::Waiting,
        RunStatus::Paused,
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Cancelled,
    ];

    /// The status as the contract spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            RunStatus::Pending => "PENDING",
            RunStatus::Running => "RUNNING",
            RunStatus::Waiting => "WAITING",
            RunStatus::Paused => "PAUSED",
            RunStatus::Completed => "COMPLETED",
            RunStatus::Failed => "FAILED",
            RunStatus::Cancelled => "CANCELLED",
        }
    }

    /// The status with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        RunStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Returns true if the run has ended.
    pub const fn is_closed(self) -> bool {
        match self {
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
            RunStatus::Pending | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => false,
        }
    }
}

/// A worker's time-limited right to drive a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The holder.
    pub owner: OwnerId,
    /// When it expires, by the store's clock.
    pub until: Timestamp,
}

/// True if a running run has a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningState {
    /// Not yet. Any worker may claim it from `due_at` on.
    Ready {
        /// Earliest time to claim it.
        due_at: Timestamp,
    },
    /// The holder of this lease drives it until the lease expires.
    Leased(Lease),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With an output.
    Completed,
    /// With a failure.
    Failed,
    /// By a cancellation.
    Cancelled,
}

/// State of a run. Each variant carries only its own data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Accepted, to be driven from `due_at` on.
    Pending {
        /// Earliest time to claim it.
        due_at: Timestamp,
    },
    /// Being driven, or ready to be.
    Running(RunningState),
    /// Parked. An arrival or `wake_at` makes it due.
    Waiting {
        /// The earliest timer, if it waits for one.
        wake_at: Option<Timestamp>,
    },
    /// Stopped until it is resumed.
    Paused,
    /// Ended.
    Closed {
        /// When it ended.
        at: Timestamp,
        /// How it ended.
        ending: Ending,
    },
}

impl RunState {
    /// The state without its data.
    pub const fn status(&self) -> RunStatus {
        match self {
            RunState::Pending { .. } => RunStatus::Pending,
            RunState::Running(_) => RunStatus::Running,
            RunState::Waiting { .. } => RunStatus::Waiting,
            RunState::Paused => RunStatus::Paused,
            RunState::Closed { ending: Ending::Completed, .. } => RunStatus::Completed,
            RunState::Closed { ending: Ending::Failed, .. } => RunStatus::Failed,
            RunState::Closed { ending: Ending::Cancelled, .. } => RunStatus::Cancelled,
        }
    }

    /// When any worker may claim the run. For a leased run, the end of the lease. `None` if time alone never
    /// makes it due.
    pub const fn wake_at(&self) -> Option<Timestamp> {
        match self {
            RunState::Pending { due_at } | RunState::Running(RunningState::Ready { due_at }) => Some(*due_at),
            RunState::Running(RunningState::Leased(lease)) => Some(lease.until),
            RunState::Waiting { wake_at } => *wake_at,
            RunState::Paused | RunState::Closed { .. } => None,
        }
    }

    /// The lease, if a worker holds one.
    pub const fn lease(&self) -> Option<Lease> {
        match self {
            RunState::Running(RunningState::Leased(lease)) => Some(*lease),
            RunState::Running(RunningState::Ready { .. })
            | RunState::Pending { .. }
            | RunState::Waiting { .. }
            | RunState::Paused
            | RunState::Closed { .. } => None,
        }
    }
}

/// A request to the run that has not been carried out yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PendingRequest {
    /// No request.
    #[default]
    Nothing,
    /// Pause at the next step boundary.
    Pause,
    /// Undo what can be undone, then end.
    Cancel,
}

/// Priority among due runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// After all others.
    Low,
    /// The usual one.
    #[default]
    Normal,
    /// Before all others.
    High,
}

impl Priority {
    /// Every priority, highest first.
    pub const FIRST_TO_LAST: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// Policy for a child whose parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClosePolicy {
    /// It is asked to cancel.
    #[default]
    Cancel,
    /// It continues.
    Abandon,
}

/// The parent of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Id of the parent.
    pub run: RunId,
    /// The step of the parent that waits for this run.
    pub step: StepId,
    /// Policy for this run when the parent ends.
    pub on_close: ClosePolicy,
    /// The ancestor that has no parent itself.
    pub root: RunId,
    /// Number of ancestors: 1 for a child of the root.
    pub depth: u32,
}

/// Immutable facts about a run, fixed at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// Workspace of the run.
    pub workspace: WorkspaceId,
    /// Id of the run.
    pub id: RunId,
    /// The workflow and version it is pinned to.
    pub workflow: WorkflowRef,
    /// Its idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Fingerprint that a start under the key must have. Present exactly if a key is.
    pub fingerprint: Option<Fingerprint>,
    /// Lifetime of the key.
    pub retention: KeyRetention,
    /// What the run is about. At most one run per subject is open.
    pub subject: Option<Subject>,
    /// Priority among due runs.
    pub priority: Priority,
    /// When it must have ended, if it must.
    pub deadline_at: Option<Timestamp>,
    /// The run that started it, if one did.
    pub parent: Option<Parent>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

/// The mutable row of a run: its state and the counters that guard it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHead {
    /// Immutable facts.
    pub facts: Arc<RunFacts>,
    /// Current state.
    pub state: RunState,
    /// Number of state changes.
    pub version: Version,
    /// Number of leases granted.
    pub fence: Fence,
    /// Number of times it continued as new.
    pub generation: Generation,
    /// Request that has not been carried out yet.
    pub asked: PendingRequest,
    /// Number of signals, settlements and child endings that came in. An arrival is not a state change. The
    /// count only tells a parking run whether it has processed everything.
    pub arrivals: u64,
    /// Leases in a row that ended without progress.
    pub stalls: u32,
    /// When it was first driven.
    pub started_at: Option<Timestamp>,
    /// When its state last changed.
    pub changed_at: Timestamp,
}

impl RunFacts {
    /// Root of its family. The run itself, if no run started it.
    pub fn root(&self) -> RunId {
        self.parent.as_ref().map_or(self.id, |parent| parent.root)
    }

    /// Number of ancestors.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// This run as the parent of a child that `step` waits for.
    pub fn as_parent(&self, step: StepId, on_close: ClosePolicy) -> Parent {
        Parent { run: self.id, step, on_close, root: self.root(), depth: self.depth() + 1 }
    }
}

impl RunHead {
    /// Id of the run.
    pub fn id(&self) -> RunId {
        self.facts.id
    }

    /// The state without its data.
    pub fn status(&self) -> RunStatus {
        self.state.status()
    }
}

/// Result of a closed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunResult {
    /// The output.
    Completed(Payload),
    /// Why it failed.
    Failed(Failure),
    /// Why it was cancelled.
    Cancelled(Failure),
}

impl RunResult {
    /// The ending without its data.
    pub const fn ending(&self) -> Ending {
        match self {
            RunResult::Completed(_) => Ending::Completed,
            RunResult::Failed(_) => Ending::Failed,
            RunResult::Cancelled(_) => Ending::Cancelled,
        }
    }
}
