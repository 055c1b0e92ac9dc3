//! Requests under a request key: the first one runs, repeats get its answer, and different requests are
//! refused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Fingerprint, IdempotencyKey, LeafDigests, Name, RunId, Timestamp, WorkspaceId, WriteToken};

/// Scope of a request key. The same key of another caller is another key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestScope {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The credential. Rotating its secret does not change the scope.
    pub caller: Name,
}

/// Id of a request. It stays the same when another process takes over after a crash, so whatever is created
/// under it is created once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// A fresh id that sorts by `at`.
    pub fn new(at: Timestamp) -> Self {
        RequestId(RunId::new(at).as_u128())
    }

    /// The id as a number. Stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// An id read from a store.
    pub const fn from_u128(value: u128) -> Self {
        RequestId(value)
    }

    /// Id of the run that the request starts: the same however often the request is processed.
    pub const fn as_run(self) -> RunId {
        RunId::from_u128(self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{}", Uuid::from_u128(self.0).simple())
    }
}

/// Summary of a request, for reporting a conflict with another request under the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSummary {
    /// HTTP method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Digests of the body, to report where another body differs.
    pub outline: LeafDigests,
}

/// A stored response. Retries get it byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// HTTP status.
    pub status: u16,
    /// Headers to replay.
    pub headers: Vec<(String, String)>,
    /// Body. `None` if it was too large to store.
    pub body: Option<Arc<[u8]>>,
}

impl fmt::Debug for StoredAnswer {
    /// Shows the size, not the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.as_ref().map(|body| body.len());
        f.debug_struct("StoredAnswer").field("status", &self.status).field("bytes", &bytes).finish()
    }
}

/// State of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// A process is working on it.
    InFlight {
        /// Token of that process.
        token: WriteToken,
        /// End of the hold. Afterwards the next identical request may take over.
        until: Timestamp,
    },
    /// It has been answered.
    Answered {
        /// The answer.
        answer: StoredAnswer,
        /// When it was answered.
        at: Timestamp,
        /// How long the answer is replayed.
        expires_at: Timestamp,
        /// When the key becomes free. Between `expires_at` and this instant the key is refused as expired.
        free_at: Timestamp,
    },
}

/// Record of a request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Scope of the key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// Id of the request.
    pub id: RequestId,
    /// Fingerprint that a request under the key must have.
    pub fingerprint: Fingerprint,
    /// Summary of the request.
    pub summary: RequestSummary,
    /// When it was first seen.
    pub first_seen_at: Timestamp,
    /// State of the request.
    pub state: RequestState,
}

impl RequestRecord {
    /// Returns true if the key is free at `now`.
    pub fn is_free(&self, now: Timestamp) -> bool {
        matches!(self.state, RequestState::Answered { free_at, .. } if free_at <= now)
    }

    /// Returns true if a process is working on it at `now`, as far as the store knows.
    pub fn is_held(&self, now: Timestamp) -> bool {
        matches!(self.state, RequestState::InFlight { until, .. } if until > now)
    }
}

/// Request to begin work under a key.
#[derive(Debug, Clone)]
pub struct BeginRequest {
    /// Scope of the key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// Id to use if the request is new.
    pub id: RequestId,
    /// Fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// Summary of the request.
    pub summary: RequestSummary,
    /// Identifies this attempt. Sent again with the same token, it extends the hold.
    pub token: WriteToken,
    /// Duration of the hold.
    pub hold_for: Duration,
}

/// Outcome of [`BeginRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum BeginOutcome {
    /// The caller must process the request.
    Acquired {
        /// Id of the request. Not the one the caller proposed if it takes over.
        id: RequestId,
        /// True if the previous holder began it and vanished.
        is_taken_over: bool,
    },
    /// Another process is working on it.
    InFlight {
        /// When it began.
        since: Timestamp,
        /// End of the current hold.
        until: Timestamp,
    },
    /// It has been answered.
    Answered(RequestRecord),
    /// The key names another request.
    Conflict(RequestRecord),
    /// The answer has expired, and the key is not free yet.
    Expired {
        /// When it expired.
        at: Timestamp,
    },
}

