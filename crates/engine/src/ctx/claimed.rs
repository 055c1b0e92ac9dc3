//! Claimed steps: a claim is committed before the effect begins, so that the effect happens at most once. A
//! crash in between leaves the step in doubt.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::effect_tracker::{DoubtedStep, EffectTracker, Progress};
use super::scope::Undo;
use super::step::{Effect, panic_failure};
use super::while_held::while_held;
use super::{Attempt, invalid_failure, recorded_outcome};
use crate::limits::{MAX_PROBE, MAX_PROBE_PAUSE, MAX_PROBE_TRIES, PROBE_EVERY};
use crate::model::{
    AttemptsMade, Denial, DoubtedAttempt, EffectKey, Failure, FailureClass, JournalEvent, OnDoubt, Payload,
    ProbeAnswer, Promise, PromiseId, PromiseState, Resolution, RetryDecision, RetryPolicy, Ruling,
    SettleTime, Settlement, StepId, StepKind, StepState, StepTransition, Timestamp, decide_denial,
    decide_retry,
};
use crate::remote::ClaimRequest;
use crate::runtime::Activation;
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::{ReplayState, StepLookup};
use crate::runtime::stats::Counters;
use crate::timeout::answer_within;

/// Code that asks the provider about an effect.
type ProbeCode<'a, T> = Box<dyn Fn(String) -> ProbeFuture<'a, T> + Send + Sync + 'a>;

/// A question to the provider under way.
pub(super) type ProbeFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<ProbeAnswer<T>, Failure>> + Send + 'a>>;

/// Policy for an effect with an unknown outcome.
pub(super) struct Claim<'a, T> {
    pub(super) probe: Option<ProbeCode<'a, T>>,
    /// Time limit for one call of the probe.
    pub(super) probe_timeout: Option<Duration>,
    /// Time after the start of a doubt during which the probe's "did not happen" does not count.
    pub(super) probe_settle: Option<Duration>,
    pub(super) on_doubt: OnDoubt,
    /// True if the provider rejects requests of earlier holders by their fence.
    pub(super) rejects_stale_fences: bool,
}

impl<T> Default for Claim<'_, T> {
    fn default() -> Self {
        Claim {
            probe: None,
            probe_timeout: None,
            probe_settle: None,
            on_doubt: OnDoubt::default(),
            rejects_stale_fences: false,
        }
    }
}

impl<'a, T> Claim<'a, T> {
    /// The policy, for a server that applies it.
    pub(super) fn request(&self) -> ClaimRequest {
        ClaimRequest {
            has_probe: self.probe.is_some(),
            probe_timeout: self.probe_timeout,
            probe_settle: self.probe_settle,
            on_doubt: self.on_doubt,
            rejects_stale_fences: self.rejects_stale_fences,
        }
    }

    pub(super) fn with_probe<P, Fut, E>(self, probe: P) -> Self
    where
        P: Fn(String) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<ProbeAnswer<T>, E>> + Send + 'a,
        E: Into<Failure>,
    {
        let probe: ProbeCode<'a, T> = Box::new(move |key| {
            let asking = probe(key);
            Box::pin(async move { asking.await.map_err(Into::into) })
        });
        Claim { probe: Some(probe), ..self }
    }
}

/// A claimed step in progress.
pub(super) struct ClaimedStep<'a, 'c, T> {
    pub(super) effect: &'a Effect,
    pub(super) activation: &'a Activation,
    pub(super) claim: &'a Claim<'c, T>,
    pub(super) undo: Option<&'a Undo>,
    key: EffectKey,
    attempts: u32,
    began: Timestamp,
    /// Attempts before a retry of the run dropped the record. They are counted, but not against this policy.
    before: u32,
    /// Time at which the last attempt came into doubt.
    doubted_at: Timestamp,
    /// True if its holder vanished. A request of that holder may still be in flight.
    holder_vanished: bool,
}

