//! Sending a signal to a run.

use crate::model::{Grant, JournalEntry, Name, Payload, RunHead, RunId, RunStatus, SignalId, WorkspaceId};

/// A signal to store for a run.
#[derive(Debug, Clone)]
pub struct SendSignal {
    /// Workspace of the run.
    pub workspace: WorkspaceId,
    /// Id of the run.
    pub run: RunId,
    /// Name that the run waits for.
    pub name: Name,
    /// Content.
    pub payload: Payload,
    /// Id of this sending. A second signal with the same id is not stored.
    pub id: Option<SignalId>,
    /// Journal entry to append if the signal is stored.
    pub note: Option<JournalEntry>,
    /// Offer of the sender to drive the run if it is waiting.
    pub grant: Option<Grant>,
}

/// Outcome of [`SendSignal`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SignalOutcome {
    /// Stored. If the run was waiting and the offer was taken, the caller now drives it.
    Stored {
        /// Sequence number among the arrivals of the run.
        seq: u64,
        /// The run, if it was granted to the caller.
        granted: Option<RunHead>,
    },
    /// A signal with this id was stored before.
    Duplicate,
    /// The run has ended. The signal was not stored.
    Ended(RunStatus),
    /// The run has too many unconsumed signals.
    TooMany,
    /// The workspace has no such run.
    NoSuchRun,
}
