//! Waiting for a promise that stands alone, as any number of runs may.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::promise::{not_in_time, outcome_of, record};
use super::{Ctx, StepFuture, checked_name, recorded_outcome, refused};
use crate::model::{
    Failure, Promise, PromiseId, PromiseState, RunId, StepKind, StepState, StepTransition, Timestamp,
};
use crate::runtime::change::Change;
use crate::runtime::replay_state::{Durability, Entered, ReplayState};

/// A promise that stands alone, about to be waited for.
#[must_use = "nothing is waited for until it is awaited"]
pub struct AwaitedPromise<'a, T> {
    ctx: &'a Ctx,
    id: String,
    timeout: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Waits for a promise that belongs to no run. Any number of runs may wait for it; if it is not there yet it is made, so that whoever
    /// settles it and whoever waits may come in either order.
    pub fn await_promise<T: DeserializeOwned + Send>(&self, id: &str) -> AwaitedPromise<'_, T> {
        AwaitedPromise { ctx: self, id: id.to_string(), timeout: None, value: PhantomData }
    }
}

impl<T> AwaitedPromise<'_, T> {
    /// Give up waiting after this long; the failure has the code `timed_out`. The promise itself is left as it is.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// What there is to see of a promise that is waited for.
enum Seen {
    /// It is over.
    Over(PromiseState, Durability),
    /// The waiter's own time is up.
    GivenUp,
    /// It ends by itself at this instant.
    EndsAt(Timestamp),
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for AwaitedPromise<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let activation = &*self.ctx.activation;
            let id = PromiseId::standalone(&self.id).map_err(refused)?;
            let step = activation.next_id(&checked_name("step name", "promise")?);
            let now = activation.now();
            let (until, began) = match activation.enter(&step, StepKind::Promise) {
                Entered::Done(record) => return recorded_outcome(activation, &step, record.state).await,
                Entered::GivenUp => return activation.stay_given_up().await,
                Entered::Open(record) => match record.state {
                    StepState::Waiting { until } => (until, record.started_at),
                    _ => (None, record.started_at),
                },
                Entered::Fresh => {
                    let until = self.timeout.map(|span| now.plus(span));
                    let promise = Promise::pending(id.clone(), RunId::NONE, now, None);
                    let mut desk = activation.desk();
                    if desk.find_promise(&id).is_none() {
                        desk.keep_promise(promise.clone());
                    }
                    drop(desk);
                    let state = StepState::Waiting { until };
                    let waits =
                        Change::finished(&step, StepKind::Promise, StepTransition::Await, state, 1, now);
                    activation.queue([Change::OpenPromise(Box::new(promise)), waits]);
                    (until, now)
                }
            };
            let mut ends_at = activation.desk().find_promise(&id).and_then(|promise| promise.deadline_at);
            let (state, bearing) = loop {
                let timer = until.into_iter().chain(ends_at).min();
                let look = |desk: &mut ReplayState, now: Timestamp| {
                    let bearing = desk.bearing_of_end(&step);
                    let promise = desk.find_promise(&id)?;
                    match promise.state_at(now) {
                        PromiseState::Pending if promise.deadline_at != ends_at => {
                            promise.deadline_at.map(Seen::EndsAt)
                        }
                        PromiseState::Pending if until.is_some_and(|until| until <= now) => {
                            Some(Seen::GivenUp)
                        }
                        PromiseState::Pending => None,
                        // Nobody can settle it otherwise, and while a run waits for it, it is not forgotten.
                        settled @ PromiseState::Settled { .. } => Some(Seen::Over(settled, bearing)),
                        over @ (PromiseState::TimedOut | PromiseState::KeyTaken { .. }) => {
                            Some(Seen::Over(over, Durability::MustCommit))
                        }
                    }
                };
                match activation.wait_for(step.clone(), timer, look).await {
                    Seen::Over(state, bearing) => break (state, bearing),
                    Seen::GivenUp => break (PromiseState::TimedOut, Durability::MustCommit),
                    Seen::EndsAt(at) => ends_at = Some(at),
                }
            };
            let outcome = match state {
                PromiseState::Settled { settlement, .. } => outcome_of(settlement),
                PromiseState::TimedOut | PromiseState::Pending | PromiseState::KeyTaken { .. } => {
                    Err(not_in_time(&id))
                }
            };
            record(activation, &step, began, bearing, outcome)
        })
    }
}