/// Next action on a claimed step.
enum NextAction {
    /// Try, at this time at the earliest.
    Try(Option<Timestamp>),
    /// Record that the outcome of the last attempt is unknown.
    Doubt(Failure),
    /// The doubt is recorded. Probe, or wait for a ruling.
    ResolveDoubt,
}

/// Result of a ruling.
pub(super) enum RulingOutcome<T> {
    Happened(T, Payload),
    /// The step may be tried again.
    DidNotHappen,
    Failed(Failure),
}

/// Waits for a ruling on an effect whose code was dropped, so that it can be undone. Returns `None` if there
/// is nothing to undo.
pub(super) async fn settle_for_undo(
    activation: &Activation,
    step: &StepId,
    doubted: DoubtedStep,
    undo: &Undo,
) -> Result<Option<Payload>, Failure> {
    let DoubtedStep { kind, attempts, began } = doubted;
    let policy = RetryPolicy::never();
    let effect = Effect { id: step.clone(), kind, policy, timeout: None, obeys_stop: true };
    let claim = Claim::<serde_json::Value>::default();
    let held = ClaimedStep::about(&effect, activation, &claim, Some(undo), attempts, began);
    activation.gate_ignoring_stops().await;
    // Until now no code waited for a ruling, so some rulings were not possible.
    let anew = {
        let replay = activation.replay();
        let is_ruled = replay.last_doubt(&held.doubted()).is_some_and(|last| replay.is_settled(&last.id));
        let was_cut_off = replay.open.get(step).is_some_and(|record| match &record.state {
            StepState::InDoubt { failure, .. } => failure.code() == Some("cut_off"),
            _ => false,
        });
        was_cut_off && !is_ruled
    };
    let text = "it was dropped in the middle, and the run is being undone; if it happened, it will be undone as well";
    let failure = anew.then(|| Failure::unknown(text).with_code("unsettled"));
    match held.wait_for_ruling(failure).await {
        RulingOutcome::Happened(_, output) => Ok(Some(output)),
        RulingOutcome::DidNotHappen => Ok(None),
        RulingOutcome::Failed(failure) if failure.code() == Some("undo_failed") => Err(failure),
        RulingOutcome::Failed(_) => Ok(None),
    }
}

/// Result of resolving a doubt.
enum DoubtResolution<T> {
    Happened(T, Payload),
    /// Retry at this time.
    Retry(Timestamp),
    /// A person ruled that it did not happen. Try again at this time.
    DidNotHappen(Timestamp),
    Compensate(Payload),
    Failed(Failure),
    /// The ruling cannot be applied.
    Unusable(Failure),
}

impl<'a, 'c, T: Serialize + DeserializeOwned> ClaimedStep<'a, 'c, T> {
    pub(super) fn new(
        effect: &'a Effect,
        activation: &'a Activation,
        claim: &'a Claim<'c, T>,
        undo: Option<&'a Undo>,
    ) -> Self {
        Self::about(effect, activation, claim, undo, 0, activation.now())
    }

    /// Creates a step that has already made `attempts` attempts.
    pub(super) fn about(
        effect: &'a Effect,
        activation: &'a Activation,
        claim: &'a Claim<'c, T>,
        undo: Option<&'a Undo>,
        attempts: u32,
        began: Timestamp,
    ) -> Self {
        let key = EffectKey::new(activation.facts.id, activation.generation, &effect.id);
        let before = activation.replay().attempts_before(&effect.id);
        let attempts = attempts.max(before);
        let (doubted_at, holder_vanished) = (began, false);
        ClaimedStep {
            effect,
            activation,
            claim,
            undo,
            key,
            attempts,
            before,
            began,
            doubted_at,
            holder_vanished,
        }
    }

    fn settle_time(&self) -> SettleTime {
        SettleTime::new(self.effect.timeout, self.claim.probe_settle, self.claim.rejects_stale_fences)
    }

    /// Earliest time at which the effect may run again.
    fn retry_from(&self) -> Timestamp {
        self.settle_time().retry_from(self.doubted_at, self.holder_vanished)
    }

