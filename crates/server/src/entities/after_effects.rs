//! After-effects of steps that are requests or runs. The outbox delivers each under one key.

use std::sync::{Arc, Weak};

use hapax_documents::entity::{Ended, HTTP_TARGET, PlannedAfterEffect, WORKFLOW_TARGET};
use hapax_documents::limits::{HTTP_GRACE, MAX_AFTER_EFFECT_TIMEOUT};
use hapax_engine::model::{Name, OperationId, Payload, RunId};
use hapax_engine::runtime::{Delivery, TargetOptions};
use hapax_engine::{Error, Failure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Entities;

impl Entities {
    /// Registers a receiver for the after-effects of documents.
    pub(crate) fn receive_after_effects(self: &Arc<Self>) -> Result<(), Error> {
        for target in [HTTP_TARGET, WORKFLOW_TARGET] {
            let this = Arc::downgrade(self);
            let receive =
                move |delivery: Delivery, payload: Value| carry_out(this.clone(), delivery, payload);
            let timeout = MAX_AFTER_EFFECT_TIMEOUT + HTTP_GRACE;
            let options = TargetOptions { timeout, ..TargetOptions::default() };
            self.engine.register_target_with(target, options, receive)?;
        }
        Ok(())
    }
}

async fn carry_out(this: Weak<Entities>, delivery: Delivery, payload: Value) -> Result<(), Failure> {
    let Some(entities) = this.upgrade() else { return Err(Failure::retryable("the server is stopping")) };
    let text = |path: &str| payload.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (kind, step) = (text("/entity/type"), text("/step"));
    let workflow = entities.find_by_type(delivery.workspace(), kind).ok_or_else(|| {
        Failure::retryable(format!(
            "no entity workflow for {kind} is known here; it may come with the next look"
        ))
    })?;
    let requester = Name::new("requester", text("/requester")).ok();
    let ended = match payload.get("failure") {
        Some(_) => Ended::Failure,
        None => Ended::Success,
    };
    let operation = text("/operation").to_owned();
    let mut told = payload.clone();
    told["status"] = text("/entity/status").into();
    told["operation"] = json!({ "id": operation, "key": delivery.id() });
    let (document, services) = (workflow.document(), entities.services.of(delivery.workspace()));
    let planning =
        document.plan_after_effect(step, requester.as_ref(), ended, &told, delivery.id(), services);
    match planning.await? {
        PlannedAfterEffect::Http(call) => {
            let call = call.held_by(delivery.hold().clone(), u64::from(delivery.attempt()));
            let answer = services.send(call.clone()).await;
            document.judge_after_effect(step, requester.as_ref(), ended, &call, answer)
        }
        PlannedAfterEffect::Workflow { workflow, input } => {
            let engine = entities.engine.workspace(delivery.workspace().clone());
            let start = engine.start_payload(workflow.as_str(), Payload::of(&input)?);
            match start.run_id(run_of(&operation, delivery.id())).await {
                Ok(_) => Ok(()),
                Err(error @ (Error::UnknownWorkflow(_) | Error::Store(_) | Error::ShuttingDown)) => {
                    Err(Failure::retryable(error))
                }
                Err(error) => Err(Failure::permanent(error).with_code("run_not_started")),
            }
        }
        PlannedAfterEffect::Target(target) => {
            let why = format!("the document now leaves this to the target {target}");
            Err(Failure::permanent(why).with_code("document_changed"))
        }
    }
}

/// Id of the run that an after-effect starts. It is the same for every delivery, and sorts by time
/// next to its operation.
fn run_of(operation: &str, delivery: &str) -> RunId {
    let digest = Sha256::digest(delivery);
    let low = u128::from(u64::from_be_bytes(digest[..8].try_into().expect("eight bytes")));
    let high = operation.parse::<OperationId>().map_or(0, |id| id.as_run().as_u128());
    RunId::from_u128((high & !u128::from(u64::MAX)) | low)
}
