//! Promises: values that somebody outside supplies.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Ctx, StepFuture, checked_name, decoded, recorded_outcome, refused};
use crate::limits::{KEEP_PROMISE_KEY_FOR, MAX_SPAN};
use crate::model::{
    Failure, IdempotencyKey, Invalid, Payload, Promise, PromiseId, PromiseKey, PromiseState, Settlement,
    StepId, StepKind, StepRecord, StepState, StepTransition, Timestamp,
};
use crate::runtime::Activation;
use crate::runtime::change::Change;
use crate::runtime::replay_state::{Durability, Entered, ReplayState};

/// A promise about to be made; await it to wait for its value, or [`open`](PromiseBuilder::open) it first.
#[must_use = "a promise does nothing until it is awaited or opened"]
pub struct PromiseBuilder<'a, T> {
    ctx: &'a Ctx,
    name: String,
    timeout: Option<Duration>,
    key: Option<String>,
    keep_key_for: Duration,
    value: PhantomData<fn() -> T>,
}

/// A promise that is there, or will be before the next effect begins; await it for its value.
#[must_use = "an open promise should be awaited"]
pub struct OpenPromise<'a, T> {
    activation: &'a Activation,
    step: StepId,
    id: PromiseId,
    until: Option<Timestamp>,
    started_at: Timestamp,
    done: Option<StepRecord>,
    given_up: bool,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Makes a promise that anybody who knows its id, or its key, can settle, once.
    pub fn create_promise<T: DeserializeOwned + Send>(&self, name: &str) -> PromiseBuilder<'_, T> {
        PromiseBuilder {
            ctx: self,
            name: name.to_string(),
            timeout: None,
            key: None,
            keep_key_for: KEEP_PROMISE_KEY_FOR,
            value: PhantomData,
        }
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> PromiseBuilder<'a, T> {
    /// Give up waiting after this long; the failure has the code `timed_out`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A key by which those find it who do not know its id, such as the provider's own id of a charge. A settlement under the key that
    /// came first is given to it at once. If the key names another promise, awaiting this one fails with the code `key_conflict`
    /// and names the other ([`Failure::existing_promise`]).
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// For how long the key still names the promise once that is settled or has timed out; a day unless set. While it can be settled
    /// the key lives, however long that takes.
    pub fn key_ttl(mut self, keep_for: Duration) -> Self {
        self.keep_key_for = keep_for;
        self
    }

    /// Makes the promise and gives its id, before waiting for its value. It is durable before the next effect
    /// begins, so a step may hand the id to others.
    pub fn open(self) -> Result<OpenPromise<'a, T>, Failure> {
        let activation = &*self.ctx.activation;
        let step = activation.next_id(&checked_name("promise name", &self.name)?);
        if self.keep_key_for > MAX_SPAN {
            return Err(refused(Invalid::Span { what: "key_ttl", given: self.keep_key_for }));
        }
        let key = self.key.as_deref().map(IdempotencyKey::new).transpose().map_err(refused)?;
        let key = key.map(|key| PromiseKey { key, keep_for: self.keep_key_for });
        let id = PromiseId::of_run(activation.facts.id, activation.generation, &step);
        let now = activation.now();
        let mut given_up = false;
        let (until, started_at, done) = match activation.enter(&step, StepKind::Promise) {
            Entered::GivenUp => {
                given_up = true;
                (None, now, None)
            }
            Entered::Done(record) => (None, record.started_at, Some(record)),
            Entered::Open(record) => match record.state {
                StepState::Waiting { until } => (until, record.started_at, None),
                _ => (None, record.started_at, None),
            },
            Entered::Fresh => {
                let until = self.timeout.map(|span| now.plus(span));
                let run = activation.facts.id;
                let promise = Promise { key, ..Promise::pending(id.clone(), run, now, until) };
                let mut desk = activation.desk();
                // One that is there from before a retry keeps what it holds, but may have its key this time.
                let lost_its_key = |known: &Promise| matches!(known.state, PromiseState::KeyTaken { .. });
                if desk.find_promise(&id).is_none_or(lost_its_key) {
                    desk.keep_promise(promise.clone());
                }
                drop(desk);
                let state = StepState::Waiting { until };
                let waits = Change::finished(&step, StepKind::Promise, StepTransition::Await, state, 1, now);
                activation.queue([Change::OpenPromise(Box::new(promise)), waits]);
                (until, now, None)
            }
        };
        Ok(OpenPromise { activation, step, id, until, started_at, done, given_up, value: PhantomData })
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for PromiseBuilder<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.open()?.await })
    }
}

impl<T> OpenPromise<'_, T> {
    /// The id by which others settle it.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for OpenPromise<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if self.given_up {
                return std::future::pending().await;
            }
            if let Some(record) = self.done {
                return recorded_outcome(self.activation, &self.step, record.state).await;
            }
            let id = self.id.clone();
            let look = |desk: &mut ReplayState, now| {
                let bearing = desk.bearing_of_end(&self.step);
                match desk.find_promise(&id).map(|promise| promise.state_at(now)) {
                    Some(PromiseState::Pending) | None => None,
                    // It stays as it is, and is kept as long as the run. One that timed out just now is written as such, which binds.
                    Some(over) => Some((over, bearing)),
                }
            };
            let (over, bearing) = self.activation.wait_for(self.step.clone(), self.until, look).await;
            let outcome = match over {
                PromiseState::Settled { settlement, .. } => outcome_of(settlement),
                PromiseState::KeyTaken { by } => {
                    let known =
                        self.activation.desk().find_promise(&self.id).and_then(|known| known.key.clone());
                    let key = known.map(|key| key.key.to_string()).unwrap_or_default();
                    Err(Failure::key_conflict(&key, &by))
                }
                PromiseState::TimedOut | PromiseState::Pending => {
                    // It may be on record as timed out, from before a retry; then it is not to be written again.
                    let promise =
                        self.activation.desk().find_promise(&self.id).map(|promise| promise.state.clone());
                    let is_new = promise == Some(PromiseState::Pending);
                    self.activation.queue(is_new.then(|| Change::TimeOutPromise(self.id.clone())));
                    Err(not_in_time(&self.id))
                }
            };
            record(self.activation, &self.step, self.started_at, bearing, outcome)
        })
    }
}

/// What a settlement means to whoever waits.
pub(super) fn outcome_of(settlement: Settlement) -> Result<Payload, Failure> {
    match settlement {
        Settlement::Resolved(value) => Ok(value),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => Err(failure),
    }
}

pub(super) fn not_in_time(id: &PromiseId) -> Failure {
    Failure::permanent(format!("promise {id} was not settled in time")).with_code("timed_out")
}

/// Ends the step that waited for a promise, and gives the code its value.
pub(super) fn record<T: DeserializeOwned>(
    activation: &Activation,
    step: &StepId,
    began: Timestamp,
    bearing: Durability,
    outcome: Result<Payload, Failure>,
) -> Result<T, Failure> {
    let at = activation.now();
    let (transition, state) = match &outcome {
        Ok(value) => (StepTransition::Complete, StepState::Completed { at, output: value.clone() }),
        Err(failure) => (StepTransition::Fail, StepState::Failed { at, failure: failure.clone() }),
    };
    activation.queue_as(bearing, [Change::finished(step, StepKind::Promise, transition, state, 1, began)]);
    decoded(step.as_str(), &outcome?)
}
