//! Input and answer of an action.

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

/// Call of an entity workflow step, as validations and actions see it.
#[derive(Debug, Clone)]
pub struct StepCall {
    /// Workspace.
    pub workspace: WorkspaceId,
    /// Entity workflow.
    pub workflow: Name,
    /// Step.
    pub step: Name,
    /// The entity. A validation sees its current state; an action sees its state after the claim.
    pub entity: Entity,
    /// Requester that the step is taken as.
    pub requester: Option<Name>,
    /// Input from the caller.
    pub input: Payload,
    /// Operation.
    pub operation: OperationId,
    /// Attempt of the operation, starting at 1.
    pub attempt: u32,
    /// Idempotency key for the provider ([`StepCall::idempotency_key`]).
    pub effect_key: EffectKey,
    /// Number of this attempt among all attempts under the effect key. A provider that remembers the highest
    /// number can reject late requests.
    pub fence: u64,
    /// Right to run the action. Check it right before anything leaves the process.
    pub hold: Hold,
}

impl StepCall {
    /// Creates the call of an operation's action under this right.
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

    /// Idempotency key for the provider. It is the same for all attempts of the operation, and for later
    /// operations that continue an attempt that may have happened.
    pub fn idempotency_key(&self) -> EffectKey {
        self.effect_key.clone()
    }

    /// Fails if this process no longer holds the operation.
    ///
    /// Call it right before the effect leaves the process, after the last await. The janitor may have
    /// released the claim while this process was suspended.
    pub fn ensure_still_held(&self) -> Result<(), Failure> {
        self.hold.ensure_still_held()
    }

    /// Waits until this process loses the operation. For work outside the action's future, such as a thread
    /// or a task.
    pub async fn cancelled(&self) {
        self.hold.lost().await;
    }

    /// Returns whether this process has lost the operation. For blocking code.
    pub fn is_cancelled(&self) -> bool {
        self.hold.is_lost()
    }

    /// Input from the caller, as a Rust value.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let mismatch = |error| {
            Failure::permanent(format!("the input does not fit: {error}")).with_code("input_mismatch")
        };
        self.input.to().map_err(mismatch)
    }

    /// Data of the entity, as a Rust value.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let mismatch = |error| {
            Failure::permanent(format!("the data of the entity does not fit the type: {error}"))
                .with_code("data_mismatch")
        };
        self.entity.data.to().map_err(mismatch)
    }
}

/// Answer of an action that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionAnswer {
    /// The action is done.
    Done {
        /// Result for the caller, returned again for repeated requests.
        result: Value,
        /// Fields to replace in the entity's data. Only for entities in the store's
        /// own table.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// The action refuses. The entity stays as it was.
    Rejected {
        /// Reason.
        failure: Failure,
    },
}

impl ActionAnswer {
    /// Answers that the action is done, with a result.
    pub fn done<T: Serialize>(result: T) -> Result<Self, Failure> {
        let result = serde_json::to_value(result)
            .map_err(|error| Failure::permanent(Invalid::Payload(error.to_string())))?;
        Ok(ActionAnswer::Done { result, data: None })
    }

    /// Sets fields of the entity's data.
    pub fn with_data<T: Serialize>(self, patch: T) -> Result<Self, Failure> {
        let patch = serde_json::to_value(patch)
            .map_err(|error| Failure::permanent(Invalid::Payload(error.to_string())))?;
        Ok(match self {
            ActionAnswer::Done { result, .. } => ActionAnswer::Done { result, data: Some(patch) },
            rejected => rejected,
        })
    }

    /// Answers that the action refuses, with a reason.
    pub fn rejected(why: impl std::fmt::Display) -> Self {
        ActionAnswer::Rejected { failure: Failure::permanent(why.to_string()) }
    }
}

/// Host of an entity workflow: runs its validations and hosted actions.
#[async_trait]
pub trait EntityHost: Send + Sync {
    /// Validates a step before anything is claimed.
    async fn check(&self, call: &StepCall) -> Result<(), Failure> {
        let _ = call;
        Ok(())
    }

    /// Runs an [`crate::model::Action::Hosted`].
    async fn act(&self, call: StepCall) -> Result<ActionAnswer, Failure> {
        let step = call.step;
        Err(Failure::permanent(format!("nothing here does what step {step} asks for"))
            .with_code("unknown_action"))
    }

    /// Time limit of a request of the action. The janitor waits this much longer before it releases the claim
    /// of a vanished holder.
    fn action_timeout(&self, step: &Name, requester: Option<&Name>) -> Duration {
        let _ = (step, requester);
        Duration::ZERO
    }

    /// How long a probe's "did not happen" does not count, measured from the last possible send of the action. `None`:
    /// the host has no probe.
    fn probe_settle(&self, step: &Name, requester: Option<&Name>) -> Option<Duration> {
        let _ = (step, requester);
        None
    }

    /// Asks the provider whether an action happened. An unreadable or missing answer is unknown.
    async fn probe(&self, call: StepCall) -> ProbeAnswer<Value> {
        drop(call);
        ProbeAnswer::Unknown
    }

    /// Input for the run of an [`crate::model::Action::Workflow`]; the default contains the entity, the step
    /// and the caller's input.
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

/// Host without validations and hosted actions. All actions are registered code or workflows.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodeOnlyHost;

impl EntityHost for CodeOnlyHost {}

pub(super) type ActionFuture = Pin<Box<dyn Future<Output = Result<ActionAnswer, Failure>> + Send>>;
