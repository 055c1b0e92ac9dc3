//! Steps with an effect.

use std::future::{Future, IntoFuture, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::field::Empty;

use super::claimed::{Claim, Claimed};
use super::scope::{Scope, Undo};
use super::{Ctx, StepFuture, checked_name, recorded_outcome, refused};
use crate::hold::Hold;
use crate::limits::LAST_LOOK_FOR;
use crate::model::{
    EffectClass, EffectKey, Failure, FailureClass, Fence, Name, Noted, OnDoubt, Payload, Probed,
    RetryDecision, RetryPolicy, RunId, StepId, StepKind, StepRecord, StepState, StepStatus, StepTransition,
    Timestamp, decide_retry,
};
use crate::runtime::desk::Entered;
use crate::runtime::waits::Gate;
use crate::runtime::{Activation, Point, PointWatcher, change::Change, drive::panic_text, stats::Counters};

/// One try at a step, as its code sees it.
#[derive(Debug, Clone)]
pub struct Attempt {
    key: EffectKey,
    number: u32,
    fence: Fence,
    hold: Hold,
    watched: Option<(PointWatcher, RunId, StepId)>,
}

impl Attempt {
    pub(super) fn new(key: EffectKey, number: u32, activation: &Activation, step: &StepId) -> Self {
        let watcher = activation.engine.options.watcher.clone();
        let watched = watcher.map(|watcher| (watcher, activation.facts.id, step.clone()));
        let active = activation.active();
        let hold = match &watched {
            Some((watcher, run, step)) => active.hold.watched(watcher.clone(), *run, step.clone()),
            None => active.hold.clone(),
        };
        Attempt { key, number, fence: active.fence, hold, watched }
    }

    /// `runId:stepId`: hand it to the provider, so that it sees one effect however often the step is tried.
    pub fn idempotency_key(&self) -> &str {
        if let Some((watcher, run, step)) = &self.watched {
            watcher.reached(&Point::KeyRead(*run, step.clone()));
        }
        self.key.as_str()
    }

    /// Which try this is, counted from 1. Tries cut off by a crash count.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Number of the lease under which this try was begun. It rises with every takeover: a provider that remembers the highest it has
    /// seen can reject a request that comes late from an earlier holder.
    pub fn fence(&self) -> u64 {
        self.fence.get()
    }

    /// The right to send the effect. Hand it to whatever sends it, so that it is checked at the last moment.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Fails if this process no longer holds the run. Call it right before the effect leaves the process, after the last await:
    /// another process may have taken the run over while this one was paused.
    pub fn ensure_still_held(&self) -> Result<(), Failure> {
        self.hold.ensure_still_held()
    }

    /// Waits until this process has lost the run: for code that works outside the future of the step, in a thread or a task.
    pub async fn cancelled(&self) {
        self.hold.lost().await;
    }

    /// Has this process lost the run? For code that blocks.
    pub fn is_cancelled(&self) -> bool {
        self.hold.is_lost()
    }
}

/// A step about to be taken; await it.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<'a, T, C> {
    ctx: &'a Ctx,
    id: Result<(StepId, Name), Failure>,
    code: C,
    policy: RetryPolicy,
    timeout: Option<Duration>,
    undo: Option<Undo>,
    claim: Option<Claim<'a, T>>,
    non_idempotent: bool,
    output: std::marker::PhantomData<fn() -> T>,
}

