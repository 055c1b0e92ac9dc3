//! Steps whose effect is claimed before it begins, so that it is entered at most once; what a crash leaves open is in doubt.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::held::while_held;
use super::scope::Undo;
use super::step::{Effect, panicked};
use super::tracked::{DoubtedStep, Progress, Tracked};
use super::{Attempt, recorded_outcome, refused};
use crate::limits::{MAX_PROBE, MAX_PROBE_PAUSE, MAX_PROBE_TRIES, PROBE_EVERY};
use crate::model::{
    AttemptsMade, Denial, DoubtedAttempt, EffectKey, Failure, FailureClass, JournalEvent, OnDoubt, Payload,
    Probed, Promise, PromiseId, PromiseState, Resolution, RetryDecision, RetryPolicy, Ruling, SettleTime,
    Settlement, StepId, StepKind, StepState, StepTransition, Timestamp, decide_denial, decide_retry,
};
use crate::patience::answer_within;
use crate::runtime::Activation;
use crate::runtime::change::Change;
use crate::runtime::replay_state::{Entered, ReplayState};
use crate::runtime::stats::Counters;

/// Asks the provider what became of an effect.
type ProbeCode<'a, T> = Box<
    dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<Probed<T>, Failure>> + Send + 'a>>
        + Send
        + Sync
        + 'a,
>;

/// What is to be done when nobody knows whether the effect happened.
pub(super) struct Claim<'a, T> {
    pub(super) probe: Option<ProbeCode<'a, T>>,
    /// How long one question of it may take.
    pub(super) probe_timeout: Option<Duration>,
    /// How long after a doubt arose the probe's "did not happen" does not count.
    pub(super) probe_settle: Option<Duration>,
    pub(super) on_doubt: OnDoubt,
    /// Does the provider reject requests of earlier holders by their fence?
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
    pub(super) fn with_probe<P, Fut, E>(self, probe: P) -> Self
    where
        P: Fn(String) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<Probed<T>, E>> + Send + 'a,
        E: Into<Failure>,
    {
        let probe: ProbeCode<'a, T> = Box::new(move |key| {
            let asking = probe(key);
            Box::pin(async move { asking.await.map_err(Into::into) })
        });
        Claim { probe: Some(probe), ..self }
    }
}

/// A claimed step under way.
pub(super) struct Claimed<'a, 'c, T> {
    pub(super) effect: &'a Effect,
    pub(super) activation: &'a Activation,
    pub(super) claim: &'a Claim<'c, T>,
    pub(super) undo: Option<&'a Undo>,
    key: EffectKey,
    attempts: u32,
    began: Timestamp,
    /// Attempts before a retry of the run dropped the record: they are counted, but they are not of this policy.
    before: u32,
    /// When the last attempt came into doubt.
    doubted_at: Timestamp,
    /// Did its holder vanish? Then a request of it may still be on its way.
    holder_vanished: bool,
}

/// What comes next.
enum Next {
    /// Try, not before this instant.
    Try(Option<Timestamp>),
    /// Nobody knows whether the last try happened.
    Doubt(Failure),
    /// That is on record; find out, or wait for people.
    Held,
}

/// What people decided about an effect that was left to them.
pub(super) enum Ruled<T> {
    Happened(T, Payload),
    /// It may be tried anew.
    DidNotHappen,
    Failed(Failure),
}

/// Has people say whether an effect happened whose code was dropped, so that it can be undone: `None` if there is nothing to undo.
pub(super) async fn settle_for_undo(
    activation: &Activation,
    step: &StepId,
    doubted: DoubtedStep,
    undo: &Undo,
) -> Result<Option<Payload>, Failure> {
    let DoubtedStep { kind, attempts, began } = doubted;
    let policy = RetryPolicy::never();
    let effect = Effect { id: step.clone(), kind, policy, timeout: None, heeds_stops: true };
    let claim = Claim::<serde_json::Value>::default();
    let held = Claimed::about(&effect, activation, &claim, Some(undo), attempts, began);
    activation.durable().await;
    // Until now nobody waited for what people say, so they could not say everything.
    let anew = {
        let desk = activation.desk();
        let is_ruled = desk.last_doubt(&held.doubted()).is_some_and(|last| desk.is_settled(&last.id));
        let was_cut_off = desk.open.get(step).is_some_and(|record| match &record.state {
            StepState::InDoubt { failure, .. } => failure.code() == Some("cut_off"),
            _ => false,
        });
        was_cut_off && !is_ruled
    };
    let text = "it was dropped in the middle, and the run is being undone; if it happened, it will be undone as well";
    let failure = anew.then(|| Failure::unknown(text).with_code("unsettled"));
    match held.ruled_on(failure).await {
        Ruled::Happened(_, output) => Ok(Some(output)),
        Ruled::DidNotHappen => Ok(None),
        Ruled::Failed(failure) if failure.code() == Some("undo_failed") => Err(failure),
        Ruled::Failed(_) => Ok(None),
    }
}

