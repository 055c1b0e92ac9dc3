//! Admits a request with a key: the service handles it, or the caller gets a stored answer or a refusal.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hapax_engine::model::{
    BeginOutcome, BeginRequest, IdempotencyKey, RequestRecord, RequestScope, RequestState, Timestamp,
    decide_begin_request,
};
use hapax_engine::store::{KeyRef, StoreError, StoreResult};
use http::Response;
use http::header::LOCATION;
use serde_json::json;
use tokio::time::Instant;

use crate::answer;
use crate::fresh_key::UnheldRequest;
use crate::hold::{self, Hold};
use crate::limits::{FIRST_POLL, LONGEST_POLL, RETRY_IN_PROGRESS_AFTER, RETRY_STORE_AFTER};
use crate::observe::Event;
use crate::policy::{Keep, OnTakeover};
use crate::problem::{Code, Problem};
use crate::shared::{LayerState, within_store_wait};

/// Key headers of a request.
#[derive(Debug)]
pub(crate) struct Keyed {
    pub(crate) scope: RequestScope,
    pub(crate) key: IdempotencyKey,
    pub(crate) first_sent_at: Option<Timestamp>,
    pub(crate) wait_for: Duration,
    pub(crate) keep: Option<Keep>,
    /// Memory held while the request waits.
    pub(crate) body_bytes: usize,
}

/// Response that replaces a call of the service.
#[derive(Debug)]
pub(crate) enum EarlyAnswer {
    /// The answer to the first request.
    Answer(Response<Bytes>),
    /// The reason why there is none.
    Problem(Problem),
}

impl From<Problem> for EarlyAnswer {
    fn from(problem: Problem) -> Self {
        EarlyAnswer::Problem(problem)
    }
}

/// How a request was admitted.
pub(crate) enum Admitted {
    /// It is held.
    Held(Hold),
    /// Its key is free and nothing is stored under it.
    Fresh(UnheldRequest),
}

/// Admits a request, after waiting for an identical one in progress. If `may_be_fresh`, a request under a free key is
/// not held.
pub(crate) async fn admit(
    shared: &Arc<LayerState>,
    keyed: &Keyed,
    request: Arc<BeginRequest>,
    may_be_fresh: bool,
) -> Result<Admitted, EarlyAnswer> {
    let scope = keyed.scope.clone();
    let is_late = is_too_late(shared, keyed);
    if is_late && !is_known(shared, keyed).await? {
        return Err(window_passed(shared, keyed).into());
    }
    let place = (keyed.scope.clone(), keyed.key.clone());
    let deadline = Instant::now() + keyed.wait_for;
    let may_be_fresh = may_be_fresh && !is_late;
    let mut beginning = BeginInProgress { shared: shared.clone(), request, asking: None };
    let mut seat = None;
    let mut pause = FIRST_POLL;
    loop {
        let mut read = None;
        let now = shared.store.now();
        if may_be_fresh
            && let Some(flight) = shared.flights.take_off_fresh(&place, (beginning.request.clone(), now))
        {
            let Some(record) = find_known(shared, keyed).await? else {
                let (begin, keep) = (beginning.request.clone(), keyed.keep);
                return Ok(Admitted::Fresh(UnheldRequest { begin, keep, flight }));
            };
            // As the stores do: what needs no write is decided by what was read.
            let decision = decide_begin_request(Some(&record), &beginning.request, shared.store.now());
            read = decision.write.is_none().then_some(decision.answer);
        }
        let begun = match (read, shared.flights.find_fresh(&place)) {
            (Some(answer), _) => answer,
            // The store does not know the first request yet.
            (None, Some((first, since))) => match decide_begin_request(None, &first, since).write {
                Some(record) if record.fingerprint != beginning.request.fingerprint => {
                    BeginOutcome::Conflict(record)
                }
                _ => BeginOutcome::InFlight { since, until: since },
            },
            (None, None) => beginning.ask().await.map_err(|error| store_away(shared, &scope, &error))?,
        };
        match begun {
            BeginOutcome::Acquired { id, is_taken_over } => {
                let hold = Hold::new(shared.clone(), &beginning.request, id, is_taken_over, keyed.keep);
                return check_beginning(shared, keyed, is_late, hold).await.map(Admitted::Held);
            }
            BeginOutcome::Answered(record) => return Err(replay(shared, record)),
            BeginOutcome::Conflict(record) => return Err(conflict(shared, &beginning.request, record).into()),
            BeginOutcome::Expired { at } => {
                shared.saw(&scope, Event::Expired);
                let detail = format!(
                    "The answer under this key was kept until {at}. Look up what came of the operation; if it is to be done once \
                     more, send it with a new key."
                );
                return Err(Problem::new(Code::KeyExpired, detail).into());
            }
            BeginOutcome::InFlight { since, .. } => {
                if seat.is_none() {
                    seat = shared.flights.find_seat(keyed.body_bytes);
                    if seat.is_some() && Instant::now() < deadline {
                        shared.saw(&scope, Event::Waited);
                    }
                }
                if seat.is_none() || Instant::now() >= deadline {
                    shared.saw(&scope, Event::InProgress);
                    return Err(in_progress(since).into());
                }
            }
        }
        match shared.flights.find(&place) {
            Some(mut landed) => {
                // The watch ends with an error when the first request ends. After the deadline, the store decides.
                let _ = tokio::time::timeout_at(deadline, landed.changed()).await;
            }
            None => {
                tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
                pause = (pause * 2).min(LONGEST_POLL);
            }
        }
    }
}

