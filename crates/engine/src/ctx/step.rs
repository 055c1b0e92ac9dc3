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

use super::claimed::{Claim, Claimed, Ruled, is_ruled_to_run};
use super::scope::{Scope, Undo};
use super::tracked::{Progress, Tracked};
use super::{Ctx, StepFuture, checked_name, recorded_outcome, refused};
use crate::hold::Hold;
use crate::limits::FINAL_POLL_FOR;
use crate::model::{
    AttemptsMade, EffectClass, EffectKey, Failure, FailureClass, Fence, JournalEvent, Name, OnDoubt, Payload,
    ProbeAnswer, RetryDecision, RetryPolicy, RunId, StepId, StepKind, StepRecord, StepState, StepStatus,
    StepTransition, Timestamp, decide_retry,
};
use crate::runtime::replay_state::{Entered, ReplayState, Stop};
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
        let hold = activation.watched_hold(step);
        Attempt { key, number, fence: activation.active().fence, hold, watched }
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
    undo_policy: Option<RetryPolicy>,
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
            undo_policy: None,
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
        Fut: Future<Output = Result<ProbeAnswer<T>, E>> + Send + 'a,
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

    /// How to undo the effect, should the run fail or be cancelled later. Runs last first, each recorded as a step of its own and
    /// tried like one; if it cannot be undone, the run waits for people.
    ///
    /// That the effect begins is then on record before it does, so that no crash and no cancellation makes anybody forget it. If its
    /// outcome is unknown when the run is to end, it is found out first: by trying it again under the same key, or by asking people.
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

    /// How often and when to try the undoing again; like a step unless said otherwise.
    pub fn compensate_retry(mut self, policy: RetryPolicy) -> Self {
        self.undo_policy = Some(policy);
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
            let undo = self.undo.map(|undo| undo.tried_by(self.undo_policy));
            let tracked = Tracked::new(activation, scope, &effect, undo.as_ref());
            let done = match &self.claim {
                Some(claim) => {
                    Claimed::new(&effect, activation, claim, undo.as_ref()).run(&tracked, self.code).await
                }
                None => effect.run(activation, Some(&tracked), self.code).await,
            };
            match done {
                Ok((outcome, output)) => {
                    tracked.set(Progress::Done(output));
                    Ok(outcome)
                }
                Err(failure) => {
                    tracked.set(Progress::Over);
                    Err(failure)
                }
            }
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
    /// Runs the step to its outcome, over as many tries as it takes; gives the value and its recorded form. `tracked` is absent for
    /// an undo, which is never forgotten: it stays in its scope until it is done.
    pub(super) async fn run<T, C, Fut, E>(
        &self,
        activation: &Activation,
        tracked: Option<&Tracked<'_>>,
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
        let mut tries = Tries { made: before, before, ..Tries::default() };
        // Set if somebody may have begun this very step without a record of it: the holder before us, who vanished, or this engine.
        let mut hidden = None;
        // Set while the step is in doubt and people decide; the failure is yet to be put on record.
        let mut doubt: Option<Option<Failure>> = None;
        match activation.enter(&self.id, self.kind) {
            Entered::Done(record) => {
                let output = match &record.state {
                    StepState::Completed { output, .. } => output.clone(),
                    _ => Payload::null(),
                };
                if let Some(tracked) = tracked {
                    tracked.set(match &record.state {
                        StepState::Completed { .. } => Progress::Done(output.clone()),
                        _ => Progress::Over,
                    });
                }
                return Ok((recorded_outcome(activation, &self.id, record.state).await?, output));
            }
            Entered::GivenUp => {
                if let Some(tracked) = tracked {
                    tracked.set(Progress::Over);
                }
                return activation.stay_given_up().await;
            }
            Entered::Open(record) => {
                (tries.made, tries.began) = (record.attempts, Some(record.started_at));
                match record.state {
                    StepState::Pending { due_at, failure } => {
                        tries.may_have_happened = failure.class() == FailureClass::Unknown;
                        tries.due_at = Some(due_at);
                        let decision = self.decide(&tries, &failure, activation.now());
                        if decision == RetryDecision::Pause || is_ruled_to_run(&failure) {
                            // People have resumed the run that paused for it, or have said that it is to run.
                            tries.begin_anew();
                        }
                    }
                    StepState::InDoubt { .. } => doubt = Some(None),
                    _ => {
                        let now = activation.now();
                        cut_off = Some(record.attempts);
                        tries.may_have_happened = true;
                        tries.is_over = self.policy.is_over(record.started_at, now);
                    }
                }
            }
            Entered::Fresh => {
                // Of one that can be undone, or may be tried only once, there is a record before it begins.
                let is_recorded =
                    tracked.is_some_and(|tracked| tracked.undo.is_some()) || self.policy.attempts() == 1;
                let may_be_hidden = activation.desk().take_hidden(&self.id, self.kind);
                hidden = (may_be_hidden && !is_recorded).then(|| activation.hide());
            }
        };
        let undo = tracked.and_then(|tracked| tracked.undo);
        let track = |progress| {
            if let Some(tracked) = tracked {
                tracked.set(progress);
            }
        };
        let key = EffectKey::new(activation.facts.id, activation.generation, &self.id);
        loop {
            if let Some(failure) = doubt.take() {
                let (attempts, began) = (tries.made, tries.began.unwrap_or_else(|| activation.now()));
                track(Progress::InDoubt { attempts, began });
                let claim = Claim::default();
                let held = Claimed::about(self, activation, &claim, undo, attempts, began);
                match held.ruled_on(failure).await {
                    Ruled::Happened(value, output) => return Ok((value, output)),
                    Ruled::Failed(failure) => return Err(failure),
                    Ruled::DidNotHappen => {
                        tries.may_have_happened = false;
                        tries.begin_anew();
                    }
                }
            }
            // An effect that may have happened and can be undone keeps the run from ending until its outcome is known.
            let is_held = undo.is_some() && tries.may_have_happened;
            let _held = is_held.then(|| activation.hold_doubt());
            let heeds_stops = self.heeds_stops && !is_held;
            track(match is_held {
                true => Progress::MayHaveHappened {
                    attempts: tries.made,
                    began: tries.began.unwrap_or_else(|| activation.now()),
                },
                false if hidden.is_some() => Progress::Unrecorded { attempt: before + 1 },
                false => Progress::NotBegun,
            });
            if let Some(due_at) = tries.due_at.take() {
                let due = move |desk: &mut ReplayState, now: Timestamp| {
                    (now >= due_at && desk.stop != Some(Stop::Exhausted)).then_some(())
                };
                match heeds_stops {
                    true => activation.wait_for(self.id.clone(), Some(due_at), due).await,
                    false => activation.wait_through(self.id.clone(), Some(due_at), due).await,
                }
            }
            // Where nothing stands in the way, the mark of an effect that can be undone goes into the write that makes durable what came
            // before it.
            let is_marked_at_once = undo.is_some() && activation.may_mark(heeds_stops);
            if !is_marked_at_once {
                self.gate_of(activation, heeds_stops).await;
            }
            let recovering = activation.desk().head.stalls > 0;
            if hidden.take().is_some() {
                // What may have been begun without a record counts as a try.
                tries.made += 1;
                cut_off = Some(tries.made);
                tries.may_have_happened = true;
            }
            let began = *tries.began.get_or_insert_with(|| activation.now());
            if tries.are_spent(&self.policy) {
                let text = format!(
                    "{} attempts were begun and none came to an end: its worker vanished each time",
                    tries.made
                );
                let failure = Failure::unknown(text).with_code("crashed");
                match self.is_left_to_people(undo, &tries, &failure) {
                    true => doubt = Some(Some(failure)),
                    false => return Err(self.fail(activation, failure, tries.made, began)),
                }
                continue;
            }
            if let Some(cut_off) = cut_off.take() {
                activation.queue([activation.note_cut_off(&self.id, self.kind, cut_off)]);
            }
            tries.made += 1;
            let attempts = tries.made;
            if undo.is_some() {
                // From here on the run may not stop without knowing whether the effect has begun.
                let staying = activation.stay();
                if !is_held {
                    track(Progress::Marked { attempts, began });
                }
                self.mark(activation, attempts, began);
                activation.durable().await;
                let is_to_end = {
                    let desk = activation.desk();
                    heeds_stops && desk.is_stopped() && desk.is_to_end()
                };
                if is_to_end {
                    // Its code was not entered, and never will be. A run that is only to pause finishes what is on record as begun.
                    let state = StepState::Cancelled { at: activation.now() };
                    self.finish(activation, StepTransition::Withdraw, state, attempts, began);
                    track(Progress::Over);
                    drop(staying);
                    return std::future::pending().await;
                }
                track(Progress::MayHaveHappened { attempts, began });
            } else if recovering || self.policy.attempts() == 1 || attempts > 1 {
                // The try itself must be on record where a crash has happened, may not be followed by another try, or would
                // otherwise go uncounted: a step that has failed before has a record that tells of fewer tries.
                track(Progress::Marked { attempts, began });
                self.mark(activation, attempts, began);
                self.gate_of(activation, heeds_stops).await;
            }
            track(Progress::MayHaveHappened { attempts, began });
            let attempt = Attempt::new(key.clone(), attempts, activation, &self.id);
            let failure = match self.attempt(activation, &mut code, attempt, began).await {
                Ok(value) => match Payload::of(&value) {
                    Ok(output) => {
                        let state = StepState::Completed { at: activation.now(), output: output.clone() };
                        self.finish(activation, StepTransition::Complete, state, attempts, began);
                        return Ok((value, output));
                    }
                    // It happened, and what it gave cannot be kept: if it is to be undone, people must say what it was.
                    Err(invalid) if undo.is_some() => {
                        Failure::unknown(invalid).with_code("invalid").finally()
                    }
                    Err(invalid) => return Err(self.fail(activation, refused(invalid), attempts, began)),
                },
                Err(failure) => failure,
            };
            match failure.class() {
                FailureClass::Unknown => tries.may_have_happened = true,
                // Under the same key, a provider that had done it would have said so.
                FailureClass::Permanent => tries.may_have_happened = false,
                FailureClass::Retryable => {}
            }
            let now = activation.now();
            let decision = self.decide(&tries, &failure, now);
            let is_to_end = activation.desk().is_to_end();
            match decision {
                RetryDecision::At(at) => {
                    self.schedule_retry(activation, undo, &tries, failure, at);
                    tries.due_at = Some(at);
                }
                RetryDecision::Pause if !is_to_end => {
                    self.schedule_retry(activation, undo, &tries, failure.clone(), now);
                    activation.pause_exhausted(&self.id, &failure);
                    tries.due_at = Some(now);
                    tries.begin_anew();
                }
                RetryDecision::GiveUp | RetryDecision::Pause => {
                    match self.is_left_to_people(undo, &tries, &failure) {
                        true => doubt = Some(Some(failure)),
                        false => return Err(self.fail(activation, failure, attempts, began)),
                    }
                }
            }
        }
    }

    fn decide(&self, tries: &Tries, failure: &Failure, now: Timestamp) -> RetryDecision {
        let made = AttemptsMade { count: tries.made - tries.before, since: tries.began.unwrap_or(now) };
        decide_retry(&self.policy, made, failure, now, fastrand::f64())
    }

    /// Is what has failed for good to be settled by people? An undo is, whatever its failure says; an effect if it may have happened and
    /// could be undone.
    fn is_left_to_people(&self, undo: Option<&Undo>, tries: &Tries, failure: &Failure) -> bool {
        let may_stand = failure.class() != FailureClass::Permanent && tries.may_have_happened;
        self.kind == StepKind::Undo || (undo.is_some() && may_stand)
    }

    fn gate_of<'a>(&self, activation: &'a Activation, heeds_stops: bool) -> Gate<'a> {
        match heeds_stops {
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
        let in_flight = activation.begin_effect(&self.id);
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
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep(FINAL_POLL_FOR)))
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
    fn schedule_retry(
        &self,
        activation: &Activation,
        undo: Option<&Undo>,
        tries: &Tries,
        failure: Failure,
        at: Timestamp,
    ) {
        self.note_retry(activation, &failure, tries.made);
        // The record tells whoever reads it next that the effect may have happened, even if its last attempt did not.
        let failure = match undo.is_some() && tries.may_have_happened {
            true => failure.after_unknown(),
            false => failure,
        };
        let state = StepState::Pending { due_at: at, failure };
        let began = tries.began.unwrap_or_else(|| activation.now());
        self.finish(activation, StepTransition::ScheduleRetry, state, tries.made, began);
    }

    /// Notes in the journal that a try failed and will be made again.
    pub(super) fn note_retry(&self, activation: &Activation, failure: &Failure, attempts: u32) {
        Counters::add(&activation.engine.counters.retries);
        tracing::info!(key = %self.key(activation), run = %activation.facts.id, step = %self.id, attempt = attempts, %failure, "attempt failed; it will be tried again");
        if activation.engine.options.ledger {
            let noted = JournalEvent::Failed { attempt: attempts, failure: failure.clone() };
            activation.queue([activation.note(&self.id, noted)]);
        }
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

/// The tries of a step so far.
#[derive(Debug, Default)]
struct Tries {
    /// How many were begun.
    made: u32,
    /// How many of them were made before people let it begin anew.
    before: u32,
    /// When the first one began.
    began: Option<Timestamp>,
    /// When the next one is due.
    due_at: Option<Timestamp>,
    may_have_happened: bool,
    /// The worker of the last one vanished, and the time is over.
    is_over: bool,
}

impl Tries {
    /// The policy counts from here on.
    fn begin_anew(&mut self) {
        (self.before, self.began, self.is_over) = (self.made, None, false);
    }

    fn are_spent(&self, policy: &RetryPolicy) -> bool {
        self.is_over || self.made - self.before >= policy.attempts()
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
