//! Maps errors of the engine to problems. This is the only place that does.

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::Error;
use hapax_engine::model::{HumanText, Invalid, RecordedDecision, Refusal, RulingError};
use hapax_engine::store::StoreError;

use crate::limits::STORE_RETRY_AFTER_SECONDS;
use crate::translate::actor_to_api;

/// The problem for `error`.
pub(crate) fn problem_of(error: &Error) -> Problem {
    let detail = error.to_string();
    match error {
        Error::Invalid(invalid) => problem_of_invalid(invalid),
        Error::Store(error) => problem_of_store(error),
        Error::UnknownWorkflow(_) => Problem::new(Code::DefinitionNotFound, detail),
        Error::WorkflowArchived(_) => Problem::new(Code::DefinitionArchived, detail),
        Error::AlreadyRegistered(_) => Problem::new(Code::DefinitionExists, detail),
        Error::UnprotectedEffect { .. } => Problem::new(Code::UnprotectedEffect, detail),
        Error::NoSuchDoubt { .. } => Problem::new(Code::DoubtChanged, detail),
        Error::DoubtResolved { decided, .. } => {
            with_decision(Problem::new(Code::DoubtResolved, detail), decided.as_deref())
        }
        Error::OperationResolved { operation, decided } => {
            let problem =
                Problem::new(Code::DoubtResolved, detail).with("operationId", operation.to_string());
            with_decision(problem, Some(decided))
        }
        Error::ApprovalClosed { decided, .. } => {
            with_decision(Problem::new(Code::ApprovalOver, detail), decided.as_deref())
        }
        Error::ApprovalNotAsked { .. } => Problem::new(Code::ApprovalNotAsked, detail),
        Error::OwnApproval { .. } => Problem::new(Code::OwnApproval, detail),
        Error::Ruling(RulingError::SamePerson) => Problem::new(Code::NeedsSecondPerson, detail),
        Error::Ruling(RulingError::NoSuchProposal) => Problem::new(Code::DoubtChanged, detail),
        Error::Ruling(RulingError::NeedsSecondPerson(_)) => Problem::new(Code::NeedsSecondPerson, detail),
        Error::RulingNotPossible { .. } => Problem::new(Code::NobodyActs, detail),
        Error::Ruling(RulingError::NeedsManager(decided)) => {
            let detail = format!("{decided} is irreversible: it needs a credential with the role manager.");
            Problem::new(Code::NeedsManager, detail).with("requiredRole", "manager")
        }
        Error::Ruling(RulingError::NotForOperations) => {
            Problem::new(Code::InvalidRequest, detail).with("path", "/resolution")
        }
        Error::UnknownEntityType(_)
        | Error::NoSuchEntity(_)
        | Error::NoSuchStep { .. }
        | Error::NoSuchOperation(_) => Problem::new(Code::NotFound, detail),
        Error::EntityInOwnTable(_) => Problem::new(Code::EntityElsewhere, detail),
        Error::InvalidInitialStatus(_) => Problem::new(Code::InvalidRequest, detail).with("path", "/status"),
        Error::EntityBusy(_) => Problem::new(Code::Concurrency, detail),
        Error::EntityChanged { version, .. } => {
            Problem::new(Code::Concurrency, detail).with("version", version.get())
        }
        Error::OperationNotInDoubt(_) => Problem::new(Code::OperationNotInDoubt, detail),
        Error::NotManager => Problem::new(Code::NeedsManager, detail),
        Error::EntityWorkflowRefused { problems, .. } => {
            let shown = problems.iter().map(|problem| api::DefinitionProblem {
                path: problem.path.clone(),
                rule: problem.rule.code().to_owned(),
                message: problem.message.clone(),
            });
            let shown = serde_json::to_value(shown.collect::<Vec<_>>()).unwrap_or_default();
            Problem::new(Code::EntityWorkflowInvalid, detail).with("problems", shown)
        }
        Error::UncoveredClaims(uncovered) => {
            let problem = Problem::new(Code::UncoveredClaimState, detail);
            match uncovered.first() {
                Some(first) => problem
                    .with("workflow", first.workflow.as_str())
                    .with("module", first.module.as_str())
                    .with("claimInto", first.claim_into.as_str()),
                None => problem,
            }
        }
        Error::Ruling(RulingError::NoActor | RulingError::NoReason) => {
            Problem::new(Code::RulingIncomplete, detail)
        }
        Error::Ruling(RulingError::HumanText(invalid)) => problem_of_invalid(invalid),
        Error::NoSuchAfterEffect(_) | Error::NoSuchRun(_) | Error::NoSuchPromise(_) => {
            Problem::new(Code::NotFound, detail)
        }
        Error::AfterEffectInProgress(_) => Problem::new(Code::DeliveryUnderWay, detail),
        Error::KeyMissing(_) => Problem::new(
            Code::IdempotencyKeyMissing,
            "This definition requires an idempotency key: send `idempotencyKey` in the body, derived from the event that triggers the request.",
        ),
        Error::InputRefused { workflow, problems } => {
            let shown = problems.iter().map(|problem| api::DefinitionProblem {
                path: format!("/input{}", problem.path),
                rule: problem.rule.clone(),
                message: problem.message.clone(),
            });
            let shown = serde_json::to_value(shown.collect::<Vec<_>>()).unwrap_or_default();
            Problem::new(Code::InputInvalid, detail)
                .with("workflow", workflow.as_str())
                .with("problems", shown)
        }
        Error::StepKeyMissing(_) => Problem::new(
            Code::IdempotencyKeyMissing,
            "This step requires an idempotency key: send `idempotencyKey` in the body or the header `Idempotency-Key`, derived from the event that triggers the step.",
        ),
        Error::KeyConflict { .. } => Problem::new(Code::IdempotencyKeyConflict, detail),
        Error::KeySpent { run } => {
            Problem::new(Code::IdempotencyKeySpent, detail).with("runId", run.to_string())
        }
        Error::SubjectBusy { run } => pending(run, detail),
        Error::PromiseKeyConflict { existing, .. } => {
            let holder = api::KeyHolder { kind: api::KeyScope::Promise, id: existing.to_string() };
            let holder = serde_json::to_value(holder).unwrap_or_default();
            Problem::new(Code::PromiseKeyConflict, detail).with("holder", holder)
        }
        Error::AlreadySettled => Problem::new(Code::PromiseAlreadySettled, detail),
        Error::PromiseTimedOut => Problem::new(Code::PromiseTimedOut, detail),
        Error::Refused { refusal, .. } => problem_of_refusal(refusal, detail),
        Error::NotRoot { root, .. } => {
            Problem::new(Code::NotARoot, detail).with("rootRunId", root.to_string())
        }
        Error::Concurrency { version, .. } => {
            Problem::new(Code::Concurrency, detail).with("version", version.get())
        }
        Error::RunEnded { status, .. } => {
            Problem::new(Code::RunEnded, detail).with("runStatus", status.as_str())
        }
        Error::TooManySignals(_) => Problem::new(Code::TooManySignals, detail),
        Error::ShuttingDown => Problem::new(
            Code::ShuttingDown,
            "The server is shutting down; nothing was done. Send the request again.",
        )
        .retry_after(STORE_RETRY_AFTER_SECONDS),
        Error::Mismatch { .. } | Error::Options(_) => internal(&detail),
        // The enum may grow. The text of an unknown variant must not leak.
        _ => internal(&detail),
    }
}

