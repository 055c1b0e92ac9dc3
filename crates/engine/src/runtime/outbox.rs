//! Delivers after-effects: claims those that are due, hands them to the target's code, and writes how it went.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use serde::de::DeserializeOwned;

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
    /// Registers the code that receives after-effects for `target`. It may be called more than once for the same
    /// [`Delivery::id`]; whoever is behind it must take them for one.
    pub fn register_target<F, Fut, P, E>(&self, target: &str, receive: F) -> Result<(), Error>
    where
        F: Fn(Delivery, P) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        P: DeserializeOwned + Send + 'static,
        E: Into<Failure> + 'static,
    {
        self.register_target_with(target, TargetOptions::default(), receive)
    }

    /// The same, with options.
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
        self.inner.posted.notify_one();
        Ok(())
    }

    /// Takes a target away; answers whether it was there. What is on its way to it comes to its end, and what is due waits until
    /// somebody receives for it again.
    pub fn remove_target(&self, target: &str) -> bool {
        Name::new("target", target).is_ok_and(|name| self.inner.targets.remove(&name))
    }

    /// After-effects in the order of their ids, after `after`.
    pub async fn list_after_effects(
        &self,
        status: Option<OutboxStatus>,
        after: Option<EffectKey>,
        limit: usize,
    ) -> Result<Vec<OutboxMessage>, Error> {
        self.list_outbox(None, status, after, limit).await
    }

    /// The same, of one target.
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
        Ok(self.inner.answer(self.inner.store.list_outbox(request)).await?)
    }

    /// Delivers an after-effect that was delivered or given up once more, under the same id.
    pub async fn redeliver(&self, id: &EffectKey, by: Actor, reason: &str) -> Result<OutboxMessage, Error> {
        check_actor_and_reason(&by, reason)?;
        let workspace = self.workspace.clone();
        let known = self.get_after_effect(id).await?;
        let note = JournalEntry {
            workspace: workspace.clone(),
            run: known.run,
            generation: Default::default(),
            step: match known.run {
                // It tells the operation as well.
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
        let post = self.settle_post(request).await?;
        self.inner.posted.notify_one();
        Ok(post)
    }

    /// Forgets an announcement that was delivered or given up, because nobody will ever want it. What a step left is not forgotten: its
    /// record says that it was left.
    pub async fn discard_announcement(
        &self,
        id: &EffectKey,
        by: Actor,
        reason: &str,
    ) -> Result<OutboxMessage, Error> {
        check_actor_and_reason(&by, reason)?;
        if id.announced().is_none() {
            return Err(Error::NoSuchMessage(id.to_string()));
        }
        let (workspace, now) = (self.workspace.clone(), self.inner.store.now());
        let what = JournalEvent::SetUp {
            kind: "announcement".into(),
            id: id.to_string(),
            change: format!("discarded: {reason}"),
        };
        let note = JournalEntry::on_workspace(workspace.clone(), by, now, what);
        let wish = OutboxCommand::Discard;
        self.settle_post(Redeliver { workspace, id: id.clone(), wish, note: Some(note) }).await
    }

    async fn settle_post(&self, request: Redeliver) -> Result<OutboxMessage, Error> {
        let id = request.id.clone();
        match self.inner.answer(self.inner.store.redeliver(request)).await? {
            RedeliverOutcome::Due(post) | RedeliverOutcome::Discarded(post) => Ok(post),
            RedeliverOutcome::UnderWay(post) => Err(Error::PostUnderWay(post.id.to_string())),
            RedeliverOutcome::NoSuchMessage => Err(Error::NoSuchMessage(id.to_string())),
        }
    }

    /// One after-effect.
    pub async fn get_after_effect(&self, id: &EffectKey) -> Result<OutboxMessage, Error> {
        let missing = || Error::NoSuchMessage(id.as_str().chars().take(200).collect());
        // All of one run, or of one operation, are together, after the id of that.
        let of = id.as_str().split([':', '.']).next().unwrap_or_default();
        if of.parse::<RunId>().is_err() && of.parse::<OperationId>().is_err() {
            return Err(missing());
        }
        let mut after = EffectKey::from_stored(of);
        loop {
            let page = self.list_outbox(None, None, Some(after), MAX_PAGE).await?;
            match page.iter().find(|post| post.id >= *id) {
                Some(post) if post.id == *id => return Ok(post.clone()),
                Some(_) => return Err(missing()),
                None => {}
            }
            after = page.last().map(|last| last.id.clone()).ok_or_else(missing)?;
        }
    }
}

/// Looks for after-effects whenever one was left here, one is due, or the poll interval is over.
pub(crate) async fn deliver(inner: Arc<Inner>) {
    while inner.phase() == Phase::Running {
        let posted = inner.posted.notified();
        tokio::pin!(posted);
        posted.as_mut().enable();
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
        // One that is due and for which there is no room is looked for when there is.
        let look_at = look_at.max(now.plus(Duration::from_millis(1)));
        tokio::select! {
            biased;
            () = posted => {}
            () = changed => {}
            () = inner.sleep_until(look_at) => {}
        }
    }
}

/// Claims what is due, as far as there is room, and sends it on its way; answers when the next one is due.
async fn claim(inner: &Arc<Inner>) -> crate::store::StoreResult<Option<Timestamp>> {
    let room = inner.targets.room();
    if room.is_empty() {
        return Ok(None);
    }
    // Longer than an attempt may take, so that it is not begun again while it is under way.
    let lease_for = MAX_DELIVERY * 2;
    let request = ClaimOutbox { owner: inner.owner, lease_for, room };
    let since = inner.clock.monotonic();
    let claimed = inner.answer(inner.store.claim_outbox(request)).await?;
    let hold = Hold::until(inner.clock.clone(), since + lease_for - lease_for / 10);
    for post in claimed.posts {
        let Some(target) = inner.targets.find(&post.target) else { continue };
        let Ok(permit) = target.room.clone().try_acquire_owned() else { continue };
        let (inner, hold) = (inner.clone(), hold.clone());
        tokio::spawn(async move {
            attempt(&inner, &target, post, hold).await;
            drop(permit);
            inner.posted.notify_one();
        });
    }
    Ok(claimed.next_due_at)
}

async fn attempt(inner: &Arc<Inner>, target: &Target, post: OutboxMessage, hold: Hold) {
    let delivery = Delivery::of(&post, hold.clone());
    let mut receiving = pin!(
        AssertUnwindSafe(async { (target.receive)(delivery, post.payload.clone()).await }).catch_unwind()
    );
    // The target's code is entered, and goes on after each of its awaits, only while the claim holds.
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
        // Whoever claims it next delivers it; what became of it is theirs to write.
        tracing::warn!(key = %post.id, target = %post.target, attempt = post.attempts, "the claim of a delivery ended before it was sent");
        return;
    }
    match &outcome {
        Ok(()) => {
            Counters::add(&inner.counters.delivered);
            tracing::info!(key = %post.id, run = %post.run, target = %post.target, attempt = post.attempts, "delivered");
        }
        Err(failure) => {
            Counters::add(&inner.counters.undelivered);
            tracing::info!(key = %post.id, run = %post.run, target = %post.target, attempt = post.attempts, %failure, "not delivered");
        }
    }
    let now = inner.store.now();
    let (state, failure) =
        decide_delivery(&target.options.retry, post.attempts, outcome, now, fastrand::f64());
    let finish = FinishOutboxMessage {
        workspace: post.workspace,
        id: post.id,
        owner: inner.owner,
        attempt: post.attempts,
        state,
        failure,
    };
    let mut wait = Duration::from_millis(50);
    // If it cannot be written, it is delivered again once the claim has ended.
    for _ in 0..5 {
        if inner.phase() == Phase::Killed {
            return;
        }
        match inner.answer(inner.store.finish_outbox_message(finish.clone())).await {
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
