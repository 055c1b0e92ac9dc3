//! Claiming due runs.

use crate::model::{Grant, RunHead, Timestamp};

/// A worker's request for runs to drive.
#[derive(Debug, Clone)]
pub struct ClaimRuns {
    /// The worker, the duration of the lease, and the workflows it serves.
    pub grant: Grant,
    /// Maximum number of runs, at most [`crate::limits::MAX_CLAIM`].
    pub limit: usize,
}

/// Outcome of [`ClaimRuns`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedRuns {
    /// Runs granted to the caller, each under a new fence.
    pub runs: Vec<RunHead>,
    /// When the next run of those workflows is due by time alone. In the past if more runs are due.
    pub next_wake_at: Option<Timestamp>,
}