    /// Waits for a person's ruling. Records `failure` as a doubt first, if given.
    pub(super) async fn wait_for_ruling(mut self, mut failure: Option<Failure>) -> RulingOutcome<T> {
        loop {
            if let Some(failure) = failure.take() {
                self.wait_for_replay_end().await;
                self.doubted_at = self.activation.now();
                self.doubt(self.doubted_at, failure);
            }
            match self.resolve_doubt().await {
                DoubtResolution::Happened(value, output) => return RulingOutcome::Happened(value, output),
                DoubtResolution::DidNotHappen(_) | DoubtResolution::Retry(_) => {
                    return RulingOutcome::DidNotHappen;
                }
                DoubtResolution::Compensate(output) => {
                    return RulingOutcome::Failed(self.compensate(output).await);
                }
                DoubtResolution::Failed(failure) => return RulingOutcome::Failed(failure),
                DoubtResolution::Unusable(unusable) => failure = Some(unusable),
            }
        }
    }

    pub(super) async fn run<C, Fut, E>(
        mut self,
        tracker: &EffectTracker<'_>,
        mut code: C,
    ) -> Result<(T, Payload), Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let mut next = match self.activation.look_up_step(&self.effect.id, StepKind::Claimed) {
            StepLookup::Done(record) => {
                let output = match &record.state {
                    StepState::Completed { output, .. } => output.clone(),
                    _ => Payload::null(),
                };
                if let StepState::Completed { .. } = &record.state {
                    tracker.set(Progress::Done(output.clone()));
                }
                let value = recorded_outcome(self.activation, &self.effect.id, record.state).await?;
                return Ok((value, output));
            }
            StepLookup::Cancelled => return self.activation.wait_as_cancelled().await,
            StepLookup::Open(record) => {
                (self.attempts, self.began) = (record.attempts, record.started_at);
                match record.state {
                    StepState::Pending { due_at, failure } => {
                        if self.decide(&failure) == RetryDecision::Pause || must_run_by_ruling(&failure) {
                            // A person resumed the run that paused for this step, or ruled that the step must
                            // run.
                            self.reset_policy();
                        }
                        NextAction::Try(Some(due_at))
                    }
                    StepState::InDoubt { since, failure } => {
                        // A doubt with more than one round may have begun with a vanished holder.
                        let is_first_round = self.is_first_round();
                        self.holder_vanished = failure.code() == Some(CRASHED) || !is_first_round;
                        self.doubted_at = since;
                        NextAction::ResolveDoubt
                    }
                    _ => {
                        self.holder_vanished = true;
                        NextAction::Doubt(
                            Failure::unknown("its worker vanished in the middle of it").with_code(CRASHED),
                        )
                    }
                }
            }
            StepLookup::NotRecorded => NextAction::Try(None),
        };
        loop {
            next = match next {
                NextAction::Try(due_at) => match self.attempt(tracker, due_at, &mut code).await? {
                    Ok(done) => return Ok(done),
                    Err(next) => next,
                },
                NextAction::Doubt(failure) => {
                    self.wait_for_replay_end().await;
                    self.doubted_at = self.activation.now();
                    self.doubt(self.doubted_at, failure);
                    NextAction::ResolveDoubt
                }
                NextAction::ResolveDoubt => match self.resolve_tracked_doubt(tracker).await {
                    DoubtResolution::Happened(value, output) => return Ok((value, output)),
                    DoubtResolution::Retry(due_at) => NextAction::Try(Some(due_at)),
                    DoubtResolution::DidNotHappen(due_at) => {
                        self.reset_policy();
                        NextAction::Try(Some(due_at))
                    }
                    DoubtResolution::Compensate(output) => return Err(self.compensate(output).await),
                    DoubtResolution::Failed(failure) => return Err(failure),
                    DoubtResolution::Unusable(failure) => NextAction::Doubt(failure),
                },
            };
        }
    }

    /// Resolves the doubt. If the code is dropped in between, the doubt is resolved before the effect is
    /// undone.
    async fn resolve_tracked_doubt(&mut self, tracker: &EffectTracker<'_>) -> DoubtResolution<T> {
        tracker.set(Progress::InDoubt { attempts: self.attempts, began: self.began });
        let settled = self.resolve_doubt().await;
        tracker.set(Progress::NotBegun);
        settled
    }

    /// Restarts the count of the retry policy.
    fn reset_policy(&mut self) {
        (self.before, self.began) = (self.attempts, self.activation.now());
    }

    /// Returns whether another failure would be the last one.
    fn is_last_attempt(&self) -> bool {
        let failure = Failure::unknown("the outcome of the effect is unknown");
        !matches!(self.decide(&failure), RetryDecision::At(_))
    }

    fn decide(&self, failure: &Failure) -> RetryDecision {
        let made = AttemptsMade { count: self.attempts - self.before, since: self.began };
        decide_retry(&self.effect.policy, made, failure, self.activation.now(), fastrand::f64())
    }

    /// Waits until the replay is over. Until then it is not certain that this code made the records, so
    /// nothing may be decided. Without a replay it does not wait: the doubt must be recorded in this turn,
    /// because the run may be about to stop.
    async fn wait_for_replay_end(&self) {
        let is_replaying = self.activation.replay().replaying;
        if is_replaying {
            let _held = self.activation.hold_for_doubt();
            self.activation.gate_ignoring_stops().await;
        }
    }

    /// Claims the effect, and runs the code once the claim is durable.
    async fn attempt<C, Fut, E>(
        &mut self,
        tracker: &EffectTracker<'_>,
        due_at: Option<Timestamp>,
        code: &mut C,
    ) -> Result<Result<(T, Payload), NextAction>, Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let (effect, activation) = (self.effect, self.activation);
        if let Some(due_at) = due_at {
            let due = move |_: &mut _, now: Timestamp| (now >= due_at).then_some(());
            activation.wait_for(effect.id.clone(), Some(due_at), due).await;
        }
        activation.gate().await;
        if self.attempts == self.before {
            self.began = activation.now();
        }
        self.attempts += 1;
        self.holder_vanished = false;
        // From here on the run must not stop before the outcome is known: an unused claim would be a doubt.
        let staying = activation.block_parking();
        effect.record_start(activation, self.attempts, self.began);
        activation
            .queue([activation.journal_entry(&effect.id, JournalEvent::Claimed { attempt: self.attempts })]);
        let mut cut_off = AttemptDropGuard { claimed: &*self, tracker, stage: AttemptStage::Claimed };
        activation.gate_ignoring_stops().await;
        if activation.replay().is_stopped() {
            // The code did not run, and that is certain.
            cut_off.stage = AttemptStage::Left;
            drop(cut_off);
            return Ok(Err(self.release_claim()));
        }
        cut_off.stage = AttemptStage::Begun;
        let attempt = Attempt::new(self.key.clone(), self.attempts, activation, &effect.id);
        let outcome = effect.attempt(activation, code, attempt, self.began).await;
        cut_off.stage = AttemptStage::Left;
        drop(cut_off);
        drop(staying);
        let failure = match outcome {
            Ok(value) => match Payload::of(&value) {
                Ok(output) => {
                    let state = StepState::Completed { at: activation.now(), output: output.clone() };
                    effect.finish(activation, StepTransition::Complete, state, self.attempts, self.began);
                    return Ok(Ok((value, output)));
                }
                // The effect happened, but its output cannot be stored. Only a person can say what it was.
                Err(invalid) => return Ok(Err(NextAction::Doubt(invalid_failure(invalid)))),
            },
            Err(failure) => failure,
        };
        if failure.class() == FailureClass::Unknown {
            return Ok(Err(NextAction::Doubt(failure)));
        }
        match self.decide(&failure) {
            RetryDecision::Pause if !activation.replay().must_end() => {
                self.schedule_retry(failure.clone(), activation.now());
                activation.pause_exhausted(&effect.id, &failure);
                self.reset_policy();
                Ok(Err(NextAction::Try(Some(activation.now()))))
            }
            RetryDecision::GiveUp | RetryDecision::Pause => {
                Err(effect.fail(activation, failure, self.attempts, self.began))
            }
            RetryDecision::At(at) => {
                self.schedule_retry(failure, at);
                Ok(Err(NextAction::Try(Some(at))))
            }
        }
    }

    fn schedule_retry(&self, failure: Failure, due_at: Timestamp) {
        let (effect, activation) = (self.effect, self.activation);
        effect.record_retry(activation, &failure, self.attempts);
        let state = StepState::Pending { due_at, failure };
        effect.finish(activation, StepTransition::ScheduleRetry, state, self.attempts, self.began);
    }

    /// Releases the claim, so that the run can stop without a doubt.
    fn release_claim(&self) -> NextAction {
        let (effect, activation) = (self.effect, self.activation);
        let failure = Failure::retryable("it was to stop before it began").with_code("not_begun");
        let noted = JournalEvent::Failed { attempt: self.attempts, failure: failure.clone() };
        let due_at = activation.now();
        activation.queue([
            activation.journal_entry(&effect.id, noted),
            effect.change(
                StepTransition::ScheduleRetry,
                StepState::Pending { due_at, failure },
                self.attempts,
                self.began,
            ),
        ]);
        NextAction::Try(Some(due_at))
    }

    /// Records the doubt and opens the promise that resolves it.
    pub(super) fn doubt(&self, since: Timestamp, failure: Failure) {
        let (effect, activation) = (self.effect, self.activation);
        Counters::add(&activation.engine.counters.doubts);
        tracing::warn!(key = %self.key, %failure, "effect in doubt");
        let about = self.doubted();
        let run = activation.facts.id;
        let id = about.next(activation.replay().last_doubt(&about));
        let promise = Promise::pending(id, run, since, None);
        activation.replay().keep_promise(promise.clone());
        let note = activation.journal_entry(
            &effect.id,
            JournalEvent::Doubted { attempt: self.attempts, failure: failure.clone() },
        );
        let state = StepState::InDoubt { since, failure };
        activation.queue([
            PendingChange::OpenPromise(Box::new(promise)),
            effect.change(StepTransition::Doubt, state, self.attempts, self.began),
            note,
        ]);
    }

    fn doubted(&self) -> DoubtedAttempt {
        let Activation { facts, generation, .. } = self.activation;
        DoubtedAttempt::new(facts.id, *generation, &self.effect.id, self.attempts)
    }

    /// Returns whether the doubt is in its first round.
    fn is_first_round(&self) -> bool {
        let about = self.doubted();
        self.activation.replay().last_doubt(&about).is_none_or(|last| last.id == about.round(1))
    }

    /// Resolves the doubt: probes the provider, then applies the step's policy or waits for a ruling.
    async fn resolve_doubt(&mut self) -> DoubtResolution<T> {
        let (effect, activation) = (self.effect, self.activation);
        // A run that ends would leave the doubt without code that can act on a ruling.
        let _held = activation.hold_for_doubt();
        self.wait_for_replay_end().await;
        let last = activation.replay().last_doubt(&self.doubted()).map(|promise| promise.id.clone());
        let Some(promise) = last else {
            return DoubtResolution::Unusable(
                Failure::unknown("the doubt had no promise").with_code(CRASHED),
            );
        };
        let denial_counts_from = self.settle_time().denial_counts_from(self.doubted_at, self.holder_vanished);
        // After a crash the time of the first "did not happen" is lost, and it must be confirmed twice again.
        let (mut pause, mut denied_at) = (PROBE_EVERY, None);
        loop {
            let is_ruled = activation.replay().is_settled(&promise);
            let mut ask_again_at = None;
            if !is_ruled && let Some(probe) = &self.claim.probe {
                let (answer, asked_at) = self.probe_provider(probe).await;
                match answer {
                    ProbeAnswer::Happened(value) => match Payload::of(&value) {
                        Ok(output) => {
                            let state = StepState::Completed { at: activation.now(), output: output.clone() };
                            self.close_doubt(&promise, StepTransition::Happened, state);
                            return DoubtResolution::Happened(value, output);
                        }
                        Err(invalid) => {
                            tracing::error!(key = %self.key, %invalid, "the answer of the probe cannot be kept")
                        }
                    },
                    ProbeAnswer::DidNotHappen => match decide_denial(denial_counts_from, denied_at, asked_at)
                    {
                        Denial::Believed => {
                            let failure = Failure::retryable("the provider says that it did not happen")
                                .with_code("did_not_happen");
                            return self.retry_or_fail(&promise, failure);
                        }
                        Denial::AskAgainAt(at) => {
                            denied_at = denied_at.or(Some(asked_at)).filter(|at| *at >= denial_counts_from);
                            ask_again_at = Some(at);
                        }
                    },
                    ProbeAnswer::Unknown => denied_at = None,
                }
            }
            match self.claim.on_doubt {
                _ if is_ruled || ask_again_at.is_some() => {}
                OnDoubt::Hold => {}
                // An effect that may have happened and can be undone is given up only by a ruling.
                OnDoubt::Retry if self.undo.is_some() && self.is_last_attempt() => {}
                OnDoubt::Fail if self.undo.is_some() => {}
                OnDoubt::Retry => {
                    let failure =
                        Failure::unknown("the outcome of the effect is unknown").with_code("in_doubt");
                    return self.retry_or_fail(&promise, failure);
                }
                OnDoubt::Fail => {
                    activation.queue([PendingChange::TimeOutPromise(promise.clone())]);
                    let failure =
                        Failure::unknown("the outcome of the effect is unknown").with_code("in_doubt");
                    return DoubtResolution::Failed(self.give_up(failure));
                }
            }
            let until = match (ask_again_at, &self.claim.probe) {
                (Some(at), _) => Some(at),
                (None, Some(_)) => {
                    let at = activation.now().plus(pause);
                    pause = (pause * 2).min(MAX_PROBE_PAUSE);
                    Some(at)
                }
                (None, None) => None,
            };
            let look = |replay: &mut ReplayState, now: Timestamp| match replay
                .find_promise(&promise)
                .map(|found| &found.state)
            {
                Some(PromiseState::Settled { settlement, .. }) => Some(Some(settlement.clone())),
                _ => until.filter(|until| now >= *until).map(|_| None),
            };
            if let Some(settlement) = activation.wait_ignoring_stops(effect.id.clone(), until, look).await {
                return self.apply_ruling(settlement);
            }
        }
    }

    /// Retries on its own, as the policy says.
    fn retry_or_fail(&self, promise: &PromiseId, failure: Failure) -> DoubtResolution<T> {
        let now = self.activation.now();
        let wait_until = |due_at| {
            let state = StepState::Pending { due_at, failure: failure.clone() };
            self.close_doubt(promise, StepTransition::DidNotHappen, state);
            DoubtResolution::Retry(due_at)
        };
        match self.decide(&failure) {
            RetryDecision::At(due_at) => wait_until(due_at.max(self.retry_from())),
            RetryDecision::Pause if !self.activation.replay().must_end() => {
                self.activation.pause_exhausted(&self.effect.id, &failure);
                wait_until(now)
            }
            RetryDecision::GiveUp | RetryDecision::Pause => {
                let state = StepState::Failed { at: now, failure: failure.clone() };
                self.close_doubt(promise, StepTransition::Abandon, state);
                DoubtResolution::Failed(failure)
            }
        }
    }

    /// Applies a ruling.
    fn apply_ruling(&self, settlement: Settlement) -> DoubtResolution<T> {
        let ruling: Ruling = match settlement {
            Settlement::Resolved(value) => match value.to() {
                Ok(ruling) => ruling,
                Err(error) => {
                    return DoubtResolution::Unusable(Failure::unknown(format!(
                        "the ruling cannot be read: {error}"
                    )));
                }
            },
            Settlement::Rejected(failure) | Settlement::Cancelled(failure) => {
                return DoubtResolution::Unusable(failure);
            }
        };
        let activation = self.activation;
        let (effect, at) = (self.effect, activation.now());
        let output = |output: &serde_json::Value| {
            // An undo has no output.
            let output = if effect.kind == StepKind::Undo { &serde_json::Value::Null } else { output };
            let output = Payload::of(output).map_err(invalid_failure)?;
            let value: T = output.to().map_err(|error| {
                Failure::unknown(format!("the output that was given does not fit the step: {error}"))
                    .with_code("output_mismatch")
            })?;
            Ok::<_, Failure>((value, output))
        };
        match &ruling.resolution {
            Resolution::Happened { output: given } => match output(given) {
                Ok((value, output)) => {
                    let state = StepState::Completed { at, output: output.clone() };
                    activation.queue([effect.change(
                        StepTransition::Happened,
                        state,
                        self.attempts,
                        self.began,
                    )]);
                    DoubtResolution::Happened(value, output)
                }
                Err(failure) => DoubtResolution::Unusable(failure),
            },
            Resolution::DidNotHappen => {
                let failure = Failure::retryable(format!("{} says that it did not happen", ruling.by.name))
                    .with_code(RULED_TO_RUN);
                let due_at = at.max(self.retry_from());
                let state = StepState::Pending { due_at, failure };
                activation.queue([effect.change(
                    StepTransition::DidNotHappen,
                    state,
                    self.attempts,
                    self.began,
                )]);
                DoubtResolution::DidNotHappen(due_at)
            }
            Resolution::Compensate { output: given } => match (self.undo, output(given)) {
                (Some(_), Ok((_, output))) => DoubtResolution::Compensate(output),
                (Some(_), Err(failure)) => DoubtResolution::Unusable(failure),
                (None, _) => {
                    let text =
                        "the step has no compensation; undo it by hand and abandon it, or rule otherwise";
                    DoubtResolution::Unusable(Failure::unknown(text).with_code("no_compensation"))
                }
            },
            Resolution::Abandon => DoubtResolution::Failed(self.give_up(abandoned())),
        }
    }

    /// Undoes an effect that may have happened. The step fails.
    async fn compensate(&self, output: Payload) -> Failure {
        let Some(undo) = self.undo else { return self.give_up(abandoned()) };
        let _held = self.activation.hold_for_doubt();
        match undo.run(self.activation, &self.effect.id, &output, false).await {
            Ok(_) => self.give_up(
                Failure::permanent("people had it undone").with_code("compensated").that_may_have_happened(),
            ),
            Err(failure) => {
                let text = format!("people had it undone, which failed: {failure}");
                self.give_up(Failure::unknown(text).with_code("undo_failed"))
            }
        }
    }

    /// Fails the step. After an unknown failure, a retry of the run does not run it again.
    fn give_up(&self, failure: Failure) -> Failure {
        let state = StepState::Failed { at: self.activation.now(), failure: failure.clone() };
        self.activation.queue([self.effect.change(
            StepTransition::Abandon,
            state,
            self.attempts,
            self.began,
        )]);
        failure
    }

    /// Closes the doubt without a ruling. If a ruling came first, the commit is refused and the ruling
    /// counts.
    fn close_doubt(&self, promise: &PromiseId, transition: StepTransition, state: StepState) {
        self.activation.queue([
            PendingChange::TimeOutPromise(promise.clone()),
            self.effect.change(transition, state, self.attempts, self.began),
        ]);
    }

    /// Probes the provider, with retries if it does not answer. Also returns when the answered request was
    /// sent.
    async fn probe_provider(&self, probe: &ProbeCode<'_, T>) -> (ProbeAnswer<T>, Timestamp) {
        let (effect, activation) = (self.effect, self.activation);
        let (policy, since) = (RetryPolicy::default().max_attempts(MAX_PROBE_TRIES), activation.now());
        let mut asked = 0;
        loop {
            activation.gate_ignoring_stops().await;
            let asked_at = activation.now();
            let failure = {
                let _staying = activation.block_parking();
                asked += 1;
                let asking =
                    AssertUnwindSafe(async { probe(self.key.as_str().to_string()).await }).catch_unwind();
                let asking = while_held(activation, &effect.id, asking);
                let patience = self.claim.probe_timeout.or(effect.timeout).unwrap_or(MAX_PROBE);
                let clock = &activation.engine.clock;
                let answer = match answer_within(&**clock, patience, asking).await {
                    Some(answer) => answer.unwrap_or_else(|panic| Err(panic_failure(&*panic))),
                    None => Err(Failure::unknown(format!("the probe took longer than {patience:?}"))),
                };
                activation.wait_for_turn(&effect.id).await;
                let told = match &answer {
                    Ok(ProbeAnswer::Happened(_)) => "happened".to_string(),
                    Ok(ProbeAnswer::DidNotHappen) => "did_not_happen".to_string(),
                    Ok(ProbeAnswer::Unknown) => "unknown".to_string(),
                    Err(failure) => format!("no answer: {failure}"),
                };
                activation
                    .queue([activation.journal_entry(&effect.id, JournalEvent::Probed { answer: told })]);
                match answer {
                    Ok(answer) => return (answer, asked_at),
                    Err(failure) => failure,
                }
            };
            let made = AttemptsMade { count: asked, since };
            match decide_retry(&policy, made, &failure, activation.now(), fastrand::f64()) {
                RetryDecision::GiveUp | RetryDecision::Pause => return (ProbeAnswer::Unknown, asked_at),
                RetryDecision::At(at) => {
                    let due = move |_: &mut _, now: Timestamp| (now >= at).then_some(());
                    activation.wait_ignoring_stops(effect.id.clone(), Some(at), due).await;
                }
            }
        }
    }
}

