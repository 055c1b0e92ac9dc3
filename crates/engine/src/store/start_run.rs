//! The outcome of starting a run.

use crate::model::{Fingerprint, RunHead, RunId, Timestamp};

/// Outcome of [`super::Store::start_run`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum StartOutcome {
    /// A new run. If it was granted, the caller drives it.
    Created(RunHead),
    /// The key names this run, and the fingerprints match: it is the same start.
    Existing(RunHead),
    /// The key names a run that was purged. The key still prevents a second run.
    Spent {
        /// The purged run.
        run: RunId,
    },
    /// The key names a run with another fingerprint. Nothing changed.
    KeyConflict {
        /// The run that the key names.
        run: RunId,
        /// When the key was first used.
        first_seen_at: Timestamp,
        /// The fingerprint of that run.
        fingerprint: Fingerprint,
    },
    /// Another run of the workflow is open on the subject. Nothing changed.
    SubjectBusy {
        /// The open run.
        run: RunId,
    },
}
