//! Durable sleep.

use std::time::Duration;

use super::{Ctx, checked_name, invalid_failure, recorded_outcome};
use crate::limits::MAX_SPAN;
use crate::model::{Failure, Invalid, Payload, StepKind, StepState, StepTransition, Timestamp};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;

impl Ctx {
    /// Sleeps durably: the timer survives crashes and restarts. A sleeping run needs no memory.
    pub async fn sleep(&self, span: Duration) -> Result<(), Failure> {
        if span > MAX_SPAN {
            return Err(invalid_failure(Invalid::Span { what: "sleep", given: span }));
        }
        self.sleep_step("sleep", |now| now.plus(span)).await
    }

    /// Like [`Ctx::sleep`], with a step name of its own.
    pub async fn sleep_as(&self, name: &str, span: Duration) -> Result<(), Failure> {
        if span > MAX_SPAN {
            return Err(invalid_failure(Invalid::Span { what: "sleep", given: span }));
        }
        self.sleep_step(name, |now| now.plus(span)).await
    }

    /// Sleeps durably until a point in time.
    pub async fn sleep_until(&self, at: Timestamp) -> Result<(), Failure> {
        self.sleep_step("sleep", |_| at).await
    }

    /// Like [`Ctx::sleep_until`], with a step name of its own.
    pub async fn sleep_until_as(&self, name: &str, at: Timestamp) -> Result<(), Failure> {
        self.sleep_step(name, |_| at).await
    }

    async fn sleep_step(&self, name: &str, due: impl FnOnce(Timestamp) -> Timestamp) -> Result<(), Failure> {
        let activation = &*self.activation;
        let id = activation.next_id(&checked_name("step name", name)?);
        let began = activation.now();
        let (due_at, started_at) = match activation.look_up_step(&id, StepKind::Sleep) {
            StepLookup::Done(record) => return recorded_outcome::<()>(activation, &id, record.state).await,
            StepLookup::Cancelled => return activation.wait_as_cancelled().await,
            StepLookup::Open(record) => match record.state {
                StepState::Waiting { until: Some(until) } => (until, record.started_at),
                _ => (began, record.started_at),
            },
            StepLookup::NotRecorded => {
                let due_at = due(began);
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
