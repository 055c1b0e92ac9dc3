//! Settling a promise.

use std::time::Duration;

use crate::model::{Grant, JournalEntry, Promise, PromiseRef, RunHead, RunId, Timestamp, Wish, WorkspaceId};

/// A settlement.
#[derive(Debug, Clone)]
pub struct SettlePromise {
    /// The workspace of the promise.
    pub workspace: WorkspaceId,
    /// The promise.
    pub promise: PromiseRef,
    /// What to settle it with.
    pub wish: Wish,
    /// If a key names no promise yet: for how long to keep this for the one it will name. `None` does not keep it.
    pub keep_for: Option<Duration>,
    /// What the journal is told, if this settles it or is kept.
    pub note: Option<JournalEntry>,
    /// The settler's offer to drive the run, should it be waiting.
    pub grant: Option<Grant>,
}

impl SettlePromise {
    /// What the journal is told once `promise` is settled.
    pub fn note_on(&self, promise: &Promise) -> Option<JournalEntry> {
        self.note.clone().map(|note| note.about_promise(promise))
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SettleOutcome {
    /// It is settled with this; if the run was waiting and the offer was taken, the caller drives it now.
    Settled {
        /// The promise as it is now.
        promise: Box<Promise>,
        /// The run, if it was granted to the caller.
        granted: Option<RunHead>,
        /// Other runs that wait for a promise that stands alone; they are due if they were parked.
        waiters: Vec<RunId>,
    },
    /// It was settled before, with the same or with something else; nothing changed.
    AlreadySettled {
        /// Does it count as the same settlement?
        same: bool,
        /// The promise as it is.
        promise: Box<Promise>,
    },
    /// Its time ran out; nothing changed.
    TimedOut {
        /// The promise as it is.
        promise: Box<Promise>,
    },
    /// Its key names no promise yet; this is kept for the one it will name.
    Kept {
        /// Until when.
        until: Timestamp,
    },
    /// A settlement is kept for the key already; nothing changed.
    AlreadyKept {
        /// Does it count as the same settlement?
        same: bool,
        /// Until when it is kept.
        until: Timestamp,
    },
    /// There is no such promise in the workspace.
    NoSuchPromise,
}
