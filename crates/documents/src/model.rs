//! A document as it is meant: every field in its type, every expression compiled.
//!
//! Only [`check`](crate::check) makes documents, so that one that exists has been checked. Written as JSON, a document is the document
//! again, without what only says the default.

use std::collections::BTreeMap;

use hapax_engine::model::{ClosePolicy, EffectClass, KeyOnFailure, OnDoubt, RetryPolicy};
use serde::{Serialize, Serializer};

use crate::expression::Expression;
use crate::span::Span;
use crate::template::Template;

/// A workflow as a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Its name, by which runs are started.
    pub name: String,
    /// Its version; what it says under one version never changes.
    pub version: u32,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Must a start carry a key?
    #[serde(rename = "idempotency", skip_serializing_if = "is_false", serialize_with = "required")]
    pub key_required: bool,
    /// How long keys live after the end of their run; for ever if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
    /// Does a run that fails free its key?
    #[serde(skip_serializing_if = "is_keep", serialize_with = "on_failure")]
    pub on_failure: KeyOnFailure,
    /// What does not count for sameness under a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// What the run gives; the final state if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

/// What counts for sameness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fingerprint {
    /// JSON pointers to fields of the input that do not.
    pub ignore: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its name, unique in the document.
    pub name: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Passed over if this does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// What the step gives, made from `result`; the result itself if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// What it does.
    #[serde(flatten)]
    pub kind: StepKind,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepKind {
    /// Calls a registered handler.
    Task(Task),
    /// Sends a request.
    Http(Box<Http>),
    /// Waits for a time.
    Wait(Wait),
    /// Takes one way or the other.
    Condition(Condition),
    /// Waits for somebody to settle a promise.
    Promise(Promise),
    /// Waits for a signal.
    Signal(Signal),
    /// Waits for people to decide.
    Approval(Approval),
    /// Runs another workflow.
    Child(Child),
    /// Does several things side by side.
    Parallel(Parallel),
    /// Does the same for each item of a list.
    ForEach(ForEach),
}

impl StepKind {
    /// The kind as documents spell it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            StepKind::Task(_) => "task",
            StepKind::Http(_) => "http",
            StepKind::Wait(_) => "wait",
            StepKind::Condition(_) => "condition",
            StepKind::Promise(_) => "promise",
            StepKind::Signal(_) => "signal",
            StepKind::Approval(_) => "approval",
            StepKind::Child(_) => "child",
            StepKind::Parallel(_) => "parallel",
            StepKind::ForEach(_) => "for_each",
        }
    }
}

/// A call of a handler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// Which.
    pub task: String,
    /// With what; an empty object if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// How the effect is kept.
    #[serde(flatten)]
    pub effect: Effect,
}

/// A request as a step of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Http {
    /// What is sent.
    #[serde(flatten)]
    pub request: Request,
    /// How the effect is kept.
    #[serde(flatten)]
    pub effect: Effect,
}

/// How an effect is kept from being lost or repeated.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Effect {
    /// Its class.
    #[serde(rename = "effect", skip_serializing_if = "is_idempotent")]
    pub class: EffectClass,
    /// What is done when nobody knows whether it happened.
    #[serde(skip_serializing_if = "is_hold", serialize_with = "on_doubt")]
    pub on_doubt: OnDoubt,
    /// Does it happen anew each time it is run, whatever key it is given?
    #[serde(skip_serializing_if = "is_false")]
    pub non_idempotent: bool,
    /// How often it is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long one try may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How to ask what became of it.
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
    /// The first try counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The longest pause after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_interval: Option<Span>,
    /// What each further pause is multiplied by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// No pause is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<Span>,
}

