//! Promises: values supplied from outside the run.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Ctx, Home, StepFuture, checked_name, decoded, invalid_failure, recorded_outcome};
use crate::limits::{KEEP_PROMISE_KEY_FOR, MAX_SPAN};
use crate::model::{
    Failure, IdempotencyKey, Invalid, Payload, Promise, PromiseId, PromiseKey, PromiseState, Settlement,
    StepId, StepKind, StepRecord, StepState, StepTransition, Timestamp,
};
use crate::remote::{Operation, OperationBody, OperationRequest, RecordKind};
use crate::runtime::Activation;
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::{Durability, ReplayState, StepLookup};

/// Builder for a durable promise. Await it to wait for its value, or [`open`](PromiseBuilder::open) it first
/// to get its id.
#[must_use = "a promise does nothing until it is awaited or opened"]
pub struct PromiseBuilder<'a, T> {
    ctx: &'a Ctx,
    name: String,
    timeout: Option<Duration>,
    key: Option<String>,
    keep_key_for: Duration,
    value: PhantomData<fn() -> T>,
}

/// Open promise, durable before the next effect begins. Await it to get its value.
#[must_use = "an open promise should be awaited"]
pub struct OpenPromise<'a, T> {
    id: PromiseId,
    wait: OpenWait<'a>,
    value: PhantomData<fn() -> T>,
}

/// The wait for an open promise.
enum OpenWait<'a> {
    Engine(Box<EngineWait<'a>>),
    Server(Operation),
}

/// A wait that the engine of this process drives.
struct EngineWait<'a> {
    activation: &'a Activation,
    step: StepId,
    id: PromiseId,
    until: Option<Timestamp>,
    started_at: Timestamp,
    done: Option<StepRecord>,
    is_cancelled: bool,
}

impl Ctx {
    /// Creates a promise that a caller with its id or key can settle once, like a Temporal async completion
    /// or a DBOS event.
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
    /// Limits the wait. The failure then has the code `timed_out`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets a business key, such as the provider's id of a charge. It lets callers find the promise without
    /// knowing its id.
    ///
    /// A settlement that arrived under the key earlier applies at once. If the key belongs to another
    /// promise, awaiting this one fails with the code `key_conflict` and names the other
    /// ([`Failure::existing_promise`]).
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets how long the key still finds the promise after it was settled or has timed out; the default is a
    /// day. A pending promise always keeps its key.
    pub fn key_ttl(mut self, keep_for: Duration) -> Self {
        self.keep_key_for = keep_for;
        self
    }

    /// Creates the promise and returns it with its id, before waiting for its value.
    ///
    /// The promise is durable before the next effect begins, so a step may pass the id to others.
    pub fn open(self) -> Result<OpenPromise<'a, T>, Failure> {
        let name = checked_name("promise name", &self.name)?;
        if self.keep_key_for > MAX_SPAN {
            return Err(invalid_failure(Invalid::Span { what: "key_ttl", given: self.keep_key_for }));
        }
        let key = self.key.as_deref().map(IdempotencyKey::new).transpose().map_err(invalid_failure)?;
        let activation = match &self.ctx.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(worker) => {
                let key_ttl = (self.keep_key_for != KEEP_PROMISE_KEY_FOR).then_some(self.keep_key_for);
                let what =
                    OperationBody::Promise { name: self.name, key: self.key, key_ttl, timeout: self.timeout };
                let asked = OperationRequest::wait(RecordKind::Promise, name, what);
                let operation = worker.ask(asked).not_awaited_yet();
                let prefix = &worker.machine.facts.key_prefix;
                let id = PromiseId::from_stored(&format!("{prefix}:{}", operation.id()));
                return Ok(OpenPromise { id, wait: OpenWait::Server(operation), value: PhantomData });
            }
        };
        let step = activation.next_id(&name);
        let key = key.map(|key| PromiseKey { key, keep_for: self.keep_key_for });
        let id = PromiseId::for_step(activation.facts.id, activation.generation, &step);
        let now = activation.now();
        let mut is_cancelled = false;
        let (until, started_at, done) = match activation.look_up_step(&step, StepKind::Promise) {
            StepLookup::Cancelled => {
                is_cancelled = true;
                (None, now, None)
            }
            StepLookup::Done(record) => (None, record.started_at, Some(record)),
            StepLookup::Open(record) => match record.state {
                StepState::Waiting { until } => (until, record.started_at, None),
                _ => (None, record.started_at, None),
            },
            StepLookup::NotRecorded => {
                let until = self.timeout.map(|span| now.plus(span));
                let run = activation.facts.id;
                let promise = Promise { key, ..Promise::pending(id.clone(), run, now, until) };
                let mut replay = activation.replay();
                // A promise from before a retry keeps its value, but it may get its key this time.
                let lost_its_key = |known: &Promise| matches!(known.state, PromiseState::KeyTaken { .. });
                if replay.find_promise(&id).is_none_or(lost_its_key) {
                    replay.keep_promise(promise.clone());
                }
                drop(replay);
                let state = StepState::Waiting { until };
                let waits =
                    PendingChange::finished(&step, StepKind::Promise, StepTransition::Await, state, 1, now);
                activation.queue([PendingChange::OpenPromise(Box::new(promise)), waits]);
                (until, now, None)
            }
        };
        let wait = EngineWait { activation, step, id: id.clone(), until, started_at, done, is_cancelled };
        Ok(OpenPromise { id, wait: OpenWait::Engine(Box::new(wait)), value: PhantomData })
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
    /// Id for settling the promise from outside.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for OpenPromise<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        match self.wait {
            OpenWait::Engine(wait) => wait.value(),
            OpenWait::Server(operation) => Box::pin(operation.value()),
        }
    }
}

