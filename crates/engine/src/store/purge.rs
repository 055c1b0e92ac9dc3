//! Deleting expired keys and old runs.

use crate::model::{RunId, Timestamp};

/// One bounded pass of purging.
#[derive(Debug, Clone)]
pub struct Purge {
    /// Delete runs that closed before this instant. Their keys stay until they expire.
    pub runs_closed_before: Option<Timestamp>,
    /// Continue after this run, where the previous pass stopped.
    pub after: Option<RunId>,
    /// Maximum number of runs to look at and of keys to delete, at most [`crate::limits::MAX_PURGE`].
    pub limit: usize,
}

/// Outcome of [`Purge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PurgeOutcome {
    /// Expired keys deleted.
    pub keys: usize,
    /// Of these, keys with an early settlement whose promise was never created.
    pub early: usize,
    /// Runs deleted, each with all its rows.
    pub runs: usize,
    /// Where the next pass continues. `None` at the end.
    pub next: Option<RunId>,
}