impl Retry {
    /// As the engine says it.
    pub fn policy(&self) -> RetryPolicy {
        let mut policy = RetryPolicy::default();
        if let Some(attempts) = self.max_attempts {
            policy = policy.max_attempts(attempts);
        }
        if let Some(first) = self.initial_interval {
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

/// What is sent, and what its answer means.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The method.
    pub method: String,
    /// Where to.
    pub url: Template,
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

/// A request that finds out what became of an effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// What is sent.
    #[serde(flatten)]
    pub request: Request,
    /// How long to wait for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// It happened if this holds.
    pub happened: Expression,
    /// It did not if this holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_not_happen: Option<Expression>,
    /// What the step gives if it happened; the body of the answer if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
}

/// What undoes an effect.
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
    },
    /// A request.
    Http {
        /// What is sent.
        #[serde(flatten)]
        request: Box<Request>,
        /// How long to wait for the answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<Span>,
    },
}

/// A wait for a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Wait {
    /// For this long.
    #[serde(rename = "for")]
    For(Span),
    /// Until then: RFC 3339, or milliseconds since 1970.
    #[serde(rename = "until")]
    Until(Template),
}

/// A fork.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// Which way.
    #[serde(rename = "if")]
    pub condition: Expression,
    /// If it holds.
    pub then: Vec<Step>,
    /// If it does not.
    #[serde(rename = "else", skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

/// A wait for a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Promise {
    /// How long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The key by which others may settle it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
}

/// A wait for a signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Signal {
    /// Its name; the step's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// How long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// A wait for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Who may decide; anybody if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Deciders>,
    /// What they may decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// What they are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// The fields they may give with an edit; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// How long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Does the run go on if they reject? It fails otherwise.
    #[serde(rename = "onReject", skip_serializing_if = "is_false", serialize_with = "goes_on")]
    pub continue_on_reject: bool,
    /// Does the run go on if nobody decides in time? It fails otherwise.
    #[serde(rename = "onTimeout", skip_serializing_if = "is_false", serialize_with = "goes_on")]
    pub continue_on_timeout: bool,
}

impl Approval {
    /// What may be decided: approve and reject unless the document says otherwise.
    pub fn decisions(&self) -> &[Decision] {
        self.decisions.as_deref().unwrap_or(&[Decision::Approve, Decision::Reject])
    }
}

/// Who may decide: one of these roles, or one of these requesters.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Deciders {
    /// Roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Requesters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
}

/// What people decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Go on.
    Approve,
    /// Do not.
    Reject,
    /// Go on, with these values.
    Edit,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Decision; 3] = [Decision::Approve, Decision::Reject, Decision::Edit];

    /// The decision as documents spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Decision::Approve => "approve",
            Decision::Reject => "reject",
            Decision::Edit => "edit",
        }
    }
}

/// A run of another workflow.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    /// Which.
    pub workflow: String,
    /// With what; an empty object if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// What becomes of it if this run ends first.
    #[serde(skip_serializing_if = "is_cancel", serialize_with = "on_close")]
    pub on_close: ClosePolicy,
}

/// Things done side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parallel {
    /// Each a list of steps.
    pub branches: Vec<Vec<Step>>,
}

/// The same for each item.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForEach {
    /// Gives the list.
    pub items: Template,
    /// How many items at once; one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// How many items at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// What each item gives; what its steps wrote to the state if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Template>,
    /// What is done for each.
    pub steps: Vec<Step>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn required<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("required")
}

fn goes_on<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("continue")
}

fn is_keep(policy: &KeyOnFailure) -> bool {
    matches!(policy, KeyOnFailure::Keep)
}

fn on_failure<S: Serializer>(policy: &KeyOnFailure, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match policy {
        KeyOnFailure::Keep => "keep",
        KeyOnFailure::Release => "release",
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

fn is_cancel(policy: &ClosePolicy) -> bool {
    *policy == ClosePolicy::Cancel
}

fn on_close<S: Serializer>(policy: &ClosePolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match policy {
        ClosePolicy::Cancel => "cancel",
        ClosePolicy::Abandon => "abandon",
    })
}
