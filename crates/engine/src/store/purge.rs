//! Forgetting what need not be kept.

use crate::model::{RunId, Timestamp};

/// One bounded pass of forgetting.
#[derive(Debug, Clone)]
pub struct Purge {
    /// Delete runs that closed before this instant; their keys stay for as long as they live.
    pub runs_closed_before: Option<Timestamp>,
    /// Go on after this run; where the pass before stopped.
    pub after: Option<RunId>,
    /// How many runs to look at, and how many keys to delete, at most; cut to [`crate::limits::MAX_PURGE`].
    pub limit: usize,
}

/// What it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// Expired keys deleted.
    pub keys: usize,
    /// Of these, keys under which a settlement waited for a promise that never came.
    pub early: usize,
    /// Runs deleted, each with all its rows.
    pub runs: usize,
    /// Where to go on; `None` when the pass reached the end.
    pub next: Option<RunId>,
}
