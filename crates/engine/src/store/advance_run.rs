//! The outcome of a write under a lease.

use crate::model::{ChildrenRefused, Promise, RunHead, RunId};

/// What became of an [`crate::model::RunCommit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CommitOutcome {
    /// It took effect; go on. Runs it made due (a parent, children) are named, so that they need not wait for a poll.
    Advanced {
        /// Runs that are due now.
        woken: Vec<RunId>,
        /// Promises of this write that there is more to know about than that they are open.
        opened: Vec<Promise>,
    },
    /// The run changed meanwhile, but the lease is still the caller's: look at what was asked and write again.
    Stale(RunHead),
    /// The run and its lease are as expected, but its children may not be started: nothing was written. Write again without them.
    ChildrenRefused(ChildrenRefused),
    /// Somebody else holds the run, or it is gone: stop, and start no further effect.
    LeaseLost,
}
