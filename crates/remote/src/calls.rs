//! Tasks of documents and actions of entity workflows, whose code is here.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use hapax_api::RawJson;
use hapax_engine::model::{
    EffectKey, Entity, EntityId, EntityRef, Name, OperationId, Payload, Timestamp, Version, WorkspaceId,
};
use hapax_engine::runtime::{ActionAnswer, StepCall};
use hapax_engine::{Failure, Hold};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outbox::Late;
use crate::session::Session;
use crate::wire::{CallMessage, FailureRef, payload_of};
use crate::worker::Worker;

/// One call of a task, as its code sees it.
#[derive(Debug, Clone)]
pub struct TaskCall {
    /// Its input.
    pub input: Payload,
    /// Idempotency key for the provider: the same in every attempt.
    pub effect_key: EffectKey,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// A number that rises with each takeover, for providers that reject lower ones.
    pub fence: u64,
    /// Right to send the effect. Check it right before anything leaves the process.
    pub hold: Hold,
}

impl TaskCall {
    /// The input, as a Rust value.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.input.to().map_err(|error| {
            Failure::permanent(format!("the input does not fit: {error}")).with_code("input_mismatch")
        })
    }
}

/// Result of a call that did not fail.
pub(crate) enum CallAnswer {
    Output(Payload),
    Rejected(String),
}

type CallFuture = Pin<Box<dyn Future<Output = Result<CallAnswer, Failure>> + Send>>;
pub(crate) type TaskCode = Arc<dyn Fn(TaskCall) -> CallFuture + Send + Sync>;
pub(crate) type ActionCode = Arc<dyn Fn(StepCall) -> CallFuture + Send + Sync>;

pub(crate) fn task_code<F, Fut, T, E>(code: F) -> TaskCode
where
    F: Fn(TaskCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    Arc::new(move |call| {
        let running = code(call);
        Box::pin(async move {
            let output = running.await.map_err(Into::into)?;
            Ok(CallAnswer::Output(payload(&output)?))
        })
    })
}

pub(crate) fn action_code<F, Fut>(code: F) -> ActionCode
where
    F: Fn(StepCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ActionAnswer, Failure>> + Send + 'static,
{
    Arc::new(move |call| {
        let running = code(call);
        Box::pin(async move {
            match running.await? {
                ActionAnswer::Done { result, data: None } => Ok(CallAnswer::Output(payload(&result)?)),
                ActionAnswer::Done { data: Some(_), .. } => Err(Failure::unknown(
                    "the action is done, but a worker cannot change the data of an entity with its answer; run it in a program \
                     with an engine, or leave the data to the workflow",
                )
                .with_code("needs_engine")
                .finally()),
                ActionAnswer::Rejected { failure } => Ok(CallAnswer::Rejected(failure.message().to_owned())),
            }
        })
    })
}

/// The effect happened, so an output that cannot be stored is no proof that it did not.
fn payload<T: Serialize + ?Sized>(value: &T) -> Result<Payload, Failure> {
    Payload::of(value).map_err(|invalid| Failure::unknown(invalid).with_code("output_invalid"))
}

/// A call under way.
struct UnderWay {
    session: Arc<Session>,
    call: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.session.calls().remove(&self.call);
        self.session.worker.count_running(1, 0);
    }
}

impl Worker {
    /// Begins a task or an action that the server asks for.
    pub(crate) fn begin_call(self: &Arc<Self>, session: &Arc<Session>, message: CallMessage) {
        let hold = session.hold.hold();
        session.calls().insert(message.call.clone(), hold.clone());
        self.count_running(0, 1);
        let under_way = UnderWay { session: session.clone(), call: message.call.clone() };
        let worker = self.clone();
        tokio::spawn(async move { worker.call(under_way, message, hold).await });
    }

