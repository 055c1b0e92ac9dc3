//! Runs: start, look, steer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::Error;
use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyTarget, Name, Outline, Payload, Priority, RunId, RunResult, Steer, StepId,
    Version,
};
use hapax_engine::store::{ListRuns, RunView};
use hapax_http_idempotency::{OperationId, Outcome, read_wait};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::IntoParams;

use super::request::{Caller, IfMatch, PathOf, QueryOf, if_match, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{of_invalid, problem_of};
use crate::identity::Identity;
use crate::limits::SHOW_TRIES;
use crate::strict_json::StrictJson;
use crate::translate::{shown_failure, shown_run, shown_run_with_steps, status_named};

/// Starts a run, at most once per key.
#[utoipa::path(
    post, path = "/api/v1/workflow-runs", tag = "runs", operation_id = "create_run", request_body = api::CreateRun,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer.")),
    responses(
        (status = 201, description = "The run was made", body = api::CreatedRun),
        (status = 200, description = "The key names this run, which was made before", body = api::CreatedRun),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::CreateRun>,
) -> Result<Response, Refused> {
    let id = operation.map(|Extension(OperationId(id))| id.as_run());
    let (created, is_new) = start(&app, &identity, asked, id).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/api/v1/workflow-runs/{}", created.run.id);
    Ok((status, [(header::LOCATION, location)], Json(created)).into_response())
}

/// Starts several runs; each stands for itself, and gets the answer it would have got alone.
#[utoipa::path(
    post, path = "/api/v1/workflow-runs/batch", tag = "runs", operation_id = "create_run_batch", request_body = api::CreateRunBatch,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer.")),
    responses(
        (status = 200, description = "One answer per item, in order", body = api::CreatedRunBatch),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create_batch(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, text }: StrictJson<api::CreateRunBatch>,
) -> Result<Response, Refused> {
    check_items_are_objects(&text)?;
    if asked.runs.is_empty() || asked.runs.len() > api::MAX_BATCH_RUNS {
        let detail =
            format!("A batch holds 1 to {} runs; this one holds {}.", api::MAX_BATCH_RUNS, asked.runs.len());
        return Err(Refused::new(Code::InvalidRequest, detail).with("maxItems", api::MAX_BATCH_RUNS));
    }
    let operation = operation.map(|Extension(OperationId(id))| id.as_run());
    // One after the other where they share a key, side by side in one commit otherwise: the store sees to both.
    let starts = asked.runs.into_iter().enumerate().map(|(place, asked)| {
        let (app, identity) = (&app, &identity);
        let id = operation.map(|first| item_of(first, place));
        async move {
            match start(app, identity, asked, id).await {
                Ok((created, _)) => api::BatchItem { created_run: Some(created), problem: None },
                Err(refused) => {
                    api::BatchItem { created_run: None, problem: Some(refused.problem().clone()) }
                }
            }
        }
    });
    let items = futures_util::future::join_all(starts).await;
    let outcome = outcome_of_batch(&items);
    let mut response = Json(api::CreatedRunBatch { items }).into_response();
    response.extensions_mut().insert(outcome);
    Ok(response)
}

/// A batch is kept under its request key once nothing of it is worth another try. Until then the key stays held, if something of it was
/// done: the next try finds what was made, because the items keep their ids, and makes the rest.
fn outcome_of_batch(items: &[api::BatchItem]) -> Outcome {
    let refusals = items.iter().filter_map(|item| item.problem.as_ref());
    let mut unfinished = refusals.filter(|problem| problem.status >= 500 && problem.retryable).peekable();
    if unfinished.peek().is_none() {
        return Outcome::Store;
    }
    let is_unknown = unfinished.any(|problem| problem.code == Code::OutcomeUnknown);
    match is_unknown || items.iter().any(|item| item.created_run.is_some()) {
        true => Outcome::Unknown,
        false => Outcome::Release,
    }
}

/// As with a whole body, an item that lists its fields without their names is refused.
fn check_items_are_objects(text: &[u8]) -> Result<(), Refused> {
    #[derive(Deserialize)]
    struct Items<'a> {
        #[serde(borrow)]
        runs: Vec<&'a RawValue>,
    }
    let items: Items<'_> = serde_json::from_slice(text)
        .map_err(|_| Refused::new(Code::InvalidRequest, "`runs` cannot be read.").with("path", "runs"))?;
    match items.runs.iter().position(|item| !item.get().starts_with('{')) {
        Some(place) => Err(Refused::new(Code::InvalidRequest, "Each of `runs` is an object.")
            .with("path", format!("runs[{place}]"))),
        None => Ok(()),
    }
}

