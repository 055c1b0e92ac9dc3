//! Effects and requests: options, probes and compensations.

use std::collections::BTreeMap;

use hapax_engine::model::{EffectClass, OnDoubt, OnExhausted, RetryPolicy};
use serde::{Serialize, Serializer};

use super::is_false;
use crate::expression::Expression;
use crate::span::Span;
use crate::template::Template;

/// Options that protect an effect against loss and repetition.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Its class.
    #[serde(rename = "effect", skip_serializing_if = "is_idempotent")]
    pub class: EffectClass,
    /// Policy for an unknown outcome.
    #[serde(skip_serializing_if = "is_hold", serialize_with = "on_doubt")]
    pub on_doubt: OnDoubt,
    /// True if it happens again at each execution, whatever key it gets.
    #[serde(skip_serializing_if = "is_false")]
    pub non_idempotent: bool,
    /// True if the provider rejects requests of earlier holders, by the header `Hapax-Fence`.
    #[serde(skip_serializing_if = "is_false")]
    pub rejects_stale_fences: bool,
    /// Retry policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Policy after the last failed attempt.
    #[serde(skip_serializing_if = "is_fail", serialize_with = "on_exhausted")]
    pub on_exhausted: OnExhausted,
    /// Timeout of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Probe that finds out the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Box<Probe>>,
    /// Compensation, if the run fails later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Undo>>,
}

/// Number of attempts, and the pauses between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Time after the first attempt within which the last one may begin.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<Span>,
    /// Maximum number of attempts, including the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Longest pause after the first attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Span>,
    /// Factor between one pause and the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Longest pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
}

impl Effect {
    /// Retry policy of a compensation.
    pub fn policy(&self) -> RetryPolicy {
        let policy = self.retry.as_ref().map_or_else(RetryPolicy::default, Retry::policy);
        policy.on_exhausted(self.on_exhausted)
    }
}

impl Retry {
    /// The policy in the engine's form.
    pub fn policy(&self) -> RetryPolicy {
        let mut policy = RetryPolicy::default();
        if let Some(span) = self.give_up_after {
            policy = policy.give_up_after(span.get());
        }
        if let Some(attempts) = self.max_attempts {
            policy = policy.max_attempts(attempts);
        }
        if let Some(first) = self.first {
            policy = policy.first_wait(first.get());
        }
        if let Some(factor) = self.factor {
            policy = policy.factor(factor);
        }
        if let Some(cap) = self.cap {
            policy = policy.max_wait(cap.get());
        }
        policy
    }
}

/// A request, and the interpretation of its response.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The method.
    pub method: String,
    /// URL.
    pub url: Template,
    /// Hosts that data may choose. If absent, the host is fixed text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_from_data: Option<HostFromData>,
    /// Headers, the only place for `secret://name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Template>,
    /// The body, sent as JSON unless a header says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Template>,
    /// Header that carries the effect's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// Statuses that mean success; 2xx if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<Vec<Status>>,
    /// Statuses that lead to a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<Vec<Status>>,
    /// Part of a failed answer that the failure contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_response: Option<KeepResponse>,
}

/// Hosts that data may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostFromData {
    /// Any host that the rules for outgoing requests permit.
    Any,
    /// One of these: host names, or `*.` and a domain for all hosts below it.
    Listed(Vec<String>),
}

impl HostFromData {
    /// Returns true if data may choose `host`, which is in lower case.
    pub fn allows(&self, host: &str) -> bool {
        let is_meant = |listed: &String| match listed.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => host == listed,
        };
        match self {
            HostFromData::Any => true,
            HostFromData::Listed(hosts) => hosts.iter().any(is_meant),
        }
    }
}

impl Serialize for HostFromData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            HostFromData::Any => serializer.serialize_bool(true),
            HostFromData::Listed(hosts) => hosts.serialize(serializer),
        }
    }
}

/// Length of the part of an answer that a failure contains, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepResponse(pub usize);

impl Serialize for KeepResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => serializer.serialize_bool(false),
            chars => serializer.serialize_u64(chars as u64),
        }
    }
}

/// A status, or a whole class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// This status.
    Exactly(u16),
    /// `2xx` is the class 2.
    Class(u16),
}

impl Status {
    /// Returns true if it includes `status`.
    pub fn covers(self, status: u16) -> bool {
        match self {
            Status::Exactly(exactly) => exactly == status,
            Status::Class(class) => status / 100 == class,
        }
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Status::Exactly(status) => serializer.serialize_u16(*status),
            Status::Class(class) => serializer.serialize_str(&format!("{class}xx")),
        }
    }
}

/// A request that finds out whether an effect happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// Timeout of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Time to wait after the doubt arose before a "did not happen" counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// The effect happened if this holds.
    pub happened: Expression,
    /// The effect did not happen if this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_not_happen: Option<Expression>,
    /// Output of the step if the effect happened; the body of the response if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
}

/// Compensation of an effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Undo {
    /// A handler.
    Task {
        /// Its name.
        task: String,
        /// Its input; the output of the step if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Template>,
        /// Retry policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// A request.
    Http {
        /// The request.
        #[serde(flatten)]
        request: Box<Request>,
        /// Timeout of the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<Span>,
        /// Retry policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
}

impl Undo {
    /// The retry policy, if it is set.
    pub fn policy(&self) -> Option<RetryPolicy> {
        let (Undo::Task { retry, .. } | Undo::Http { retry, .. }) = self;
        retry.as_ref().map(Retry::policy)
    }
}

fn is_fail(on_exhausted: &OnExhausted) -> bool {
    *on_exhausted == OnExhausted::Fail
}

fn on_exhausted<S: Serializer>(on_exhausted: &OnExhausted, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match on_exhausted {
        OnExhausted::Fail => "fail",
        OnExhausted::Pause => "pause",
    })
}

fn is_idempotent(class: &EffectClass) -> bool {
    *class == EffectClass::Idempotent
}

fn is_hold(on_doubt: &OnDoubt) -> bool {
    *on_doubt == OnDoubt::Hold
}

fn on_doubt<S: Serializer>(on_doubt: &OnDoubt, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match on_doubt {
        OnDoubt::Hold => "hold",
        OnDoubt::Retry => "retry",
        OnDoubt::Fail => "fail",
    })
}
