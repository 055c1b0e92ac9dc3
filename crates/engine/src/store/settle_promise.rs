//! Settling a promise.

use crate::model::{Grant, Note, PromiseId, RunHead, Settlement, WorkspaceId};

/// A settlement.
#[derive(Debug, Clone)]
pub struct SettlePromise {
    /// The workspace of the promise.
    pub workspace: WorkspaceId,
    /// The promise.
    pub id: PromiseId,
    /// What to settle it with.
    pub settlement: Settlement,
    /// What the journal is told, if this settles it.
    pub note: Option<Note>,
    /// The settler's offer to drive the run, should it be waiting.
    pub grant: Option<Grant>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SettleOutcome {
    /// It is settled with this; if the run was waiting and the offer was taken, the caller drives it now.
    Settled {
        /// The run, if it was granted to the caller.
        granted: Option<RunHead>,
    },
    /// It was settled before, with the same or with something else; nothing changed.
    AlreadySettled {
        /// Was it the same?
        same: bool,
        /// What it is settled with.
        settlement: Settlement,
    },
    /// Its time ran out; nothing changed.
    TimedOut,
    /// There is no such promise in the workspace.
    NoSuchPromise,
}