/// The id of the run that the item at `place` of a batch makes: the same one whenever the batch is taken up again. The last bits of the first
/// id are random, so that adding a small number keeps it unique and in its place.
fn item_of(first: RunId, place: usize) -> RunId {
    RunId::from_u128(first.as_u128().wrapping_add(place as u128))
}

async fn start(
    app: &App,
    identity: &Identity,
    asked: api::CreateRun,
    id: Option<RunId>,
) -> Result<(api::CreatedRun, bool), Refused> {
    let definition = app.definitions.get(&identity.workspace, &asked.definition_id).await?;
    let input = Payload::parse(asked.input.text()).map_err(|invalid| of_invalid(&invalid))?;
    let mut start = app
        .engine_for(identity)
        .start_payload(definition.name(), input.clone())
        .version(definition.version())
        .priority(match asked.priority {
            api::Priority::Low => Priority::Low,
            api::Priority::Normal => Priority::Normal,
            api::Priority::High => Priority::High,
        });
    if let Some(id) = id {
        start = start.run_id(id);
    }
    if let Some(key) = &asked.idempotency_key {
        start = start.idempotency_key(key);
    }
    if let Some(subject) = asked.subject {
        start = start.subject(subject);
    }
    if let Some(ms) = asked.delay_ms {
        start = start.delay(Duration::from_millis(ms));
    }
    if let Some(ms) = asked.deadline_ms {
        start = start.deadline(Duration::from_millis(ms));
    }
    match start.await {
        Ok(handle) => {
            let is_new = handle.created;
            let (view, definition) = match handle.head() {
                // What was just made is known, and so is what it runs. What was found is looked at, because it may have ended; so may a run that the first
                // try of this request made before its process vanished.
                Some(head) if is_new && !head.status().is_closed() => {
                    let view = RunView { head: head.clone(), input, result: None };
                    (view, Some(definition.id().to_string()))
                }
                _ => {
                    let view = handle.view().await.map_err(|error| problem_of(&error))?;
                    let definition = definition_of(app, &view);
                    (view, definition)
                }
            };
            let key = asked.idempotency_key.as_deref();
            match is_new {
                true => app.metrics.run_key_taken(identity, key),
                false => app.metrics.run_key_replayed(identity, key),
            }
            let run = shown_run(&view, definition);
            Ok((api::CreatedRun { run, created: is_new }, is_new))
        }
        Err(Error::KeyConflict { run, first_seen_at }) => {
            app.metrics.run_key_conflicted(identity, asked.idempotency_key.as_deref());
            Err(conflict(app, identity, run, first_seen_at.to_string(), &input, asked.idempotency_key)
                .await
                .into())
        }
        Err(error) => Err(problem_of(&error).into()),
    }
}

/// What the key stands for, and where the input differs.
async fn conflict(
    app: &App,
    identity: &Identity,
    run: RunId,
    first_seen_at: String,
    input: &Payload,
    key: Option<String>,
) -> Problem {
    let engine = app.engine_for(identity);
    let mut stored = api::StoredRequest {
        kind: api::KeyScope::Run,
        id: Some(run.to_string()),
        definition: None,
        first_seen_at,
        fingerprint: String::new(),
        differing_paths: Vec::new(),
    };
    if let Some(Ok(key)) = key.as_deref().map(IdempotencyKey::new)
        && let Ok(Some(record)) = app.store.find_key(&identity.workspace, KeyKind::Run, &key).await
        && let KeyTarget::Run { fingerprint, .. } = record.target
    {
        stored.fingerprint = fingerprint.to_string();
    }
    if let Ok(view) = engine.get(run).await {
        stored.definition = Some(view.head.facts.workflow.to_string());
        let outline = |payload: &Payload| payload.to().map(|value| Outline::of(&value)).unwrap_or_default();
        stored.differing_paths = outline(&view.input).differences(&outline(input));
    }
    let detail = format!(
        "The key names run {run}, which was started with another definition or input; nothing was changed. Look at it with \
         GET /api/v1/workflow-runs/{run}, or use a new key if a new run is meant."
    );
    let stored = serde_json::to_value(stored).unwrap_or_default();
    Problem::new(Code::IdempotencyKeyConflict, detail).with("storedRequest", stored)
}

/// The id of the definition that a run runs, if it runs one.
pub(crate) fn definition_of(app: &App, view: &RunView) -> Option<String> {
    let facts = &view.head.facts;
    app.definitions.id_of(&facts.workspace, &facts.workflow)
}

