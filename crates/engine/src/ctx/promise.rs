//! Promises: values that somebody outside supplies.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Ctx, StepFuture, checked_name, decoded, recorded_outcome};
use crate::model::{
    Failure, Promise, PromiseId, PromiseState, Settlement, StepId, StepKind, StepRecord, StepState,
    StepTransition, Timestamp,
};
use crate::runtime::Activation;
use crate::runtime::change::Change;
use crate::runtime::desk::{Desk, Entered};

/// A promise about to be made; await it to wait for its value, or [`open`](PromiseBuilder::open) it first.
#[must_use = "a promise does nothing until it is awaited or opened"]
pub struct PromiseBuilder<'a, T> {
    ctx: &'a Ctx,
    name: String,
    timeout: Option<Duration>,
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
    /// Makes a promise that anybody who knows its id can settle, once.
    pub fn create_promise<T: DeserializeOwned + Send>(&self, name: &str) -> PromiseBuilder<'_, T> {
        PromiseBuilder { ctx: self, name: name.to_string(), timeout: None, value: PhantomData }
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> PromiseBuilder<'a, T> {
    /// Give up waiting after this long; the failure has the code `timed_out`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Makes the promise and gives its id, before waiting for its value. It is durable before the next effect
    /// begins, so a step may hand the id to others.
    pub fn open(self) -> Result<OpenPromise<'a, T>, Failure> {
        let activation = &*self.ctx.activation;
        let step = activation.next_id(&checked_name("promise name", &self.name)?);
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
                let promise =
                    Promise { id: id.clone(), run, deadline_at: until, state: PromiseState::Pending };
                let mut desk = activation.desk();
                // One that is there from before a retry keeps what it holds.
                if desk.find_promise(&id).is_none() {
                    desk.keep_promise(promise.clone());
                }
                drop(desk);
                let state = StepState::Waiting { until };
                let waits = Change::finished(&step, StepKind::Promise, StepTransition::Await, state, 1, now);
                activation.queue([Change::OpenPromise(promise), waits]);
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
            let look =
                |desk: &mut Desk, now| match desk.find_promise(&id).map(|promise| promise.state_at(now)) {
                    Some(PromiseState::Pending) | None => None,
                    Some(settled) => Some(settled),
                };
            let settled = self.activation.wait_for(self.step.clone(), self.until, look).await;
            let at = self.activation.now();
            let finish = |transition, state| {
                Change::finished(&self.step, StepKind::Promise, transition, state, 1, self.started_at)
            };
            match settled {
                PromiseState::Settled { settlement: Settlement::Resolved(value), .. } => {
                    let state = StepState::Completed { at, output: value.clone() };
                    self.activation.queue([finish(StepTransition::Complete, state)]);
                    decoded(self.step.as_str(), &value)
                }
                PromiseState::Settled { settlement: Settlement::Rejected(failure), .. } => {
                    let state = StepState::Failed { at, failure: failure.clone() };
                    self.activation.queue([finish(StepTransition::Fail, state)]);
                    Err(failure)
                }
                PromiseState::TimedOut | PromiseState::Pending => {
                    let text = format!("promise {} was not settled in time", self.id);
                    let failure = Failure::permanent(text).with_code("timed_out");
                    let state = StepState::Failed { at, failure: failure.clone() };
                    // It may be on record as timed out, from before a retry; then it is not to be written again.
                    let promise =
                        self.activation.desk().find_promise(&self.id).map(|promise| promise.state.clone());
                    let is_new = promise == Some(PromiseState::Pending);
                    let late = is_new.then(|| Change::TimeOutPromise(self.id.clone()));
                    self.activation.queue(late.into_iter().chain([finish(StepTransition::Fail, state)]));
                    Err(failure)
                }
            }
        })
    }
}
