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

use super::claimed::{Claim, ClaimedStep, RulingOutcome, must_run_by_ruling};
use super::effect_tracker::{EffectTracker, Progress};
use super::scope::{Scope, Undo};
use super::worker::step_remotely;
use super::{Ctx, Home, StepFuture, checked_name, invalid_failure, recorded_outcome};
use crate::hold::Hold;
use crate::limits::FINAL_POLL_FOR;
use crate::model::{
    AttemptsMade, EffectClass, EffectKey, Failure, FailureClass, Fence, JournalEvent, Name, OnDoubt, Payload,
    ProbeAnswer, RetryDecision, RetryPolicy, RunId, StepId, StepKind, StepRecord, StepState, StepStatus,
    StepTransition, Timestamp, decide_retry,
};
use crate::remote::StepRequest;
use crate::runtime::replay_state::{ReplayState, StepLookup, Stop};
use crate::runtime::waits::Gate;
use crate::runtime::{
    Activation, CrashPoint, CrashPointWatcher, drive::panic_text, pending_change::PendingChange,
    stats::Counters,
};

/// One attempt at a step, as its code sees it.
#[derive(Debug, Clone)]
pub struct Attempt {
    key: EffectKey,
    number: u32,
    fence: Fence,
    hold: Hold,
    watched: Option<(CrashPointWatcher, RunId, StepId)>,
}

impl Attempt {
    pub(super) fn new(key: EffectKey, number: u32, activation: &Activation, step: &StepId) -> Self {
        let watcher = activation.engine.options.watcher.clone();
        let watched = watcher.map(|watcher| (watcher, activation.facts.id, step.clone()));
        let hold = activation.watched_hold(step);
        Attempt { key, number, fence: activation.slot().fence, hold, watched }
    }

    /// An attempt that a server asked for.
    pub(super) fn in_worker(key: EffectKey, number: u32, fence: Fence, hold: Hold) -> Self {
        Attempt { key, number, fence, hold, watched: None }
    }

    /// Idempotency key `runId:stepId`. Pass it to the provider, so that repeated attempts have one effect.
    pub fn idempotency_key(&self) -> &str {
        if let Some((watcher, run, step)) = &self.watched {
            watcher.reached(&CrashPoint::KeyRead(*run, step.clone()));
        }
        self.key.as_str()
    }

    /// Number of this attempt, starting at 1. Attempts cut off by a crash count.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Fencing token: the number of the lease that this attempt began with. It rises with every takeover. A
    /// provider that remembers the highest number can reject late requests of earlier holders.
    pub fn fence(&self) -> u64 {
        self.fence.get()
    }

    /// Right to send the effect. Pass it to the code that sends, so that it is checked at the last moment.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Fails if this process no longer holds the run.
    ///
    /// Call it right before the effect leaves the process, after the last await. Another process may have
    /// taken over the run while this one was suspended.
    pub fn ensure_still_held(&self) -> Result<(), Failure> {
        self.hold.ensure_still_held()
    }

    /// Waits until this process loses the run. For work outside the step's future, such as a thread or a
    /// task.
    pub async fn cancelled(&self) {
        self.hold.lost().await;
    }

    /// Returns whether this process has lost the run. For blocking code.
    pub fn is_cancelled(&self) -> bool {
        self.hold.is_lost()
    }
}

/// Builder for a step. Await it to run the step.
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<'a, T, C> {
    ctx: &'a Ctx,
    id: Result<StepName, Failure>,
    code: C,
    policy: RetryPolicy,
    timeout: Option<Duration>,
    undo: Option<Undo>,
    undo_policy: Option<RetryPolicy>,
    claim: Option<Claim<'a, T>>,
    non_idempotent: bool,
    output: std::marker::PhantomData<fn() -> T>,
}

/// Name of a step, and its id if this process chooses it. A server takes ids in the order of asking.
struct StepName {
    name: Name,
    id: Option<StepId>,
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
        let id = checked_name("step name", name).map(|name| match &self.home {
            Home::Engine(engine) => StepName { id: Some(engine.activation.next_id(&name)), name },
            Home::Server(_) => StepName { id: None, name },
        });
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