/// Failure code of an attempt that a person ruled did not happen. The step must run, however often it was
/// tried before.
const RULED_TO_RUN: &str = "ruled_to_run";

/// Returns whether a ruling requires the step to run.
pub(super) fn must_run_by_ruling(failure: &Failure) -> bool {
    failure.code() == Some(RULED_TO_RUN)
}

/// Failure code of an attempt whose worker vanished.
const CRASHED: &str = "crashed";

fn abandoned() -> Failure {
    Failure::unknown("people gave it up").with_code("abandoned")
}

/// Stage of an attempt.
enum AttemptStage {
    Claimed,
    Begun,
    Left,
}

/// Records the state of an attempt that is dropped in the middle because another branch won.
struct AttemptDropGuard<'b, 'a, 'c, T: Serialize + DeserializeOwned> {
    claimed: &'b ClaimedStep<'a, 'c, T>,
    tracker: &'b EffectTracker<'b>,
    stage: AttemptStage,
}

impl<T: Serialize + DeserializeOwned> Drop for AttemptDropGuard<'_, '_, '_, T> {
    fn drop(&mut self) {
        let ClaimedStep { effect, activation, attempts, began, .. } = *self.claimed;
        // If the engine drops the code, the next holder of the run finds the state in the records.
        if !activation.replay().in_turn {
            return;
        }
        match self.stage {
            AttemptStage::Claimed => {
                let state = StepState::Cancelled { at: activation.now() };
                activation.queue([effect.change(StepTransition::Withdraw, state, attempts, began)]);
            }
            AttemptStage::Begun => {
                let failure = Failure::unknown("it was dropped in the middle").with_code("cut_off");
                self.claimed.doubt(activation.now(), failure);
                self.tracker.set(Progress::InDoubt { attempts, began });
            }
            AttemptStage::Left => {}
        }
    }
}
