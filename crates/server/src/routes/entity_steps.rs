//! Steps of entities, and their responses.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::model::{
    Actor, Entity, Failure, LeafDigests, Operation, OperationId as Id, OperationState, PANICKED, Payload,
    Timestamp,
};
use hapax_engine::runtime::{CONCURRENCY_ERROR, TransitionOutcome};
use hapax_engine::{Engine, Error};
use hapax_http_idempotency::{OperationId, Outcome as StoreAnswer, read_wait};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::entities::requester_of;
use super::request::{Caller, IfMatch, PathOf, if_match};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::identity::Identity;
use crate::limits::STEP_WAIT;
use crate::metrics::{KeyOf, KeyUse};
use crate::strict_json::StrictJson;
use crate::translate::{entity_to_api, failure_to_api, operation_to_api, pending_operation_to_api};

/// Takes a step with an entity: validated, claimed if the step requires it, done once, and
/// recorded. Waits for the action as long as `Prefer: wait=N` says, 60 seconds by default.
pub(crate) async fn take(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    headers: HeaderMap,
    PathOf((kind, id, step)): PathOf<(String, String, String)>,
    asked: Option<StrictJson<api::TakeStep>>,
) -> Result<Response, Refused> {
    let api::TakeStep { requester, input, idempotency_key, by } =
        asked.map(|body| body.value).unwrap_or_default();
    let by = identity.actor(identity.speaks_for(by.as_deref())?);
    let asked = StepRequest {
        at: (kind, id, step),
        requester: requester_of(&identity, requester)?,
        input: payload_of(&input)?,
        key: idempotency_key,
        overridden: None,
        by,
        id: operation.map(|Extension(operation)| id_of(operation)),
    };
    asked.take(&app, &identity, &headers).await
}

/// Forces an irreversible step that may have happened already. For managers, with a reason for the
/// audit log.
pub(crate) async fn take_overriding(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    headers: HeaderMap,
    PathOf((kind, id, step)): PathOf<(String, String, String)>,
    StrictJson { value: asked, .. }: StrictJson<api::OverrideStep>,
) -> Result<Response, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    let asked = StepRequest {
        at: (kind, id, step),
        requester: requester_of(&identity, asked.requester)?,
        input: payload_of(&asked.input)?,
        key: asked.idempotency_key,
        overridden: Some(asked.reason),
        by,
        id: operation.map(|Extension(operation)| id_of(operation)),
    };
    asked.take(&app, &identity, &headers).await
}

/// Use of the step's key; `None` if the step had no effect.
fn use_of_key(outcome: &TransitionOutcome, asked_at: Timestamp) -> Option<KeyUse> {
    let recorded = match outcome {
        TransitionOutcome::Done { recorded, .. }
        | TransitionOutcome::Rejected { operation: Some(_), recorded, .. }
        | TransitionOutcome::Failed { recorded, .. }
        | TransitionOutcome::Pending { recorded, .. } => *recorded,
        TransitionOutcome::InDoubt { operation } => operation.began_at < asked_at,
        TransitionOutcome::KeyConflict { .. } => return Some(KeyUse::Conflicted),
        TransitionOutcome::Rejected { operation: None, .. }
        | TransitionOutcome::ClaimFailed { .. }
        | TransitionOutcome::NotAllowed { .. }
        | TransitionOutcome::OverrideRequired { .. } => return None,
    };
    Some(if recorded { KeyUse::Replayed } else { KeyUse::New })
}

fn payload_of(input: &api::JsonObject) -> Result<Payload, Refused> {
    Ok(Payload::parse(input.text()).map_err(|invalid| problem_of_invalid(&invalid))?)
}

/// An operation under a request key has the request's id, so a request that is sent again after a
/// crash finds its operation.
fn id_of(OperationId(id): OperationId) -> Id {
    Id::from_u128(id.as_run().as_u128())
}

/// A requested step.
struct StepRequest {
    /// The type, the id of the entity, and the step.
    at: (String, String, String),
    requester: Option<String>,
    input: Payload,
    key: Option<String>,
    /// A manager's reason for an override.
    overridden: Option<String>,
    by: Actor,
    id: Option<Id>,
}