    /// Alias of [`Ctx::step`].
    pub fn run<'a, T, C, Fut, E>(&'a self, name: &str, code: C) -> Step<'a, T, C>
    where
        C: FnMut(Attempt) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, E>> + Send,
        E: Into<Failure>,
        T: Serialize + DeserializeOwned + Send + 'a,
    {
        self.step(name, code)
    }

    /// Runs a step with blocking code, on a thread for blocking work.
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
                // The thread may start long after it was requested.
                let entered = move || match attempt.ensure_still_held() {
                    Ok(()) => code(attempt).map_err(Into::into),
                    Err(failure) => Err(failure),
                };
                match tokio::task::spawn_blocking(entered).await {
                    Ok(outcome) => outcome,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => Err(panic_failure(&*panic)),
                        Err(_) => Err(Failure::unknown("the thread of the step was stopped")),
                    },
                }
            })
        })
    }
}

impl<'a, T, C> Step<'a, T, C> {
    /// Sets the retry policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Limits one attempt. After a timeout it is unknown whether the effect happened.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Protects an effect that must not run twice when the provider cannot detect duplicates.
    ///
    /// A claim is committed before the effect begins. After a crash the step is in doubt instead of running
    /// again. An error that leaves open whether the effect happened (see [`Failure`]) also puts the step in
    /// doubt.
    pub fn claimed(mut self) -> Self {
        self.claim.get_or_insert_with(Claim::default);
        self
    }

    /// Sets a probe for a [`claimed`](Step::claimed) step: code that asks the provider whether the effect with this key
    /// happened.
    pub fn probe<P, Fut, E>(mut self, probe: P) -> Self
    where
        P: Fn(String) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<ProbeAnswer<T>, E>> + Send + 'a,
        E: Into<Failure>,
    {
        self.claim = Some(self.claim.unwrap_or_default().with_probe(probe));
        self
    }

    /// Limits one call of the probe; the default is the timeout of the step.
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.claim.get_or_insert_with(Claim::default).probe_timeout = Some(timeout);
        self
    }

    /// Sets how long after the start of a doubt the probe's "did not happen" does not count, because a
    /// timed-out request may still be in progress. The default is a little longer than the timeout of the
    /// step. The answer must come twice in any case.
    pub fn probe_settle(mut self, settle: Duration) -> Self {
        self.claim.get_or_insert_with(Claim::default).probe_settle = Some(settle);
        self
    }

    /// Declares that the provider remembers the highest [`Attempt::fence`] and rejects requests with a lower
    /// one. After a crash the effect may then run again at once, without waiting for requests of the vanished
    /// worker.
    pub fn provider_rejects_stale_fences(mut self) -> Self {
        self.claim.get_or_insert_with(Claim::default).rejects_stale_fences = true;
        self
    }

    /// Sets what happens to a [`claimed`](Step::claimed) effect in doubt that no probe resolved; by default
    /// it waits for a person's ruling.
    pub fn on_doubt(mut self, on_doubt: OnDoubt) -> Self {
        self.claim.get_or_insert_with(Claim::default).on_doubt = on_doubt;
        self
    }

    /// Declares that every execution has a new effect, whatever its key. Such a step is refused unless it is
    /// [`claimed`](Step::claimed).
    pub fn non_idempotent(mut self) -> Self {
        self.non_idempotent = true;
        self
    }

    /// Sets the compensation: code that undoes the effect if the run fails or is cancelled later.
    ///
    /// Compensations run last first. Each is a recorded step of its own with retries. If one fails for good,
    /// it needs a ruling.
    ///
    /// The start of a compensable effect is recorded before it begins, so neither a crash nor a cancellation
    /// can lose it. If its outcome is unknown when the run must end, it is clarified first: by another
    /// attempt under the same key, or by a ruling.
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

    /// Sets the retry policy of the compensation; the default is the policy of a step.
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
            let StepName { id, name } = self.id?;
            let class = if self.claim.is_some() { EffectClass::Claimed } else { EffectClass::Idempotent };
            self.ctx.check_effect(&name, class, self.non_idempotent)?;
            let undo = self.undo.map(|undo| undo.with_policy(self.undo_policy));
            let (engine, id) = match (&self.ctx.home, id) {
                (Home::Engine(engine), Some(id)) => (engine, id),
                (Home::Engine(engine), None) => (engine, engine.activation.next_id(&name)),
                (Home::Server(worker), _) => {
                    let request = StepRequest {
                        name: name.to_string(),
                        retry: (self.policy != RetryPolicy::default()).then_some(self.policy),
                        timeout: self.timeout,
                        claim: self.claim.as_ref().map(Claim::request),
                        non_idempotent: self.non_idempotent,
                        compensates: undo.is_some(),
                        compensate_retry: undo.as_ref().and_then(Undo::policy),
                    };
                    return step_remotely(worker, name, request, self.code, self.claim.as_ref(), undo).await;
                }
            };
            let kind = if self.claim.is_some() { StepKind::Claimed } else { StepKind::Effect };
            let effect = Effect { id, kind, policy: self.policy, timeout: self.timeout, obeys_stop: true };
            let (scope, activation): (&Scope, &Activation) = (&engine.scope, &engine.activation);
            let tracker = EffectTracker::new(activation, scope, &effect, undo.as_ref());
            let done = match &self.claim {
                Some(claim) => {
                    ClaimedStep::new(&effect, activation, claim, undo.as_ref()).run(&tracker, self.code).await
                }
                None => effect.run(activation, Some(&tracker), self.code).await,
            };
            match done {
                Ok((outcome, output)) => {
                    tracker.set(Progress::Done(output));
                    Ok(outcome)
                }
                Err(failure) => {
                    tracker.set(Progress::Over);
                    Err(failure)
                }
            }
        })
    }
}