/// Decision on a [`BeginRequest`]: the record to write and the outcome to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginDecision {
    /// Record to write in place of the existing one. `None` writes nothing.
    pub write: Option<RequestRecord>,
    /// The outcome.
    pub answer: BeginOutcome,
}

/// Decides on a request that arrives at `now`. `found` is the record of its key.
pub fn decide_begin_request(
    found: Option<&RequestRecord>,
    request: &BeginRequest,
    now: Timestamp,
) -> BeginDecision {
    let say = |answer| BeginDecision { write: None, answer };
    let hold = |id: RequestId, first_seen_at: Timestamp, is_taken_over: bool| BeginDecision {
        write: Some(RequestRecord {
            scope: request.scope.clone(),
            key: request.key.clone(),
            id,
            fingerprint: request.fingerprint,
            summary: request.summary.clone(),
            first_seen_at,
            state: RequestState::InFlight { token: request.token, until: now.plus(request.hold_for) },
        }),
        answer: BeginOutcome::Acquired { id, is_taken_over },
    };
    let Some(found) = found.filter(|found| !found.is_free(now)) else {
        return hold(request.id, now, false);
    };
    match &found.state {
        RequestState::Answered { expires_at, .. } if *expires_at <= now => {
            say(BeginOutcome::Expired { at: *expires_at })
        }
        _ if found.fingerprint != request.fingerprint => say(BeginOutcome::Conflict(found.clone())),
        RequestState::Answered { .. } => say(BeginOutcome::Answered(found.clone())),
        RequestState::InFlight { token, .. } if *token == request.token => {
            hold(found.id, found.first_seen_at, false)
        }
        RequestState::InFlight { until, .. } if *until <= now => hold(found.id, found.first_seen_at, true),
        RequestState::InFlight { until, .. } => {
            say(BeginOutcome::InFlight { since: found.first_seen_at, until: *until })
        }
    }
}

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// With an answer to store.
    Answered {
        /// The answer.
        answer: StoredAnswer,
        /// How long it is replayed.
        keep_for: Duration,
        /// How long the key is refused after that.
        grace: Duration,
    },
    /// Nothing began, so the key may be used again at once.
    Released,
}

/// Report of a holder on how its request ended.
#[derive(Debug, Clone)]
pub struct FinishRequest {
    /// Scope of the key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// Token of the holder.
    pub token: WriteToken,
    /// How it ended.
    pub end: RequestEnd,
}

/// Decision on a [`FinishRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishDecision {
    /// Write this record.
    Write(Box<RequestRecord>),
    /// Delete the record.
    Delete,
    /// Another process holds the request, or it has ended. Change nothing.
    NotYours,
}