impl StepRequest {
    async fn take(self, app: &App, identity: &Identity, headers: &HeaderMap) -> Result<Response, Refused> {
        let engine = app.engine_for(identity);
        let (kind, id, step) = &self.at;
        let wait = read_wait(headers).unwrap_or(STEP_WAIT);
        let expected = if_match(headers)?;
        let mut transition = engine
            .transition(kind, id, step)
            .by(self.by.clone())
            .input_payload(self.input.clone())
            .wait(wait);
        if let Some(requester) = &self.requester {
            transition = transition.requester(requester);
        }
        if let Some(key) = &self.key {
            transition = transition.idempotency_key(key);
        }
        if let Some(reason) = &self.overridden {
            transition = transition.overridden(self.by.clone(), reason);
        }
        if let IfMatch::Version(version) = expected {
            transition = transition.expecting(version);
        }
        if let Some(operation) = self.id {
            transition = transition.operation_id(operation);
        }
        let asked_at = app.store.now();
        let outcome = transition.await;
        if let (Some(_), Ok(outcome)) = (&self.key, &outcome)
            && let Some(usage) = use_of_key(outcome, asked_at)
        {
            app.metrics.key_used(identity, KeyOf::Operation, usage);
        }
        match outcome {
            Ok(outcome) => self.answer(app, &engine, outcome).await,
            // It may have begun; then a retry finds it.
            Err(error @ Error::ShuttingDown) => Ok(stored_as(problem_of(&error), StoreAnswer::Unknown)),
            Err(error) => Err(problem_of(&error).into()),
        }
    }

    async fn answer(
        &self,
        app: &App,
        engine: &Engine,
        outcome: TransitionOutcome,
    ) -> Result<Response, Refused> {
        match outcome {
            TransitionOutcome::Done { operation, entity, recorded } => {
                let entity = match entity {
                    Some(entity) => Some(entity),
                    None => self.look(engine).await,
                };
                let told = entity.as_ref().map(|entity| (header::ETAG, etag(entity.version)));
                let taken = api::TakenStep {
                    operation: operation_to_api(&operation),
                    entity: entity.as_ref().map(entity_to_api),
                    created: !recorded,
                    replayed: recorded,
                };
                let told: HeaderMap = told.into_iter().collect();
                Ok((StatusCode::OK, told, Json(taken)).into_response())
            }
            TransitionOutcome::Pending { operation, recorded } => Ok(under_way(&operation, recorded)),
            TransitionOutcome::Rejected { operation: None, failure, .. } => Err(problem_of_failure(
                Code::StepRejected,
                &failure,
                "Correct the cause, and take the step again",
            )
            .into()),
            TransitionOutcome::Rejected { operation: Some(operation), failure, recorded } => {
                let problem = problem_of_failure(Code::StepRejected, &failure, &after_rejection(&operation));
                // It began, so this is its response.
                Ok(stored_as(with_operation(problem, app, &operation, recorded), StoreAnswer::Store))
            }
            TransitionOutcome::Failed { operation, failure, recorded } => {
                let problem = problem_of_failure(code_of(&failure), &failure, &after_failure(&operation));
                Err(with_operation(problem, app, &operation, recorded).into())
            }
            TransitionOutcome::ClaimFailed { existing } => Err(claim_failed(app, existing.as_deref()).into()),
            TransitionOutcome::NotAllowed { entity, reason } => {
                Err(self.not_allowed(engine, &entity, reason).await.into())
            }
            TransitionOutcome::InDoubt { operation } => {
                let id = operation.id;
                let detail = format!(
                    "It is unknown whether {id} ({}) happened. It is not sent again automatically. Ask the provider for the effect key {}, then decide with \
                     POST /api/v1/operations/{id}/resolve.",
                    operation.step,
                    operation.effect_key()
                );
                let problem = Problem::new(Code::OperationInDoubt, detail);
                Err(with_operation(problem, app, &operation, false).into())
            }
            TransitionOutcome::KeyConflict { existing } => Err(self.conflict(&existing).into()),
            TransitionOutcome::OverrideRequired { existing } => {
                let (kind, id, step) = &self.at;
                let detail = format!(
                    "{} did it or may have done it, and it is irreversible. Find out whether it happened; a manager can force the step \
                     with POST /api/v1/entities/{kind}/{id}/steps/{step}/override and a reason.",
                    existing.id
                );
                let problem = Problem::new(Code::OverrideRequired, detail).with("requiredRole", "manager");
                Err(with_operation(problem, app, &existing, false).into())
            }
        }
    }

    /// Reads the current entity; the record does not include it.
    async fn look(&self, engine: &Engine) -> Option<Entity> {
        let (kind, id, _) = &self.at;
        engine.get_entity(kind, id, self.requester.as_deref()).await.ok().map(|view| view.entity)
    }

    async fn not_allowed(&self, engine: &Engine, entity: &Entity, reason: String) -> Problem {
        let (kind, id, _) = &self.at;
        let view = engine.get_entity(kind, id, self.requester.as_deref()).await;
        let allowed = view.map(|view| view.allowed).unwrap_or_default();
        let allowed: Vec<&str> = allowed
            .iter()
            .filter(|action| action.hindrance.is_none())
            .map(|action| action.step.as_str())
            .collect();
        Problem::new(
            Code::StepNotAllowed,
            format!("{reason}. Nothing was done; `allowedSteps` lists the allowed steps."),
        )
        .with("entityStatus", entity.status.as_str())
        .with("version", entity.version.get())
        .with("allowedSteps", allowed)
    }

