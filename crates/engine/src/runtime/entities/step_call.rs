//! What the code of an action is given, and what it answers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hold::Hold;
use crate::model::{
    EffectKey, Entity, Failure, Invalid, Name, Operation, OperationId, Payload, ProbeAnswer, WorkspaceId,
};

/// A step of an entity workflow that is to be taken, as validations and actions see it.
#[derive(Debug, Clone)]
pub struct StepCall {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The entity workflow.
    pub workflow: Name,
    /// The step.
    pub step: Name,
    /// The entity: to a validation as it was found, to an action as the claim left it.
    pub entity: Entity,
    /// As whom it is asked for.
    pub requester: Option<Name>,
    /// What the caller gave.
    pub input: Payload,
    /// The operation.
    pub operation: OperationId,
    /// Which attempt of it this is, from 1.
    pub attempt: u32,
    /// What the action carries to the outside world ([`StepCall::idempotency_key`]).
    pub effect_key: EffectKey,
    /// Number of this try among all under the effect key: a provider that remembers the highest can reject a request that comes late.
    pub fence: u64,
    /// The right to run the action. Ask right before anything leaves the process.
    pub hold: Hold,
}

impl StepCall {
    /// The call of an operation's action, under this right.
    pub(super) fn of(operation: &Operation, entity: &Entity, number: u32, hold: Hold) -> Self {
        StepCall {
            workspace: operation.workspace.clone(),
            workflow: operation.workflow.clone(),
            step: operation.step.clone(),
            entity: entity.clone(),
            requester: operation.requester.clone(),
            input: operation.input.clone(),
            operation: operation.id,
            attempt: operation.attempt,
            effect_key: operation.effect_key(),
            fence: number.into(),
            hold,
        }
    }

    /// What the action should carry to the outside world: the same over the attempts of the operation, and over operations that go on with what an earlier
    /// one may have done.
    pub fn idempotency_key(&self) -> EffectKey {
        self.effect_key.clone()
    }

    /// Fails if this process no longer holds the operation. Call it right before the effect leaves the process, after the last await: the janitor may have
    /// given the claim back while this process was paused.
    pub fn ensure_still_held(&self) -> Result<(), Failure> {
        self.hold.ensure_still_held()
    }

    /// Waits until this process has lost the operation: for code that works outside the future of the action, in a thread or a task.
    pub async fn cancelled(&self) {
        self.hold.lost().await;
    }

    /// Has this process lost the operation? For code that blocks.
    pub fn is_cancelled(&self) -> bool {
        self.hold.is_lost()
    }

    /// What the caller gave, as a Rust value.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let misfit = |error| {
            Failure::permanent(format!("the input does not fit: {error}")).with_code("input_mismatch")
        };
        self.input.to().map_err(misfit)
    }

    /// What is known of the entity, as a Rust value.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let misfit = |error| {
            Failure::permanent(format!("what is known of the entity does not fit: {error}"))
                .with_code("data_mismatch")
        };
        self.entity.data.to().map_err(misfit)
    }
}

/// What an action answers if it does not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done {
        /// What the caller is told, now and whenever they ask again.
        result: Value,
        /// Fields that replace those of the same name in what is known of the entity; only for entities in the store's own table.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// It will not do it; the entity stays as it was.
    Rejected {
        /// Why.
        failure: Failure,
    },
}

impl Answer {
    /// It is done, and this is what it gave.
    pub fn done<T: Serialize>(result: T) -> Result<Self, Failure> {
        let result = serde_json::to_value(result)
            .map_err(|error| Failure::permanent(Invalid::Payload(error.to_string())))?;
        Ok(Answer::Done { result, data: None })
    }

    /// The same, and this is to be known of the entity from now on.
    pub fn with_data<T: Serialize>(self, patch: T) -> Result<Self, Failure> {
        let patch = serde_json::to_value(patch)
            .map_err(|error| Failure::permanent(Invalid::Payload(error.to_string())))?;
        Ok(match self {
            Answer::Done { result, .. } => Answer::Done { result, data: Some(patch) },
            rejected => rejected,
        })
    }

    /// It will not do it.
    pub fn rejected(why: impl std::fmt::Display) -> Self {
        Answer::Rejected { failure: Failure::permanent(why.to_string()) }
    }
}

/// What stands behind an entity workflow: its validations, and the actions that it does by itself.
#[async_trait]
pub trait EntityHost: Send + Sync {
    /// Refuses a step before anything is claimed.
    async fn check(&self, call: &StepCall) -> Result<(), Failure> {
        let _ = call;
        Ok(())
    }

    /// Does an [`crate::model::Action::Hosted`].
    async fn act(&self, call: StepCall) -> Result<Answer, Failure> {
        let step = call.step;
        Err(Failure::permanent(format!("nothing here does what step {step} asks for"))
            .with_code("unknown_action"))
    }

    /// How long a request of the action may take. The janitor waits that much longer before it gives the claim of a vanished holder back.
    fn action_timeout(&self, step: &Name, requester: Option<&Name>) -> Duration {
        let _ = (step, requester);
        Duration::ZERO
    }

    /// How long after the last moment at which the action could have been sent a probe's "did not happen" counts. `None`: the host cannot ask.
    fn probe_settle(&self, step: &Name, requester: Option<&Name>) -> Option<Duration> {
        let _ = (step, requester);
        None
    }

    /// Asks the provider whether an action happened. What cannot be asked or understood is unknown.
    async fn probe(&self, call: StepCall) -> ProbeAnswer<Value> {
        drop(call);
        ProbeAnswer::Unknown
    }

    /// What the run of an [`crate::model::Action::Workflow`] is given: by default the entity, the step and the input.
    async fn run_input(&self, call: &StepCall) -> Result<Payload, Failure> {
        let Entity { entity, status, version, data, .. } = &call.entity;
        let read = |payload: &Payload| payload.to::<Value>().unwrap_or_default();
        let input = serde_json::json!({
            "entity": { "type": entity.kind.as_str(), "id": entity.id.as_str(), "status": status.as_str(), "version": version.get(), "data": read(data) },
            "step": call.step.as_str(),
            "requester": call.requester.as_ref().map(Name::as_str),
            "operation": call.operation.to_string(),
            "input": read(&call.input),
        });
        Ok(Payload::of(&input)?)
    }
}

/// A host that validates nothing and does nothing by itself: all actions are registered code or workflows.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodeOnly;

impl EntityHost for CodeOnly {}

pub(super) type Acting = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;
