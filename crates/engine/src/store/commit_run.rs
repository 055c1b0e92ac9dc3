//! The outcome of a write under a lease.

use crate::model::{ChildrenRefused, Promise, RunHead, RunId};

/// Outcome of a [`crate::model::RunCommit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CommitOutcome {
    /// The write took effect. The runs it made due (a parent, children) are listed, so they need not wait for
    /// a poll.
    Committed {
        /// Runs that are due now.
        woken: Vec<RunId>,
        /// Promises of this write that the run must learn more about than that they are open.
        opened: Vec<Promise>,
    },
    /// The run has changed, but the caller still holds the lease. Look at the pending request and write
    /// again.
    Stale(RunHead),
    /// The run and its lease are as expected, but its children may not be started. Nothing was written. Write
    /// again without them.
    ChildrenRefused(ChildrenRefused),
    /// Another worker holds the run, or it no longer exists. Stop, and start no further effect.
    LeaseLost,
}
