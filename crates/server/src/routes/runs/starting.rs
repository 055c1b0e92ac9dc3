//! Starts runs: one, or a batch of independent ones.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::Error;
use hapax_engine::model::{
    IdempotencyKey, IgnorePaths, Invalid, KeyKind, KeyTarget, LeafDigests, Payload, Priority, RunHead, RunId,
    WorkflowSelector,
};
use hapax_engine::runtime::{AnsweredRequest, Start};
use hapax_engine::store::RunView;
use hapax_http_idempotency::{FreshKey, OperationId, Outcome};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::definition_of;
use crate::answer::Refused;
use crate::app::App;
use crate::definitions::Definition;
use crate::errors::{problem_of, problem_of_invalid, problem_of_store};
use crate::identity::{Acting, Identity};
use crate::limits::MAX_RUN_WITHOUT_INPUT;
use crate::routes::approvals::excludes_starter;
use crate::routes::request::Caller;
use crate::strict_json::StrictJson;
use crate::translate::run_to_api;

/// Starts a run, at most once per key.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    fresh: Option<Extension<FreshKey>>,
    StrictJson { value: asked, .. }: StrictJson<api::CreateRun>,
) -> Result<Response, Refused> {
    // Asked again under the hold of its key, it is the same request.
    if fresh.is_some() || operation.is_none() {
        app.quotas.take_start(&*app.store, &identity.workspace, Instant::now()).await?;
    }
    if let Some(Extension(fresh)) = fresh {
        return create_in_one_write(&app, &identity, asked, fresh).await;
    }
    let id = operation.map(|Extension(OperationId(id))| id.as_run());
    let (created, is_new) = start(&app, &identity, asked, id).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = location_of(&created);
    Ok((status, [(header::LOCATION, location)], Json(created)).into_response())
}

fn location_of(created: &api::CreatedRun) -> String {
    format!("/api/v1/workflow-runs/{}", created.run.id)
}

/// Starts a run whose request key is free: the key, the run and the answer are one write. Every other
/// outcome is left to the second call, under the hold.
async fn create_in_one_write(
    app: &App,
    identity: &Identity,
    asked: api::CreateRun,
    fresh: FreshKey,
) -> Result<Response, Refused> {
    let hold = || Ok((StatusCode::INTERNAL_SERVER_ERROR, Extension(Outcome::Hold)).into_response());
    let selected = select_workflow(app, identity, &asked).await?;
    // Who starts such a run is written before the run.
    if selected.keeps_starter_out() {
        return hold();
    }
    let Ok(input) = Payload::parse(asked.input.text()) else { return hold() };
    if input.as_str().len().saturating_add(MAX_RUN_WITHOUT_INPUT) > fresh.max_answer() {
        return hold();
    }
    let key = asked.idempotency_key.clone();
    let start = prepare(app, identity, &selected, asked, input.clone());
    let request = fresh.request().clone();
    let (keep_for, grace) = (fresh.keep_for(), fresh.grace());
    let definition = selected.definition.map(|definition| definition.id().to_string());
    let answer = move |head: &RunHead| {
        let view = RunView { head: head.clone(), input: input.clone(), result: None };
        let created = api::CreatedRun { run: run_to_api(&view, definition.clone()), created: true };
        fresh.to_stored(&created_answer(&created))
    };
    match start.answering(AnsweredRequest { request, answer: Arc::new(answer), keep_for, grace }).await {
        Ok(Some((_, stored))) => {
            app.metrics.run_key_taken(identity, key.as_deref());
            Ok(FreshKey::answer(stored).map(Body::from))
        }
        Err(error @ (Error::Store(_) | Error::ShuttingDown)) => Err(problem_of(&error).into()),
        Ok(None) | Err(_) => hold(),
    }
}

/// The same bytes as [`create`] sends.
fn created_answer(created: &api::CreatedRun) -> http::Response<Bytes> {
    let body = serde_json::to_vec(created).unwrap_or_default();
    let mut answer = http::Response::new(Bytes::from(body));
    *answer.status_mut() = StatusCode::CREATED;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(location) = HeaderValue::try_from(location_of(created)) {
        headers.insert(header::LOCATION, location);
    }
    answer
}