/// The problem for an invalid value.
pub(crate) fn problem_of_invalid(invalid: &Invalid) -> Problem {
    let detail = invalid.to_string();
    match invalid {
        Invalid::Key { what } if *what == "idempotency key" => {
            Problem::new(Code::InvalidIdempotencyKey, detail)
        }
        Invalid::HumanText(words) => {
            let path = match words {
                HumanText::Person | HumanText::Actor => "/by",
                HumanText::Reason => "/reason",
                HumanText::Remark => "/text",
            };
            Problem::new(Code::InvalidRequest, detail).with("path", path)
        }
        Invalid::Key { .. }
        | Invalid::Name { .. }
        | Invalid::Id { .. }
        | Invalid::Payload(_)
        | Invalid::Span { .. } => Problem::new(Code::InvalidRequest, detail),
    }
}

/// The problem for a store failure. The text of the failure goes only to the log, because it may
/// name hosts and files.
pub(crate) fn problem_of_store(error: &StoreError) -> Problem {
    tracing::warn!(%error, "the store did not do what was asked");
    match error {
        StoreError::Unavailable(_) => {
            Problem::new(Code::StoreUnavailable, "Nothing was written. Send the same request again, under the same key.")
                .retry_after(STORE_RETRY_AFTER_SECONDS)
        }
        StoreError::Unknown(_) => Problem::new(
            Code::OutcomeUnknown,
            "The request may or may not have taken effect. Send it again under the same key: it converges on one result.",
        )
        .retry_after(STORE_RETRY_AFTER_SECONDS),
        StoreError::Refused(_) => {
            Problem::new(Code::StoreRefused, "Nothing was written. Report `traceId` to the operator.")
        }
        StoreError::Broken(_) => {
            Problem::new(Code::StoreBroken, "The operator must look at the store. Report `traceId` to them.")
        }
    }
}

fn problem_of_refusal(refusal: &Refusal, detail: String) -> Problem {
    match refusal {
        Refusal::Ended(status) => Problem::new(Code::RunEnded, detail).with("runStatus", status.as_str()),
        Refusal::AlreadyRequested => Problem::new(Code::AlreadyAsked, detail),
        Refusal::NotPaused(status) => {
            Problem::new(Code::RunNotPaused, detail).with("runStatus", status.as_str())
        }
        Refusal::NotFailed(status) => {
            Problem::new(Code::RunNotFailed, detail).with("runStatus", status.as_str())
        }
        Refusal::NoSuchStep(_) => Problem::new(Code::NotFound, detail),
        Refusal::Undone => Problem::new(Code::RunUndone, detail),
        Refusal::InDoubt(step) => Problem::new(Code::StepInDoubt, detail).with("stepId", step.to_string()),
        Refusal::WouldRepeat(steps) => {
            let steps: Vec<String> = steps.iter().map(|step| step.to_string()).collect();
            Problem::new(Code::EffectsWouldRepeat, detail).with("effects", steps)
        }
        Refusal::KeyTaken(run) => Problem::new(Code::KeyTaken, detail).with("holder", run.to_string()),
        Refusal::SubjectBusy(run) => pending(run, detail),
        Refusal::Stale(version) => Problem::new(Code::Concurrency, detail).with("version", version.get()),
    }
}

/// Adds the decision that came first.
fn with_decision(problem: Problem, decided: Option<&RecordedDecision>) -> Problem {
    let Some(decided) = decided else { return problem };
    let by = serde_json::to_value(actor_to_api(&decided.by)).unwrap_or_default();
    problem
        .with("decidedBy", by)
        .with("decision", decided.decision.as_str())
        .with("decidedAt", decided.at.to_string())
}

fn pending(run: &hapax_engine::model::RunId, detail: String) -> Problem {
    let pending = serde_json::json!({ "kind": "run", "id": run.to_string() });
    Problem::new(Code::OperationPending, detail).with("pending", pending)
}

fn internal(cause: &str) -> Problem {
    tracing::error!(cause, "an answer that should not have been possible");
    Problem::new(Code::Internal, "The server failed. Report `traceId` to the operator.")
}
