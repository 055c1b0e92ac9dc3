//! Requests under a request key: one begins, the others wait for its answer or are told that they are not the same.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Fingerprint, IdempotencyKey, Name, Outline, RunId, Timestamp, WorkspaceId, WriteToken};

/// Who may use a request key again: the same key of another caller is another key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestScope {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The credential; rotating its secret does not change it.
    pub caller: Name,
}

/// One operation that a request began. It stays the same when another process takes over after a crash, so that what is made
/// under it is made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// A fresh id that sorts at `at`.
    pub fn new(at: Timestamp) -> Self {
        RequestId(RunId::new(at).as_u128())
    }

    /// The id as a number; stores keep it as 16 bytes.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The id a store kept.
    pub const fn from_u128(value: u128) -> Self {
        RequestId(value)
    }

    /// The run that the request makes: the same one however often the request is taken up.
    pub const fn as_run(self) -> RunId {
        RunId::from_u128(self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "req_{}", Uuid::from_u128(self.0).simple())
    }
}

/// What is told of a request when another one comes under its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSummary {
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// Enough of the body to say where another one differs.
    pub outline: Outline,
}

/// An answer as it went out, to be given again byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers that matter.
    pub headers: Vec<(String, String)>,
    /// The body; `None` if it was larger than what is kept.
    pub body: Option<Arc<[u8]>>,
}

impl fmt::Debug for StoredAnswer {
    /// Shows the size, not the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.as_ref().map(|body| body.len());
        f.debug_struct("StoredAnswer").field("status", &self.status).field("bytes", &bytes).finish()
    }
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// Somebody works on it.
    InFlight {
        /// Marks the one who does.
        token: WriteToken,
        /// Until when it counts as worked on; afterwards the next of the same may take it over.
        until: Timestamp,
    },
    /// It was answered.
    Answered {
        /// With what.
        answer: StoredAnswer,
        /// When.
        at: Timestamp,
        /// Until when it is given again.
        expires_at: Timestamp,
        /// From when on the key is free; until then it is refused as expired.
        free_at: Timestamp,
    },
}

/// What a store keeps of a request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Whose key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// The operation.
    pub id: RequestId,
    /// What sameness means under the key.
    pub fingerprint: Fingerprint,
    /// What it was.
    pub summary: RequestSummary,
    /// When it first came.
    pub first_seen_at: Timestamp,
    /// How far it is.
    pub state: RequestState,
}

impl RequestRecord {
    /// Is the key free again at `now`?
    pub fn is_free(&self, now: Timestamp) -> bool {
        matches!(self.state, RequestState::Answered { free_at, .. } if free_at <= now)
    }

    /// Does somebody work on it at `now`, as far as anybody knows?
    pub fn is_held(&self, now: Timestamp) -> bool {
        matches!(self.state, RequestState::InFlight { until, .. } if until > now)
    }
}

/// A request comes in under a key.
#[derive(Debug, Clone)]
pub struct BeginRequest {
    /// Whose key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// The operation, should it be new.
    pub id: RequestId,
    /// What sameness means under the key.
    pub fingerprint: Fingerprint,
    /// What it is.
    pub summary: RequestSummary,
    /// Marks this try; sent again with the same token, it holds the request for longer.
    pub token: WriteToken,
    /// For how long it counts as worked on.
    pub hold_for: Duration,
}

/// What a request that comes in is told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Begun {
    /// It is the caller's to do.
    Yours {
        /// The operation: not the one the caller proposed, if it takes over from somebody who vanished.
        id: RequestId,
        /// Did somebody begin it before and vanish?
        is_taken_over: bool,
    },
    /// Somebody works on it.
    InFlight {
        /// Since when.
        since: Timestamp,
        /// Until when at least, unless it ends.
        until: Timestamp,
    },
    /// It was answered.
    Answered(RequestRecord),
    /// The key names another request.
    Conflict(RequestRecord),
    /// The answer is no longer given, and the key not free yet.
    Expired {
        /// Since when.
        at: Timestamp,
    },
}

/// What a store is to do about a request that comes in: write this, or only say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginDecision {
    /// The record to write in place of what is there.
    pub write: Option<RequestRecord>,
    /// What to say.
    pub answer: Begun,
}

