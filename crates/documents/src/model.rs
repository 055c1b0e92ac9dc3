//! The document model: every field typed, every expression compiled.
//!
//! Only [`check`](crate::check) creates documents, so every existing document has been checked. Serialised as JSON, it
//! is the document again, without default values.

mod effect;

use std::collections::BTreeSet;

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
    /// Name of the workflow.
    pub name: String,
    /// Its version. The content of a version never changes.
    pub version: u32,
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if a start must have an idempotency key.
    #[serde(rename = "idempotency", skip_serializing_if = "is_false", serialize_with = "required")]
    pub key_required: bool,
    /// Retention of a key after its run has ended; forever if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
    /// True if a failed run frees its key.
    #[serde(skip_serializing_if = "is_keep", serialize_with = "on_failure")]
    pub on_failure: KeyOnFailure,
    /// Fields of the input to ignore when two starts under one key are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// JSON Schema (draft 2020-12) that the input of every run must match; any object is accepted if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputSchema>,
    /// Output of the run; the final state if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// Names of fields that only those see who ask for them, wherever the fields are in what a run takes and gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitive: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Document {
    /// Names of all sensitive fields: those in `sensitive`, and the properties of the input schema with `x-sensitive: true`.
    pub fn sensitive_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.sensitive.iter().cloned().collect();
        if let Some(input) = &self.input {
            input.find_sensitive(&mut names);
        }
        names
    }

    /// Fields of the input to ignore when two starts under one key are compared.
    pub fn ignored(&self) -> IgnorePaths {
        let ignored = self.fingerprint.iter().flat_map(|print| print.ignore.iter().cloned());
        // They were checked with the document.
        IgnorePaths::new(ignored).unwrap_or_default()
    }
}

/// Fields that the fingerprint of the input ignores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fingerprint {
    /// JSON pointers to the ignored fields.
    pub ignore: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its name, unique within the document.
    pub name: String,
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The step is skipped if this is false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// Output of the step, a template over `result`; the result itself if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// The kind of the step.
    #[serde(flatten)]
    pub kind: StepKind,
}

/// The kind of a step, with its fields.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepKind {
    /// Calls a registered handler.
    Task(Task),
    /// Sends a request.
    Http(Box<Http>),
    /// Waits for a time.
    Wait(Wait),
    /// Runs one of two branches.
    Condition(Condition),
    /// Waits until a promise is settled.
    Promise(Promise),
    /// Waits for a signal.
    Signal(Signal),
    /// Waits for a person's decision.
    Approval(Approval),
    /// Runs another workflow.
    Child(Child),
    /// Runs branches in parallel.
    Parallel(Parallel),
    /// Runs the same steps for each item of a list.
    ForEach(ForEach),
}

impl StepKind {
    /// The kind's name in documents.
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
    /// Its name.
    pub task: String,
    /// Input; an empty object if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// Effect options.
    #[serde(flatten)]
    pub effect: Effect,
}

/// A request as a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Http {
    /// The request.
    #[serde(flatten)]
    pub request: Request,
    /// Effect options.
    #[serde(flatten)]
    pub effect: Effect,
}

/// A wait for a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Wait {
    /// Duration.
    #[serde(rename = "for")]
    For(Span),
    /// Instant: RFC 3339, or milliseconds since 1970.
    #[serde(rename = "until")]
    Until(Template),
}

/// A condition with two branches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// The condition.
    #[serde(rename = "if")]
    pub condition: Expression,
    /// Steps to run if it holds.
    pub then: Vec<Step>,
    /// Steps to run if it does not hold.
    #[serde(rename = "else", skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

/// A wait for a promise.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// Timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Business key that external callers use to settle the promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
    /// Time that the key stays reserved after the promise is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ttl: Option<Span>,
}

/// A wait for a signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Signal {
    /// Its name; the step's name if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// A wait for a person's decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Roles and requesters that may decide; anyone if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Deciders>,
    /// Allowed decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<Decision>>,
    /// Value to show to the deciders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// Fields that an edit may set; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// Timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// True if the run continues after a rejection. It fails otherwise.
    #[serde(rename = "onReject", skip_serializing_if = "is_false", serialize_with = "goes_on")]
    pub continue_on_reject: bool,
    /// True if the run continues after a timeout. It fails otherwise.
    #[serde(rename = "onTimeout", skip_serializing_if = "is_false", serialize_with = "goes_on")]
    pub continue_on_timeout: bool,
    /// True if the person who had the run started may decide as well.
    #[serde(skip_serializing_if = "is_false")]
    pub self_approval: bool,
}

impl Approval {
    /// Allowed decisions: approve and reject by default.
    pub fn decisions(&self) -> &[Decision] {
        self.decisions.as_deref().unwrap_or(&[Decision::Approve, Decision::Reject])
    }
}

/// Roles and requesters that may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Deciders {
    /// Roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Requesters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Continue.
    Approve,
    /// Stop.
    Reject,
    /// Continue with these values.
    Edit,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Decision; 3] = [Decision::Approve, Decision::Reject, Decision::Edit];

    /// The decision's name in documents.
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
    /// Its name.
    pub workflow: String,
    /// Input; an empty object if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// Policy for the child if this run ends first.
    #[serde(skip_serializing_if = "is_cancel", serialize_with = "on_close")]
    pub on_close: ClosePolicy,
}

/// Branches that run in parallel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parallel {
    /// Each branch is a list of steps.
    pub branches: Vec<Vec<Step>>,
}

/// The same steps for each item of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForEach {
    /// Expression that returns the list.
    pub items: Template,
    /// Number of concurrent items; one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Maximum number of items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Result of each item; the state that its steps wrote if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Template>,
    /// Steps for each item.
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
