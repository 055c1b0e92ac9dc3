//! Sending a signal to a run.

use crate::model::{Grant, JournalEntry, Name, Payload, RunHead, RunId, RunStatus, SignalId, WorkspaceId};

/// A signal to keep for a run.
#[derive(Debug, Clone)]
pub struct SendSignal {
    /// The workspace of the run.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: RunId,
    /// What the run will ask for it by.
    pub name: Name,
    /// What it carries.
    pub payload: Payload,
    /// What the sender calls this sending; a second one with the same id is not stored.
    pub id: Option<SignalId>,
    /// What the journal is told, if the signal is stored.
    pub note: Option<JournalEntry>,
    /// The sender's offer to drive the run, should it be waiting.
    pub grant: Option<Grant>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SignalOutcome {
    /// Stored; if the run was waiting and the offer was taken, the caller drives it now.
    Stored {
        /// Its place among the arrivals of the run.
        seq: u64,
        /// The run, if it was granted to the caller.
        granted: Option<RunHead>,
    },
    /// A signal with this id was stored before.
    Duplicate,
    /// The run has ended; the signal was not stored.
    Ended(RunStatus),
    /// The run holds as many unconsumed signals as it may.
    TooMany,
    /// There is no such run in the workspace.
    NoSuchRun,
}
