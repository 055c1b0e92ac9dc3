//! Server side of an uploaded entity workflow: its validations and its requests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hapax_documents::{CheckedEntity, EntityCall, EntityDocument, HostServices, evaluate_fairly};
use hapax_engine::Failure;
use hapax_engine::model::{Entity, Name, OperationEnd, Payload, ProbeAnswer};
use hapax_engine::runtime::{ActionAnswer, EntityHost, StepCall};
use serde_json::{Value, json};

/// Validates and acts by one version of a document.
pub(super) struct DocumentHost {
    checked: Arc<CheckedEntity>,
    services: Arc<HostServices>,
}

impl DocumentHost {
    pub(super) fn new(checked: Arc<CheckedEntity>, services: Arc<HostServices>) -> Self {
        DocumentHost { checked, services }
    }

    fn document(&self) -> &EntityDocument {
        self.checked.document()
    }
}

#[async_trait]
impl EntityHost for DocumentHost {
    async fn check(&self, call: &StepCall) -> Result<(), Failure> {
        let seen = seen(call);
        let check = || self.document().check_call(call.step.as_str(), call.requester.as_ref(), &seen);
        let checked = evaluate_fairly(&call.workspace, check).await;
        checked.map_err(|rejection| Failure::permanent(rejection.message).with_code(&rejection.code))
    }

    async fn act(&self, call: StepCall) -> Result<ActionAnswer, Failure> {
        let (seen, key) = (seen(&call), call.idempotency_key());
        let (step, requester) = (call.step.as_str(), call.requester.as_ref());
        let services = self.services.of(&call.workspace);
        let right = (call.hold.clone(), call.fence);
        match self.document().call_http(step, requester, &seen, key.as_str(), right, services).await {
            OperationEnd::Done { result, data } => {
                Ok(ActionAnswer::Done { result: value_of(&result), data: data.as_ref().map(value_of) })
            }
            OperationEnd::Rejected(failure) => Ok(ActionAnswer::Rejected { failure }),
            OperationEnd::Failed(failure) => Err(failure),
            OperationEnd::Reverted
            | OperationEnd::DidNotHappen
            | OperationEnd::InDoubt
            | OperationEnd::TryAgain => Err(Failure::unknown("a request ended as only a janitor can end it")),
        }
    }

    fn action_timeout(&self, step: &Name, requester: Option<&Name>) -> Duration {
        self.document().action_timeout(step.as_str(), requester)
    }

    fn probe_settle(&self, step: &Name, requester: Option<&Name>) -> Option<Duration> {
        self.document().probe_settle(step.as_str(), requester)
    }

    async fn probe(&self, call: StepCall) -> ProbeAnswer<Value> {
        let (seen, key) = (seen(&call), call.idempotency_key());
        let (step, requester) = (call.step.as_str(), call.requester.as_ref());
        self.document().probe(step, requester, &seen, key.as_str(), self.services.of(&call.workspace)).await
    }

    async fn run_input(&self, call: &StepCall) -> Result<Payload, Failure> {
        let (step, requester) = (call.step.as_str(), call.requester.as_ref());
        let seen = seen(call);
        let plan = || self.document().plan_workflow_input(step, requester, &seen);
        let input = evaluate_fairly(&call.workspace, plan).await?;
        Ok(Payload::of(&input)?)
    }
}

/// Variables for the expressions of a step.
fn seen(call: &StepCall) -> EntityCall {
    let Entity { entity, status, version, data, .. } = &call.entity;
    EntityCall {
        entity: json!({
            "type": entity.kind.as_str(), "id": entity.id.as_str(), "status": status.as_str(), "version": version.get(),
            "data": value_of(data),
        }),
        input: value_of(&call.input),
        requester: call.requester.as_ref().map_or(Value::Null, |requester: &Name| requester.as_str().into()),
        operation: json!({
            "id": call.operation.to_string(), "key": call.idempotency_key().as_str(), "attempt": call.attempt,
        }),
    }
}

fn value_of(payload: &Payload) -> Value {
    payload.to().unwrap_or_default()
}