/// Decides what to write when a holder reports the end of its request.
pub fn decide_finish_request(
    found: Option<&RequestRecord>,
    request: &FinishRequest,
    now: Timestamp,
) -> FinishDecision {
    let Some(found) = found else { return FinishDecision::NotYours };
    if !matches!(found.state, RequestState::InFlight { token, .. } if token == request.token) {
        return FinishDecision::NotYours;
    }
    match &request.end {
        RequestEnd::Released => FinishDecision::Delete,
        RequestEnd::Answered { answer, keep_for, grace } => {
            let expires_at = now.plus(*keep_for);
            let state = RequestState::Answered {
                answer: answer.clone(),
                at: now,
                expires_at,
                free_at: expires_at.plus(*grace),
            };
            FinishDecision::Write(Box::new(RequestRecord { state, ..found.clone() }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(86_400);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn request(print: u8, token: i64) -> BeginRequest {
        BeginRequest {
            scope: RequestScope {
                workspace: WorkspaceId::default(),
                caller: Name::new("caller", "c1").unwrap(),
            },
            key: IdempotencyKey::new("k").unwrap(),
            id: RequestId::from_u128(7 + token.unsigned_abs() as u128),
            fingerprint: Fingerprint::from_bytes([print; 32]),
            summary: RequestSummary {
                method: "POST".into(),
                path: "/payments".into(),
                outline: LeafDigests::default(),
            },
            token: WriteToken::from_stored(token),
            hold_for: HOLD,
        }
    }

    fn begun(request: &BeginRequest, now: Timestamp) -> RequestRecord {
        decide_begin_request(None, request, now).write.unwrap()
    }

    fn answered(record: &RequestRecord, token: i64, now: Timestamp, grace: Duration) -> RequestRecord {
        let answer = StoredAnswer { status: 201, headers: vec![], body: Some(b"{}"[..].into()) };
        let finish = FinishRequest {
            scope: record.scope.clone(),
            key: record.key.clone(),
            token: WriteToken::from_stored(token),
            end: RequestEnd::Answered { answer, keep_for: DAY, grace },
        };
        match decide_finish_request(Some(record), &finish, now) {
            FinishDecision::Write(record) => *record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_does_the_work_and_the_second_waits() {
        let first = begun(&request(1, 1), at(0));
        let second = decide_begin_request(Some(&first), &request(1, 2), at(10));
        assert_eq!(second.write, None);
        assert_eq!(second.answer, BeginOutcome::InFlight { since: at(0), until: at(60_000) });
    }

    #[test]
    fn a_takeover_continues_the_same_operation() {
        let first = begun(&request(1, 1), at(0));
        let later = decide_begin_request(Some(&first), &request(1, 2), at(60_000));
        assert_eq!(later.answer, BeginOutcome::Acquired { id: first.id, is_taken_over: true });
        assert_eq!(later.write.unwrap().first_seen_at, at(0));
    }

    /// S2.12: never succeed silently.
    #[test]
    fn another_body_is_a_conflict_in_flight_and_answered() {
        let first = begun(&request(1, 1), at(0));
        for found in [first.clone(), answered(&first, 1, at(5), Duration::ZERO)] {
            let decision = decide_begin_request(Some(&found), &request(2, 2), at(70_000));
            assert_eq!(decision, BeginDecision { write: None, answer: BeginOutcome::Conflict(found) });
        }
    }

    /// S2.24, S2.29: after the window the key is new, or refused during the grace period.
    #[test]
    fn an_answer_is_given_until_it_expires_then_refused_then_forgotten() {
        let record = answered(&begun(&request(1, 1), at(0)), 1, at(0), Duration::from_secs(10));
        let day = 86_400_000;
        let ask = |now| decide_begin_request(Some(&record), &request(1, 2), at(now)).answer;
        assert_eq!(ask(day - 1), BeginOutcome::Answered(record.clone()));
        assert_eq!(ask(day), BeginOutcome::Expired { at: at(day) });
        assert_eq!(ask(day + 10_000), BeginOutcome::Acquired { id: request(1, 2).id, is_taken_over: false });
    }

    #[test]
    fn only_who_holds_it_may_say_how_it_ended() {
        let first = begun(&request(1, 1), at(0));
        let mut finish = FinishRequest {
            scope: first.scope.clone(),
            key: first.key.clone(),
            token: WriteToken::from_stored(2),
            end: RequestEnd::Released,
        };
        assert_eq!(decide_finish_request(Some(&first), &finish, at(1)), FinishDecision::NotYours);
        assert_eq!(decide_finish_request(None, &finish, at(1)), FinishDecision::NotYours);
        finish.token = WriteToken::from_stored(1);
        assert_eq!(decide_finish_request(Some(&first), &finish, at(1)), FinishDecision::Delete);
    }

    #[test]
    fn the_same_try_sent_again_holds_on() {
        let first = begun(&request(1, 1), at(0));
        let again = decide_begin_request(Some(&first), &request(1, 1), at(30_000));
        assert_eq!(again.answer, BeginOutcome::Acquired { id: first.id, is_taken_over: false });
        let until = at(90_000);
        assert!(matches!(again.write.unwrap().state, RequestState::InFlight { until: u, .. } if u == until));
    }
}
