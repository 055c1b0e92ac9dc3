//! Items that a worker hands in, read and checked one by one.

use std::time::Duration;

use hapax_api::{DurationText, RawJson};
use hapax_engine::Failure;
use hapax_engine::model::{ClosePolicy, FailureClass, OnDoubt, OnExhausted, RetryPolicy, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::limits::MAX_ITEMS;
use crate::link::AttemptKind;

/// One action of the code of a run.
#[derive(Debug)]
pub(crate) enum Item {
    /// It asks for an operation.
    Asks(Box<Operation>),
    /// It received the outcome of an operation, and went on.
    Took(u32),
    /// An attempt ended.
    Ended(EndedAttempt),
    /// It no longer waits for an operation.
    Abandons(u32),
    /// The body of a scope ended.
    ClosesScope(u32, Option<Failure>),
    /// The function ended.
    Ends(FunctionEnd),
    /// The worker forgot the function.
    Evicted,
    /// The code does not fit the log.
    Violation(String),
}

/// End of a function.
#[derive(Debug)]
pub(crate) enum FunctionEnd {
    Returns(RawJson),
    Throws(Failure),
    ContinuesAsNew(RawJson),
}

/// End of an attempt.
#[derive(Debug)]
pub(crate) struct EndedAttempt {
    pub(crate) op: u32,
    pub(crate) kind: AttemptKind,
    pub(crate) attempt: u32,
    pub(crate) outcome: AttemptOutcome,
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub(crate) enum AttemptOutcome {
    Output(RawJson),
    Failed(Failure),
    /// The provider says that the effect happened, with this output.
    Happened(RawJson),
    DidNotHappen,
    Unknown,
}

/// An operation that the code asks for.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) op: u32,
    pub(crate) scope: Option<u32>,
    pub(crate) what: RequestedOperation,
}

/// The requested operation.
#[derive(Debug)]
pub(crate) enum RequestedOperation {
    Step(StepOptions),
    Promise { name: String, key: Option<String>, key_ttl: Option<Duration>, timeout: Option<Duration> },
    AwaitPromise { id: String, timeout: Option<Duration> },
    Signal { name: String, recorded_as: Option<String>, timeout: Option<Duration> },
    Sleep { name: Option<String>, until: SleepEnd },
    Child { workflow: String, input: RawJson, recorded_as: Option<String>, on_close: ClosePolicy },
    AfterEffect { target: String, body: RawJson },
    Value { name: String, value: RawJson },
    Scope,
    Shield,
}

/// End of a sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SleepEnd {
    After(Duration),
    At(Timestamp),
}

/// Options of a step.
#[derive(Debug)]
pub(crate) struct StepOptions {
    pub(crate) name: String,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_claimed: bool,
    pub(crate) has_probe: bool,
    pub(crate) probe_timeout: Option<Duration>,
    pub(crate) probe_settle: Option<Duration>,
    pub(crate) on_doubt: Option<OnDoubt>,
    pub(crate) rejects_stale_fences: bool,
    pub(crate) non_idempotent: bool,
    pub(crate) compensates: bool,
    pub(crate) compensate_retry: Option<RetryPolicy>,
}

/// Reads the items of one run. The error says which item makes no sense, and why.
pub(crate) fn read_items(items: &[RawJson]) -> Result<Vec<Item>, String> {
    if items.len() > MAX_ITEMS {
        return Err(format!(
            "{} items are more than the {MAX_ITEMS} that one commit may have of a run",
            items.len()
        ));
    }
    let mut read = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let item = read_item(item).map_err(|why| format!("item {place}: {why}"))?;
        let is_last = place + 1 == items.len();
        if matches!(item, Item::Ends(_) | Item::Evicted | Item::Violation(_)) && !is_last {
            return Err(format!("item {place} ends the activation, and is not the last one"));
        }
        read.push(item);
    }
    Ok(read)
}

fn read_item(item: &RawJson) -> Result<Item, String> {
    let wire: WireItem = serde_json::from_str(item.text()).map_err(|error| error.to_string())?;
    wire.into_item()
}

/// Reads a value that is there as `Some`, be it `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

