//! A document as it is meant: every field in its type, every expression compiled.
//!
//! Only [`check`](crate::check) makes documents, so that one that exists has been checked. Written as JSON, a document is the document
//! again, without what only says the default.

mod effect;

use hapax_engine::model::{ClosePolicy, IgnorePaths, KeyOnFailure};
use serde::{Serialize, Serializer};

pub use effect::{Effect, HostFromData, KeepResponse, Probe, Request, Retry, Status, Undo};

use crate::expression::Expression;
use crate::input_schema::InputSchema;
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
    /// JSON Schema (draft 2020-12) that the input of every run must match; any object is accepted if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputSchema>,
    /// What the run gives; the final state if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// What it does, in order.
    pub steps: Vec<Step>,
}

impl Document {
    /// What does not count for sameness under a key.
    pub fn ignored(&self) -> IgnorePaths {
        let ignored = self.fingerprint.iter().flat_map(|print| print.ignore.iter().cloned());
        // They were judged when the document was checked.
        IgnorePaths::new(ignored).unwrap_or_default()
    }
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
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// How long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The key by which others may settle it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
    /// For how long the key still names it once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ttl: Option<Span>,
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

fn is_cancel(policy: &ClosePolicy) -> bool {
    *policy == ClosePolicy::Cancel
}

fn on_close<S: Serializer>(policy: &ClosePolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match policy {
        ClosePolicy::Cancel => "cancel",
        ClosePolicy::Abandon => "abandon",
    })
}
