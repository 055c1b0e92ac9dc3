//! One run: what never changes about it, and the state that does.

use std::sync::Arc;

use super::{Failure, Payload};
use super::{
    Fence, Fingerprint, Generation, IdempotencyKey, KeyRetention, OwnerId, RunId, StepId, Subject, Timestamp,
    Version, WorkflowRef, WorkspaceId,
};

/// The bare name of a run's state, for lists and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    /// Accepted, not yet driven.
    Pending,
    /// Being driven, or ready to be driven on.
    Running,
    /// Waiting for a timer, a promise, a signal, a child or the next attempt of a step.
    Waiting,
    /// Stopped by people, until they resume it.
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

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        RunStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Has the run ended?
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
    /// Who holds it.
    pub owner: OwnerId,
    /// When it ends, by the store's clock.
    pub until: Timestamp,
}

/// Who drives a running run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// Nobody yet: whoever claims it first from `due_at` on.
    Ready {
        /// From when on it may be claimed.
        due_at: Timestamp,
    },
    /// The holder of this lease, until it ends.
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

/// A run's state, each variant with only its own data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Accepted, to be driven from `due_at` on.
    Pending {
        /// From when on it may be claimed.
        due_at: Timestamp,
    },
    /// Being driven, or ready to be.
    Running(Drive),
    /// Parked; woken by an arrival, or at `wake_at`.
    Waiting {
        /// The earliest timer, if it waits for one.
        wake_at: Option<Timestamp>,
    },
    /// Stopped by people.
    Paused,
    /// Ended.
    Closed {
        /// When.
        at: Timestamp,
        /// How.
        ending: Ending,
    },
}

impl RunState {
    /// The bare name of the state.
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

    /// From when on anybody may claim the run; a live lease counts until it ends. `None`: not by time alone.
    pub const fn wake_at(&self) -> Option<Timestamp> {
        match self {
            RunState::Pending { due_at } | RunState::Running(Drive::Ready { due_at }) => Some(*due_at),
            RunState::Running(Drive::Leased(lease)) => Some(lease.until),
            RunState::Waiting { wake_at } => *wake_at,
            RunState::Paused | RunState::Closed { .. } => None,
        }
    }

    /// The lease, if somebody holds one.
    pub const fn lease(&self) -> Option<Lease> {
        match self {
            RunState::Running(Drive::Leased(lease)) => Some(*lease),
            RunState::Running(Drive::Ready { .. })
            | RunState::Pending { .. }
            | RunState::Waiting { .. }
            | RunState::Paused
            | RunState::Closed { .. } => None,
        }
    }
}

/// What people asked of a run that is not yet done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PendingRequest {
    /// Nothing.
    #[default]
    Nothing,
    /// To stop at the next boundary.
    Pause,
    /// To undo what can be undone and end.
    Cancel,
}

/// Which due runs go first.
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
    /// Every priority, first to be served first.
    pub const FIRST_TO_LAST: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// What becomes of a child when its parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ClosePolicy {
    /// It is asked to cancel.
    #[default]
    Cancel,
    /// It goes on alone.
    Abandon,
}

/// The run that started this one, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The parent run.
    pub run: RunId,
    /// The step that waits for this run.
    pub step: StepId,
    /// What becomes of this run when the parent ends.
    pub on_close: ClosePolicy,
    /// The run that this one descends from and that has no parent itself.
    pub root: RunId,
    /// How many runs are above this one: 1 for a child of the root.
    pub depth: u32,
}

/// What is fixed when a run is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// The workspace it belongs to.
    pub workspace: WorkspaceId,
    /// Its id.
    pub id: RunId,
    /// The workflow and version it is pinned to.
    pub workflow: WorkflowRef,
    /// The key that names it, if one does.
    pub key: Option<IdempotencyKey>,
    /// What sameness means under the key; present exactly when a key is.
    pub fingerprint: Option<Fingerprint>,
    /// How long that key lives.
    pub retention: KeyRetention,
    /// What it is about, if it must be the only open one.
    pub subject: Option<Subject>,
    /// Its place among due runs.
    pub priority: Priority,
    /// When it must have ended, if it must.
    pub deadline_at: Option<Timestamp>,
    /// The run that started it, if one did.
    pub parent: Option<Parent>,
    /// When it was accepted.
    pub created_at: Timestamp,
}

/// The row that changes: a run's state and the counters that guard it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHead {
    /// What never changes.
    pub facts: Arc<RunFacts>,
    /// Where it stands.
    pub state: RunState,
    /// How many state changes it has seen.
    pub version: Version,
    /// How many leases were granted.
    pub fence: Fence,
    /// How many times it continued as new.
    pub generation: Generation,
    /// What people asked of it.
    pub asked: PendingRequest,
    /// How many signals, settlements and endings of children came in for it. Not a state change: it only
    /// tells a run that parks whether it has seen everything.
    pub arrivals: u64,
    /// Leases in a row that ended without progress.
    pub stalls: u32,
    /// When it was first driven.
    pub started_at: Option<Timestamp>,
    /// When its state last changed.
    pub changed_at: Timestamp,
}

impl RunFacts {
    /// The root of its family: itself, if no run started it.
    pub fn root(&self) -> RunId {
        self.parent.as_ref().map_or(self.id, |parent| parent.root)
    }

    /// How many runs are above it.
    pub fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// This run as the parent of another that waits for it in `step`.
    pub fn as_parent(&self, step: StepId, on_close: ClosePolicy) -> Parent {
        Parent { run: self.id, step, on_close, root: self.root(), depth: self.depth() + 1 }
    }
}

impl RunHead {
    /// The run's id.
    pub fn id(&self) -> RunId {
        self.facts.id
    }

    /// The bare name of its state.
    pub fn status(&self) -> RunStatus {
        self.state.status()
    }
}

/// What a closed run ended with.
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
    /// The bare name of the ending.
    pub const fn ending(&self) -> Ending {
        match self {
            RunResult::Completed(_) => Ending::Completed,
            RunResult::Failed(_) => Ending::Failed,
            RunResult::Cancelled(_) => Ending::Cancelled,
        }
    }
}