/// An item as it is on the wire.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WireItem {
    took: Option<u32>,
    outcome: Option<u32>,
    attempt: Option<u32>,
    #[serde(deserialize_with = "present")]
    output: Option<RawJson>,
    failure: Option<WireFailure>,
    answer: Option<WireAnswer>,
    abandon: Option<u32>,
    close_scope: Option<u32>,
    ok: Option<bool>,
    #[serde(rename = "return", deserialize_with = "present")]
    returned: Option<RawJson>,
    throw: Option<WireFailure>,
    #[serde(deserialize_with = "present")]
    continue_as_new: Option<RawJson>,
    evicted: Option<bool>,
    violation: Option<String>,
    op: Option<u32>,
    #[serde(rename = "do")]
    asks: Option<WireOperation>,
    scope: Option<u32>,
    name: Option<String>,
    retry: Option<WireRetry>,
    timeout: Option<DurationText>,
    /// The seed's spelling of `timeout` of a promise.
    #[serde(alias = "timeout_ms")]
    timeout_ms: Option<u64>,
    claimed: bool,
    probe: bool,
    probe_timeout: Option<DurationText>,
    probe_settle: Option<DurationText>,
    on_doubt: Option<WireOnDoubt>,
    rejects_stale_fences: bool,
    non_idempotent: bool,
    compensate: bool,
    compensate_retry: Option<WireRetry>,
    #[serde(alias = "idempotency_key")]
    idempotency_key: Option<String>,
    #[serde(alias = "idempotency_key_ttl_seconds")]
    idempotency_key_ttl_seconds: Option<u64>,
    id: Option<String>,
    #[serde(rename = "as")]
    recorded_as: Option<String>,
    #[serde(rename = "for")]
    span: Option<DurationText>,
    until: Option<WireInstant>,
    workflow: Option<String>,
    #[serde(deserialize_with = "present")]
    input: Option<RawJson>,
    on_close: Option<WireOnClose>,
    target: Option<String>,
    #[serde(deserialize_with = "present")]
    body: Option<RawJson>,
    #[serde(deserialize_with = "present")]
    value: Option<RawJson>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum WireOperation {
    Step,
    Promise,
    AwaitPromise,
    Signal,
    Sleep,
    Child,
    AfterEffect,
    Value,
    Scope,
    Shield,
    Effect,
    Probe,
    Undo,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum WireAnswer {
    Happened,
    DidNotHappen,
    Unknown,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireOnDoubt {
    Hold,
    Retry,
    Fail,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireOnClose {
    Cancel,
    Abandon,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum WireOnExhausted {
    Fail,
    Pause,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum WireClass {
    Permanent,
    Retryable,
    #[default]
    Unknown,
}

/// An instant as RFC 3339 text.
struct WireInstant(Timestamp);

impl<'de> Deserialize<'de> for WireInstant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: jiff::Timestamp = text.parse().map_err(|_| {
            serde::de::Error::custom("an instant is RFC 3339 text, such as 2026-11-18T20:00:00Z")
        })?;
        Ok(WireInstant(Timestamp::from_millis(at.as_millisecond())))
    }
}

/// A failure as it is on the wire.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WireFailure {
    message: String,
    #[serde(default)]
    class: WireClass,
    code: Option<String>,
    retry_after: Option<DurationText>,
    /// For the worker's own logs. It is not kept.
    #[serde(default, rename = "details")]
    _details: Option<serde::de::IgnoredAny>,
}

impl From<WireFailure> for Failure {
    fn from(wire: WireFailure) -> Self {
        let WireFailure { message, class, code, retry_after, _details: _ } = wire;
        let mut failure = match class {
            WireClass::Permanent => Failure::permanent(message),
            WireClass::Retryable => Failure::retryable(message),
            WireClass::Unknown => Failure::unknown(message),
        };
        if let Some(code) = code {
            failure = failure.with_code(&code);
        }
        if let Some(wait) = retry_after {
            failure = failure.retry_after(wait.0);
        }
        failure
    }
}

/// Name of a class of failures on the wire.
pub(crate) fn class_name(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Permanent => "permanent",
        FailureClass::Retryable => "retryable",
        FailureClass::Unknown => "unknown",
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireRetry {
    #[serde(rename = "for")]
    give_up_after: Option<DurationText>,
    max_attempts: Option<u32>,
    first: Option<DurationText>,
    factor: Option<f64>,
    cap: Option<DurationText>,
    on_exhausted: Option<WireOnExhausted>,
}

impl From<WireRetry> for RetryPolicy {
    fn from(wire: WireRetry) -> Self {
        let mut policy = RetryPolicy::default();
        if let Some(span) = wire.give_up_after {
            policy = policy.give_up_after(span.0);
        }
        if let Some(attempts) = wire.max_attempts {
            policy = policy.max_attempts(attempts);
        }
        if let Some(wait) = wire.first {
            policy = policy.first_wait(wait.0);
        }
        if let Some(factor) = wire.factor {
            policy = policy.factor(factor);
        }
        if let Some(cap) = wire.cap {
            policy = policy.max_wait(cap.0);
        }
        match wire.on_exhausted {
            Some(WireOnExhausted::Pause) => policy.on_exhausted(OnExhausted::Pause),
            Some(WireOnExhausted::Fail) | None => policy,
        }
    }
}

fn span(text: Option<DurationText>) -> Option<Duration> {
    text.map(|text| text.0)
}

impl WireItem {
    fn into_item(self) -> Result<Item, String> {
        let kinds = [
            self.op.is_some(),
            self.took.is_some(),
            self.outcome.is_some(),
            self.abandon.is_some(),
            self.close_scope.is_some(),
            self.returned.is_some(),
            self.throw.is_some(),
            self.continue_as_new.is_some(),
            self.evicted.is_some(),
            self.violation.is_some(),
        ];
        if kinds.iter().filter(|is_there| **is_there).count() != 1 {
            return Err(
                "it must have one of op, took, outcome, abandon, closeScope, return, throw, continueAsNew, \
                        evicted and violation"
                    .into(),
            );
        }
        if let Some(op) = self.op {
            return self.into_operation(op).map(|operation| Item::Asks(Box::new(operation)));
        }
        if let Some(op) = self.outcome {
            let attempt = self.attempt.ok_or("an outcome names its attempt")?;
            let kind = match (self.asks, self.answer) {
                (None | Some(WireOperation::Effect), None) => AttemptKind::Effect,
                (None | Some(WireOperation::Probe), Some(_)) | (Some(WireOperation::Probe), None) => {
                    AttemptKind::Probe
                }
                (Some(WireOperation::Undo), None) => AttemptKind::Undo,
                _ => {
                    return Err(
                        "`do` of an outcome is effect, probe or undo, and only a probe has an answer".into(),
                    );
                }
            };
            if kind == AttemptKind::Probe && self.answer.is_none() && self.output.is_some() {
                return Err("a probe has an answer or a failure".into());
            }
            let outcome = match (self.answer, self.output, self.failure) {
                (Some(WireAnswer::Happened), output, None) => {
                    AttemptOutcome::Happened(output.unwrap_or_else(null))
                }
                (Some(WireAnswer::DidNotHappen), None, None) => AttemptOutcome::DidNotHappen,
                (Some(WireAnswer::Unknown), None, None) => AttemptOutcome::Unknown,
                (None, Some(output), None) => AttemptOutcome::Output(output),
                (None, None, Some(failure)) => AttemptOutcome::Failed(failure.into()),
                _ => return Err("an outcome has one of output, failure and answer".into()),
            };
            return Ok(Item::Ended(EndedAttempt { op, kind, attempt, outcome }));
        }
        if let Some(op) = self.close_scope {
            return match (self.ok, self.failure) {
                (Some(true), None) => Ok(Item::ClosesScope(op, None)),
                (None | Some(false), Some(failure)) => Ok(Item::ClosesScope(op, Some(failure.into()))),
                _ => Err("closeScope has either ok: true or a failure".into()),
            };
        }
        let item = None
            .or(self.took.map(Item::Took))
            .or(self.abandon.map(Item::Abandons))
            .or(self.returned.map(|output| Item::Ends(FunctionEnd::Returns(output))))
            .or(self.throw.map(|failure| Item::Ends(FunctionEnd::Throws(failure.into()))))
            .or(self.continue_as_new.map(|input| Item::Ends(FunctionEnd::ContinuesAsNew(input))))
            .or(self.violation.map(Item::Violation))
            .or(self.evicted.map(|_| Item::Evicted));
        item.ok_or_else(|| "it says nothing".into())
    }

    fn into_operation(self, op: u32) -> Result<Operation, String> {
        let scope = self.scope;
        let asks = self.asks.ok_or("`do` is missing")?;
        let needs = |what: &str| format!("`{what}` is missing");
        let what = match asks {
            WireOperation::Step => RequestedOperation::Step(self.into_step()?),
            WireOperation::Promise => RequestedOperation::Promise {
                name: self.name.ok_or_else(|| needs("name"))?,
                key: self.idempotency_key,
                key_ttl: self.idempotency_key_ttl_seconds.map(Duration::from_secs),
                timeout: match (self.timeout, self.timeout_ms) {
                    (Some(_), Some(_)) => {
                        return Err("a promise has `timeout` or `timeoutMs`, not both".into());
                    }
                    (timeout, millis) => span(timeout).or(millis.map(Duration::from_millis)),
                },
            },
            WireOperation::AwaitPromise => RequestedOperation::AwaitPromise {
                id: self.id.ok_or_else(|| needs("id"))?,
                timeout: span(self.timeout),
            },
            WireOperation::Signal => RequestedOperation::Signal {
                name: self.name.ok_or_else(|| needs("name"))?,
                recorded_as: self.recorded_as,
                timeout: span(self.timeout),
            },
            WireOperation::Sleep => {
                let until = match (self.span, self.until) {
                    (Some(span), None) => SleepEnd::After(span.0),
                    (None, Some(at)) => SleepEnd::At(at.0),
                    _ => return Err("a sleep has either `for` or `until`".into()),
                };
                RequestedOperation::Sleep { name: self.name, until }
            }
            WireOperation::Child => RequestedOperation::Child {
                workflow: self.workflow.ok_or_else(|| needs("workflow"))?,
                input: self.input.unwrap_or_else(null),
                recorded_as: self.recorded_as,
                on_close: match self.on_close {
                    Some(WireOnClose::Abandon) => ClosePolicy::Abandon,
                    Some(WireOnClose::Cancel) | None => ClosePolicy::Cancel,
                },
            },
            WireOperation::AfterEffect => RequestedOperation::AfterEffect {
                target: self.target.ok_or_else(|| needs("target"))?,
                body: self.body.unwrap_or_else(null),
            },
            WireOperation::Value => RequestedOperation::Value {
                name: self.name.ok_or_else(|| needs("name"))?,
                value: self.value.ok_or_else(|| needs("value"))?,
            },
            WireOperation::Scope => RequestedOperation::Scope,
            WireOperation::Shield => RequestedOperation::Shield,
            WireOperation::Effect | WireOperation::Probe | WireOperation::Undo => {
                return Err("the server asks for attempts, not the code".into());
            }
        };
        Ok(Operation { op, scope, what })
    }

    fn into_step(self) -> Result<StepOptions, String> {
        Ok(StepOptions {
            name: self.name.ok_or("`name` is missing")?,
            retry: self.retry.map(Into::into),
            timeout: span(self.timeout),
            is_claimed: self.claimed,
            has_probe: self.probe,
            probe_timeout: span(self.probe_timeout),
            probe_settle: span(self.probe_settle),
            on_doubt: self.on_doubt.map(|on_doubt| match on_doubt {
                WireOnDoubt::Hold => OnDoubt::Hold,
                WireOnDoubt::Retry => OnDoubt::Retry,
                WireOnDoubt::Fail => OnDoubt::Fail,
            }),
            rejects_stale_fences: self.rejects_stale_fences,
            non_idempotent: self.non_idempotent,
            compensates: self.compensate,
            compensate_retry: self.compensate_retry.map(Into::into),
        })
    }
}

/// JSON `null`.
pub(crate) fn null() -> RawJson {
    RawJson::from_text("null".into()).expect("null is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Item>, String> {
        let items: Vec<RawJson> = serde_json::from_str(text).unwrap();
        read_items(&items)
    }

    #[test]
    fn a_function_may_return_null() {
        let items = read(r#"[{"return":null}]"#).unwrap();
        assert!(matches!(&items[..], [Item::Ends(FunctionEnd::Returns(output))] if output.text() == "null"));
    }

    #[test]
    fn an_outcome_may_be_null_and_keeps_its_bytes() {
        for text in ["null", "18446744073709551615", "1.50", r#"{"b":1, "a":2}"#] {
            let items = read(&format!(r#"[{{"outcome":4,"attempt":1,"output":{text}}}]"#)).unwrap();
            let [Item::Ended(ended)] = &items[..] else { panic!("{items:?}") };
            assert!(matches!(&ended.outcome, AttemptOutcome::Output(output) if output.text() == text));
        }
    }

    /// S4.16
    #[test]
    fn a_promise_may_be_spelled_as_in_the_seed() {
        for text in [
            r#"{"op":1,"do":"promise","name":"payment","timeoutMs":60000,"idempotencyKey":"stripe:ch_1","idempotencyKeyTtlSeconds":9}"#,
            r#"{"op":1,"do":"promise","name":"payment","timeout_ms":60000,"idempotency_key":"stripe:ch_1","idempotency_key_ttl_seconds":9}"#,
            r#"{"op":1,"do":"promise","name":"payment","timeout":"60s","idempotencyKey":"stripe:ch_1","idempotencyKeyTtlSeconds":9}"#,
        ] {
            let items = read(&format!("[{text}]")).unwrap();
            let [Item::Asks(asked)] = &items[..] else { panic!("{items:?}") };
            let RequestedOperation::Promise { name, key, key_ttl, timeout } = &asked.what else {
                panic!("{asked:?}")
            };
            assert_eq!((name.as_str(), key.as_deref()), ("payment", Some("stripe:ch_1")));
            assert_eq!((*timeout, *key_ttl), (Some(Duration::from_secs(60)), Some(Duration::from_secs(9))));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for bad in [
            r#"{}"#,
            r#"{"op":1}"#,
            r#"{"op":1,"do":"fly"}"#,
            r#"{"op":1,"do":"step"}"#,
            r#"{"op":1,"do":"step","name":"a","claim":true}"#,
            r#"{"op":1,"do":"promise","name":"p","timeout":"1s","timeoutMs":1000}"#,
            r#"{"op":1,"do":"promise","name":"p","timeoutMs":-1}"#,
            r#"{"op":1,"do":"sleep"}"#,
            r#"{"op":1,"do":"sleep","for":"1s","until":"2026-11-18T20:00:00Z"}"#,
            r#"{"op":1,"took":1}"#,
            r#"{"outcome":1,"output":1}"#,
            r#"{"outcome":1,"attempt":1}"#,
            r#"{"outcome":1,"attempt":1,"output":1,"failure":{"message":"no"}}"#,
            r#"{"outcome":1,"attempt":1,"do":"undo","answer":"happened"}"#,
            r#"{"outcome":1,"attempt":1,"do":"probe","output":1}"#,
            r#"{"outcome":1,"attempt":1,"do":"step","output":1}"#,
            r#"{"op":1,"do":"undo"}"#,
            r#"{"closeScope":1}"#,
            r#"{"took":-1}"#,
            r#"{"took":"1"}"#,
            r#"{"throw":{"message":"no","class":"lucky"}}"#,
            r#"5"#,
        ] {
            let why = read(&format!(r#"[{{"took":1}},{bad}]"#)).unwrap_err();
            assert!(why.starts_with("item 1: "), "{bad}: {why}");
        }
    }

    #[test]
    fn nothing_follows_the_end_of_an_activation() {
        assert!(read(r#"[{"return":1},{"took":1}]"#).unwrap_err().contains("not the last"));
        assert!(read(r#"[{"took":1},{"return":1}]"#).is_ok());
    }
}