impl<'a> EngineWait<'a> {
    fn value<T: DeserializeOwned + Send + 'a>(self) -> StepFuture<'a, T> {
        Box::pin(async move {
            if self.is_cancelled {
                return std::future::pending().await;
            }
            if let Some(record) = self.done {
                return recorded_outcome(self.activation, &self.step, record.state).await;
            }
            let id = self.id.clone();
            let look = |replay: &mut ReplayState, now| {
                let durability = replay.durability_of_wait_end(&self.step);
                match replay.find_promise(&id).map(|promise| promise.state_at(now)) {
                    Some(PromiseState::Pending) | None => None,
                    // The state is final and stored as long as the run. A promise that times out now is
                    // recorded as such, which must be committed.
                    Some(over) => Some((over, durability)),
                }
            };
            let (over, durability) = self.activation.wait_for(self.step.clone(), self.until, look).await;
            let outcome = match over {
                PromiseState::Settled { settlement, .. } => outcome_of(settlement),
                PromiseState::KeyTaken { by } => {
                    let known =
                        self.activation.replay().find_promise(&self.id).and_then(|known| known.key.clone());
                    let key = known.map(|key| key.key.to_string()).unwrap_or_default();
                    Err(Failure::key_conflict(&key, &by))
                }
                PromiseState::TimedOut | PromiseState::Pending => {
                    // A retry may find the timeout already recorded. Then it is not written again.
                    let promise =
                        self.activation.replay().find_promise(&self.id).map(|promise| promise.state.clone());
                    let is_new = promise == Some(PromiseState::Pending);
                    self.activation.queue(is_new.then(|| PendingChange::TimeOutPromise(self.id.clone())));
                    Err(not_in_time(&self.id))
                }
            };
            record(self.activation, &self.step, self.started_at, durability, outcome)
        })
    }
}

/// Outcome of a settlement for the waiting code.
pub(super) fn outcome_of(settlement: Settlement) -> Result<Payload, Failure> {
    match settlement {
        Settlement::Resolved(value) => Ok(value),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => Err(failure),
    }
}

pub(super) fn not_in_time(id: &PromiseId) -> Failure {
    Failure::permanent(format!("promise {id} was not settled in time")).with_code("timed_out")
}

/// Ends the step that waited for a promise and returns its value to the code.
pub(super) fn record<T: DeserializeOwned>(
    activation: &Activation,
    step: &StepId,
    began: Timestamp,
    durability: Durability,
    outcome: Result<Payload, Failure>,
) -> Result<T, Failure> {
    let at = activation.now();
    let (transition, state) = match &outcome {
        Ok(value) => (StepTransition::Complete, StepState::Completed { at, output: value.clone() }),
        Err(failure) => (StepTransition::Fail, StepState::Failed { at, failure: failure.clone() }),
    };
    activation.queue_with(
        durability,
        [PendingChange::finished(step, StepKind::Promise, transition, state, 1, began)],
    );
    decoded(step.as_str(), &outcome?)
}