/// A begin that this caller won may still be too late, or belong to an operation that must not be repeated.
async fn check_beginning(
    shared: &Arc<LayerState>,
    keyed: &Keyed,
    is_late: bool,
    hold: Hold,
) -> Result<Hold, EarlyAnswer> {
    let refuses = shared.is_confidential || shared.policy.on_takeover == OnTakeover::Refuse;
    if hold.is_taken_over && refuses {
        shared.saw(&keyed.scope, Event::InDoubt);
        let id = hold.begin.id;
        hold.give_back().await;
        let detail = format!(
            "The first attempt at this request began and was never answered, so its outcome is unknown. Find out what \
             came of operation {id}; then have the key freed, or go on with a new one."
        );
        return Err(Problem::new(Code::InDoubt, detail).with("operationId", id.to_string()).into());
    }
    if is_late && !hold.is_taken_over {
        // The key was there a moment ago, and has been purged since.
        hold.give_back().await;
        return Err(window_passed(shared, keyed).into());
    }
    Ok(hold)
}

/// Returns true if the request was first sent so long ago that its key would have been purged.
fn is_too_late(shared: &LayerState, keyed: &Keyed) -> bool {
    let window = shared.policy.keep_for(keyed.keep);
    keyed.first_sent_at.is_some_and(|first_sent_at| first_sent_at.plus(window) < shared.store.now())
}

async fn is_known(shared: &LayerState, keyed: &Keyed) -> Result<bool, Problem> {
    Ok(find_known(shared, keyed).await?.is_some())
}

/// The record of a key that is not free.
async fn find_known(shared: &LayerState, keyed: &Keyed) -> Result<Option<RequestRecord>, Problem> {
    let found = within_store_wait(shared.book().find_request(&keyed.scope, &keyed.key)).await;
    let found = found.map_err(|error| store_away(shared, &keyed.scope, &error))?;
    Ok(found.filter(|record| !record.is_free(shared.store.now())))
}

fn window_passed(shared: &LayerState, keyed: &Keyed) -> Problem {
    shared.saw(&keyed.scope, Event::WindowPassed);
    let hours = shared.policy.keep_for(keyed.keep).as_secs_f64() / 3600.0;
    let detail = format!(
        "Keys are remembered for {hours} hours, and Idempotency-First-Sent says that this request is older, so it may have been \
         done before. Look up what came of it; if it is to be done once more, send it with a new key."
    );
    Problem::new(Code::WindowPassed, detail)
}

