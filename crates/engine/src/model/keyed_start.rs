//! The start of a run under a request key, with its answer: the key, the run and the answer are one write.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{BeginRequest, NewRun, RequestRecord, RequestState, RunHead, StoredAnswer, Timestamp};

/// Writes the answer to a request whose run is in this state.
pub type WriteAnswer = dyn Fn(&RunHead) -> StoredAnswer + Send + Sync;

/// A request that starts a run. Nothing of it is stored before, so if its process dies, either all of it
/// happened or nothing did.
#[derive(Clone)]
pub struct KeyedStart {
    /// The request. Its id is also the id of the run.
    pub request: BeginRequest,
    /// The run. It has no parent.
    pub new: NewRun,
    /// Writes the answer. A store may call it inside its transaction, so it must be quick and must not
    /// panic.
    pub answer: Arc<WriteAnswer>,
    /// How long the answer is replayed.
    pub keep_for: Duration,
    /// How long the key is refused after that.
    pub grace: Duration,
}

impl fmt::Debug for KeyedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("KeyedStart");
        shown.field("request", &self.request).field("new", &self.new).finish_non_exhaustive()
    }
}

/// Outcome of a [`KeyedStart`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum KeyedStartOutcome {
    /// The key, the run and the answer are stored.
    Started {
        /// The run.
        head: RunHead,
        /// The answer, as every repeated request gets it.
        answer: StoredAnswer,
    },
    /// Nothing was written: the request key, the run's own key or its subject is in use. Begin the request
    /// by [`super::decide_begin_request`] to learn which.
    NotFree,
}

/// Decision on a [`KeyedStart`], as far as the request key decides it.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum KeyedStartDecision {
    /// The key is free.
    Free,
    /// This very request was written before, and its acknowledgement was lost. This is its answer.
    Written(StoredAnswer),
    /// The key is in use.
    NotFree,
}

/// Decides on a request that arrives at `now`. `found` is the record of its key.
pub fn decide_keyed_start(
    found: Option<&RequestRecord>,
    start: &KeyedStart,
    now: Timestamp,
) -> KeyedStartDecision {
    match found.filter(|found| !found.is_free(now)) {
        None => KeyedStartDecision::Free,
        Some(RequestRecord { id, state: RequestState::Answered { answer, .. }, .. })
            if *id == start.request.id =>
        {
            KeyedStartDecision::Written(answer.clone())
        }
        Some(_) => KeyedStartDecision::NotFree,
    }
}

impl KeyedStart {
    /// Returns true if the parts belong together: the run is the request's, in its workspace, and has no
    /// parent.
    pub fn is_consistent(&self) -> bool {
        let (request, facts) = (&self.request, &self.new.facts);
        facts.id == request.id.as_run()
            && facts.workspace == request.scope.workspace
            && facts.parent.is_none()
    }

    /// The record of the request, answered with `answer` at `now`.
    pub fn to_record(&self, answer: StoredAnswer, now: Timestamp) -> RequestRecord {
        let BeginRequest { scope, key, id, fingerprint, summary, token: _, hold_for: _ } =
            self.request.clone();
        let expires_at = now.plus(self.keep_for);
        let free_at = expires_at.plus(self.grace);
        let state = RequestState::Answered { answer, at: now, expires_at, free_at };
        RequestRecord { scope, key, id, fingerprint, summary, first_seen_at: now, state }
    }
}