/// How a held doubt ended.
enum Settled<T> {
    Happened(T, Payload),
    /// It is to be tried again at this instant.
    Retry(Timestamp),
    /// People say that it did not happen: it is to be tried at this instant.
    DidNotHappen(Timestamp),
    Compensate(Payload),
    Failed(Failure),
    /// What people said is of no use.
    Again(Failure),
}

impl<'a, 'c, T: Serialize + DeserializeOwned> Claimed<'a, 'c, T> {
    pub(super) fn new(
        effect: &'a Effect,
        activation: &'a Activation,
        claim: &'a Claim<'c, T>,
        undo: Option<&'a Undo>,
    ) -> Self {
        Self::about(effect, activation, claim, undo, 0, activation.now())
    }

    /// A step that has come this far.
    pub(super) fn about(
        effect: &'a Effect,
        activation: &'a Activation,
        claim: &'a Claim<'c, T>,
        undo: Option<&'a Undo>,
        attempts: u32,
        began: Timestamp,
    ) -> Self {
        let key = EffectKey::new(activation.facts.id, activation.generation, &effect.id);
        let before = activation.desk().attempts_before(&effect.id);
        let attempts = attempts.max(before);
        let (doubted_at, holder_vanished) = (began, false);
        Claimed { effect, activation, claim, undo, key, attempts, before, began, doubted_at, holder_vanished }
    }

    fn settle_time(&self) -> SettleTime {
        SettleTime::new(self.effect.timeout, self.claim.probe_settle, self.claim.rejects_stale_fences)
    }

    /// The first instant at which the effect may be run again.
    fn retry_from(&self) -> Timestamp {
        self.settle_time().retry_from(self.doubted_at, self.holder_vanished)
    }

    /// Leaves the outcome to people, and waits for what they decide. `failure` is put on record first, unless it is there already.
    pub(super) async fn ruled_on(mut self, mut failure: Option<Failure>) -> Ruled<T> {
        loop {
            if let Some(failure) = failure.take() {
                self.replayed().await;
                self.doubted_at = self.activation.now();
                self.doubt(self.doubted_at, failure);
            }
            match self.settle().await {
                Settled::Happened(value, output) => return Ruled::Happened(value, output),
                Settled::DidNotHappen(_) | Settled::Retry(_) => return Ruled::DidNotHappen,
                Settled::Compensate(output) => return Ruled::Failed(self.compensate(output).await),
                Settled::Failed(failure) => return Ruled::Failed(failure),
                Settled::Again(unusable) => failure = Some(unusable),
            }
        }
    }

