//! Waits for signals.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Ctx, Home, StepFuture, checked_name, decoded, recorded_outcome};
use crate::model::{Failure, Signal, StepKind, StepState, StepTransition};
use crate::remote::{OperationBody, OperationRequest, RecordKind};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::{Durability, ReplayState, StepLookup};

/// Builder for waiting for a signal. Await it to get the signal's payload.
#[must_use = "a wait does nothing until it is awaited"]
pub struct SignalBuilder<'a, T> {
    ctx: &'a Ctx,
    name: String,
    step: Option<String>,
    timeout: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Waits for the next signal of this name. A signal that arrived earlier was stored and is returned at
    /// once.
    pub fn signal<T: DeserializeOwned + Send>(&self, name: &str) -> SignalBuilder<'_, T> {
        SignalBuilder { ctx: self, name: name.to_string(), step: None, timeout: None, value: PhantomData }
    }
}

impl<T> SignalBuilder<'_, T> {
    /// Sets the name of the step; the default is the name of the signal.
    pub fn recorded_as(mut self, step: &str) -> Self {
        self.step = Some(step.to_string());
        self
    }

    /// Limits the wait. The failure then has the code `timed_out`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<'a, T: DeserializeOwned + Send + 'a> IntoFuture for SignalBuilder<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = StepFuture<'a, T>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let name = checked_name("signal name", &self.name)?;
            let step = match &self.step {
                Some(step) => checked_name("step name", step)?,
                None => name.clone(),
            };
            let activation = match &self.ctx.home {
                Home::Engine(engine) => &*engine.activation,
                Home::Server(worker) => {
                    let what = OperationBody::Signal {
                        name: self.name,
                        recorded_as: self.step,
                        timeout: self.timeout,
                    };
                    return worker.ask(OperationRequest::wait(RecordKind::Signal, step, what)).value().await;
                }
            };
            let id = activation.next_id(&step);
            let now = activation.now();
            let finish = |transition, state, began| {
                PendingChange::finished(&id, StepKind::Signal, transition, state, 1, began)
            };
            let (until, began) = match activation.look_up_step(&id, StepKind::Signal) {
                StepLookup::Done(record) => return recorded_outcome(activation, &id, record.state).await,
                StepLookup::Cancelled => return activation.wait_as_cancelled().await,
                StepLookup::Open(record) => match record.state {
                    StepState::Waiting { until } => (until, record.started_at),
                    _ => (None, record.started_at),
                },
                StepLookup::NotRecorded => {
                    let until = self.timeout.map(|span| now.plus(span));
                    activation.queue([finish(StepTransition::Await, StepState::Waiting { until }, now)]);
                    (until, now)
                }
            };
            let wanted = name.clone();
            let look = |replay: &mut ReplayState, now| {
                let durability = replay.durability_of_wait_end(&id);
                match replay.take_signal(&wanted) {
                    // Until it is committed as consumed, it stays the first signal of its name.
                    Some(signal) => Some(Some((signal, durability))),
                    None => until.filter(|until| now >= *until).map(|_| None::<(Signal, Durability)>),
                }
            };
            let found = activation.wait_for(id.clone(), until, look).await;
            let at = activation.now();
            match found {
                Some((signal, durability)) => {
                    let state = StepState::Completed { at, output: signal.payload.clone() };
                    let done = finish(StepTransition::Complete, state, began);
                    activation.queue_with(durability, [PendingChange::ConsumeSignal(signal.seq), done]);
                    decoded(&self.name, &signal.payload)
                }
                None => {
                    let text = format!("no signal {:?} came in time", self.name);
                    let failure = Failure::permanent(text).with_code("timed_out");
                    let state = StepState::Failed { at, failure: failure.clone() };
                    activation.queue([finish(StepTransition::Fail, state, began)]);
                    Err(failure)
                }
            }
        })
    }
}