/// One run with its steps.
#[utoipa::path(
    get, path = "/api/v1/workflow-runs/{id}", tag = "runs", operation_id = "show_run", params(("id" = String, Path, description = "The run")),
    responses(
        (status = 200, description = "The run", body = api::RunDetail),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    let id = run_id(&id)?;
    let engine = app.engine_for(&identity);
    let mut log = engine.get_log(id).await.map_err(|error| problem_of(&error))?;
    let mut view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    // Two reads of a run that moves in between would show steps and a status that were never there together.
    for _ in 0..SHOW_TRIES {
        if view.head.version == log.head.version {
            break;
        }
        log = engine.get_log(id).await.map_err(|error| problem_of(&error))?;
        view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    }
    let detail = shown_run_with_steps(&view, &log, definition_of(&app, &view));
    let version = view.head.version;
    Ok(([(header::ETAG, etag(version))], Json(detail)).into_response())
}

/// Which runs to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunFilter {
    /// Only with one of these statuses, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// Only of this workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// How many at most, 1 to 200; 50 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Where the page before ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// Runs, newest first.
#[utoipa::path(
    get, path = "/api/v1/workflow-runs", tag = "runs", operation_id = "list_runs", params(RunFilter),
    responses(
        (status = 200, description = "One page", body = api::Page<api::Run>),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<RunFilter>,
) -> Result<Json<api::Page<api::Run>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let named = |text: &str| {
        status_named(text).ok_or_else(|| {
            Refused::new(Code::InvalidRequest, "`status` is a list, separated by commas, of PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED.")
                .with("path", "/status")
        })
    };
    let statuses: Vec<_> = match filter.status.as_deref() {
        Some(statuses) => statuses.split(',').map(named).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let workflow = filter.workflow.as_deref().map(|name| Name::new("workflow name", name)).transpose();
    let workflow = workflow.map_err(|invalid| of_invalid(&invalid))?;
    let bound = format!("{:?} {:?}", filter.status, filter.workflow);
    let list = app.list(&identity, "runs", &bound);
    let before = list.open(filter.cursor.as_deref())?;
    let before = before.map(|place: String| run_id(&place)).transpose()?;
    let request = ListRuns { workspace: None, statuses, workflow, before, limit };
    let page = app.engine_for(&identity).list(request).await.map_err(|error| problem_of(&error))?;
    let items = page.runs.iter().map(|view| shown_run(view, definition_of(&app, view))).collect();
    let next_cursor = page.next.map(|next| list.seal(&next.to_string()));
    Ok(Json(api::Page { items, next_cursor }))
}

