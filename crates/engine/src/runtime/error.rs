//! What the operations of an engine may answer instead of what was asked.

use crate::model::{
    Decided, EntityProblem, Failure, Invalid, OperationId, Refusal, RunId, RunStatus, Version,
};
use crate::store::StoreError;

/// An operation that could not be done. Each text says what to do next; nothing changed unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No code is registered under this name.
    #[error("no workflow {0:?} is registered; register it before starting or claiming its runs")]
    UnknownWorkflow(String),
    /// The workflow is archived: it starts no new runs.
    #[error(
        "workflow {0} is archived and starts no new runs; start another version, or take it out of the archive"
    )]
    WorkflowArchived(String),
    /// The same name and version were registered before.
    #[error("workflow {0} is registered already; register changed code under a new version")]
    AlreadyRegistered(String),
    /// An effect that is not idempotent has nothing that keeps it from happening twice.
    #[error(
        "effect {effect:?} of workflow {workflow:?} is declared non-idempotent and nothing keeps it from happening twice; \
         declare it claimed or transactional, or leave it to an after-effect"
    )]
    UnprotectedEffect {
        /// The workflow.
        workflow: String,
        /// The step.
        effect: String,
    },
    /// The doubt is not there, or not as it was seen.
    #[error("step {step} of run {run} is not in doubt as you saw it; list the doubts again")]
    NoSuchDoubt {
        /// The run.
        run: RunId,
        /// The step.
        step: crate::model::StepId,
    },
    /// Somebody, or a probe, was faster.
    #[error(
        "the doubt about step {step} of run {run} was resolved before{}; your ruling does not count", tell(.decided)
    )]
    DoubtResolved {
        /// The run.
        run: RunId,
        /// The step.
        step: crate::model::StepId,
        /// Who decided what; `None` if no person did.
        decided: Option<Box<Decided>>,
    },
    /// Somebody answered the approval before, or it asks no more.
    #[error("the approval of step {step} of run {run} is over{}; your answer does not count", tell(.decided))]
    ApprovalOver {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
        /// Who decided what; `None` if nobody answered in time.
        decided: Option<Box<Decided>>,
    },
    /// No code is left that could do what the ruling asks for.
    #[error(
        "no code of run {run} waits for step {step} any more, so nothing can be run or undone; see to it by hand, and rule \
         that it happened or abandon it"
    )]
    NobodyActs {
        /// The run.
        run: RunId,
        /// The step.
        step: crate::model::StepId,
    },
    /// The ruling is not one that counts.
    #[error(transparent)]
    Ruling(#[from] crate::model::RulingRefused),
    /// There is no such after-effect.
    #[error("there is no after-effect {0} in this workspace")]
    NoSuchPost(String),
    /// The after-effect has not come to its end yet.
    #[error("after-effect {0} is still on its way; it is delivered by itself")]
    PostUnderWay(String),
    /// The workflow requires a key and none was given.
    #[error(
        "workflow {0:?} requires an idempotency key; add .idempotency_key(…) derived from what triggers it"
    )]
    KeyMissing(String),
    /// The step requires a key and none was given.
    #[error("step {0:?} requires an idempotency key; add .idempotency_key(…) derived from what asks for it")]
    StepKeyMissing(String),
    /// The key names a run with another input.
    #[error(
        "the idempotency key names run {run} (first seen {first_seen_at}), which was started with another input; \
         use a key derived from the input, or look at that run"
    )]
    KeyConflict {
        /// The run the key names.
        run: RunId,
        /// When it was first seen.
        first_seen_at: crate::model::Timestamp,
    },
    /// The key names a run whose data was deleted.
    #[error(
        "the idempotency key was used by run {run}, whose data was deleted after its retention; it is not run again"
    )]
    KeySpent {
        /// The run that was.
        run: RunId,
    },
    /// Another run is open on the subject.
    #[error("run {run} is still open on this subject; wait for it or cancel it")]
    SubjectBusy {
        /// The open run.
        run: RunId,
    },
    /// There is no such run.
    #[error("there is no run {0} in this workspace")]
    NoSuchRun(RunId),
    /// Only a root is cancelled together with its descendants.
    #[error("run {run} descends from run {root}; cancel that one with its descendants, or this one alone")]
    NotRoot {
        /// The run.
        run: RunId,
        /// The root of its family.
        root: RunId,
    },
    /// There is no such promise.
    #[error("there is no promise {0} in this workspace")]
    NoSuchPromise(String),
    /// The key names another promise.
    #[error(
        "the key {key:?} is registered to another promise, {existing}; use that one, or a key of its own"
    )]
    PromiseKeyConflict {
        /// The key.
        key: String,
        /// The promise that has it.
        existing: crate::model::PromiseId,
    },
    /// The promise holds something else.
    #[error("the promise was settled before with another value; it keeps the first")]
    AlreadySettled,
    /// The promise's time ran out.
    #[error("the promise has timed out; the settlement came too late")]
    PromiseTimedOut,
    /// A command on a run was refused.
    #[error("{refusal} (run {run})")]
    Refused {
        /// The run.
        run: RunId,
        /// Why.
        refusal: Refusal,
    },
    /// The run changed since the caller looked.
    #[error("Workflow run {run} was modified concurrently: it is at version {version} now")]
    Concurrency {
        /// The run.
        run: RunId,
        /// Its version.
        version: Version,
    },
    /// The run has ended, so it takes no signals.
    #[error("run {run} has ended as {}; it takes no signals", status.as_str())]
    RunEnded {
        /// The run.
        run: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// The run holds as many unconsumed signals as it may.
    #[error("run {0} holds as many unread signals as it may ({max}); let it read some", max = crate::limits::MAX_WAITING_SIGNALS)]
    TooManySignals(RunId),
    /// The run failed.
    #[error("run {run} failed: {failure}")]
    Failed {
        /// The run.
        run: RunId,
        /// Why.
        failure: Failure,
    },
    /// The run was cancelled.
    #[error("run {run} was cancelled: {failure}")]
    Cancelled {
        /// The run.
        run: RunId,
        /// Why.
        failure: Failure,
    },
    /// A recorded value does not have the type asked for.
    #[error("the {what} of run {run} does not fit the type asked for: {cause}")]
    Mismatch {
        /// Input or output.
        what: &'static str,
        /// The run.
        run: RunId,
        /// What serde said.
        cause: serde_json::Error,
    },
    /// No entity workflow moves things of this type.
    #[error("there is no entity workflow for {0:?}; register or upload one")]
    UnknownEntityType(String),
    /// There is no such entity.
    #[error("there is no {0} in this workspace")]
    NoSuchEntity(crate::model::EntityRef),
    /// The entity lives in a table of the user's, where the engine makes nothing.
    #[error("{0} lives in a table of yours; insert it there")]
    EntityElsewhere(crate::model::EntityRef),
    /// The entity may not begin so.
    #[error("{0}")]
    EntityBeginning(String),
    /// The entity was changed again and again while it was looked at.
    #[error("{0} was modified concurrently, again and again; try once more")]
    EntityBusy(crate::model::EntityRef),
    /// The entity does not have the version that was expected; nothing was done.
    #[error("{entity} was modified concurrently: it has version {version} now; look at it again")]
    EntityChanged {
        /// The entity.
        entity: crate::model::EntityRef,
        /// The version it has.
        version: Version,
    },
    /// The workflow has no such step.
    #[error("entity workflow {workflow} has no step {step:?}")]
    NoSuchStep {
        /// The workflow.
        workflow: String,
        /// The step asked for.
        step: String,
    },
    /// There is no such operation.
    #[error("there is no operation {0} in this workspace")]
    NoSuchOperation(OperationId),
    /// The operation is not in doubt, or not any more.
    #[error("operation {0} is not in doubt; look at what became of it")]
    OperationNotInDoubt(OperationId),
    /// Somebody decided about the operation before.
    #[error("operation {operation} was decided about before: {decided}; your ruling does not count")]
    OperationResolved {
        /// The operation.
        operation: OperationId,
        /// Who decided what.
        decided: Box<Decided>,
    },
    /// Only a manager may have an irreversible step done that may have happened.
    #[error("only a manager may have an irreversible step done that may have happened")]
    NotManager,
    /// A workflow breaks rules.
    #[error("entity workflow {workflow} is refused: {}", list_problems(problems))]
    EntityWorkflowRefused {
        /// The workflow.
        workflow: String,
        /// All that is wrong with it.
        problems: Vec<EntityProblem>,
    },
    /// Transient statuses would be freed by nobody after a crash.
    #[error("{}", list_uncovered(.0))]
    UncoveredClaims(Vec<crate::model::UncoveredClaim>),
    /// The engine is shutting down.
    #[error("the engine is shutting down; nothing new is accepted")]
    ShuttingDown,
    /// A setting cannot work.
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

fn tell(decided: &Option<Box<Decided>>) -> String {
    decided.as_ref().map(|decided| format!(": {decided}")).unwrap_or_default()
}