/// Properties of a step, without its code.
pub(super) struct Effect {
    pub(super) id: StepId,
    pub(super) kind: StepKind,
    pub(super) policy: RetryPolicy,
    pub(super) timeout: Option<Duration>,
    /// True if the step must not begin in a run that must stop.
    pub(super) obeys_stop: bool,
}

impl Effect {
    /// Runs the step to its outcome, with retries. Returns the value and its recorded form. An undo has no
    /// `tracker`: it stays in its scope until it is done, so it cannot be lost.
    pub(super) async fn run<T, C, Fut, E>(
        &self,
        activation: &Activation,
        tracker: Option<&EffectTracker<'_>>,
        mut code: C,
    ) -> Result<(T, Payload), Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
        T: Serialize + DeserializeOwned,
    {
        // Attempts before a retry of the run dropped the record. They are counted, but not against this
        // policy.
        let before = activation.replay().attempts_before(&self.id);
        // Attempt that a crash cut off and that has no evidence yet.
        let mut cut_off = None;
        let mut tries = AttemptCount { made: before, before, ..AttemptCount::default() };
        // Set if the vanished previous holder, or this engine, may have begun this step without a record.
        let mut hidden = None;
        // Set while the step is in doubt. Holds the failure that still has to be recorded, if any.
        let mut doubt: Option<Option<Failure>> = None;
        match activation.look_up_step(&self.id, self.kind) {
            StepLookup::Done(record) => {
                let output = match &record.state {
                    StepState::Completed { output, .. } => output.clone(),
                    _ => Payload::null(),
                };
                if let Some(tracker) = tracker {
                    tracker.set(match &record.state {
                        StepState::Completed { .. } => Progress::Done(output.clone()),
                        _ => Progress::Over,
                    });
                }
                return Ok((recorded_outcome(activation, &self.id, record.state).await?, output));
            }
            StepLookup::Cancelled => {
                if let Some(tracker) = tracker {
                    tracker.set(Progress::Over);
                }
                return activation.wait_as_cancelled().await;
            }
            StepLookup::Open(record) => {
                (tries.made, tries.began) = (record.attempts, Some(record.started_at));
                match record.state {
                    StepState::Pending { due_at, failure } => {
                        tries.may_have_happened = failure.class() == FailureClass::Unknown;
                        tries.due_at = Some(due_at);
                        let decision = self.decide(&tries, &failure, activation.now());
                        if decision == RetryDecision::Pause || must_run_by_ruling(&failure) {
                            // A person resumed the run that paused for this step, or ruled that the step must
                            // run.
                            tries.reset_policy();
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
            StepLookup::NotRecorded => {
                // A compensable step, or one with a single attempt, is always recorded before it begins.
                let is_recorded =
                    tracker.is_some_and(|tracker| tracker.undo.is_some()) || self.policy.attempts() == 1;
                let may_be_hidden = activation.replay().take_unrecorded(&self.id, self.kind);
                hidden = (may_be_hidden && !is_recorded).then(|| activation.count_unrecorded());
            }
        };
        let undo = tracker.and_then(|tracker| tracker.undo);
        let track = |progress| {
            if let Some(tracker) = tracker {
                tracker.set(progress);
            }
        };
        let key = EffectKey::new(activation.facts.id, activation.generation, &self.id);
        loop {
            if let Some(failure) = doubt.take() {
                let (attempts, began) = (tries.made, tries.began.unwrap_or_else(|| activation.now()));
                track(Progress::InDoubt { attempts, began });
                let claim = Claim::default();
                let held = ClaimedStep::about(self, activation, &claim, undo, attempts, began);
                match held.wait_for_ruling(failure).await {
                    RulingOutcome::Happened(value, output) => return Ok((value, output)),
                    RulingOutcome::Failed(failure) => return Err(failure),
                    RulingOutcome::DidNotHappen => {
                        tries.may_have_happened = false;
                        tries.reset_policy();
                    }
                }
            }
            // A compensable effect that may have happened keeps the run from ending until its outcome is
            // known.
            let is_held = undo.is_some() && tries.may_have_happened;
            let _held = is_held.then(|| activation.hold_for_doubt());
            let obeys_stop = self.obeys_stop && !is_held;
            track(match is_held {
                true => Progress::MayHaveHappened {
                    attempts: tries.made,
                    began: tries.began.unwrap_or_else(|| activation.now()),
                },
                false if hidden.is_some() => Progress::Unrecorded { attempt: before + 1 },
                false => Progress::NotBegun,
            });
            if let Some(due_at) = tries.due_at.take() {
                let due = move |replay: &mut ReplayState, now: Timestamp| {
                    (now >= due_at && replay.stop != Some(Stop::Exhausted)).then_some(())
                };
                match obeys_stop {
                    true => activation.wait_for(self.id.clone(), Some(due_at), due).await,
                    false => activation.wait_ignoring_stops(self.id.clone(), Some(due_at), due).await,
                }
            }
            // If nothing blocks the effect, its start is recorded in the commit of the earlier changes.
            let is_marked_at_once = undo.is_some() && activation.may_record_start(obeys_stop);
            if !is_marked_at_once {
                self.gate(activation, obeys_stop).await;
            }
            let recovering = activation.replay().head.stalls > 0;
            if hidden.take().is_some() {
                // An attempt that may have begun without a record counts.
                tries.made += 1;
                cut_off = Some(tries.made);
                tries.may_have_happened = true;
            }
            let began = *tries.began.get_or_insert_with(|| activation.now());
            if tries.are_used_up(&self.policy) {
                let text = format!(
                    "{} attempts were begun and none came to an end: its worker vanished each time",
                    tries.made
                );
                let failure = Failure::unknown(text).with_code("crashed");
                match self.needs_ruling(undo, &tries, &failure) {
                    true => doubt = Some(Some(failure)),
                    false => return Err(self.fail(activation, failure, tries.made, began)),
                }
                continue;
            }
            if let Some(cut_off) = cut_off.take() {
                activation.queue([activation.cut_off_entry(&self.id, self.kind, cut_off)]);
            }
            tries.made += 1;
            let attempts = tries.made;
            if undo.is_some() {
                // From here on the run must not stop before it is known whether the effect began.
                let staying = activation.block_parking();
                if !is_held {
                    track(Progress::Marked { attempts, began });
                }
                self.record_start(activation, attempts, began);
                activation.gate_ignoring_stops().await;
                let must_end = {
                    let replay = activation.replay();
                    obeys_stop && replay.is_stopped() && replay.must_end()
                };
                if must_end {
                    // The code did not run and never will. A run that only pauses finishes what is recorded
                    // as begun.
                    let state = StepState::Cancelled { at: activation.now() };
                    self.finish(activation, StepTransition::Withdraw, state, attempts, began);
                    track(Progress::Over);
                    drop(staying);
                    return std::future::pending().await;
                }
                track(Progress::MayHaveHappened { attempts, began });
            } else if recovering || self.policy.attempts() == 1 || attempts > 1 {
                // The attempt must be recorded after a crash, if it is the only one allowed, or if it would
                // otherwise not be counted: the record of a failed step shows fewer attempts.
                track(Progress::Marked { attempts, began });
                self.record_start(activation, attempts, began);
                self.gate(activation, obeys_stop).await;
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
                    // The effect happened, but its output cannot be stored. To undo it, a person must say
                    // what it was.
                    Err(invalid) if undo.is_some() => {
                        Failure::unknown(invalid).with_code("invalid").finally()
                    }
                    Err(invalid) => {
                        return Err(self.fail(activation, invalid_failure(invalid), attempts, began));
                    }
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
            let must_end = activation.replay().must_end();
            match decision {
                RetryDecision::At(at) => {
                    self.schedule_retry(activation, undo, &tries, failure, at);
                    tries.due_at = Some(at);
                }
                RetryDecision::Pause if !must_end => {
                    self.schedule_retry(activation, undo, &tries, failure.clone(), now);
                    activation.pause_exhausted(&self.id, &failure);
                    tries.due_at = Some(now);
                    tries.reset_policy();
                }
                RetryDecision::GiveUp | RetryDecision::Pause => {
                    match self.needs_ruling(undo, &tries, &failure) {
                        true => doubt = Some(Some(failure)),
                        false => return Err(self.fail(activation, failure, attempts, began)),
                    }
                }
            }
        }
    }

    fn decide(&self, tries: &AttemptCount, failure: &Failure, now: Timestamp) -> RetryDecision {
        let made = AttemptsMade { count: tries.made - tries.before, since: tries.began.unwrap_or(now) };
        decide_retry(&self.policy, made, failure, now, fastrand::f64())
    }

    /// Returns whether a final failure needs a ruling: always for an undo, and for a compensable effect that
    /// may have happened.
    fn needs_ruling(&self, undo: Option<&Undo>, tries: &AttemptCount, failure: &Failure) -> bool {
        let may_stand = failure.class() != FailureClass::Permanent && tries.may_have_happened;
        self.kind == StepKind::Undo || (undo.is_some() && may_stand)
    }

    fn gate<'a>(&self, activation: &'a Activation, obeys_stop: bool) -> Gate<'a> {
        match obeys_stop {
            true => activation.gate(),
            false => activation.gate_ignoring_stops(),
        }
    }

    /// Idempotency key for the provider.
    pub(super) fn key(&self, activation: &Activation) -> EffectKey {
        EffectKey::new(activation.facts.id, activation.generation, &self.id)
    }

    /// Runs one attempt: isolates panics, applies the timeout, and records the start if it takes long.
    ///
    /// The code runs, and continues after each await, only while the lease holds. After a lost lease the run
    /// may belong to another process.
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
        activation.reached(|| CrashPoint::BeforeEffect(run, self.id.clone())).await;
        // Built only if the log level needs it. `Attempt::idempotency_key` is not called, because a watcher
        // would attribute that call to the step's code.
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
        let mut marked = activation.replay().open.get(&self.id).is_some_and(is_running);
        let (mut is_entered, mut place) = (false, 0);
        let outcome = poll_fn(|cx| {
            // The watcher is called before the code starts, because a pause at this point is the worst one.
            let is_held = if is_entered { hold.stands() } else { hold.is_held() };
            if !is_held {
                // If the lease is renewed after all, the code continues. If it is lost, the driver drops the
                // code.
                activation.replay().await_change(&mut place, cx);
                return Poll::Pending;
            }
            is_entered = true;
            if let Poll::Ready(outcome) = span.in_scope(|| running.as_mut().poll(cx)) {
                return Poll::Ready(outcome.unwrap_or_else(|panic| Err(panic_failure(&*panic))));
            }
            if let Some(timeout) = self.timeout {
                let timer = cut_off.get_or_insert_with(|| clock.sleep(timeout));
                // At the timeout the outcome gets one more check: see `patience`.
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
                    self.record_start(activation, number, began);
                    // No code waits for this record, so the driver must be woken to commit it.
                    cx.waker().wake_by_ref();
                }
            }
            Poll::Pending
        })
        .await;
        let told = outcome_label(&outcome);
        span.record("outcome", told);
        drop(span);
        tracing::info!(key = %key(), %run, step = %self.id, attempt = number, outcome = told, "effect ended");
        activation.wait_for_turn(&self.id).await;
        drop(in_flight);
        activation.reached(|| CrashPoint::AfterEffect(run, self.id.clone())).await;
        outcome
    }

    /// Records a failed attempt and when the next one is due.
    fn schedule_retry(
        &self,
        activation: &Activation,
        undo: Option<&Undo>,
        tries: &AttemptCount,
        failure: Failure,
        at: Timestamp,
    ) {
        self.record_retry(activation, &failure, tries.made);
        // The record must show that the effect may have happened, even if its last attempt did not.
        let failure = match undo.is_some() && tries.may_have_happened {
            true => failure.after_unknown(),
            false => failure,
        };
        let state = StepState::Pending { due_at: at, failure };
        let began = tries.began.unwrap_or_else(|| activation.now());
        self.finish(activation, StepTransition::ScheduleRetry, state, tries.made, began);
    }

    /// Adds a journal entry for a failed attempt that will be retried.
    pub(super) fn record_retry(&self, activation: &Activation, failure: &Failure, attempts: u32) {
        Counters::add(&activation.engine.counters.retries);
        tracing::info!(key = %self.key(activation), run = %activation.facts.id, step = %self.id, attempt = attempts, %failure, "attempt failed; it will be tried again");
        if activation.engine.options.ledger {
            let noted = JournalEvent::Failed { attempt: attempts, failure: failure.clone() };
            activation.queue([activation.journal_entry(&self.id, noted)]);
        }
    }

    /// Records that an attempt begins.
    pub(super) fn record_start(&self, activation: &Activation, attempts: u32, began: Timestamp) {
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
    ) -> PendingChange {
        PendingChange::finished(&self.id, self.kind, transition, state, attempts, began)
    }
}

/// Attempts at a step so far.
#[derive(Debug, Default)]
struct AttemptCount {
    /// Number of attempts begun.
    made: u32,
    /// Number of attempts before the retry policy was reset.
    before: u32,
    /// Start of the first attempt.
    began: Option<Timestamp>,
    /// Time of the next attempt.
    due_at: Option<Timestamp>,
    may_have_happened: bool,
    /// The worker of the last attempt vanished, and the policy's time limit has passed.
    is_over: bool,
}

impl AttemptCount {
    /// Restarts the count of the retry policy.
    fn reset_policy(&mut self) {
        (self.before, self.began, self.is_over) = (self.made, None, false);
    }

    fn are_used_up(&self, policy: &RetryPolicy) -> bool {
        self.is_over || self.made - self.before >= policy.attempts()
    }
}

/// Label of an outcome for logs and traces.
pub(super) fn outcome_label<T>(outcome: &Result<T, Failure>) -> &'static str {
    match outcome {
        Ok(_) => "completed",
        Err(failure) => match failure.class() {
            FailureClass::Retryable | FailureClass::Permanent => "failed",
            FailureClass::Unknown => "unknown",
        },
    }
}

pub(super) fn panic_failure(panic: &(dyn std::any::Any + Send)) -> Failure {
    Failure::unknown(format!("the step panicked: {}", panic_text(panic))).with_code("panicked")
}