/// Starts several runs. Each gets the response that it would get alone.
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
    // Items with the same key run one after the other, the rest side by side in one commit. The
    // store ensures both.
    let starts = asked.runs.into_iter().enumerate().map(|(place, asked)| {
        let (app, identity) = (&app, &identity);
        let id = operation.map(|first| item_of(first, place));
        async move {
            let started = async {
                // What an earlier try of this batch started is its answer, whatever the quota is now.
                if !has_started(app, identity, id).await? {
                    app.quotas.take_start(&*app.store, &identity.workspace, Instant::now()).await?;
                }
                start(app, identity, asked, id).await
            };
            match started.await {
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

async fn has_started(app: &App, identity: &Identity, id: Option<RunId>) -> Result<bool, Refused> {
    let Some(id) = id else { return Ok(false) };
    let found = app.store.find_run(&identity.workspace, id).await;
    Ok(found.map_err(|error| problem_of_store(&error))?.is_some())
}

/// Stores a batch under its request key once no item is worth a retry. Until then the key stays
/// held if any item was done: the retry finds the created runs, because the items keep their ids,
/// and creates the rest.
fn outcome_of_batch(items: &[api::BatchItem]) -> Outcome {
    let refusals = items.iter().filter_map(|item| item.problem.as_ref());
    let mut unfinished = refusals
        .filter(|problem| problem.retryable && (problem.status >= 500 || problem.status == 429))
        .peekable();
    if unfinished.peek().is_none() {
        return Outcome::Store;
    }
    let is_unknown = unfinished.any(|problem| problem.code == Code::OutcomeUnknown);
    match is_unknown || items.iter().any(|item| item.created_run.is_some()) {
        true => Outcome::Unknown,
        false => Outcome::Release,
    }
}

/// As for a whole body, rejects an item that lists its fields without their names.
fn check_items_are_objects(text: &[u8]) -> Result<(), Refused> {
    #[derive(Deserialize)]
    struct Items<'a> {
        #[serde(borrow)]
        runs: Vec<&'a RawValue>,
    }
    let items: Items<'_> = serde_json::from_slice(text)
        .map_err(|_| Refused::new(Code::InvalidRequest, "`runs` cannot be read.").with("path", "/runs"))?;
    match items.runs.iter().position(|item| !item.get().starts_with('{')) {
        Some(place) => Err(Refused::new(Code::InvalidRequest, "Each of `runs` is an object.")
            .with("path", format!("/runs/{place}"))),
        None => Ok(()),
    }
}

/// The id of the run for the item at `place` of a batch: the same on every retry. The last bits of
/// the first id are random, so adding a small number keeps it unique and in order.
fn item_of(first: RunId, place: usize) -> RunId {
    RunId::from_u128(first.as_u128().wrapping_add(place as u128))
}

/// The workflow that a request starts.
struct SelectedWorkflow {
    /// The workflow, with its version if known.
    selector: WorkflowSelector,
    /// Its definition; `None` for a workflow written in code.
    definition: Option<Arc<Definition>>,
}

impl SelectedWorkflow {
    /// Does one of its approvals exclude who starts the run?
    fn keeps_starter_out(&self) -> bool {
        self.definition.as_ref().is_some_and(|definition| excludes_starter(&definition.document().steps))
    }
}

/// Finds the workflow that a request names, by `workflow` or by `definitionId`.
async fn select_workflow(
    app: &App,
    identity: &Identity,
    asked: &api::CreateRun,
) -> Result<SelectedWorkflow, Refused> {
    let workspace = &identity.workspace;
    let (selector, definition) = match (asked.workflow.as_deref(), asked.definition_id.as_deref()) {
        (Some(workflow), None) => {
            let selector: WorkflowSelector = workflow.parse().map_err(|invalid: Invalid| {
                let detail =
                    format!("{invalid}. `workflow` is a name, or a name and a version: `order`, `order@2`.");
                Refused::new(Code::InvalidRequest, detail).with("path", "/workflow")
            })?;
            let definition = app.definitions.find_selected(workspace, &selector).await?;
            (selector, definition)
        }
        (None, Some("")) => {
            let detail = "`definitionId` is empty. List definitions with GET /api/v1/workflow-definitions.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/definitionId"));
        }
        (None, Some(id)) => {
            let definition = app.definitions.get_even_deleted(workspace, id).await?;
            (definition.selector(), Some(definition))
        }
        (None, None) => {
            let detail =
                "Name the workflow to run: `workflow`, such as `order` or `order@2`, or `definitionId`.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/workflow"));
        }
        (Some(_), Some(_)) => {
            let detail = "Give either `workflow` or `definitionId`, not both.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/definitionId"));
        }
    };
    let selector = definition.as_ref().map_or(selector, |definition| definition.selector());
    Ok(SelectedWorkflow { selector, definition })
}