    pub(super) async fn run<C, Fut, E>(
        mut self,
        tracked: &Tracked<'_>,
        mut code: C,
    ) -> Result<(T, Payload), Failure>
    where
        C: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: Into<Failure>,
    {
        let mut next = match self.activation.enter(&self.effect.id, StepKind::Claimed) {
            Entered::Done(record) => {
                let output = match &record.state {
                    StepState::Completed { output, .. } => output.clone(),
                    _ => Payload::null(),
                };
                if let StepState::Completed { .. } = &record.state {
                    tracked.set(Progress::Done(output.clone()));
                }
                let value = recorded_outcome(self.activation, &self.effect.id, record.state).await?;
                return Ok((value, output));
            }
            Entered::GivenUp => return self.activation.stay_given_up().await,
            Entered::Open(record) => {
                (self.attempts, self.began) = (record.attempts, record.started_at);
                match record.state {
                    StepState::Pending { due_at, failure } => {
                        if self.decide(&failure) == RetryDecision::Pause || is_ruled_to_run(&failure) {
                            // People have resumed the run that paused for it, or have said that it is to run.
                            self.begin_anew();
                        }
                        Next::Try(Some(due_at))
                    }
                    StepState::InDoubt { since, failure } => {
                        // A doubt that people were asked about more than once may have begun with a vanished holder.
                        let is_first_round = self.is_first_round();
                        self.holder_vanished = failure.code() == Some(CRASHED) || !is_first_round;
                        self.doubted_at = since;
                        Next::Held
                    }
                    _ => {
                        self.holder_vanished = true;
                        Next::Doubt(
                            Failure::unknown("its worker vanished in the middle of it").with_code(CRASHED),
                        )
                    }
                }
            }
            Entered::Fresh => Next::Try(None),
        };
        loop {
            next = match next {
                Next::Try(due_at) => match self.attempt(tracked, due_at, &mut code).await? {
                    Ok(done) => return Ok(done),
                    Err(next) => next,
                },
                Next::Doubt(failure) => {
                    self.replayed().await;
                    self.doubted_at = self.activation.now();
                    self.doubt(self.doubted_at, failure);
                    Next::Held
                }
                Next::Held => match self.settle_tracked(tracked).await {
                    Settled::Happened(value, output) => return Ok((value, output)),
                    Settled::Retry(due_at) => Next::Try(Some(due_at)),
                    Settled::DidNotHappen(due_at) => {
                        self.begin_anew();
                        Next::Try(Some(due_at))
                    }
                    Settled::Compensate(output) => return Err(self.compensate(output).await),
                    Settled::Failed(failure) => return Err(failure),
                    Settled::Again(failure) => Next::Doubt(failure),
                },
            };
        }
    }

    /// Settles the doubt; if the code is dropped meanwhile, it is settled before the effect is undone.
    async fn settle_tracked(&mut self, tracked: &Tracked<'_>) -> Settled<T> {
        tracked.set(Progress::InDoubt { attempts: self.attempts, began: self.began });
        let settled = self.settle().await;
        tracked.set(Progress::NotBegun);
        settled
    }

    /// The policy counts from here on.
    fn begin_anew(&mut self) {
        (self.before, self.began) = (self.attempts, self.activation.now());
    }

    /// Would another failure be the last one?
    fn is_spent(&self) -> bool {
        let failure = Failure::unknown("nobody knows whether it happened");
        !matches!(self.decide(&failure), RetryDecision::At(_))
    }

    fn decide(&self, failure: &Failure) -> RetryDecision {
        let made = AttemptsMade { count: self.attempts - self.before, since: self.began };
        decide_retry(&self.effect.policy, made, failure, self.activation.now(), fastrand::f64())
    }

    /// Waits until the replay is over: until then it is not certain that the code is the one on record, and nothing may be
    /// decided. Where there is none, what is known is on record in the very turn in which it is: the run may be about to stop.
    async fn replayed(&self) {
        let is_replaying = self.activation.desk().replaying;
        if is_replaying {
            let _held = self.activation.hold_doubt();
            self.activation.durable().await;
        }
    }