macro_rules! steers {
    ($(#[$doc:meta])* $name:ident, $path:literal, $operation:literal, $command:expr) => {
        $(#[$doc])*
        #[utoipa::path(
            post, path = $path, tag = "runs", operation_id = $operation, request_body(content = Option<api::SteerRun>),
            params(
                ("id" = String, Path, description = "The run"),
                ("If-Match" = Option<String>, Header, description = "Only if the run still has this version"),
                ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
            ),
            responses(
                (status = 200, description = "Where the run stands", body = api::Run),
                (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
                (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
            ),
        )]
        pub(crate) async fn $name(
            State(app): State<Arc<App>>,
            Caller(identity): Caller,
            PathOf(id): PathOf<String>,
            headers: HeaderMap,
            asked: Option<StrictJson<api::SteerRun>>,
        ) -> Result<Response, Refused> {
            let reason = asked.and_then(|StrictJson { value: asked, .. }| asked.reason).unwrap_or_default();
            let command: fn(String) -> Steer = $command;
            steer(&app, &identity, &id, &headers, command(reason.clone()), &reason).await
        }
    };
}

steers! {
    /// Asks a run to undo what it can and end.
    cancel, "/api/v1/workflow-runs/{id}/cancel", "cancel_run", |reason| Steer::Cancel { reason }
}
steers! {
    /// Asks a run to stop at the next boundary.
    pause, "/api/v1/workflow-runs/{id}/pause", "pause_run", |_| Steer::Pause
}
steers! {
    /// Lets a paused run go on.
    resume, "/api/v1/workflow-runs/{id}/resume", "resume_run", |_| Steer::Resume
}

/// Reopens a failed run: what failed last runs again, or all from a step on.
#[utoipa::path(
    post, path = "/api/v1/workflow-runs/{id}/retry", tag = "runs", operation_id = "retry_run", request_body(content = Option<api::RetryRun>),
    params(
        ("id" = String, Path, description = "The run"),
        ("If-Match" = Option<String>, Header, description = "Only if the run still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "Where the run stands", body = api::Run),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    asked: Option<StrictJson<api::RetryRun>>,
) -> Result<Response, Refused> {
    let asked = asked.map(|StrictJson { value: asked, .. }| asked).unwrap_or_default();
    let from = asked.from_step.as_deref().map(StepId::from_stored);
    let reason = asked.reason.unwrap_or_default();
    steer(&app, &identity, &id, &headers, Steer::Retry { from }, &reason).await
}

async fn steer(
    app: &App,
    identity: &Identity,
    id: &str,
    headers: &HeaderMap,
    command: Steer,
    reason: &str,
) -> Result<Response, Refused> {
    let id = run_id(id)?;
    let engine = app.engine_for(identity);
    let expected = match if_match(headers)? {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version),
    };
    let by = identity.actor(None);
    engine.steer_by(id, command, expected, by, reason).await.map_err(|error| problem_of(&error))?;
    let view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    let run = shown_run(&view, definition_of(app, &view));
    Ok(([(header::ETAG, etag(view.head.version))], Json(run)).into_response())
}

/// Sends a run a signal; kept until it asks for it.
#[utoipa::path(
    post, path = "/api/v1/workflow-runs/{id}/signals", tag = "runs", operation_id = "send_signal", request_body = api::SendSignal,
    params(
        ("id" = String, Path, description = "The run"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "Its `signalId` was seen before, or it is stored", body = api::SentSignal),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn signal(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::SendSignal>,
) -> Result<Json<api::SentSignal>, Refused> {
    let run = run_id(&id)?;
    if asked.name.starts_with(hapax_documents::APPROVAL_SIGNAL) {
        let detail = "Approvals are answered under the name of whoever answers: POST /api/v1/workflow-runs/{id}/approvals/{step}.";
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/name"));
    }
    let value = asked.value.as_ref().map_or("null", |value| value.text());
    let payload = Payload::parse(value).map_err(|invalid| of_invalid(&invalid))?;
    // A request that is taken up again after a crash must not send a second signal.
    let own_id = operation.map(|Extension(OperationId(id))| id.to_string());
    let signal_id = asked.signal_id.or(own_id);
    let engine = app.engine_for(&identity);
    let stored = engine.signal_payload(run, &asked.name, payload, signal_id.as_deref()).await;
    let stored = stored.map_err(|error| problem_of(&error))?;
    Ok(Json(api::SentSignal { run_id: run.to_string(), stored }))
}

/// What a run ended with; waits for it if asked to.
#[utoipa::path(
    get, path = "/api/v1/workflow-runs/{id}/result", tag = "runs", operation_id = "show_run_result",
    params(
        ("id" = String, Path, description = "The run"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait up to N seconds, at most 60, for the end"),
    ),
    responses(
        (status = 200, description = "The output, as it was recorded", body = api::RawJson),
        (status = 202, description = "It has not ended yet", body = api::Run),
        (status = "4XX", description = "It failed, was cancelled, or is not there", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn result(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let id = run_id(&id)?;
    let wait = read_wait(&headers).unwrap_or_default();
    let engine = app.engine_for(&identity);
    let handle = engine.run(id).await.map_err(|error| problem_of(&error))?;
    let ending = match tokio::time::timeout(wait, handle.ending()).await {
        Ok(ending) => ending.map_err(|error| problem_of(&error))?,
        Err(_) => {
            let view = handle.view().await.map_err(|error| problem_of(&error))?;
            match view.result.clone() {
                Some(result) => result,
                None => {
                    let run = shown_run(&view, definition_of(&app, &view));
                    let again = [(header::RETRY_AFTER, HeaderValue::from(1))];
                    return Ok((StatusCode::ACCEPTED, again, Json(run)).into_response());
                }
            }
        }
    };
    match ending {
        RunResult::Completed(output) => {
            let json = HeaderValue::from_static("application/json");
            Ok(([(header::CONTENT_TYPE, json)], output.as_str().to_owned()).into_response())
        }
        RunResult::Failed(failure) => Err(ended(Code::RunFailed, id, &failure)),
        RunResult::Cancelled(failure) => Err(ended(Code::RunCancelled, id, &failure)),
    }
}

fn ended(code: Code, run: RunId, failure: &hapax_engine::Failure) -> Refused {
    let failure = shown_failure(failure);
    let detail = format!("Run {run} has no output: {}", failure.message);
    Refused::new(code, detail).with("failure", serde_json::to_value(failure).unwrap_or_default())
}

/// The run that a path names; what cannot be one is not there.
pub(crate) fn run_id(text: &str) -> Result<RunId, Refused> {
    text.parse().map_err(|_| {
        Refused::new(
            Code::NotFound,
            "There is no such run in this workspace; a run id is `run_` and 32 lower-case hex digits.",
        )
    })
}

pub(crate) fn etag(version: Version) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("digits in quotes")
}