/// The start of a run as a request asks for it.
fn prepare(
    app: &App,
    identity: &Identity,
    selected: &SelectedWorkflow,
    asked: api::CreateRun,
    input: Payload,
) -> Start {
    let mut start = app.engine_for(identity).start_payload(&selected.selector.to_string(), input).priority(
        match asked.priority {
            api::Priority::Low => Priority::Low,
            api::Priority::Normal => Priority::Normal,
            api::Priority::High => Priority::High,
        },
    );
    if let Some(key) = &asked.idempotency_key {
        start = start.idempotency_key(key);
    }
    if let Some(subject) = asked.subject {
        start = start.subject(subject);
    }
    if let Some(delay) = asked.delay {
        start = start.delay(delay.0);
    }
    if let Some(timeout) = asked.timeout {
        start = start.deadline(timeout.0);
    }
    start
}

async fn start(
    app: &App,
    identity: &Acting,
    asked: api::CreateRun,
    id: Option<RunId>,
) -> Result<(api::CreatedRun, bool), Refused> {
    let selected = select_workflow(app, identity, &asked).await?;
    let id = match selected.keeps_starter_out() {
        true => {
            let id = id.unwrap_or_else(|| RunId::new(app.store.now()));
            let noted = app.engine_for(identity).note_starter(id, identity.actor(None)).await;
            noted.map_err(|error| problem_of(&error))?;
            Some(id)
        }
        false => id,
    };
    let input = Payload::parse(asked.input.text()).map_err(|invalid| problem_of_invalid(&invalid))?;
    let asked_key = asked.idempotency_key.clone();
    let mut start = prepare(app, identity, &selected, asked, input.clone());
    if let Some(id) = id {
        start = start.run_id(id);
    }
    match start.await {
        Ok(handle) => {
            let is_new = handle.created;
            let (view, definition) = match handle.head() {
                // A new run has known contents. A found run is read, because it may have ended; so
                // is a run that the first try of this request created before its process vanished.
                Some(head) if is_new && !head.status().is_closed() => {
                    let view = RunView { head: head.clone(), input, result: None };
                    (view, selected.definition.map(|definition| definition.id().to_string()))
                }
                _ => {
                    let view = handle.view().await.map_err(|error| problem_of(&error))?;
                    let definition = definition_of(app, &view);
                    (view, definition)
                }
            };
            let key = asked_key.as_deref();
            match is_new {
                true => app.metrics.run_key_taken(identity, key),
                false => app.metrics.run_key_replayed(identity, key),
            }
            let run = run_to_api(&view, definition);
            Ok((api::CreatedRun { run, created: is_new }, is_new))
        }
        Err(Error::KeyConflict { run, first_seen_at }) => {
            app.metrics.run_key_conflicted(identity, asked_key.as_deref());
            let ignored = selected.definition.map(|definition| definition.document().ignored());
            let (ignored, key) = (ignored.unwrap_or_default(), asked_key);
            Err(conflict(app, identity, run, first_seen_at.to_string(), &input, &ignored, key).await.into())
        }
        // A deleted definition starts no run, as if it did not exist. Runs that it started are
        // still found.
        Err(Error::WorkflowArchived(_)) if selected.definition.is_some_and(|found| found.is_deleted()) => {
            Err(problem_of(&Error::UnknownWorkflow(selected.selector.to_string())).into())
        }
        Err(error) => Err(problem_of(&error).into()),
    }
}

/// Describes the first request under the key, and the relevant differences of the input.
async fn conflict(
    app: &App,
    identity: &Identity,
    run: RunId,
    first_seen_at: String,
    input: &Payload,
    ignored: &IgnorePaths,
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
        let outline = |payload: &Payload| {
            let mut value = payload.to().unwrap_or_default();
            ignored.strip(&mut value);
            LeafDigests::of(&value)
        };
        stored.differing_paths = outline(&view.input).differences(&outline(input));
    }
    let detail = format!(
        "The key names run {run}, which was started with another definition or input; nothing was changed. Read it with \
         GET /api/v1/workflow-runs/{run}, or use a new key for a new run."
    );
    let stored = serde_json::to_value(stored).unwrap_or_default();
    Problem::new(Code::IdempotencyKeyConflict, detail).with("storedRequest", stored)
}
