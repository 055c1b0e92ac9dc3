//! Errors of the engine's operations.

use super::input_check::{InputProblem, summarize};
use crate::model::{
    EntityProblem, Failure, Invalid, OperationId, RecordedDecision, Refusal, RunId, RunStatus, Version,
};
use crate::store::StoreError;

/// Error of an engine operation. Each message says what to do next. Nothing has changed unless the message
/// says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No workflow is registered under this name.
    #[error("no workflow {0:?} is registered; register it before starting or claiming its runs")]
    UnknownWorkflow(String),
    /// The workflow is archived: it starts no new runs.
    #[error(
        "workflow {0} is archived and starts no new runs; start another version, or take it out of the archive"
    )]
    WorkflowArchived(String),
    /// This name and version are already registered.
    #[error("workflow {0} is registered already; register changed code under a new version")]
    AlreadyRegistered(String),
    /// A non-idempotent effect has no protection against happening twice.
    #[error(
        "effect {effect:?} of workflow {workflow:?} is declared non-idempotent and nothing keeps it from happening twice; \
         declare it claimed or transactional, or leave it to an after-effect"
    )]
    UnprotectedEffect {
        /// Workflow that declares the effect.
        workflow: String,
        /// Step with the effect.
        effect: String,
    },
    /// The step is not in doubt, or the doubt has changed since the caller saw it.
    #[error("step {step} of run {run} is not in doubt as you saw it; list the doubts again")]
    NoSuchDoubt {
        /// Run that contains the step.
        run: RunId,
        /// Step that the caller named.
        step: crate::model::StepId,
    },
    /// Another person or a probe resolved the doubt first.
    #[error(
        "the doubt about step {step} of run {run} was resolved before{}; your ruling does not count", decision_suffix(.decided)
    )]
    DoubtResolved {
        /// Run that contains the step.
        run: RunId,
        /// Step that was in doubt.
        step: crate::model::StepId,
        /// Earlier decision; `None` if a probe made it.
        decided: Option<Box<RecordedDecision>>,
    },
    /// The approval was already answered, or it timed out.
    #[error("the approval of step {step} of run {run} is over{}; your answer does not count", decision_suffix(.decided))]
    ApprovalClosed {
        /// Run that contains the step.
        run: RunId,
        /// Step that asked for the approval.
        step: String,
        /// Earlier decision; `None` if the approval timed out.
        decided: Option<Box<RecordedDecision>>,
    },
    /// The step does not ask for an approval yet.
    #[error(
        "step {step} of run {run} does not ask for an approval now; wait until it does, and look at what it asks"
    )]
    ApprovalNotAsked {
        /// Run that contains the step.
        run: RunId,
        /// Step that will ask.
        step: String,
    },
    /// The person who answers had the run started.
    #[error("you had run {run} started, so somebody else decides its step {step}")]
    OwnApproval {
        /// Run that contains the step.
        run: RunId,
        /// Step that asks.
        step: String,
    },
    /// No running code can carry out the ruling.
    #[error(
        "no code of run {run} waits for step {step} any more, so nothing can be run or undone; see to it by hand, and rule \
         that it happened or abandon it"
    )]
    RulingNotPossible {
        /// Run that contains the step.
        run: RunId,
        /// Step in doubt.
        step: crate::model::StepId,
    },
    /// The ruling is invalid.
    #[error(transparent)]
    Ruling(#[from] crate::model::RulingError),
    /// The after-effect does not exist.
    #[error("there is no after-effect {0} in this workspace")]
    NoSuchAfterEffect(String),
    /// The after-effect is still being delivered.
    #[error("after-effect {0} is still on its way; it is delivered by itself")]
    AfterEffectInProgress(String),
    /// The workflow requires an idempotency key, but the start has none.
    #[error(
        "workflow {0:?} requires an idempotency key; add .idempotency_key(…) derived from what triggers it"
    )]
    KeyMissing(String),
    /// The input breaks the rules of the workflow's input schema.
    #[error("the input does not match the input schema of workflow {workflow}: {}; nothing was started", summarize(.problems))]
    InputRefused {
        /// The workflow, as `name@version`.
        workflow: String,
        /// Every problem that was found.
        problems: Vec<InputProblem>,
    },
    /// The step requires an idempotency key, but the request has none.
    #[error("step {0:?} requires an idempotency key; add .idempotency_key(…) derived from what asks for it")]
    StepKeyMissing(String),
    /// The idempotency key belongs to a run with another input.
    #[error(
        "the idempotency key names run {run} (first seen {first_seen_at}), which was started with another input; \
         use a key derived from the input, or look at that run"
    )]
    KeyConflict {
        /// Run that has the key.
        run: RunId,
        /// Time of the first start with this key.
        first_seen_at: crate::model::Timestamp,
    },
    /// The idempotency key belongs to a run whose data was deleted.
    #[error(
        "the idempotency key was used by run {run}, whose data was deleted after its retention; it is not run again"
    )]
    KeySpent {
        /// Deleted run.
        run: RunId,
    },
    /// Another run is open on the same subject.
    #[error("run {run} is still open on this subject; wait for it or cancel it")]
    SubjectBusy {
        /// Open run.
        run: RunId,
    },
    /// The run does not exist.
    #[error("there is no run {0} in this workspace")]
    NoSuchRun(RunId),
    /// The run is not a root, so it cannot be cancelled together with its descendants.
    #[error("run {run} descends from run {root}; cancel that one with its descendants, or this one alone")]
    NotRoot {
        /// Run that the caller named.
        run: RunId,
        /// Root of its family.
        root: RunId,
    },
    /// The promise does not exist.
    #[error("there is no promise {0} in this workspace")]
    NoSuchPromise(String),
    /// The key belongs to another promise.
    #[error(
        "the key {key:?} is registered to another promise, {existing}; use that one, or a key of its own"
    )]
    PromiseKeyConflict {
        /// Key in conflict.
        key: String,
        /// Promise that has the key.
        existing: crate::model::PromiseId,
    },
    /// The promise was already settled with another value.
    #[error("the promise was settled before with another value; it keeps the first")]
    AlreadySettled,
    /// The promise has timed out.
    #[error("the promise has timed out; the settlement came too late")]
    PromiseTimedOut,
    /// The run refused a command.
    #[error("{refusal} (run {run})")]
    Refused {
        /// Run that the command was for.
        run: RunId,
        /// Reason for the refusal.
        refusal: Refusal,
    },
    /// The run has changed since the caller read it.
    #[error("Workflow run {run} was modified concurrently: it is at version {version} now")]
    Concurrency {
        /// Run that the command was for.
        run: RunId,
        /// Current version.
        version: Version,
    },
    /// The run has ended and takes no signals.
    #[error("run {run} has ended as {}; it takes no signals", status.as_str())]
    RunEnded {
        /// Closed run.
        run: RunId,
        /// Final status.
        status: RunStatus,
    },
    /// The run already holds the maximum number of unread signals.
    #[error("run {0} holds as many unread signals as it may ({max}); let it read some", max = crate::limits::MAX_WAITING_SIGNALS)]
    TooManySignals(RunId),
    /// The server refused the request, with a code of its own.
    #[error("the server refused it: {detail} ({code})")]
    Server {
        /// Stable code of the refusal.
        code: String,
        /// Text for people.
        detail: String,
    },
    /// The server did not answer. If the request had a key, send it again under the same key.
    #[error("the server did not answer: {0}")]
    NoAnswer(String),
    /// Only a program with an engine of its own can do this, and the runs of this one are on a server.
    #[error("{what} needs an engine in this program, and its runs are on a server: {why}")]
    NeedsEngine {
        /// The rejected request.
        what: String,
        /// Reason.
        why: String,
    },
    /// Only a server can do this, and the runs of this program are in its own engine.
    #[error("{what} needs a server, and the runs of this program are in its own engine: {why}")]
    NeedsServer {
        /// The rejected request.
        what: String,
        /// Reason.
        why: String,
    },
    /// The run failed.
    #[error("run {run} failed: {failure}")]
    Failed {
        /// Failed run.
        run: RunId,
        /// Reason for the failure.
        failure: Failure,
    },
    /// The run was cancelled.
    #[error("run {run} was cancelled: {failure}")]
    Cancelled {
        /// Cancelled run.
        run: RunId,
        /// Reason for the cancellation.
        failure: Failure,
    },
    /// A recorded value does not have the requested type.
    #[error("the {what} of run {run} does not fit the type asked for: {cause}")]
    Mismatch {
        /// `input` or `output`.
        what: &'static str,
        /// Run with the value.
        run: RunId,
        /// Error of the deserialization.
        cause: serde_json::Error,
    },
    /// No entity workflow handles this entity type.
    #[error("there is no entity workflow for {0:?}; register or upload one")]
    UnknownEntityType(String),
    /// The entity does not exist.
    #[error("there is no {0} in this workspace")]
    NoSuchEntity(crate::model::EntityRef),
    /// The entity lives in a table of the user's, so the engine cannot create it.
    #[error("{0} lives in your own table; insert it there")]
    EntityInOwnTable(crate::model::EntityRef),
    /// The workflow does not allow an entity to start in this status.
    #[error("{0}")]
    InvalidInitialStatus(String),
    /// The entity changed on every try to claim it.
    #[error("{0} was modified concurrently, again and again; try once more")]
    EntityBusy(crate::model::EntityRef),
    /// The entity does not have the expected version. Nothing was done.
    #[error("{entity} was modified concurrently: it has version {version} now; look at it again")]
    EntityChanged {
        /// Entity that the request was for.
        entity: crate::model::EntityRef,
        /// Current version.
        version: Version,
    },
    /// The entity workflow has no such step.
    #[error("entity workflow {workflow} has no step {step:?}")]
    NoSuchStep {
        /// Entity workflow.
        workflow: String,
        /// Step that the caller named.
        step: String,
    },
    /// The operation does not exist.
    #[error("there is no operation {0} in this workspace")]
    NoSuchOperation(OperationId),
    /// The operation is not in doubt, or no longer.
    #[error("operation {0} is not in doubt; read the operation to see its outcome")]
    OperationNotInDoubt(OperationId),
    /// Another person already ruled on the operation.
    #[error("operation {operation} was decided about before: {decided}; your ruling does not count")]
    OperationResolved {
        /// Operation that the ruling was for.
        operation: OperationId,
        /// Earlier decision.
        decided: Box<RecordedDecision>,
    },
    /// Only a manager may repeat an irreversible step that may have happened.
    #[error("only a manager may have an irreversible step done that may have happened")]
    NotManager,
    /// The entity workflow breaks rules.
    #[error("entity workflow {workflow} is refused: {}", list_problems(problems))]
    EntityWorkflowRefused {
        /// Invalid workflow.
        workflow: String,
        /// All problems of the workflow.
        problems: Vec<EntityProblem>,
    },
    /// No janitor would release these transient statuses after a crash.
    #[error("{}", list_uncovered(.0))]
    UncoveredClaims(Vec<crate::model::UncoveredClaim>),
    /// The engine is shutting down.
    #[error("the engine is shutting down; nothing new is accepted")]
    ShuttingDown,
    /// An option has an invalid value.
    #[error("{0}")]
    Options(String),
}

fn list_uncovered(uncovered: &[crate::model::UncoveredClaim]) -> String {
    uncovered.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn list_problems(problems: &[EntityProblem]) -> String {
    let each = problems
        .iter()
        .map(|problem| format!("{}: {} ({})", problem.path, problem.message, problem.rule.code()));
    each.collect::<Vec<_>>().join("; ")
}

fn decision_suffix(decided: &Option<Box<RecordedDecision>>) -> String {
    decided.as_ref().map(|decided| format!(": {decided}")).unwrap_or_default()
}
impl Error {
    /// Says that only a program with an engine of its own can do this.
    pub fn needs_engine(what: impl Into<String>, why: impl Into<String>) -> Self {
        Error::NeedsEngine { what: what.into(), why: why.into() }
    }

    /// Says that only a server can do this.
    pub fn needs_server(what: impl Into<String>, why: impl Into<String>) -> Self {
        Error::NeedsServer { what: what.into(), why: why.into() }
    }
}
