//! Waits for a standalone promise. Any number of runs may wait for the same one.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::promise::{not_in_time, outcome_of, record};
use super::{Ctx, Home, StepFuture, checked_name, invalid_failure, recorded_outcome};
use crate::model::{
    Failure, Promise, PromiseId, PromiseState, RunId, StepKind, StepState, StepTransition, Timestamp,
};
use crate::remote::{OperationBody, OperationRequest, RecordKind};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::{Durability, ReplayState, StepLookup};

/// Builder for waiting for a standalone promise. Await it to get the promise's value.
#[must_use = "nothing is waited for until it is awaited"]
pub struct PromiseWait<'a, T> {
    ctx: &'a Ctx,
    id: String,
    timeout: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Waits for a standalone promise, which belongs to no run. Any number of runs may wait for it.
    ///
    /// The promise is created if it does not exist yet, so settling and waiting may come in either order.
    pub fn await_promise<T: DeserializeOwned + Send>(&self, id: &str) -> PromiseWait<'_, T> {
        PromiseWait { ctx: self, id: id.to_string(), timeout: None, value: PhantomData }
    }
}

impl<T> PromiseWait<'_, T> {
    /// Limits the wait. The failure then has the code `timed_out`. The promise itself stays unchanged.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Observed state of an awaited promise.
enum PromiseProgress {
    /// The promise is no longer pending.
    Ended(PromiseState, Durability),
    /// The time limit of this wait is over.
    WaitTimedOut,
    /// The promise has this deadline of its own.
    DeadlineAt(Timestamp),
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for PromiseWait<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let id = PromiseId::standalone(&self.id).map_err(invalid_failure)?;
            let activation = match &self.ctx.home {
                Home::Engine(engine) => &*engine.activation,
                Home::Server(worker) => {
                    let name = checked_name("step name", "promise")?;
                    let what = OperationBody::AwaitPromise { id: self.id, timeout: self.timeout };
                    return worker.ask(OperationRequest::wait(RecordKind::Promise, name, what)).value().await;
                }
            };
            let step = activation.next_id(&checked_name("step name", "promise")?);
            let now = activation.now();
            let (until, began) = match activation.look_up_step(&step, StepKind::Promise) {
                StepLookup::Done(record) => return recorded_outcome(activation, &step, record.state).await,
                StepLookup::Cancelled => return activation.wait_as_cancelled().await,
                StepLookup::Open(record) => match record.state {
                    StepState::Waiting { until } => (until, record.started_at),
                    _ => (None, record.started_at),
                },
                StepLookup::NotRecorded => {
                    let until = self.timeout.map(|span| now.plus(span));
                    let promise = Promise::pending(id.clone(), RunId::NONE, now, None);
                    let mut replay = activation.replay();
                    if replay.find_promise(&id).is_none() {
                        replay.keep_promise(promise.clone());
                    }
                    drop(replay);
                    let state = StepState::Waiting { until };
                    let waits = PendingChange::finished(
                        &step,
                        StepKind::Promise,
                        StepTransition::Await,
                        state,
                        1,
                        now,
                    );
                    activation.queue([PendingChange::OpenPromise(Box::new(promise)), waits]);
                    (until, now)
                }
            };
            let mut ends_at = activation.replay().find_promise(&id).and_then(|promise| promise.deadline_at);
            let (state, durability) = loop {
                let timer = until.into_iter().chain(ends_at).min();
                let look = |replay: &mut ReplayState, now: Timestamp| {
                    let durability = replay.durability_of_wait_end(&step);
                    let promise = replay.find_promise(&id)?;
                    match promise.state_at(now) {
                        PromiseState::Pending if promise.deadline_at != ends_at => {
                            promise.deadline_at.map(PromiseProgress::DeadlineAt)
                        }
                        PromiseState::Pending if until.is_some_and(|until| until <= now) => {
                            Some(PromiseProgress::WaitTimedOut)
                        }
                        PromiseState::Pending => None,
                        // A settled promise never changes, and it is not deleted while a run waits for it.
                        settled @ PromiseState::Settled { .. } => {
                            Some(PromiseProgress::Ended(settled, durability))
                        }
                        over @ (PromiseState::TimedOut | PromiseState::KeyTaken { .. }) => {
                            Some(PromiseProgress::Ended(over, Durability::MustCommit))
                        }
                    }
                };
                match activation.wait_for(step.clone(), timer, look).await {
                    PromiseProgress::Ended(state, durability) => break (state, durability),
                    PromiseProgress::WaitTimedOut => break (PromiseState::TimedOut, Durability::MustCommit),
                    PromiseProgress::DeadlineAt(at) => ends_at = Some(at),
                }
            };
            let outcome = match state {
                PromiseState::Settled { settlement, .. } => outcome_of(settlement),
                PromiseState::TimedOut | PromiseState::Pending | PromiseState::KeyTaken { .. } => {
                    Err(not_in_time(&id))
                }
            };
            record(activation, &step, began, durability, outcome)
        })
    }
}
