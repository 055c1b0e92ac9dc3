//! Messages and items as JSON: `docs/worker-protocol.md`.

use hapax_api::{DurationText, RawJson};
use hapax_engine::Failure;
use hapax_engine::model::{
    ClosePolicy, EffectKey, FailureClass, Fence, OnDoubt, Payload, ProbeAnswer, RetryPolicy, StepStatus,
    Timestamp, WorkflowRef, WorkspaceId,
};
use hapax_engine::remote::{
    AttemptKind, AttemptOrder, AttemptOutcome, Item, OperationBody, Record, RecordKind, RemoteActivation,
    RunMessage, SleepEnd, StepRequest,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A message, read as far as its kind.
#[derive(Debug)]
pub enum Message {
    /// Call a workflow's function.
    Activate {
        /// Id of the activation.
        id: String,
        /// The call.
        activation: Box<RemoteActivation>,
        /// True if more records are on the server.
        has_more_log: bool,
    },
    /// A message to a run.
    Run {
        /// Id of the activation.
        id: String,
        /// The message.
        message: RunMessage,
        /// Why the server drops the run, if it does.
        why: Option<String>,
    },
    /// A task or an action.
    Call(Box<CallMessage>),
    /// Nobody waits for a task or an action any more.
    AbortCall(String),
    /// A message of a newer protocol.
    Unknown(String),
}

/// A call of a task or an action.
#[derive(Debug)]
pub struct CallMessage {
    /// Id of the call.
    pub call: String,
    /// Name of the task or the action.
    pub name: String,
    /// Its input.
    pub input: Payload,
    /// Key of the effect.
    pub key: EffectKey,
    /// Number of the attempt.
    pub attempt: u32,
    /// Fence of the attempt.
    pub fence: u64,
    /// The entity, if it is an action.
    pub entity: Option<WireEntity>,
    /// Step of an action.
    pub step: Option<String>,
    /// Requester of an action.
    pub requester: Option<String>,
}

/// An entity of an action.
#[derive(Debug, Deserialize)]
pub struct WireEntity {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: String,
    /// Its data.
    #[serde(default)]
    pub data: Option<RawJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMessage {
    #[serde(rename = "type")]
    kind: String,
    run: Option<String>,
    activation: Option<String>,
    workflow: Option<String>,
    version: Option<u32>,
    fence: Option<u64>,
    key_prefix: Option<String>,
    workspace: Option<String>,
    #[serde(default, deserialize_with = "present")]
    input: Option<RawJson>,
    #[serde(default)]
    log: Vec<WireRecord>,
    #[serde(default)]
    log_more: bool,
    op: Option<u32>,
    #[serde(rename = "do")]
    what: Option<String>,
    attempt: Option<u32>,
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    output: Option<RawJson>,
    failure: Option<WireFailure>,
    why: Option<String>,
    call: Option<String>,
    name: Option<String>,
    entity: Option<WireEntity>,
    step: Option<String>,
    requester: Option<String>,
    problem: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct WireRecord {
    id: String,
    kind: String,
    status: String,
    #[serde(default, deserialize_with = "present")]
    output: Option<RawJson>,
    failure: Option<WireFailure>,
}

/// A failure as it is on the wire.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireFailure {
    message: String,
    #[serde(default)]
    class: Option<String>,
    code: Option<String>,
    retry_after: Option<DurationText>,
}

impl From<WireFailure> for Failure {
    fn from(wire: WireFailure) -> Self {
        let failure = match wire.class.as_deref() {
            Some("permanent") => Failure::permanent(wire.message),
            Some("retryable") => Failure::retryable(wire.message),
            _ => Failure::unknown(wire.message),
        };
        let failure = match wire.code {
            Some(code) => failure.with_code(&code),
            None => failure,
        };
        match wire.retry_after {
            Some(wait) => failure.retry_after(wait.0),
            None => failure,
        }
    }
}

/// Reads a value that is there as `Some`, be it `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

pub(crate) fn payload_of(raw: Option<RawJson>) -> Payload {
    raw.map_or_else(Payload::null, |raw| Payload::from_stored(raw.text()))
}

fn outcome_of(output: Option<RawJson>, failure: Option<WireFailure>) -> Result<Payload, Failure> {
    match failure {
        Some(failure) => Err(failure.into()),
        None => Ok(payload_of(output)),
    }
}

fn record_of(wire: WireRecord) -> Result<Record, String> {
    let kind = RecordKind::from_name(&wire.kind).ok_or_else(|| format!("records of kind {:?}", wire.kind))?;
    let status =
        StepStatus::from_name(&wire.status).ok_or_else(|| format!("the status {:?}", wire.status))?;
    let outcome = match status {
        StepStatus::Completed | StepStatus::Failed => Some(outcome_of(wire.output, wire.failure)),
        StepStatus::Pending
        | StepStatus::Running
        | StepStatus::Waiting
        | StepStatus::Skipped
        | StepStatus::Cancelled
        | StepStatus::InDoubt => None,
    };
    Ok(Record { id: wire.id, kind, status, outcome })
}

/// Reads records of a log. The error says what is unknown to this version.
pub fn read_records(records: &[RawJson]) -> Result<Vec<Record>, String> {
    let read = |record: &RawJson| -> Result<Record, String> {
        record_of(serde_json::from_str(record.text()).map_err(|error| error.to_string())?)
    };
    records.iter().map(read).collect()
}

/// Reads a message. The error says what is missing.
pub fn read_message(text: &str) -> Result<Message, String> {
    let wire: WireMessage = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let missing = |what: &str| format!("a message of type {:?} has no {what}", wire.kind);
    let activation = || wire.activation.clone().ok_or_else(|| missing("activation"));
    let op = || wire.op.ok_or_else(|| missing("op"));
    let number = || wire.attempt.ok_or_else(|| missing("attempt"));
    let to_run = |message: RunMessage| Ok(Message::Run { id: activation()?, message, why: None });
    match wire.kind.as_str() {
        "activate" => {
            let id = activation()?;
            let name = wire.workflow.as_deref().ok_or_else(|| missing("workflow"))?;
            let name = hapax_engine::model::Name::new("workflow", name).map_err(|error| error.to_string())?;
            let run = wire.run.as_deref().ok_or_else(|| missing("run"))?;
            let workspace = wire.workspace.as_deref().map(WorkspaceId::new).transpose();
            let activation = RemoteActivation {
                run: run.parse().map_err(|error| format!("{error}"))?,
                workspace: workspace.map_err(|error| error.to_string())?.unwrap_or_default(),
                workflow: WorkflowRef { name, version: wire.version.unwrap_or(1) },
                fence: Fence::new(wire.fence.unwrap_or(0)),
                key_prefix: wire.key_prefix.unwrap_or_else(|| run.to_owned()),
                input: payload_of(wire.input),
                log: wire.log.into_iter().map(record_of).collect::<Result<_, _>>()?,
            };
            Ok(Message::Activate { id, activation: Box::new(activation), has_more_log: wire.log_more })
        }
        "attempt" => {
            let kind = match wire.what.as_deref() {
                Some("effect") => AttemptKind::Effect,
                Some("probe") => AttemptKind::Probe,
                Some("undo") => AttemptKind::Undo,
                _ => return Err(missing("known do")),
            };
            let key = EffectKey::from_stored(wire.key.as_deref().ok_or_else(|| missing("key"))?);
            let fence = Fence::new(wire.fence.unwrap_or(0));
            let (op, number) = (op()?, number()?);
            let id = activation()?;
            let output = wire.output.map(|output| payload_of(Some(output)));
            let order = AttemptOrder { op, kind, number, key, fence, output };
            Ok(Message::Run { id, message: RunMessage::Attempt(order), why: None })
        }
        "resolved" => {
            let (op, id) = (op()?, activation()?);
            let outcome = outcome_of(wire.output, wire.failure);
            Ok(Message::Run { id, message: RunMessage::Resolved { op, outcome }, why: None })
        }
        "abort" => match wire.call {
            Some(call) => Ok(Message::AbortCall(call)),
            None => to_run(RunMessage::Abort { op: op()?, attempt: number()? }),
        },
        "stop" => to_run(RunMessage::Stop),
        "drop" => {
            let detail = wire.problem.as_ref().and_then(|problem| problem.get("detail")?.as_str());
            let why = match (wire.why.as_deref(), detail) {
                (Some(why), Some(detail)) => Some(format!("{why}: {detail}")),
                (why, _) => why.map(str::to_owned),
            };
            Ok(Message::Run { id: activation()?, message: RunMessage::Drop, why })
        }
        "task" | "action" => Ok(Message::Call(Box::new(CallMessage {
            call: wire.call.clone().ok_or_else(|| missing("call"))?,
            name: wire.name.clone().ok_or_else(|| missing("name"))?,
            key: EffectKey::from_stored(wire.key.as_deref().ok_or_else(|| missing("key"))?),
            input: payload_of(wire.input),
            attempt: wire.attempt.unwrap_or(1),
            fence: wire.fence.unwrap_or(0),
            entity: wire.entity,
            step: wire.step,
            requester: wire.requester,
        }))),
        kind => Ok(Message::Unknown(kind.to_owned())),
    }
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct WireItem<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<u32>,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    what: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    abandon: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    close_scope: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    #[serde(rename = "return", skip_serializing_if = "Option::is_none")]
    returned: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throw: Option<FailureRef<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continue_as_new: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evicted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<WireRetry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<DurationText>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    claimed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    probe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_timeout: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_settle: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_doubt: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rejects_stale_fences: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    non_idempotent: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compensate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    compensate_retry: Option<WireRetry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key_ttl_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    recorded_as: Option<&'a str>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    span: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_close: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

/// A failure on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureRef<'a> {
    message: &'a str,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<DurationText>,
}

impl<'a> From<&'a Failure> for FailureRef<'a> {
    fn from(failure: &'a Failure) -> Self {
        FailureRef {
            message: failure.message(),
            class: match failure.class() {
                FailureClass::Permanent => "permanent",
                FailureClass::Retryable => "retryable",
                FailureClass::Unknown => "unknown",
            },
            code: failure.code(),
            retry_after: failure.requested_wait().map(DurationText),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireRetry {
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    give_up_after: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<serde_json::Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<DurationText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_exhausted: Option<&'static str>,
}

impl From<&RetryPolicy> for WireRetry {
    /// What is as usual is left out. The settings of the waits belong together.
    fn from(policy: &RetryPolicy) -> Self {
        let usual = RetryPolicy::default();
        let waits = policy.waits();
        let has_waits = waits != usual.waits();
        let (first, factor, cap) = waits;
        let limit = policy.time_limit();
        WireRetry {
            give_up_after: (limit != usual.time_limit()).then_some(DurationText(limit)),
            max_attempts: policy.attempt_limit(),
            first: has_waits.then_some(DurationText(first)),
            factor: has_waits.then(|| number_of(factor)).flatten(),
            cap: has_waits.then_some(DurationText(cap)),
            on_exhausted: policy.pauses().then_some("pause"),
        }
    }
}

/// A factor as people write it: `2`, not `2.0`.
fn number_of(factor: f64) -> Option<serde_json::Number> {
    let whole = factor.fract() == 0.0 && factor < f64::from(u32::MAX);
    match whole {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        true => Some((factor as u64).into()),
        false => serde_json::Number::from_f64(factor),
    }
}

/// Payloads are always JSON.
fn raw(payload: &Payload) -> Option<&RawValue> {
    serde_json::from_str(payload.as_str()).ok()
}

fn instant(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => format!("{at:.3}"),
        // Beyond the year 9999.
        Err(_) => jiff::Timestamp::MAX.to_string(),
    }
}

/// Writes an item.
pub fn write_item(item: &Item) -> RawJson {
    let empty = WireItem::default();
    let wire = match item {
        Item::Asks { op, scope, what } => WireItem { op: Some(*op), scope: *scope, ..asked(what) },
        Item::Took(op) => WireItem { took: Some(*op), ..empty },
        Item::Outcome { op, kind, attempt, outcome, evidence: _ } => {
            let what = match kind {
                AttemptKind::Effect => None,
                AttemptKind::Probe => Some("probe"),
                AttemptKind::Undo => Some("undo"),
            };
            let wire = WireItem { outcome: Some(*op), attempt: Some(*attempt), what, ..empty };
            match outcome {
                AttemptOutcome::Output(output) => WireItem { output: raw(output), ..wire },
                AttemptOutcome::Failed(failure) => WireItem { failure: Some(failure.into()), ..wire },
                AttemptOutcome::Answered(ProbeAnswer::Happened(output)) => {
                    WireItem { answer: Some("happened"), output: raw(output), ..wire }
                }
                AttemptOutcome::Answered(ProbeAnswer::DidNotHappen) => {
                    WireItem { answer: Some("did_not_happen"), ..wire }
                }
                AttemptOutcome::Answered(ProbeAnswer::Unknown) => {
                    WireItem { answer: Some("unknown"), ..wire }
                }
            }
        }
        Item::Abandons(op) => WireItem { abandon: Some(*op), ..empty },
        Item::ClosesScope(op, None) => WireItem { close_scope: Some(*op), ok: Some(true), ..empty },
        Item::ClosesScope(op, Some(failure)) => {
            WireItem { close_scope: Some(*op), failure: Some(failure.into()), ..empty }
        }
        Item::Returns(output) => WireItem { returned: raw(output), ..empty },
        Item::Throws(failure) => WireItem { throw: Some(failure.into()), ..empty },
        Item::ContinuesAsNew(input) => WireItem { continue_as_new: raw(input), ..empty },
        Item::Evicted => WireItem { evicted: Some(true), ..empty },
        Item::Violation(why) => WireItem { violation: Some(why), ..empty },
    };
    RawJson::from_value(&wire).expect("an item has text keys and finite numbers")
}

fn asked(what: &OperationBody) -> WireItem<'_> {
    let of = |what: &'static str| WireItem { what: Some(what), ..WireItem::default() };
    let span = |span: &Option<std::time::Duration>| span.map(DurationText);
    match what {
        OperationBody::Step(request) => step(request),
        OperationBody::Promise { name, key, key_ttl, timeout } => WireItem {
            name: Some(name),
            idempotency_key: key.as_deref(),
            idempotency_key_ttl_seconds: key_ttl.map(|ttl| ttl.as_secs()),
            timeout: span(timeout),
            ..of("promise")
        },
        OperationBody::AwaitPromise { id, timeout } => {
            WireItem { id: Some(id), timeout: span(timeout), ..of("awaitPromise") }
        }
        OperationBody::Signal { name, recorded_as, timeout } => WireItem {
            name: Some(name),
            recorded_as: recorded_as.as_deref(),
            timeout: span(timeout),
            ..of("signal")
        },
        OperationBody::Sleep { name, until } => {
            let wire = WireItem { name: name.as_deref(), ..of("sleep") };
            match until {
                SleepEnd::After(span) => WireItem { span: Some(DurationText(*span)), ..wire },
                SleepEnd::At(at) => WireItem { until: Some(instant(*at)), ..wire },
            }
        }
        OperationBody::Child { workflow, input, recorded_as, on_close } => WireItem {
            workflow: Some(workflow),
            input: raw(input),
            recorded_as: recorded_as.as_deref(),
            on_close: match on_close {
                ClosePolicy::Cancel => None,
                ClosePolicy::Abandon => Some("abandon"),
            },
            ..of("child")
        },
        OperationBody::AfterEffect { target, body } => {
            WireItem { target: Some(target), body: raw(body), ..of("afterEffect") }
        }
        OperationBody::Value { name, value } => {
            WireItem { name: Some(name), value: raw(value), ..of("value") }
        }
        OperationBody::Scope => of("scope"),
        OperationBody::Shield => of("shield"),
    }
}

fn step(request: &StepRequest) -> WireItem<'_> {
    let claim = request.claim.as_ref();
    WireItem {
        what: Some("step"),
        name: Some(&request.name),
        retry: request.retry.as_ref().map(Into::into),
        timeout: request.timeout.map(DurationText),
        claimed: claim.is_some(),
        probe: claim.is_some_and(|claim| claim.has_probe),
        probe_timeout: claim.and_then(|claim| claim.probe_timeout).map(DurationText),
        probe_settle: claim.and_then(|claim| claim.probe_settle).map(DurationText),
        on_doubt: claim.and_then(|claim| match claim.on_doubt {
            OnDoubt::Hold => None,
            OnDoubt::Retry => Some("retry"),
            OnDoubt::Fail => Some("fail"),
        }),
        rejects_stale_fences: claim.is_some_and(|claim| claim.rejects_stale_fences),
        non_idempotent: request.non_idempotent,
        compensate: request.compensates,
        compensate_retry: request.compensate_retry.as_ref().map(Into::into),
        ..WireItem::default()
    }
}