/// Decides what becomes of a request that comes in at `now` under a key that `found` names.
pub fn decide_begin(found: Option<&RequestRecord>, request: &BeginRequest, now: Timestamp) -> BeginDecision {
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
        answer: Begun::Yours { id, is_taken_over },
    };
    let Some(found) = found.filter(|found| !found.is_free(now)) else {
        return hold(request.id, now, false);
    };
    match &found.state {
        RequestState::Answered { expires_at, .. } if *expires_at <= now => {
            say(Begun::Expired { at: *expires_at })
        }
        _ if found.fingerprint != request.fingerprint => say(Begun::Conflict(found.clone())),
        RequestState::Answered { .. } => say(Begun::Answered(found.clone())),
        RequestState::InFlight { token, .. } if *token == request.token => {
            hold(found.id, found.first_seen_at, false)
        }
        RequestState::InFlight { until, .. } if *until <= now => hold(found.id, found.first_seen_at, true),
        RequestState::InFlight { until, .. } => {
            say(Begun::InFlight { since: found.first_seen_at, until: *until })
        }
    }
}

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestEnd {
    /// It has an answer that counts.
    Answered {
        /// The answer.
        answer: StoredAnswer,
        /// For how long it is given again.
        keep_for: Duration,
        /// For how long the key is refused afterwards.
        grace: Duration,
    },
    /// Nothing began, so that the same key may be used again at once.
    Released,
}

/// Whoever works on a request says how it ended.
#[derive(Debug, Clone)]
pub struct FinishRequest {
    /// Whose key.
    pub scope: RequestScope,
    /// The key.
    pub key: IdempotencyKey,
    /// Marks the one who works on it.
    pub token: WriteToken,
    /// How.
    pub end: RequestEnd,
}

/// What a store is to do about an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishDecision {
    /// Write this.
    Write(Box<RequestRecord>),
    /// Delete the record.
    Delete,
    /// Somebody else works on it, or it has ended: change nothing.
    NotYours,
}

/// Decides what becomes of a request whose holder says how it ended.
pub fn decide_finish(
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
                outline: Outline::default(),
            },
            token: WriteToken::from_stored(token),
            hold_for: HOLD,
        }
    }

    fn begun(request: &BeginRequest, now: Timestamp) -> RequestRecord {
        decide_begin(None, request, now).write.unwrap()
    }

    fn answered(record: &RequestRecord, token: i64, now: Timestamp, grace: Duration) -> RequestRecord {
        let answer = StoredAnswer { status: 201, headers: vec![], body: Some(b"{}"[..].into()) };
        let finish = FinishRequest {
            scope: record.scope.clone(),
            key: record.key.clone(),
            token: WriteToken::from_stored(token),
            end: RequestEnd::Answered { answer, keep_for: DAY, grace },
        };
        match decide_finish(Some(record), &finish, now) {
            FinishDecision::Write(record) => *record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_does_the_work_and_the_second_waits() {
        let first = begun(&request(1, 1), at(0));
        let second = decide_begin(Some(&first), &request(1, 2), at(10));
        assert_eq!(second.write, None);
        assert_eq!(second.answer, Begun::InFlight { since: at(0), until: at(60_000) });
    }

    #[test]
    fn who_takes_over_from_one_that_vanished_goes_on_with_the_same_operation() {
        let first = begun(&request(1, 1), at(0));
        let later = decide_begin(Some(&first), &request(1, 2), at(60_000));
        assert_eq!(later.answer, Begun::Yours { id: first.id, is_taken_over: true });
        assert_eq!(later.write.unwrap().first_seen_at, at(0));
    }

    /// S2.12: never silently succeed.
    #[test]
    fn another_body_is_a_conflict_in_flight_and_answered() {
        let first = begun(&request(1, 1), at(0));
        for found in [first.clone(), answered(&first, 1, at(5), Duration::ZERO)] {
            let decision = decide_begin(Some(&found), &request(2, 2), at(70_000));
            assert_eq!(decision, BeginDecision { write: None, answer: Begun::Conflict(found) });
        }
    }

    /// S2.24, S2.29: outside the window the key is new, or refused as long as the grace lasts.
    #[test]
    fn an_answer_is_given_until_it_expires_then_refused_then_forgotten() {
        let record = answered(&begun(&request(1, 1), at(0)), 1, at(0), Duration::from_secs(10));
        let day = 86_400_000;
        let ask = |now| decide_begin(Some(&record), &request(1, 2), at(now)).answer;
        assert_eq!(ask(day - 1), Begun::Answered(record.clone()));
        assert_eq!(ask(day), Begun::Expired { at: at(day) });
        assert_eq!(ask(day + 10_000), Begun::Yours { id: request(1, 2).id, is_taken_over: false });
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
        assert_eq!(decide_finish(Some(&first), &finish, at(1)), FinishDecision::NotYours);
        assert_eq!(decide_finish(None, &finish, at(1)), FinishDecision::NotYours);
        finish.token = WriteToken::from_stored(1);
        assert_eq!(decide_finish(Some(&first), &finish, at(1)), FinishDecision::Delete);
    }

    #[test]
    fn the_same_try_sent_again_holds_on() {
        let first = begun(&request(1, 1), at(0));
        let again = decide_begin(Some(&first), &request(1, 1), at(30_000));
        assert_eq!(again.answer, Begun::Yours { id: first.id, is_taken_over: false });
        let until = at(90_000);
        assert!(matches!(again.write.unwrap().state, RequestState::InFlight { until: u, .. } if u == until));
    }
}
