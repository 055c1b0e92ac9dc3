//! What the code of an action is given, and what it answers.

use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{EffectKey, Entity, Failure, Invalid, Name, OperationId, Payload, WorkspaceId};

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
}

impl StepCall {
    /// What the action should carry to the outside world: the same over the attempts of the operation.
    pub fn idempotency_key(&self) -> EffectKey {
        EffectKey::of_operation(self.operation, self.step.as_str())
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
