//! Delivers after-effects: claims due outbox messages, passes them to their target, and records the result.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use serde::de::DeserializeOwned;

use super::background::LoopReporter;
use super::drive::panic_text;
use super::inner::{Inner, Phase};
use super::stats::Counters;
use super::targets::{Delivery, Receive, Target, TargetOptions};
use super::{Engine, Error};
use crate::hold::{Hold, NO_LONGER_HELD};
use crate::limits::{MAX_DELIVERY, MAX_PAGE};
use crate::model::{
    Actor, EffectKey, Failure, JournalEntry, JournalEvent, Name, OperationId, OutboxMessage, OutboxStatus,
    Payload, RunId, StepId, Timestamp, check_actor_and_reason, decide_delivery,
};
use crate::store::{
    ClaimOutbox, FinishOutboxMessage, ListOutbox, OutboxCommand, Redeliver, RedeliverOutcome,
};
use crate::timeout::answer_within;

impl Engine {
    /// Registers the code that receives after-effects for `target`.
    ///
    /// It may be called more than once with the same [`Delivery::id`]. The receiver must treat such calls as
    /// one.
    pub fn register_target<F, Fut, P, E>(&self, target: &str, receive: F) -> Result<(), Error>
    where
        F: Fn(Delivery, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        P: DeserializeOwned + Send + 'static,
        E: Into<Failure> + 'static,
    {
        self.register_target_with(target, TargetOptions::default(), receive)
    }

    /// Registers a target with options.
    pub fn register_target_with<F, Fut, P, E>(
        &self,
        target: &str,
        options: TargetOptions,
        receive: F,
    ) -> Result<(), Error>
    where
        F: Fn(Delivery, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        P: DeserializeOwned + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let name = Name::new("target", target)?;
        let receive: Receive = Arc::new(move |delivery, payload: Payload| match payload.to::<P>() {
            Ok(payload) => {
                let receiving = receive(delivery, payload);
                Box::pin(async move { receiving.await.map_err(Into::into) })
            }
            Err(error) => {
                let failure = Failure::permanent(format!("the payload does not fit the target: {error}"));
                Box::pin(async move { Err(failure.with_code("payload_mismatch")) })
            }
        });
        self.inner.targets.add(name, Target::new(receive, options))?;
        self.inner.outbox_ready.notify_one();
        Ok(())
    }

    /// Removes a target. Returns whether it was registered. Deliveries in progress finish. Due messages wait
    /// until the target is registered again.
    pub fn remove_target(&self, target: &str) -> bool {
        Name::new("target", target).is_ok_and(|name| self.inner.targets.remove(&name))
    }

    /// Lists after-effects in the order of their ids, after `after`.
    pub async fn list_after_effects(
        &self,
        status: Option<OutboxStatus>,
        after: Option<EffectKey>,
        limit: usize,
    ) -> Result<Vec<OutboxMessage>, Error> {
        self.list_outbox(None, status, after, limit).await
    }

    /// Lists after-effects of one target in the order of their ids, after `after`.
    pub async fn list_after_effects_to(
        &self,
        target: &str,
        status: Option<OutboxStatus>,
        after: Option<EffectKey>,
        limit: usize,
    ) -> Result<Vec<OutboxMessage>, Error> {
        self.list_outbox(Some(Name::new("target", target)?), status, after, limit).await
    }

    async fn list_outbox(
        &self,
        target: Option<Name>,
        status: Option<OutboxStatus>,
        after: Option<EffectKey>,
        limit: usize,
    ) -> Result<Vec<OutboxMessage>, Error> {
        let after = after.map(|id| (self.workspace.clone(), id));
        let workspace = Some(self.workspace.clone());
        let request = ListOutbox { workspace, status, target, after, limit };
        Ok(self.inner.call_store(self.inner.store.list_outbox(request)).await?)
    }

    /// Delivers an after-effect again that was delivered or given up. The id stays the same.
    pub async fn redeliver(&self, id: &EffectKey, by: Actor, reason: &str) -> Result<OutboxMessage, Error> {
        check_actor_and_reason(&by, reason)?;
        let workspace = self.workspace.clone();
        let known = self.get_after_effect(id).await?;
        let note = JournalEntry {
            workspace: workspace.clone(),
            run: known.run,
            generation: Default::default(),
            step: match known.run {
                // The id also names the operation.
                RunId::NONE => Some(StepId::from_stored(id.as_str())),
                _ => id.as_str().split_once(':').map(|(_, step)| StepId::from_stored(step)),
            },
            at: self.inner.store.now(),
            fence: Default::default(),
            owner: None,
            by: Some(by),
            what: JournalEvent::Redelivered { reason: reason.to_string() },
            evidence: None,
        };
        let request =
            Redeliver { workspace, id: id.clone(), wish: OutboxCommand::Redeliver, note: Some(note) };
        let message = self.update_message(request).await?;
        self.inner.outbox_ready.notify_one();
        Ok(message)
    }

    /// Deletes an announcement that was delivered or given up and is no longer wanted. The after-effect of a
    /// step cannot be deleted, because the step's record refers to it.
    pub async fn discard_announcement(
        &self,
        id: &EffectKey,
        by: Actor,
        reason: &str,
    ) -> Result<OutboxMessage, Error> {
        check_actor_and_reason(&by, reason)?;
        if id.announced().is_none() {
            return Err(Error::NoSuchAfterEffect(id.to_string()));
        }
        let (workspace, now) = (self.workspace.clone(), self.inner.store.now());
        let what = JournalEvent::SetUp {
            kind: "announcement".into(),
            id: id.to_string(),
            change: format!("discarded: {reason}"),
        };
        let note = JournalEntry::on_workspace(workspace.clone(), by, now, what);
        let wish = OutboxCommand::Discard;
        self.update_message(Redeliver { workspace, id: id.clone(), wish, note: Some(note) }).await
    }

    async fn update_message(&self, request: Redeliver) -> Result<OutboxMessage, Error> {
        let id = request.id.clone();
        match self.inner.call_store(self.inner.store.redeliver(request)).await? {
            RedeliverOutcome::Due(message) | RedeliverOutcome::Discarded(message) => Ok(message),
            RedeliverOutcome::UnderWay(message) => Err(Error::AfterEffectInProgress(message.id.to_string())),
            RedeliverOutcome::NoSuchMessage => Err(Error::NoSuchAfterEffect(id.to_string())),
        }
    }

    /// Returns one after-effect.
    pub async fn get_after_effect(&self, id: &EffectKey) -> Result<OutboxMessage, Error> {
        let missing = || Error::NoSuchAfterEffect(id.as_str().chars().take(200).collect());
        // All messages of one run or operation sort together, right after its id.
        let of = id.as_str().split([':', '.']).next().unwrap_or_default();
        if of.parse::<RunId>().is_err() && of.parse::<OperationId>().is_err() {
            return Err(missing());
        }
        let mut after = EffectKey::from_stored(of);
        loop {
            let page = self.list_outbox(None, None, Some(after), MAX_PAGE).await?;
            match page.iter().find(|message| message.id >= *id) {
                Some(message) if message.id == *id => return Ok(message.clone()),
                Some(_) => return Err(missing()),
                None => {}
            }
            after = page.last().map(|last| last.id.clone()).ok_or_else(missing)?;
        }
    }
}

/// Looks for due messages when one was committed here, one is due, or the poll interval is over.
pub(crate) async fn deliver(inner: Arc<Inner>, reporter: LoopReporter) {
    while inner.phase() == Phase::Running {
        let outbox_ready = inner.outbox_ready.notified();
        tokio::pin!(outbox_ready);
        outbox_ready.as_mut().enable();
        let changed = inner.changed.notified();
        let now = inner.store.now();
        let poll_at = now.plus(inner.options.poll_every);
        let look_at = match claim(&inner).await {
            Ok(next) => next.unwrap_or(poll_at).min(poll_at),
            Err(error) => {
                tracing::warn!(%error, "looking for after-effects failed; trying again");
                poll_at
            }
        };
        reporter.pass();
        // A due message without room is picked up as soon as there is room.
        let look_at = look_at.max(now.plus(Duration::from_millis(1)));
        tokio::select! {
            biased;
            () = outbox_ready => {}
            () = changed => {}
            () = inner.sleep_until(look_at) => {}
        }
    }
}

/// Claims due messages as far as there is room and starts their delivery. Returns when the next message is
/// due.
async fn claim(inner: &Arc<Inner>) -> crate::store::StoreResult<Option<Timestamp>> {
    let room = inner.targets.room();
    if room.is_empty() {
        return Ok(None);
    }
    // Longer than an attempt may take, so that no second attempt starts while one is in progress.
    let lease_for = MAX_DELIVERY * 2;
    let request = ClaimOutbox { owner: inner.owner, lease_for, room };
    let since = inner.clock.monotonic();
    let claimed = inner.call_store(inner.store.claim_outbox(request)).await?;
    let hold = Hold::until(inner.clock.clone(), since + lease_for - lease_for / 10);
    for message in claimed.posts {
        let Some(target) = inner.targets.find(&message.target) else { continue };
        let Ok(permit) = target.room.clone().try_acquire_owned() else { continue };
        let (inner, hold) = (inner.clone(), hold.clone());
        tokio::spawn(async move {
            attempt(&inner, &target, message, hold).await;
            drop(permit);
            inner.outbox_ready.notify_one();
        });
    }
    Ok(claimed.next_due_at)
}

async fn attempt(inner: &Arc<Inner>, target: &Target, message: OutboxMessage, hold: Hold) {
    let delivery = Delivery::of(&message, hold.clone());
    let mut receiving = pin!(
        AssertUnwindSafe(async { (target.receive)(delivery, message.payload.clone()).await }).catch_unwind()
    );
    // The target's code runs, and continues after each await, only while the claim holds.
    let receiving = poll_fn(|cx| match hold.ensure_still_held() {
        Ok(()) => receiving.as_mut().poll(cx),
        Err(failure) => Poll::Ready(Ok(Err(failure))),
    });
    let patience = target.options.timeout;
    let outcome =
        match answer_within(&*inner.clock, patience, receiving).await {
            Some(outcome) => outcome.unwrap_or_else(|panic| {
                Err(Failure::unknown(format!("the target panicked: {}", panic_text(&*panic)))
                    .with_code("panicked"))
            }),
            None => Err(Failure::unknown(format!("the delivery took longer than {patience:?}"))
                .with_code("timed_out")),
        };
    if outcome.as_ref().is_err_and(|failure| failure.code() == Some(NO_LONGER_HELD)) {
        // The next claimant delivers the message and records its result.
        tracing::warn!(key = %message.id, target = %message.target, attempt = message.attempts, "the claim of a delivery ended before it was sent");
        return;
    }
    match &outcome {
        Ok(()) => {
            Counters::add(&inner.counters.delivered);
            tracing::info!(key = %message.id, run = %message.run, target = %message.target, attempt = message.attempts, "delivered");
        }
        Err(failure) => {
            Counters::add(&inner.counters.undelivered);
            tracing::info!(key = %message.id, run = %message.run, target = %message.target, attempt = message.attempts, %failure, "not delivered");
        }
    }
    let now = inner.store.now();
    let (state, failure) =
        decide_delivery(&target.options.retry, message.attempts, outcome, now, fastrand::f64());
    let finish = FinishOutboxMessage {
        workspace: message.workspace,
        id: message.id,
        owner: inner.owner,
        attempt: message.attempts,
        state,
        failure,
    };
    let mut wait = Duration::from_millis(50);
    // If the result cannot be recorded, the message is delivered again after the claim expires.
    for _ in 0..5 {
        if inner.phase() == Phase::Killed {
            return;
        }
        match inner.call_store(inner.store.finish_outbox_message(finish.clone())).await {
            Ok(was_ours) => {
                if was_ours && finish.state.status() == OutboxStatus::Dead {
                    Counters::add(&inner.counters.given_up);
                    tracing::warn!(key = %finish.id, attempt = finish.attempt, "an after-effect was given up");
                }
                return;
            }
            Err(error) => {
                tracing::warn!(key = %finish.id, %error, "how a delivery went could not be written")
            }
        }
        inner.clock.sleep(wait).await;
        wait *= 2;
    }
}