    /// Claims, and enters the code once the claim is durable.
    async fn attempt<C, Fut, E>(
        &mut self,
        tracked: &Tracked<'_>,
        due_at: Option<Timestamp>,
        code: &mut C,
    ) -> Result<Result<(T, Payload), Next>, Failure>
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
        // From here on the run may not stop without knowing how it went: a claim that nobody acts on would be a doubt.
        let staying = activation.stay();
        effect.mark(activation, self.attempts, self.began);
        activation.queue([activation.note(&effect.id, JournalEvent::Claimed { attempt: self.attempts })]);
        let mut cut_off = CutOff { claimed: &*self, tracked, stage: Stage::Claimed };
        activation.durable().await;
        if activation.desk().is_stopped() {
            // Its code was not entered, and that is known.
            cut_off.stage = Stage::Left;
            drop(cut_off);
            return Ok(Err(self.not_begun()));
        }
        cut_off.stage = Stage::Entered;
        let attempt = Attempt::new(self.key.clone(), self.attempts, activation, &effect.id);
        let outcome = effect.attempt(activation, code, attempt, self.began).await;
        cut_off.stage = Stage::Left;
        drop(cut_off);
        drop(staying);
        let failure = match outcome {
            Ok(value) => match Payload::of(&value) {
                Ok(output) => {
                    let state = StepState::Completed { at: activation.now(), output: output.clone() };
                    effect.finish(activation, StepTransition::Complete, state, self.attempts, self.began);
                    return Ok(Ok((value, output)));
                }
                // It happened, and what it gave cannot be kept: nobody but people can say what it was.
                Err(invalid) => return Ok(Err(Next::Doubt(refused(invalid)))),
            },
            Err(failure) => failure,
        };
        if failure.class() == FailureClass::Unknown {
            return Ok(Err(Next::Doubt(failure)));
        }
        match self.decide(&failure) {
            RetryDecision::Pause if !activation.desk().is_to_end() => {
                self.schedule_retry(failure.clone(), activation.now());
                activation.pause_exhausted(&effect.id, &failure);
                self.begin_anew();
                Ok(Err(Next::Try(Some(activation.now()))))
            }
            RetryDecision::GiveUp | RetryDecision::Pause => {
                Err(effect.fail(activation, failure, self.attempts, self.began))
            }
            RetryDecision::At(at) => {
                self.schedule_retry(failure, at);
                Ok(Err(Next::Try(Some(at))))
            }
        }
    }

    fn schedule_retry(&self, failure: Failure, due_at: Timestamp) {
        let (effect, activation) = (self.effect, self.activation);
        effect.note_retry(activation, &failure, self.attempts);
        let state = StepState::Pending { due_at, failure };
        effect.finish(activation, StepTransition::ScheduleRetry, state, self.attempts, self.began);
    }

    /// Gives the claim back: the run is to stop, and may do so without a doubt.
    fn not_begun(&self) -> Next {
        let (effect, activation) = (self.effect, self.activation);
        let failure = Failure::retryable("it was to stop before it began").with_code("not_begun");
        let noted = JournalEvent::Failed { attempt: self.attempts, failure: failure.clone() };
        let due_at = activation.now();
        activation.queue([
            activation.note(&effect.id, noted),
            effect.change(
                StepTransition::ScheduleRetry,
                StepState::Pending { due_at, failure },
                self.attempts,
                self.began,
            ),
        ]);
        Next::Try(Some(due_at))
    }

    /// Puts on record that nobody knows, and opens what people settle it by.
    pub(super) fn doubt(&self, since: Timestamp, failure: Failure) {
        let (effect, activation) = (self.effect, self.activation);
        Counters::add(&activation.engine.counters.doubts);
        tracing::warn!(key = %self.key, %failure, "effect in doubt");
        let about = self.doubted();
        let run = activation.facts.id;
        let id = about.next(activation.desk().last_doubt(&about));
        let promise = Promise::pending(id, run, since, None);
        activation.desk().keep_promise(promise.clone());
        let note = activation
            .note(&effect.id, JournalEvent::Doubted { attempt: self.attempts, failure: failure.clone() });
        let state = StepState::InDoubt { since, failure };
        activation.queue([
            Change::OpenPromise(Box::new(promise)),
            effect.change(StepTransition::Doubt, state, self.attempts, self.began),
            note,
        ]);
    }

    fn doubted(&self) -> DoubtedAttempt {
        let Activation { facts, generation, .. } = self.activation;
        DoubtedAttempt::new(facts.id, *generation, &self.effect.id, self.attempts)
    }

    /// Is the doubt as it was first put on record?
    fn is_first_round(&self) -> bool {
        let about = self.doubted();
        self.activation.desk().last_doubt(&about).is_none_or(|last| last.id == about.round(1))
    }

    /// Asks the provider, and where that does not help does as the step says, or waits for people.
    async fn settle(&mut self) -> Settled<T> {
        let (effect, activation) = (self.effect, self.activation);
        // A run that ends would leave the doubt to nobody.
        let _held = activation.hold_doubt();
        self.replayed().await;
        let last = activation.desk().last_doubt(&self.doubted()).map(|promise| promise.id.clone());
        let Some(promise) = last else {
            return Settled::Again(Failure::unknown("the doubt had no promise").with_code(CRASHED));
        };
        let denial_counts_from = self.settle_time().denial_counts_from(self.doubted_at, self.holder_vanished);
        // If a crash forgets when it was denied, it must be denied twice again.
        let (mut pause, mut denied_at) = (PROBE_EVERY, None);
        loop {
            let is_ruled = activation.desk().is_settled(&promise);
            let mut ask_again_at = None;
            if !is_ruled && let Some(probe) = &self.claim.probe {
                let (answer, asked_at) = self.ask(probe).await;
                match answer {
                    Probed::Happened(value) => match Payload::of(&value) {
                        Ok(output) => {
                            let state = StepState::Completed { at: activation.now(), output: output.clone() };
                            self.close(&promise, StepTransition::Happened, state);
                            return Settled::Happened(value, output);
                        }
                        Err(invalid) => {
                            tracing::error!(key = %self.key, %invalid, "the answer of the probe cannot be kept")
                        }
                    },
                    Probed::DidNotHappen => match decide_denial(denial_counts_from, denied_at, asked_at) {
                        Denial::Believed => {
                            let failure = Failure::retryable("the provider says that it did not happen")
                                .with_code("did_not_happen");
                            return self.again(&promise, failure);
                        }
                        Denial::AskAgainAt(at) => {
                            denied_at = denied_at.or(Some(asked_at)).filter(|at| *at >= denial_counts_from);
                            ask_again_at = Some(at);
                        }
                    },
                    Probed::Unknown => denied_at = None,
                }
            }
            match self.claim.on_doubt {
                _ if is_ruled || ask_again_at.is_some() => {}
                OnDoubt::Hold => {}
                // One that may have happened and can be undone is not given up without people.
                OnDoubt::Retry if self.undo.is_some() && self.is_spent() => {}
                OnDoubt::Fail if self.undo.is_some() => {}
                OnDoubt::Retry => {
                    let failure = Failure::unknown("nobody knows whether it happened").with_code("in_doubt");
                    return self.again(&promise, failure);
                }
                OnDoubt::Fail => {
                    activation.queue([Change::TimeOutPromise(promise.clone())]);
                    let failure = Failure::unknown("nobody knows whether it happened").with_code("in_doubt");
                    return Settled::Failed(self.give_up(failure));
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
            let look = |desk: &mut ReplayState, now: Timestamp| match desk
                .find_promise(&promise)
                .map(|found| &found.state)
            {
                Some(PromiseState::Settled { settlement, .. }) => Some(Some(settlement.clone())),
                _ => until.filter(|until| now >= *until).map(|_| None),
            };
            if let Some(settlement) = activation.wait_through(effect.id.clone(), until, look).await {
                return self.ruled(settlement);
            }
        }
    }

    /// Tries again by itself, as often and as soon as the policy says.
    fn again(&self, promise: &PromiseId, failure: Failure) -> Settled<T> {
        let now = self.activation.now();
        let wait_until = |due_at| {
            let state = StepState::Pending { due_at, failure: failure.clone() };
            self.close(promise, StepTransition::DidNotHappen, state);
            Settled::Retry(due_at)
        };
        match self.decide(&failure) {
            RetryDecision::At(due_at) => wait_until(due_at.max(self.retry_from())),
            RetryDecision::Pause if !self.activation.desk().is_to_end() => {
                self.activation.pause_exhausted(&self.effect.id, &failure);
                wait_until(now)
            }
            RetryDecision::GiveUp | RetryDecision::Pause => {
                let state = StepState::Failed { at: now, failure: failure.clone() };
                self.close(promise, StepTransition::Abandon, state);
                Settled::Failed(failure)
            }
        }
    }

    /// Does as people say.
    fn ruled(&self, settlement: Settlement) -> Settled<T> {
        let ruling: Ruling = match settlement {
            Settlement::Resolved(value) => match value.to() {
                Ok(ruling) => ruling,
                Err(error) => {
                    return Settled::Again(Failure::unknown(format!("the ruling cannot be read: {error}")));
                }
            },
            Settlement::Rejected(failure) | Settlement::Cancelled(failure) => return Settled::Again(failure),
        };
        let activation = self.activation;
        let (effect, at) = (self.effect, activation.now());
        let output = |output: &serde_json::Value| {
            // An undo gives nothing; that it is done is all there is to say.
            let output = if effect.kind == StepKind::Undo { &serde_json::Value::Null } else { output };
            let output = Payload::of(output).map_err(refused)?;
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
                    Settled::Happened(value, output)
                }
                Err(failure) => Settled::Again(failure),
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
                Settled::DidNotHappen(due_at)
            }
            Resolution::Compensate { output: given } => match (self.undo, output(given)) {
                (Some(_), Ok((_, output))) => Settled::Compensate(output),
                (Some(_), Err(failure)) => Settled::Again(failure),
                (None, _) => {
                    let text =
                        "the step has no compensation; undo it by hand and abandon it, or rule otherwise";
                    Settled::Again(Failure::unknown(text).with_code("no_compensation"))
                }
            },
            Resolution::Abandon => Settled::Failed(self.give_up(abandoned())),
        }
    }

    /// Undoes what may have happened; the step has failed then.
    async fn compensate(&self, output: Payload) -> Failure {
        let Some(undo) = self.undo else { return self.give_up(abandoned()) };
        let _held = self.activation.hold_doubt();
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

    /// The step has failed. Of an unknown failure a retry of the run does not run it again.
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

    /// The doubt is settled without people: if one of them was faster, the write is refused and they are heard.
    fn close(&self, promise: &PromiseId, transition: StepTransition, state: StepState) {
        self.activation.queue([
            Change::TimeOutPromise(promise.clone()),
            self.effect.change(transition, state, self.attempts, self.began),
        ]);
    }

    /// Asks the provider, more than once if it does not answer. Also gives when the question was sent that brought the answer.
    async fn ask(&self, probe: &ProbeCode<'_, T>) -> (Probed<T>, Timestamp) {
        let (effect, activation) = (self.effect, self.activation);
        let (policy, since) = (RetryPolicy::default().max_attempts(MAX_PROBE_TRIES), activation.now());
        let mut asked = 0;
        loop {
            activation.durable().await;
            let asked_at = activation.now();
            let failure = {
                let _staying = activation.stay();
                asked += 1;
                let asking =
                    AssertUnwindSafe(async { probe(self.key.as_str().to_string()).await }).catch_unwind();
                let asking = while_held(activation, &effect.id, asking);
                let patience = self.claim.probe_timeout.or(effect.timeout).unwrap_or(MAX_PROBE);
                let clock = &activation.engine.clock;
                let answer = match answer_within(&**clock, patience, asking).await {
                    Some(answer) => answer.unwrap_or_else(|panic| Err(panicked(&*panic))),
                    None => Err(Failure::unknown(format!("the probe took longer than {patience:?}"))),
                };
                activation.its_turn(&effect.id).await;
                let told = match &answer {
                    Ok(Probed::Happened(_)) => "happened".to_string(),
                    Ok(Probed::DidNotHappen) => "did_not_happen".to_string(),
                    Ok(Probed::Unknown) => "unknown".to_string(),
                    Err(failure) => format!("no answer: {failure}"),
                };
                activation.queue([activation.note(&effect.id, JournalEvent::Probed { answer: told })]);
                match answer {
                    Ok(answer) => return (answer, asked_at),
                    Err(failure) => failure,
                }
            };
            let made = AttemptsMade { count: asked, since };
            match decide_retry(&policy, made, &failure, activation.now(), fastrand::f64()) {
                RetryDecision::GiveUp | RetryDecision::Pause => return (Probed::Unknown, asked_at),
                RetryDecision::At(at) => {
                    let due = move |_: &mut _, now: Timestamp| (now >= at).then_some(());
                    activation.wait_through(effect.id.clone(), Some(at), due).await;
                }
            }
        }
    }
}

