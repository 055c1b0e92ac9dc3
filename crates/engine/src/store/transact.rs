//! Work of the user's that shares a transaction with its record.

use std::any::Any;
use std::fmt;

use crate::model::{Failure, IllegalChange, Payload, RunCommit, RunHead, RunId};

/// Work to be done and recorded in one commit.
pub struct Transact {
    /// The work, in the form the store asks for; each store that has transactions says which.
    pub work: Box<dyn Any + Send + Sync>,
    /// Makes the write that records the output.
    pub record: RecordOutput,
}

/// Turns the output of the work into the write that records it. A store may have to try more than once.
pub type RecordOutput = Box<dyn Fn(Payload) -> Result<RunCommit, IllegalChange> + Send + Sync>;

impl fmt::Debug for Transact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transact")
    }
}

/// What became of it.
#[derive(Debug, Clone)]
#[must_use]
pub enum TransactOutcome {
    /// Work and record are committed.
    Done {
        /// What the work gave.
        output: Payload,
        /// The write that recorded it.
        advance: Box<RunCommit>,
        /// Runs that are due now.
        woken: Vec<RunId>,
    },
    /// The work failed; nothing of it is there.
    WorkFailed(Failure),
    /// The run changed meanwhile; nothing is there. Look at what was asked and do it again.
    Stale(Box<RunHead>),
    /// Somebody else holds the run; nothing is there. Stop.
    LeaseLost,
}