impl Ctx {
    /// Takes a step: runs `code` and records its outcome, or gives the recorded one. `code` may run again after a
    /// failure or a crash, always with the same [`Attempt::idempotency_key`].
    pub fn step<'a, T, C, Fut, E>(&'a self, name: &str, code: C) -> Step<'a, T, C>
    where
        C: FnMut(Attempt) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send,
        E: Into<Failure>,
        T: Serialize + DeserializeOwned + Send + 'a,
    {
        let id = checked_name("step name", name).map(|name| (self.activation.next_id(&name), name));
        let (policy, output) = (RetryPolicy::default(), std::marker::PhantomData);
        Step {
            ctx: self,
            id,
            code,
            policy,
            timeout: None,
            undo: None,
            claim: None,
            non_idempotent: false,
            output,
        }
    }

    /// The same as [`Ctx::step`].
    pub fn run<'a, T, C, Fut, E>(&'a self, name: &str, code: C) -> Step<'a, T, C>
    where
        C: FnMut(Attempt) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send,
        E: Into<Failure>,
        T: Serialize + DeserializeOwned + Send + 'a,
    {
        self.step(name, code)
    }

    /// Takes a step whose code blocks: it runs on a thread where blocking harms nobody.
    pub fn step_blocking<'a, T, C, E>(
        &'a self,
        name: &str,
        code: C,
    ) -> Step<'a, T, impl FnMut(Attempt) -> StepFuture<'static, T> + Send + use<T, C, E>>
    where
        C: Fn(Attempt) -> Result<T, E> + Send + Sync + 'static,
        E: Into<Failure> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let code = Arc::new(code);
        self.step(name, move |attempt: Attempt| -> StepFuture<'static, T> {
            let code = code.clone();
            Box::pin(async move {
                // The thread may begin long after it was asked for.
                let entered = move || match attempt.ensure_still_held() {
                    Ok(()) => code(attempt).map_err(Into::into),
                    Err(failure) => Err(failure),
                };
                match tokio::task::spawn_blocking(entered).await {
                    Ok(outcome) => outcome,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => Err(panicked(&*panic)),
                        Err(_) => Err(Failure::unknown("the thread of the step was stopped")),
                    },
                }
            })
        })
    }
}

impl<'a, T, C> Step<'a, T, C> {
    /// How often and when to try again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Give up one try after this long; whether its effect happened is then unknown.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The effect must not run twice, and nothing outside would notice if it did: a claim is committed before it begins, and
    /// after a crash it is in doubt instead of being run again. An error that does not say that the effect did not happen
    /// (see [`Failure`]) leaves it in doubt as well.
    pub fn claimed(mut self) -> Self {
        self.claim.get_or_insert_with(Claim::default);
        self
    }

    /// How to ask the provider, by the effect's key, what became of a [`claimed`](Step::claimed) effect.
    pub fn probe<P, Fut, E>(mut self, probe: P) -> Self
    where
        P: Fn(String) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<Probed<T>, E>> + Send + 'a,
        E: Into<Failure>,
    {
        self.claim = Some(self.claim.unwrap_or_default().with_probe(probe));
        self
    }

    /// Give up one question of the probe after this long; unless said otherwise after as long as a try of the step may take.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.claim.get_or_insert_with(Claim::default).probe_timeout = Some(timeout);
        self
    }

    /// How long after a doubt arose the probe's "did not happen" does not count: a request that timed out may still be at work. Unless said
    /// otherwise a little longer than a try of the step may take. Whatever is said here, it must be answered twice.
    pub fn probe_settle(mut self, settle: Duration) -> Self {
        self.claim.get_or_insert_with(Claim::default).probe_settle = Some(settle);
        self
    }

    /// Declares that the provider remembers the highest [`Attempt::fence`] it has seen and rejects requests with a lower one. After a
    /// crash the effect may then be run again without waiting until a request of the vanished worker must be over.
    pub fn provider_rejects_stale_fences(mut self) -> Self {
        self.claim.get_or_insert_with(Claim::default).rejects_stale_fences = true;
        self
    }

    /// What to do with a [`claimed`](Step::claimed) effect in doubt that no probe could settle; it is held for people unless
    /// said otherwise.
    pub fn on_doubt(mut self, on_doubt: OnDoubt) -> Self {
        self.claim.get_or_insert_with(Claim::default).on_doubt = on_doubt;
        self
    }

    /// Declares that the effect happens anew each time it is run, whatever key it is given. Such a step is refused unless it is
    /// [`claimed`](Step::claimed).
    pub fn non_idempotent(mut self) -> Self {
        self.non_idempotent = true;
        self
    }

    /// How to undo the effect, should the run fail or be cancelled later. Runs last first, each recorded as a step of
    /// its own and tried like one.
    pub fn compensate<U, Fut, E>(mut self, undo: U) -> Self
    where
        U: Fn(Attempt, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure> + 'static,
        T: DeserializeOwned + Send + 'static,
    {
        self.undo = Some(Undo::new(undo));
        self
    }
}

