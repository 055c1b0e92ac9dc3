//! Settling a promise.

use std::time::Duration;

use crate::model::{
    Grant, JournalEntry, Promise, PromiseRef, RunHead, RunId, SettleRequest, Timestamp, WorkspaceId,
};

/// Request to settle a promise.
#[derive(Debug, Clone)]
pub struct SettlePromise {
    /// Workspace of the promise.
    pub workspace: WorkspaceId,
    /// The promise.
    pub promise: PromiseRef,
    /// The settlement.
    pub wish: SettleRequest,
    /// How long to keep the settlement if the key names no promise yet. `None` does not keep it.
    pub keep_for: Option<Duration>,
    /// Journal entry to append if this settles the promise or is kept.
    pub note: Option<JournalEntry>,
    /// Offer of the settler to drive the run if it is waiting.
    pub grant: Option<Grant>,
}

impl SettlePromise {
    /// The journal entry once `promise` is settled.
    pub fn note_on(&self, promise: &Promise) -> Option<JournalEntry> {
        self.note.clone().map(|note| note.about_promise(promise))
    }
}

/// Outcome of [`SettlePromise`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SettleOutcome {
    /// Settled. If the run was waiting and the offer was taken, the caller now drives it.
    Settled {
        /// The promise as it is now.
        promise: Box<Promise>,
        /// The run, if it was granted to the caller.
        granted: Option<RunHead>,
        /// Other runs that wait for a standalone promise. Parked ones are due now.
        waiters: Vec<RunId>,
    },
    /// It was settled before. Nothing changed.
    AlreadySettled {
        /// True if it counts as the same settlement.
        same: bool,
        /// The promise as it is.
        promise: Box<Promise>,
    },
    /// Its deadline has passed. Nothing changed.
    TimedOut {
        /// The promise as it is.
        promise: Box<Promise>,
    },
    /// Its key names no promise yet. The settlement is kept for a future promise.
    KeptEarly {
        /// When it expires.
        until: Timestamp,
    },
    /// A settlement is already kept for the key. Nothing changed.
    AlreadyKept {
        /// True if it counts as the same settlement.
        same: bool,
        /// When it expires.
        until: Timestamp,
    },
    /// The workspace has no such promise.
    NoSuchPromise,
}