/// Code of the failure of an attempt that did not happen, as people say: it is to be run, however often it was tried before.
const RULED_TO_RUN: &str = "ruled_to_run";

/// Have people said that the step is to be run?
pub(super) fn is_ruled_to_run(failure: &Failure) -> bool {
    failure.code() == Some(RULED_TO_RUN)
}

/// Code of the failure of an attempt whose worker vanished.
const CRASHED: &str = "crashed";

fn abandoned() -> Failure {
    Failure::unknown("people gave it up").with_code("abandoned")
}

/// How far an attempt has got.
enum Stage {
    Claimed,
    Entered,
    Left,
}

/// Tells what became of an attempt that is dropped in the middle, because another branch came first.
struct CutOff<'b, 'a, 'c, T: Serialize + DeserializeOwned> {
    claimed: &'b Claimed<'a, 'c, T>,
    tracked: &'b Tracked<'b>,
    stage: Stage,
}

impl<T: Serialize + DeserializeOwned> Drop for CutOff<'_, '_, '_, T> {
    fn drop(&mut self) {
        let Claimed { effect, activation, attempts, began, .. } = *self.claimed;
        // If it is the engine that drops the code, whoever drives the run next finds out from the records.
        if !activation.desk().in_turn {
            return;
        }
        match self.stage {
            Stage::Claimed => {
                let state = StepState::Cancelled { at: activation.now() };
                activation.queue([effect.change(StepTransition::Withdraw, state, attempts, began)]);
            }
            Stage::Entered => {
                let failure = Failure::unknown("it was dropped in the middle").with_code("cut_off");
                self.claimed.doubt(activation.now(), failure);
                self.tracked.set(Progress::InDoubt { attempts, began });
            }
            Stage::Left => {}
        }
    }
}