fn store_away(shared: &LayerState, scope: &RequestScope, error: &StoreError) -> Problem {
    shared.saw(scope, Event::StoreAway);
    tracing::error!(%error, "a request with a key was refused");
    let detail = "The store of idempotency keys cannot be reached, so nothing was begun. Send the same request with the same key \
                  again.";
    Problem::new(Code::StoreUnavailable, detail).retry_after(RETRY_STORE_AFTER)
}

pub(crate) fn in_progress(since: Timestamp) -> Problem {
    let detail = "The first request under this key is still being worked on. Send the same request with the same key again to get \
                  its answer.";
    Problem::new(Code::InProgress, detail)
        .retry_after(RETRY_IN_PROGRESS_AFTER)
        .with("firstSeenAt", since.to_string())
}

fn place_of(record: &RequestRecord) -> KeyRef {
    KeyRef::Request { scope: record.scope.clone(), key: record.key.clone() }
}

fn replay(shared: &LayerState, record: RequestRecord) -> EarlyAnswer {
    shared.uses.count_replay(place_of(&record));
    let RequestState::Answered { answer, expires_at, .. } = &record.state else {
        return in_progress(record.first_seen_at).into();
    };
    if let Some(response) = answer::replay(answer, *expires_at) {
        shared.saw(&record.scope, Event::Replayed);
        return EarlyAnswer::Answer(response);
    }
    shared.saw(&record.scope, Event::NotKept);
    let (status, id) = (answer.status, record.id);
    let why = match shared.is_confidential {
        true => "contains a secret, which is sent once and never stored",
        false => "was too large to store",
    };
    let detail = format!(
        "The request was processed and answered with status {status}, but the answer {why}. The work is not repeated; read what \
         operation {id} made."
    );
    let mut problem = Problem::new(Code::AnswerNotKept, detail)
        .with("operationId", id.to_string())
        .with("storedStatus", status);
    if let Some((_, location)) = answer.headers.iter().find(|(name, _)| *name == LOCATION.as_str()) {
        problem = problem.with("location", location.as_str());
    }
    problem.into()
}

fn conflict(shared: &LayerState, request: &BeginRequest, record: RequestRecord) -> Problem {
    shared.uses.count_conflict(place_of(&record));
    shared.saw(&record.scope, Event::Conflicted);
    let RequestRecord { key, id, fingerprint, summary, first_seen_at, .. } = record;
    tracing::info!(%key, %id, "a key was used for another request");
    let detail = "This key was used for another request, and nothing was changed. To repeat that one, send it exactly as it was; \
                  for a new one use a new key.";
    Problem::new(Code::KeyConflict, detail).with(
        "storedRequest",
        json!({
            "kind": "request",
            "id": id.to_string(),
            "method": summary.method,
            "path": summary.path,
            "firstSeenAt": first_seen_at.to_string(),
            "fingerprint": fingerprint.to_string(),
            "differingPaths": summary.outline.differences(&request.summary.outline),
        }),
    )
}

/// A begin in progress. If the caller disconnects, it runs to its end and the hold is released. Otherwise the caller's
/// retry would wait until the hold expires.
struct BeginInProgress {
    shared: Arc<LayerState>,
    request: Arc<BeginRequest>,
    asking: Option<BoxFuture<'static, StoreResult<BeginOutcome>>>,
}

impl BeginInProgress {
    async fn ask(&mut self) -> StoreResult<BeginOutcome> {
        let (shared, request) = (self.shared.clone(), self.request.clone());
        let asking = self.asking.insert(Box::pin(async move { hold::begin(&shared, &request).await }));
        let begun = asking.await;
        self.asking = None;
        if let Err(error @ StoreError::Unknown(_)) = &begun {
            self.give_back(Box::pin(std::future::ready(Err(error.clone()))));
        }
        begun
    }

    fn give_back(&self, asking: BoxFuture<'static, StoreResult<BeginOutcome>>) {
        let (shared, request) = (self.shared.clone(), self.request.clone());
        // Without a runtime the process is about to exit, and the hold expires by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { hold::give_back(shared, request, asking.await).await });
        }
    }
}

impl Drop for BeginInProgress {
    fn drop(&mut self) {
        if let Some(asking) = self.asking.take() {
            self.give_back(asking);
        }
    }
}
