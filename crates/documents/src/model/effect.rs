//! Effects and requests: how they are kept, sent, probed and undone.

use std::collections::BTreeMap;

use hapax_engine::model::{EffectClass, OnDoubt, OnExhausted, RetryPolicy};
use serde::{Serialize, Serializer};

use super::is_false;
use crate::expression::Expression;
use crate::span::Span;
use crate::template::Template;

/// How an effect is kept from being lost or repeated.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Its class.
    #[serde(rename = "effect", skip_serializing_if = "is_idempotent")]
    pub class: EffectClass,
    /// What to do when the outcome is unknown.
    #[serde(skip_serializing_if = "is_hold", serialize_with = "on_doubt")]
    pub on_doubt: OnDoubt,
    /// Does it happen anew each time it is run, whatever key it is given?
    #[serde(skip_serializing_if = "is_false")]
    pub non_idempotent: bool,
    /// Does the provider reject requests of earlier holders, by the header `Hapax-Fence`?
    #[serde(skip_serializing_if = "is_false")]
    pub rejects_stale_fences: bool,
    /// How often it is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What to do when all tries are used up.
    #[serde(skip_serializing_if = "is_fail", serialize_with = "on_exhausted")]
    pub on_exhausted: OnExhausted,
    /// How long one try may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How to find out the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Box<Probe>>,
    /// How to undo it, should the run fail later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compensate: Option<Box<Undo>>,
}

/// How often a step is tried, and with what pauses.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How long after the first try the last one may be made.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<Span>,
    /// The first try counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The longest pause after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Span>,
    /// Factor between one pause and the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// No pause is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
}

impl Effect {
    /// How it is tried.
    pub fn policy(&self) -> RetryPolicy {
        let policy = self.retry.as_ref().map_or_else(RetryPolicy::default, Retry::policy);
        policy.on_exhausted(self.on_exhausted)
    }
}

impl Retry {
    /// As the engine says it.
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

/// A request, and how to read its response.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The method.
    pub method: String,
    /// Where to.
    pub url: Template,
    /// Whether data may choose the host, and which hosts it may choose. Absent: the host is fixed text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_from_data: Option<HostFromData>,
    /// Headers; only here may `secret://name` stand.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Template>,
    /// The body, sent as JSON unless a header says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Template>,
    /// The header the effect's key is sent in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// Statuses that are a success; 2xx if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<Vec<Status>>,
    /// Statuses after which to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<Vec<Status>>,
    /// How much of an answer that is no success is kept in the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_response: Option<KeepResponse>,
}

/// Which hosts data may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostFromData {
    /// Any that the rules for outgoing requests let through.
    Any,
    /// One of these: host names, or `*.` and a domain for all hosts below it.
    Listed(Vec<String>),
}

impl HostFromData {
    /// Whether data may choose `host`. `host` is in lower case.
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

/// How much of an answer is kept in the failure it leads to, in characters.
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

/// A status, or all of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// This one.
    Exactly(u16),
    /// `2xx` is the class 2.
    Class(u16),
}

impl Status {
    /// Is `status` meant?
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
    /// How long to wait for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How long after the doubt arose "did not happen" does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
    /// It happened if this holds.
    pub happened: Expression,
    /// It did not if this holds.
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
        /// Which.
        task: String,
        /// With what; the output of the step if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Template>,
        /// How often it is tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// A request.
    Http {
        /// The request.
        #[serde(flatten)]
        request: Box<Request>,
        /// How long to wait for the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<Span>,
        /// How often it is tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
}

impl Undo {
    /// How it is tried, if it says so.
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
