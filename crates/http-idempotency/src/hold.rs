//! The hold on a request: its owner processes the request, renews the hold, and records the end.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    BeginOutcome, BeginRequest, FinishRequest, RequestEnd, RequestId, RequestRecord, RequestState,
    StoredAnswer, Timestamp,
};
use hapax_engine::store::{KeyRef, StoreError, StoreResult};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::in_flight::RequestKey;
use crate::limits::{BEGIN_TRIES, FINISH_TRIES, FIRST_PAUSE, LONGEST_PAUSE, UNSAVED_FOR};
use crate::policy::Keep;
use crate::shared::{LayerState, within_store_wait};

pub(crate) struct Hold {
    shared: Arc<LayerState>,
    /// The begin request with the effective id, so that it can be sent again to renew the hold.
    pub(crate) begin: Arc<BeginRequest>,
    /// True if an earlier holder began the request and crashed.
    pub(crate) is_taken_over: bool,
    /// Retention of the answer that the caller's route requested.
    pub(crate) keep: Option<Keep>,
}

/// Outcome of recording the end of a request.
pub(crate) enum Finished {
    /// It is stored.
    Written,
    /// The response is already stored, by an earlier attempt of this caller or by a process that took over.
    Stands(StoredAnswer, Timestamp),
    /// Another process took over and has not finished, or the key was released.
    Lost,
    /// The store is unreachable; a later attempt may succeed.
    Unsaved,
}

impl Hold {
    /// The hold that `begin` returned, on the operation `id`.
    pub(crate) fn new(
        shared: Arc<LayerState>,
        begin: &Arc<BeginRequest>,
        id: RequestId,
        is_taken_over: bool,
        keep: Option<Keep>,
    ) -> Self {
        let begin = match id == begin.id {
            true => begin.clone(),
            false => Arc::new(BeginRequest { id, ..BeginRequest::clone(begin) }),
        };
        Hold { shared, begin, is_taken_over, keep }
    }

    pub(crate) fn place(&self) -> RequestKey {
        (self.begin.scope.clone(), self.begin.key.clone())
    }

    pub(crate) fn key_place(&self) -> KeyRef {
        KeyRef::Request { scope: self.begin.scope.clone(), key: self.begin.key.clone() }
    }

    /// Renews the hold until stopped, in its own task, so that a handler that blocks its thread does not lose the hold.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        let calm = Arc::new(Mutex::new(()));
        let renewing = renew(self.shared.clone(), self.begin.clone(), calm.clone());
        KeepAlive { calm, task: tokio::spawn(renewing).abort_handle() }
    }

    /// Records the end of the request, with a few attempts.
    pub(crate) async fn finish(&self, end: &RequestEnd) -> Finished {
        let mut pause = FIRST_PAUSE;
        for last in (0..FINISH_TRIES).rev().map(|left| left == 0) {
            match self.finish_once(end).await {
                Ok(finished) => return finished,
                Err(error) => tracing::warn!(%error, key = %self.begin.key, "an end is not written yet"),
            }
            if !last {
                next_pause(&mut pause).await;
            }
        }
        Finished::Unsaved
    }

    /// Keeps trying after the answer was sent: the end can be recorded as long as no other process takes over.
    pub(crate) async fn finish_later(&self, end: &RequestEnd) {
        let Ok(_permit) = self.shared.unsaved.try_acquire() else {
            tracing::error!(key = %self.begin.key, id = %self.begin.id, "the end of a request is not recorded: too many are waiting for the store");
            return;
        };
        let keep_trying = async {
            let mut pause = FIRST_PAUSE;
            while let Err(error) = self.finish_once(end).await {
                if !error.is_retryable() {
                    tracing::error!(%error, key = %self.begin.key, "an end cannot be written");
                    return;
                }
                next_pause(&mut pause).await;
            }
        };
        if tokio::time::timeout(UNSAVED_FOR, keep_trying).await.is_err() {
            tracing::error!(key = %self.begin.key, id = %self.begin.id, "the end of a request is not recorded: its hold expires");
        }
    }

    async fn finish_once(&self, end: &RequestEnd) -> StoreResult<Finished> {
        let BeginRequest { scope, key, token, .. } = &*self.begin;
        let finish =
            FinishRequest { scope: scope.clone(), key: key.clone(), token: *token, end: end.clone() };
        if within_store_wait(self.shared.book().finish_request(finish)).await? {
            return Ok(Finished::Written);
        }
        // This holder may not record the end: an earlier attempt already did, or another process took over.
        Ok(match within_store_wait(self.shared.book().find_request(scope, key)).await? {
            Some(RequestRecord { state: RequestState::Answered { answer, expires_at, .. }, .. }) => {
                Finished::Stands(answer, expires_at)
            }
            Some(_) | None => Finished::Lost,
        })
    }

    /// Returns the request to its earlier state. A new request is deleted. One that may have begun before keeps its
    /// operation, so that the next identical request takes it over.
    pub(crate) async fn give_back(&self) {
        if !self.is_taken_over {
            if let Finished::Unsaved = self.finish(&RequestEnd::Released).await {
                self.finish_later(&RequestEnd::Released).await;
            }
            return;
        }
        self.let_go().await;
    }

    /// Ends the hold and keeps the operation, so that the next identical request takes it over.
    pub(crate) async fn let_go(&self) {
        let ended = BeginRequest { hold_for: Duration::ZERO, ..BeginRequest::clone(&self.begin) };
        if let Err(error) = begin(&self.shared, &ended).await {
            // Harmless: the hold expires by itself.
            tracing::debug!(%error, key = %self.begin.key, "a hold could not be released; it expires by itself");
        }
    }
}

