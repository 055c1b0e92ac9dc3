//! After-effects: left to be delivered by the commit that records them.

use serde::Serialize;

use super::{Ctx, checked_name, recorded_value, refused};
use crate::model::{
    EffectKey, Failure, OutboxMessage, OutboxState, Payload, StepKind, StepState, StepTransition,
};
use crate::runtime::change::Change;
use crate::runtime::replay_state::Entered;

impl Ctx {
    /// Leaves `payload` for the target of this name: it is delivered at least once if, and only if, what the run has done so far is
    /// durable. Answers with the id that every delivery carries.
    pub async fn after_effect<P: Serialize + ?Sized>(
        &self,
        target: &str,
        payload: &P,
    ) -> Result<String, Failure> {
        let activation = &*self.activation;
        let target = checked_name("target", target)?;
        let payload = Payload::of(payload).map_err(refused)?;
        let step = activation.next_id(&target);
        let id = EffectKey::new(activation.facts.id, activation.generation, &step);
        match activation.enter(&step, StepKind::AfterEffect) {
            Entered::Done(record) => recorded_value(activation, step.as_str(), record.state),
            Entered::GivenUp | Entered::Open(_) | Entered::Fresh
                if activation.engine.is_reserved(&target) =>
            {
                let why = format!("the target {target} is told by announcements alone; choose another");
                Err(Failure::permanent(why).with_code("target_reserved"))
            }
            Entered::GivenUp | Entered::Open(_) | Entered::Fresh => {
                let now = activation.now();
                let output = Payload::of(id.as_str()).map_err(refused)?;
                let post = OutboxMessage {
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
                let left =
                    Change::finished(&step, StepKind::AfterEffect, StepTransition::Complete, state, 1, now);
                activation.queue([Change::OutboxMessage(Box::new(post)), left]);
                Ok(id.as_str().to_string())
            }
        }
    }
}
