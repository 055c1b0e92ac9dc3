//! User code that shares a transaction with its record.

use std::any::Any;
use std::fmt;

use crate::model::{Failure, IllegalChange, Payload, RunCommit, RunHead, RunId};

/// User code to run and record in one commit.
pub struct Transact {
    /// The code, in the form the store requires. Each store with transactions documents its form.
    pub work: Box<dyn Any + Send + Sync>,
    /// Builds the write that records the output.
    pub record: RecordOutput,
}

/// Builds the write that records the output of the code. A store may call it more than once.
pub type RecordOutput = Box<dyn Fn(Payload) -> Result<RunCommit, IllegalChange> + Send + Sync>;

impl fmt::Debug for Transact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transact")
    }
}

/// Outcome of [`Transact`].
#[derive(Debug, Clone)]
#[must_use]
pub enum TransactOutcome {
    /// The code and the record are committed.
    Done {
        /// Output of the code.
        output: Payload,
        /// The write that recorded it.
        commit: Box<RunCommit>,
        /// Runs that are due now.
        woken: Vec<RunId>,
    },
    /// The code failed. Nothing was written.
    WorkFailed(Failure),
    /// The run has changed. Nothing was written. Look at the pending request and try again.
    Stale(Box<RunHead>),
    /// Another worker holds the run. Nothing was written. Stop.
    LeaseLost,
}
