//! Durable sleep.

use std::time::Duration;

use super::{Ctx, Home, checked_name, invalid_failure, recorded_outcome};
use crate::limits::MAX_SPAN;
use crate::model::{Failure, Invalid, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::remote::{OperationBody, OperationRequest, RecordKind, SleepEnd};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;

impl Ctx {
    /// Sleeps durably: the timer survives crashes and restarts. A sleeping run needs no memory.
    pub async fn sleep(&self, span: Duration) -> Result<(), Failure> {
        if span > MAX_SPAN {
            return Err(invalid_failure(Invalid::Span { what: "sleep", given: span }));
        }
        self.sleep_step(None, SleepEnd::After(span)).await
    }

    /// Like [`Ctx::sleep`], with a step name of its own.
    pub async fn sleep_as(&self, name: &str, span: Duration) -> Result<(), Failure> {
        if span > MAX_SPAN {
            return Err(invalid_failure(Invalid::Span { what: "sleep", given: span }));
        }
        self.sleep_step(Some(name), SleepEnd::After(span)).await
    }

    /// Sleeps durably until a point in time.
    pub async fn sleep_until(&self, at: Timestamp) -> Result<(), Failure> {
        self.sleep_step(None, SleepEnd::At(at)).await
    }

    /// Like [`Ctx::sleep_until`], with a step name of its own.
    pub async fn sleep_until_as(&self, name: &str, at: Timestamp) -> Result<(), Failure> {
        self.sleep_step(Some(name), SleepEnd::At(at)).await
    }

    async fn sleep_step(&self, name: Option<&str>, until: SleepEnd) -> Result<(), Failure> {
        let step = checked_name("step name", name.unwrap_or("sleep"))?;
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(worker) => {
                let what = OperationBody::Sleep { name: name.map(str::to_owned), until };
                return worker.ask(OperationRequest::wait(RecordKind::Sleep, step, what)).value().await;
            }
        };
        let id = activation.next_id(&step);
        let began = activation.now();
        let (due_at, started_at) = match activation.look_up_step(&id, StepKind::Sleep) {
            StepLookup::Done(record) => return recorded_outcome::<()>(activation, &id, record.state).await,
            StepLookup::Cancelled => return activation.wait_as_cancelled().await,
            StepLookup::Open(record) => match record.state {
                StepState::Waiting { until: Some(until) } => (until, record.started_at),
                _ => (began, record.started_at),
            },
            StepLookup::NotRecorded => {
                let due_at = match until {
                    SleepEnd::After(span) => began.plus(span),
                    SleepEnd::At(at) => at,
                };
                activation.queue([PendingChange::finished(
                    &id,
                    StepKind::Sleep,
                    StepTransition::Await,
                    StepState::Waiting { until: Some(due_at) },
                    1,
                    began,
                )]);
                (due_at, began)
            }
        };
        activation.wait_for(id.clone(), Some(due_at), |_, now| (now >= due_at).then_some(())).await;
        let state = StepState::Completed { at: activation.now(), output: Payload::null() };
        activation.queue([PendingChange::finished(
            &id,
            StepKind::Sleep,
            StepTransition::Complete,
            state,
            1,
            started_at,
        )]);
        Ok(())
    }
}