    async fn call(&self, under_way: UnderWay, message: CallMessage, hold: Hold) {
        let (call, attempt, fence) = (message.call.clone(), message.attempt, message.fence);
        let key = message.key.clone();
        tracing::debug!(%key, name = %message.name, attempt, "call begins");
        let outcome = match self.code_of(message, hold.clone()) {
            // Nobody waits for a call that was aborted.
            Ok(code) => match self.while_held(&hold, code).await {
                Some(outcome) => outcome,
                None => return,
            },
            Err(failure) => Err(failure),
        };
        let session = &under_way.session;
        let result = match &outcome {
            Ok(CallAnswer::Output(output)) => {
                let output: Option<&serde_json::value::RawValue> = serde_json::from_str(output.as_str()).ok();
                RawJson::from_value(&CallResult { call: &call, output, failure: None, rejected: None })
            }
            Ok(CallAnswer::Rejected(why)) => RawJson::from_value(&CallResult {
                call: &call,
                output: None,
                failure: None,
                rejected: Some(why),
            }),
            Err(failure) => {
                tracing::info!(%key, attempt, %failure, "call failed");
                let failure = Some(failure.into());
                RawJson::from_value(&CallResult { call: &call, output: None, failure, rejected: None })
            }
        };
        // The outcome of a call is there before the call is over.
        let was_severed = session.calls().remove(&call).is_none();
        match (was_severed, outcome) {
            (false, _) => session.hand_in_result(result.expect("a result is JSON")),
            (true, Ok(CallAnswer::Output(output))) => {
                let output = RawJson::from_text(output.as_str().to_owned()).expect("a payload is JSON");
                self.keep_late(vec![Late { key: key.to_string(), attempt, fence, output }]);
            }
            (true, _) => {}
        }
    }

    fn code_of(&self, message: CallMessage, hold: Hold) -> Result<CallFuture, Failure> {
        let invalid = |error: hapax_engine::model::Invalid| Failure::permanent(error).with_code("invalid");
        let CallMessage { name, input, key, attempt, fence, entity, step, requester, .. } = message;
        let Some(entity) = entity else {
            let code = self.find_task(&name).ok_or_else(|| unknown("task", &name))?;
            let call = TaskCall { input, effect_key: key, attempt, fence, hold };
            return Ok(Box::pin(async move { code(call).await }));
        };
        let code = self.find_action(&name).ok_or_else(|| unknown("action", &name))?;
        let kind = Name::new("entity type", &entity.kind).map_err(invalid)?;
        let operation: Option<OperationId> =
            key.as_str().split_once(':').and_then(|(operation, _)| operation.parse().ok());
        let call = StepCall {
            workspace: WorkspaceId::default(),
            // An entity type has one workflow.
            workflow: kind.clone(),
            step: Name::new("step key", step.as_deref().unwrap_or_default()).map_err(invalid)?,
            entity: Entity {
                entity: EntityRef { kind, id: EntityId::new(&entity.id).map_err(invalid)? },
                status: Name::new("status", &entity.status).map_err(invalid)?,
                version: Version::new(0),
                data: payload_of(entity.data),
                updated_at: Timestamp::EPOCH,
            },
            requester: requester
                .as_deref()
                .map(|text| Name::new("requester", text))
                .transpose()
                .map_err(invalid)?,
            input,
            operation: operation.unwrap_or(OperationId::from_u128(0)),
            attempt,
            effect_key: key,
            fence,
            hold,
        };
        Ok(Box::pin(async move { code(call).await }))
    }

    /// Runs the code of a call, and lets it go on after each wait, only while its right holds. `None` if the right was
    /// lost for good.
    async fn while_held(&self, hold: &Hold, code: CallFuture) -> Option<Result<CallAnswer, Failure>> {
        let mut code = pin!(caught(code));
        loop {
            let renewed = self.hold_renewed.notified();
            tokio::pin!(renewed);
            renewed.as_mut().enable();
            let polled = std::future::poll_fn(|cx| match hold.is_held() {
                true => code.as_mut().poll(cx).map(Some),
                false => Poll::Ready(None),
            });
            tokio::select! {
                biased;
                outcome = polled => match outcome {
                    Some(outcome) => return Some(outcome),
                    None => tokio::select! {
                        () = renewed => {}
                        () = hold.lost() => return None,
                    },
                },
                () = hold.lost() => return None,
            }
        }
    }
}

/// A panic is a failure like any other.
async fn caught(code: CallFuture) -> Result<CallAnswer, Failure> {
    let mut code = code;
    std::future::poll_fn(move |cx| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| code.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(_) => Poll::Ready(Err(Failure::unknown("the code panicked").with_code("panicked"))),
        }
    })
    .await
}

fn unknown(what: &str, name: &str) -> Failure {
    Failure::retryable(format!("this program has no {what} {name:?}")).with_code(&format!("unknown_{what}"))
}

#[derive(Serialize)]
struct CallResult<'a> {
    call: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<&'a str>,
}