impl<'a, T, C, Fut, E> IntoFuture for Step<'a, T, C>
where
    C: FnMut(Attempt) -> Fut + Send + 'a,
    Fut: Future<Output = Result<T, E>> + Send,
    E: Into<Failure>,
    T: Serialize + DeserializeOwned + Send + 'a,
{
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (id, name) = self.id?;
            let class = if self.claim.is_some() { EffectClass::Claimed } else { EffectClass::Idempotent };
            self.ctx.check_effect(&name, class, self.non_idempotent)?;
            let kind = if self.claim.is_some() { StepKind::Claimed } else { StepKind::Effect };
            let effect = Effect { id, kind, policy: self.policy, timeout: self.timeout, heeds_stops: true };
            let (scope, activation): (&Scope, &Activation) = (&self.ctx.scope, &self.ctx.activation);
            let (outcome, output) = match &self.claim {
                Some(claim) => {
                    Claimed::new(&effect, activation, claim, self.undo.as_ref()).run(self.code).await?
                }
                None => effect.run(activation, self.code).await?,
            };
            if let Some(undo) = self.undo {
                scope.push(effect.id.clone(), output, undo);
            }
            Ok(outcome)
        })
    }
}

/// What the engine needs to know of a step, apart from its code.
pub(super) struct Effect {
    pub(super) id: StepId,
    pub(super) kind: StepKind,
    pub(super) policy: RetryPolicy,
    pub(super) timeout: Option<Duration>,
    /// Does it not begin in a run that is to stop?
    pub(super) heeds_stops: bool,
}

impl Effect {
    /// Runs the step to its outcome, over as many tries as it takes; gives the value and its recorded form.
    pub(super) async fn run<T, C, Fut, E>(
        &self,
        activation: &Activation,
        mut code: C,
    ) -> Result<(T, Payload), Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
        T: Serialize + DeserializeOwned,
    {
        // Attempts before a retry of the run dropped the record: they are counted, but they are not of this policy.
        let before = activation.desk().attempts_before(&self.id);
        // An attempt that a crash cut off, of which no evidence is on record yet.
        let mut cut_off = None;
        let (mut attempts, mut started_at, mut due_at, fresh) = match activation.enter(&self.id, self.kind) {
            Entered::Done(record) => {
                let output = match &record.state {
                    StepState::Completed { output, .. } => output.clone(),
                    _ => Payload::null(),
                };
                return Ok((recorded_outcome(activation, &self.id, record.state).await?, output));
            }
            Entered::GivenUp => return std::future::pending().await,
            Entered::Open(record) => {
                let due_at = match record.state {
                    StepState::Pending { due_at, .. } => Some(due_at),
                    _ => {
                        cut_off = Some(record.attempts);
                        None
                    }
                };
                (record.attempts, Some(record.started_at), due_at, false)
            }
            Entered::Fresh => (before, None, None, true),
        };
        let key = EffectKey::new(activation.facts.id, activation.generation, &self.id);
        loop {
            if let Some(due_at) = due_at.take() {
                let due = move |_: &mut _, now: Timestamp| (now >= due_at).then_some(());
                match self.heeds_stops {
                    true => activation.wait_for(self.id.clone(), Some(due_at), due).await,
                    false => activation.wait_through(self.id.clone(), Some(due_at), due).await,
                }
            }
            let after_replay = self.gate(activation).await;
            let recovering = activation.desk().head.stalls > 0;
            if recovering && after_replay && fresh && attempts == before && self.policy.attempts() > 1 {
                // The holder before us vanished, perhaps in this very step: count that as a try.
                attempts += 1;
                cut_off = Some(attempts);
            }
            let now = activation.now();
            let began = *started_at.get_or_insert(now);
            if attempts - before >= self.policy.attempts() {
                let text = format!(
                    "{attempts} attempts were begun and none came to an end: its worker vanished each time"
                );
                return Err(self.fail(
                    activation,
                    Failure::unknown(text).with_code("crashed"),
                    attempts,
                    began,
                ));
            }
            if let Some(cut_off) = cut_off.take() {
                activation.queue([activation.note_cut_off(&self.id, self.kind, cut_off)]);
            }
            attempts += 1;
            // The try itself must be on record where a crash has happened, may not be followed by another try, or would
            // otherwise go uncounted: a step that has failed before has a record that tells of fewer tries.
            if recovering || self.policy.attempts() == 1 || attempts > 1 {
                self.mark(activation, attempts, began);
                self.gate(activation).await;
            }
            let attempt = Attempt::new(key.clone(), attempts, activation, &self.id);
            match self.attempt(activation, &mut code, attempt, began).await {
                Ok(value) => {
                    let output = match Payload::of(&value) {
                        Ok(output) => output,
                        Err(invalid) => return Err(self.fail(activation, refused(invalid), attempts, began)),
                    };
                    let state = StepState::Completed { at: activation.now(), output: output.clone() };
                    self.finish(activation, StepTransition::Complete, state, attempts, began);
                    return Ok((value, output));
                }
                Err(failure) => {
                    let now = activation.now();
                    match decide_retry(&self.policy, attempts - before, &failure, now, fastrand::f64()) {
                        RetryDecision::GiveUp => return Err(self.fail(activation, failure, attempts, began)),
                        RetryDecision::At(at) => {
                            self.schedule_retry(activation, failure, at, attempts, began);
                            due_at = Some(at);
                        }
                    }
                }
            }
        }
    }

