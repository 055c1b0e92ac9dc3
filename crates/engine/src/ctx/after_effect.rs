//! After-effects: messages that are delivered after the commit that records them.

use serde::Serialize;

use super::{Ctx, Home, checked_name, invalid_failure, recorded_value};
use crate::model::{
    EffectKey, Failure, OutboxMessage, OutboxState, Payload, StepKind, StepState, StepTransition,
};
use crate::remote::{OperationBody, OperationRequest, RecordKind};
use crate::runtime::pending_change::PendingChange;
use crate::runtime::replay_state::StepLookup;

impl Ctx {
    /// Sends `payload` to the target of this name through the outbox.
    ///
    /// It is delivered at least once, if and only if everything the run has done so far is committed. Returns
    /// the id that every delivery carries.
    pub async fn after_effect<P: Serialize + ?Sized>(
        &self,
        target: &str,
        payload: &P,
    ) -> Result<String, Failure> {
        let target = checked_name("target", target)?;
        let payload = Payload::of(payload).map_err(invalid_failure)?;
        let activation = match &self.home {
            Home::Engine(engine) => &*engine.activation,
            Home::Server(worker) => {
                let what = OperationBody::AfterEffect { target: target.to_string(), body: payload };
                return worker
                    .ask(OperationRequest::wait(RecordKind::AfterEffect, target, what))
                    .value()
                    .await;
            }
        };
        let step = activation.next_id(&target);
        let id = EffectKey::new(activation.facts.id, activation.generation, &step);
        match activation.look_up_step(&step, StepKind::AfterEffect) {
            StepLookup::Done(record) => recorded_value(activation, step.as_str(), record.state),
            StepLookup::Cancelled | StepLookup::Open(_) | StepLookup::NotRecorded
                if activation.engine.is_reserved(&target) =>
            {
                let why = format!("only announcements may use the target {target}; choose another");
                Err(Failure::permanent(why).with_code("target_reserved"))
            }
            StepLookup::Cancelled | StepLookup::Open(_) | StepLookup::NotRecorded => {
                let now = activation.now();
                let output = Payload::of(id.as_str()).map_err(invalid_failure)?;
                let message = OutboxMessage {
                    workspace: activation.facts.workspace.clone(),
                    id: id.clone(),
                    run: activation.facts.id,
                    target,
                    payload,
                    created_at: now,
                    attempts: 0,
                    failure: None,
                    state: OutboxState::Due { at: now },
                };
                let state = StepState::Completed { at: now, output };
                let left = PendingChange::finished(
                    &step,
                    StepKind::AfterEffect,
                    StepTransition::Complete,
                    state,
                    1,
                    now,
                );
                activation.queue([PendingChange::OutboxMessage(Box::new(message)), left]);
                Ok(id.as_str().to_string())
            }
        }
    }
}