    /// Describes the first request under the key, and the differences.
    fn conflict(&self, existing: &Operation) -> Problem {
        let (kind, id, step) = &self.at;
        let read = |payload: &Payload| payload.to::<Value>().unwrap_or_default();
        let request = |at: [&str; 3], requester: Option<&str>, input: &Payload| {
            LeafDigests::of(&json!({
                "type": at[0], "id": at[1], "stepKey": at[2], "requester": requester, "input": read(input),
            }))
        };
        let first = request(
            [existing.entity.kind.as_str(), existing.entity.id.as_str(), existing.step.as_str()],
            existing.requester.as_ref().map(|requester| requester.as_str()),
            &existing.input,
        );
        let now = request([kind, id, step], self.requester.as_deref(), &self.input);
        let stored = api::StoredRequest {
            kind: api::KeyScope::Operation,
            id: Some(existing.id.to_string()),
            definition: Some(existing.workflow.to_string()),
            first_seen_at: existing.began_at.to_string(),
            fingerprint: existing.fingerprint.to_string(),
            differing_paths: first.differences(&now),
        };
        let detail = format!(
            "The key names operation {0}, which was a different request; nothing was changed. Read it with GET /api/v1/operations/{0}, or \
             use a new key for a new operation.",
            existing.id
        );
        let stored = serde_json::to_value(stored).unwrap_or_default();
        Problem::new(Code::IdempotencyKeyConflict, detail).with("storedRequest", stored)
    }
}

/// The operation continues; a retry under the same key gets its outcome. `recorded`: an earlier
/// request began it.
fn under_way(operation: &Operation, recorded: bool) -> Response {
    let shown = api::TakenStep {
        operation: operation_to_api(operation),
        entity: None,
        created: !recorded,
        replayed: recorded,
    };
    let location = format!("/api/v1/operations/{}", operation.id);
    let mut response = (StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(shown)).into_response();
    response.extensions_mut().insert(StoreAnswer::Unknown);
    response
}

/// An error with its own rule for storing it under the request key.
fn stored_as(problem: Problem, how: StoreAnswer) -> Response {
    let mut response = Refused::from(problem).into_response();
    response.extensions_mut().insert(how);
    response
}

fn code_of(failure: &Failure) -> Code {
    match failure.code() {
        Some(PANICKED) => Code::ActionPanicked,
        Some(CONCURRENCY_ERROR) => Code::Concurrency,
        _ => Code::ActionFailed,
    }
}

fn after_rejection(operation: &Operation) -> String {
    match operation.leaves_doubt() {
        true => after_failure(operation),
        false => "The entity is unchanged; correct the cause, and take the step again under a new key".into(),
    }
}

fn after_failure(operation: &Operation) -> String {
    let (id, key) = (operation.id, operation.effect_key());
    match operation.state {
        OperationState::Reverted { settled: true, .. } => {
            format!("It is known not to have happened; take the step again, under a new key ({id})")
        }
        _ if operation.leaves_doubt() => format!(
            "It may have happened. Taking the step again, under a new idempotency key, sends the same effect key {key}, so a provider that \
             honours keys does it once ({id})"
        ),
        _ => format!(
            "The entity is unchanged; take the step again, under a new key, once the cause is gone ({id})"
        ),
    }
}

fn problem_of_failure(code: Code, failure: &Failure, next: &str) -> Problem {
    let shown = serde_json::to_value(failure_to_api(failure)).unwrap_or_default();
    let message = failure.message().trim_end_matches('.');
    Problem::new(code, format!("{message}. {next}.")).with("failure", shown)
}

fn with_operation(problem: Problem, app: &App, operation: &Operation, recorded: bool) -> Problem {
    let shown =
        serde_json::to_value(pending_operation_to_api(operation, app.store.now())).unwrap_or_default();
    let problem = problem.with("operation", shown);
    match recorded {
        true => problem.with("replayed", true),
        false => problem,
    }
}

fn claim_failed(app: &App, existing: Option<&Operation>) -> Problem {
    let Some(existing) = existing else {
        let detail = "Another operation is already in progress, begun outside this server. Nothing was done; look at the \
                      entity before you try again.";
        return Problem::new(Code::ClaimFailed, detail);
    };
    let next = match existing.state {
        OperationState::InDoubt { .. } => "it is unknown whether it happened, and people must decide first",
        _ => "wait for it to end, and look at the entity before you try again",
    };
    let detail = format!(
        "Another operation is already in progress: {} ({}). Nothing was done; {next}.",
        existing.id, existing.step
    );
    with_operation(Problem::new(Code::ClaimFailed, detail), app, existing, false)
}