    fn gate<'a>(&self, activation: &'a Activation) -> Gate<'a> {
        match self.heeds_stops {
            true => activation.gate(),
            false => activation.durable(),
        }
    }

    /// What the provider knows the effect by.
    pub(super) fn key(&self, activation: &Activation) -> EffectKey {
        EffectKey::new(activation.facts.id, activation.generation, &self.id)
    }

    /// One try: isolated from panics, cut off by its timeout, marked if it takes long. Its code is entered, and goes on after each of its
    /// awaits, only while the lease holds: one that could not be renewed in time may belong to another process by now.
    pub(super) async fn attempt<T, C, Fut, E>(
        &self,
        activation: &Activation,
        code: &mut C,
        attempt: Attempt,
        began: Timestamp,
    ) -> Result<T, Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let run = activation.facts.id;
        let number = attempt.number;
        activation.reached(|| Point::BeforeEffect(run, self.id.clone())).await;
        // Built only where somebody listens. `Attempt::idempotency_key` is not asked: who watches would take it for the step's code.
        let key = || self.key(activation);
        tracing::debug!(key = %key(), %run, step = %self.id, attempt = number, "effect begins");
        let span = tracing::debug_span!("effect", key = %key(), %run, step = %self.id, attempt = number, outcome = Empty);
        let hold = attempt.hold.clone();
        let in_flight = activation.begin_effect();
        let mut running =
            pin!(AssertUnwindSafe(async { code(attempt).await.map_err(Into::into) }).catch_unwind());
        let clock = &activation.engine.clock;
        let (mut mark, mut cut_off, mut last_look) = (None, None, None);
        let is_running = |record: &StepRecord| record.state.status() == StepStatus::Running;
        let mut marked = activation.desk().open.get(&self.id).is_some_and(is_running);
        let (mut is_entered, mut place) = (false, 0);
        let outcome = poll_fn(|cx| {
            // Before the code is entered whoever watches is told: a pause here is the worst one.
            let is_held = if is_entered { hold.stands() } else { hold.is_held() };
            if !is_held {
                // If the lease is renewed after all, the code goes on. If it is lost, the driver drops it.
                activation.desk().await_change(&mut place, cx);
                return Poll::Pending;
            }
            is_entered = true;
            if let Poll::Ready(outcome) = span.in_scope(|| running.as_mut().poll(cx)) {
                return Poll::Ready(outcome.unwrap_or_else(|panic| Err(panicked(&*panic))));
            }
            if let Some(timeout) = self.timeout {
                let timer = cut_off.get_or_insert_with(|| clock.sleep(timeout));
                // When time is over the outcome gets one more look: see `patience`.
                let is_over = last_look.is_some() || timer.as_mut().poll(cx).is_ready();
                if is_over
                    && last_look
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(LAST_LOOK_FOR)))
                        .as_mut()
                        .poll(cx)
                        .is_ready()
                {
                    let text =
                        format!("the attempt took longer than {timeout:?}; its effect may have happened");
                    return Poll::Ready(Err(Failure::unknown(text).with_code("timed_out")));
                }
            }
            if !marked {
                let after = activation.engine.options.mark_after;
                let timer = mark.get_or_insert_with(|| clock.sleep(after));
                if timer.as_mut().poll(cx).is_ready() {
                    marked = true;
                    self.mark(activation, number, began);
                    // Nobody waits for the mark, so the driver must be told to write it.
                    cx.waker().wake_by_ref();
                }
            }
            Poll::Pending
        })
        .await;
        let told = told_of(&outcome);
        span.record("outcome", told);
        drop(span);
        tracing::info!(key = %key(), %run, step = %self.id, attempt = number, outcome = told, "effect ended");
        activation.its_turn(&self.id).await;
        drop(in_flight);
        activation.reached(|| Point::AfterEffect(run, self.id.clone())).await;
        outcome
    }

    /// Puts on record that a try failed and when the next one is due, and notes it in the journal.
    pub(super) fn schedule_retry(
        &self,
        activation: &Activation,
        failure: Failure,
        at: Timestamp,
        attempts: u32,
        began: Timestamp,
    ) {
        Counters::add(&activation.engine.counters.retries);
        tracing::info!(key = %self.key(activation), run = %activation.facts.id, step = %self.id, attempt = attempts, %failure, "attempt failed; it will be tried again");
        if activation.engine.options.ledger {
            let noted = Noted::Failed { attempt: attempts, failure: failure.clone() };
            activation.queue([activation.note(&self.id, noted)]);
        }
        let state = StepState::Pending { due_at: at, failure };
        self.finish(activation, StepTransition::ScheduleRetry, state, attempts, began);
    }

    /// Puts on record that a try begins.
    pub(super) fn mark(&self, activation: &Activation, attempts: u32, began: Timestamp) {
        self.finish(activation, StepTransition::Begin, StepState::Running, attempts, began);
    }

    pub(super) fn fail(
        &self,
        activation: &Activation,
        failure: Failure,
        attempts: u32,
        began: Timestamp,
    ) -> Failure {
        tracing::info!(key = %self.key(activation), run = %activation.facts.id, step = %self.id, attempt = attempts, %failure, "step failed");
        let state = StepState::Failed { at: activation.now(), failure: failure.clone() };
        self.finish(activation, StepTransition::Fail, state, attempts, began);
        failure
    }

    pub(super) fn finish(
        &self,
        activation: &Activation,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        began: Timestamp,
    ) {
        activation.queue([self.change(transition, state, attempts, began)]);
    }

    pub(super) fn change(
        &self,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        began: Timestamp,
    ) -> Change {
        Change::finished(&self.id, self.kind, transition, state, attempts, began)
    }
}

/// What a log says of an attempt.
pub(super) fn told_of<T>(outcome: &Result<T, Failure>) -> &'static str {
    match outcome {
        Ok(_) => "completed",
        Err(failure) => match failure.class() {
            FailureClass::Retryable | FailureClass::Permanent => "failed",
            FailureClass::Unknown => "unknown",
        },
    }
}

pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::unknown(format!("the step panicked: {}", panic_text(panic))).with_code("panicked")
}