/// Sends a begin. If its outcome is unknown it is sent again, which is safe with the same token.
pub(crate) async fn begin(shared: &LayerState, request: &BeginRequest) -> StoreResult<BeginOutcome> {
    let mut tries = 1;
    loop {
        match within_store_wait(shared.book().begin_request(request.clone())).await {
            Err(StoreError::Unknown(_)) if tries < BEGIN_TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

/// Releases a request whose caller disconnected or never learned the outcome.
pub(crate) async fn give_back(
    shared: Arc<LayerState>,
    request: Arc<BeginRequest>,
    begun: StoreResult<BeginOutcome>,
) {
    match begun {
        Ok(BeginOutcome::Acquired { id, is_taken_over }) => {
            Hold::new(shared, &request, id, is_taken_over, None).give_back().await;
        }
        Ok(_) | Err(StoreError::Unavailable(_) | StoreError::Refused(_) | StoreError::Broken(_)) => {}
        Err(StoreError::Unknown(_)) => {
            let semaphore = shared.unsaved.clone();
            let Ok(_permit) = semaphore.try_acquire() else { return };
            let found = tokio::time::timeout(UNSAVED_FOR, find_until_told(&shared, &request)).await;
            let Ok(Some(RequestRecord { id, state: RequestState::InFlight { token, .. }, .. })) = found
            else {
                return;
            };
            if token == request.token {
                let is_taken_over = id != request.id;
                Hold::new(shared, &request, id, is_taken_over, None).give_back().await;
            }
        }
    }
}

async fn find_until_told(shared: &LayerState, request: &BeginRequest) -> Option<RequestRecord> {
    let mut pause = FIRST_PAUSE;
    loop {
        match within_store_wait(shared.book().find_request(&request.scope, &request.key)).await {
            Ok(found) => return found,
            Err(error) if !error.is_retryable() => return None,
            Err(_) => next_pause(&mut pause).await,
        }
    }
}

async fn next_pause(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

/// Renews a hold until stopped or dropped.
pub(crate) struct KeepAlive {
    /// Locked while a renewal is in flight.
    calm: Arc<Mutex<()>>,
    task: AbortHandle,
}

impl KeepAlive {
    /// Stops between two renewals: a renewal after the end could acquire the key again.
    pub(crate) async fn stop(self) {
        let _calm = self.calm.lock().await;
        self.task.abort();
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn renew(shared: Arc<LayerState>, request: Arc<BeginRequest>, calm: Arc<Mutex<()>>) {
    let every = request.hold_for / 3;
    loop {
        tokio::time::sleep(every).await;
        let _calm = calm.lock().await;
        match begin(&shared, &request).await {
            Ok(BeginOutcome::Acquired { .. }) => {}
            Ok(_) => {
                tracing::warn!(key = %request.key, id = %request.id, "the hold on a request was lost to another attempt");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, key = %request.key, "the hold on a request could not be renewed")
            }
        }
    }
}
