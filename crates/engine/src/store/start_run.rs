//! The outcome of starting a run.

use crate::model::{Fingerprint, RunHead, RunId, Timestamp};

/// What became of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum StartOutcome {
    /// A new run; if it was granted, the caller drives it.
    Created(RunHead),
    /// The key names this run and the fingerprints agree: it is the same start.
    Existing(RunHead),
    /// The key names a run that was deleted after its retention; the key still refuses a second one.
    Spent {
        /// The run that was.
        run: RunId,
    },
    /// The key names a run with another fingerprint; nothing changed.
    KeyConflict {
        /// The run the key names.
        run: RunId,
        /// When the key was first seen.
        first_seen_at: Timestamp,
        /// The fingerprint it stands for.
        fingerprint: Fingerprint,
    },
    /// Another run of the workflow is open on the subject; nothing changed.
    SubjectBusy {
        /// The open run.
        run: RunId,
    },
}
