//! Messages to a worker, as JSON text.

use hapax_api::{DurationText, Problem, RawJson};
use hapax_engine::Failure;
use hapax_engine::ctx::RecordedStep;
use hapax_engine::model::{RunId, StepKind, StepState};
use serde::Serialize;

use crate::items::class_name;

/// A failure on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureMessage<'a> {
    message: &'a str,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
}

impl<'a> From<&'a Failure> for FailureMessage<'a> {
    fn from(failure: &'a Failure) -> Self {
        FailureMessage {
            message: failure.message(),
            class: class_name(failure.class()),
            code: failure.code(),
        }
    }
}

/// Calls the function from the top.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activate<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) workflow: &'a str,
    pub(crate) version: u32,
    pub(crate) fence: u64,
    pub(crate) key_prefix: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) input: &'a RawJson,
    pub(crate) log: &'a [RawJson],
    pub(crate) log_more: bool,
    pub(crate) now: String,
    pub(crate) trace: String,
}

/// Begins an attempt.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) op: u32,
    #[serde(rename = "do")]
    pub(crate) what: &'static str,
    pub(crate) attempt: u32,
    pub(crate) key: &'a str,
    pub(crate) fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<DurationText>,
    pub(crate) id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<&'a RawJson>,
}

/// Calls a task.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallTask<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) call: &'a str,
    pub(crate) name: &'a str,
    pub(crate) input: &'a RawJson,
    pub(crate) key: &'a str,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
}

/// An entity, as an action sees it.
#[derive(Serialize)]
pub(crate) struct EntityMessage<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    pub(crate) id: &'a str,
    pub(crate) status: &'a str,
    pub(crate) data: &'a RawJson,
}

/// Calls an action.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallAction<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) call: &'a str,
    pub(crate) name: &'a str,
    pub(crate) entity: EntityMessage<'a>,
    pub(crate) step: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requester: Option<&'a str>,
    pub(crate) input: &'a RawJson,
    pub(crate) key: &'a str,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
}

/// Stops a task or an action.
#[derive(Serialize)]
pub(crate) struct AbortCall<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) call: &'a str,
    pub(crate) why: &'static str,
}

/// Gives the outcome of an operation.
#[derive(Serialize)]
pub(crate) struct Resolved<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) op: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<&'a RawJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<FailureMessage<'a>>,
}

/// Stops an attempt.
#[derive(Serialize)]
pub(crate) struct Abort<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) op: u32,
    pub(crate) attempt: u32,
    pub(crate) why: &'static str,
}

/// Stops the code, or forgets it.
#[derive(Serialize)]
pub(crate) struct Drop<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) why: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<&'a Problem>,
}

/// Stops the code. Its effects may be undone.
#[derive(Serialize)]
pub(crate) struct StopCode<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) run: &'a str,
    pub(crate) activation: &'a str,
    pub(crate) reason: &'static str,
}

/// A record of the log.
#[derive(Serialize)]
struct Record<'a> {
    id: &'a str,
    kind: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureMessage<'a>>,
}

/// OpenTelemetry context of a run, as `traceparent`. The trace of a run is its id, so what a worker records belongs to what
/// the server records of the run.
pub(crate) fn trace_of(run: RunId, fence: u64) -> String {
    // A parent that is zero is invalid. Each activation has another.
    let parent = (run.as_u128() as u64).wrapping_add(fence).max(1);
    format!("00-{:032x}-{parent:016x}-01", run.as_u128())
}

/// Text of a message.
pub(crate) fn text_of(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("messages have text keys and finite numbers")
}

/// A record as workers know it.
pub(crate) fn record_of(step: &RecordedStep) -> RawJson {
    let record = &step.record;
    let (output, failure) = match &record.state {
        StepState::Completed { output, .. } => (serde_json::from_str(output.as_str()).ok(), None),
        StepState::Failed { failure, .. } => (None, Some(failure.into())),
        StepState::Pending { .. }
        | StepState::Running
        | StepState::Waiting { .. }
        | StepState::Skipped { .. }
        | StepState::Cancelled { .. }
        | StepState::InDoubt { .. } => (None, None),
    };
    let told = Record {
        id: record.id.as_str(),
        kind: kind_name(record.kind),
        status: record.state.status().as_str(),
        output,
        failure,
    };
    RawJson::from_value(&told).expect("a record is JSON")
}

/// Name of a kind of step on the wire.
fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Effect | StepKind::Claimed | StepKind::Transaction | StepKind::Undo => "step",
        StepKind::Sleep => "sleep",
        StepKind::Promise => "promise",
        StepKind::Signal => "signal",
        StepKind::Child => "child",
        StepKind::Value => "value",
        StepKind::Select => "select",
        StepKind::AfterEffect => "afterEffect",
    }
}
