//! Taking leases on due runs.

use crate::model::{Grant, RunHead, Timestamp};

/// A worker asks for runs to drive.
#[derive(Debug, Clone)]
pub struct ClaimRuns {
    /// Who asks, for how long, and for which workflows.
    pub grant: Grant,
    /// How many at most; cut to [`crate::limits::MAX_CLAIM`].
    pub limit: usize,
}

/// What it got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Runs granted to the caller, each under a new fence.
    pub runs: Vec<RunHead>,
    /// When the next run of those workflows will be due, as far as time alone tells; earlier than now if more are due.
    pub next_wake_at: Option<Timestamp>,
}
