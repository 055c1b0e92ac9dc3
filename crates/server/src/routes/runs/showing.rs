//! Reads of runs: one with its steps, lists, and results.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::Engine;
use hapax_engine::model::{
    Attention, IdempotencyKey, PromiseId, PromiseRef, PromiseState, RunId, RunStatus, StepRecord, Subject,
    WorkflowSelector,
};
use hapax_engine::store::{self, ListRuns, RunView, WaitsFor};
use hapax_http_idempotency::read_wait;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{definition_of, etag, run_id};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::limits::SHOW_TRIES;
use crate::mask::Unmasked;
use crate::routes::audit::time;
use crate::routes::request::{Caller, PathOf, QueryOf, page_limit};
use crate::strict_json::StrictJson;
use crate::translate::{
    attention_to_api, parse_status, result_to_api, run_to_api, run_with_steps_to_api, steps_to_api,
};

/// One run with its steps.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(parts): QueryOf<RunParts>,
) -> Result<Response, Refused> {
    let id = run_id(&id)?;
    let is_whole = parts.is_whole()?;
    show_detail(&app, &app.engine_for(&identity), id, is_whole).await
}

/// One run with its steps, and with the fields that are masked otherwise. The audit log has who looked and why, before anything is
/// shown.
pub(crate) async fn reveal(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::RevealRun>,
) -> Result<Response, Refused> {
    if !identity.sees_payloads {
        let detail = "This credential sees no payloads. Ask an admin for one that does.";
        return Err(Refused::new(Code::PayloadsHidden, detail));
    }
    let id = run_id(&id)?;
    let engine = app.engine_for(&identity);
    engine.note_reveal(id, identity.actor(None), &asked.reason).await.map_err(|error| problem_of(&error))?;
    let mut response = show_detail(&app, &engine, id, true).await?;
    response.extensions_mut().insert(Unmasked);
    Ok(response)
}

async fn show_detail(app: &App, engine: &Engine, id: RunId, is_whole: bool) -> Result<Response, Refused> {
    let mut log = engine.get_log(id).await.map_err(|error| problem_of(&error))?;
    let mut view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    // If the run changes between the two reads, the steps and the status would not match.
    for _ in 0..SHOW_TRIES {
        if view.head.version == log.head.version {
            break;
        }
        log = engine.get_log(id).await.map_err(|error| problem_of(&error))?;
        view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    }
    let mut detail = run_with_steps_to_api(&view, &log, definition_of(app, &view), is_whole);
    let attention = engine.find_attention(&log).await.map_err(|error| problem_of(&error))?;
    detail.run.needs_attention = attention.map(|attention| attention_to_api(id, &attention));
    let version = view.head.version;
    Ok(([(header::ETAG, etag(version))], Json(detail)).into_response())
}

/// Parts of a run to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunParts {
    /// `false` leaves the steps out: a run may have many. List them page by page instead.
    #[param(value_type = Option<bool>)]
    steps: Option<String>,
}

impl RunParts {
    fn is_whole(&self) -> Result<bool, Refused> {
        match self.steps.as_deref() {
            None | Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(refused_query("steps", "`steps` is `true` or `false`.")),
        }
    }
}

/// Which steps of a run.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepPage {
    /// `asc`, in the order they started, or `desc`; `asc` if absent.
    order: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Position of a step in its run: the version it started with, and its id.
fn place_of(step: &StepRecord) -> (u64, String) {
    (step.started_version.get(), step.id.to_string())
}

/// Steps of a run, page by page.
pub(crate) async fn steps(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(asked): QueryOf<StepPage>,
) -> Result<Json<api::Page<api::Step>>, Refused> {
    let run = run_id(&id)?;
    let limit = page_limit(asked.limit.as_deref())?;
    let is_newest_first = match asked.order.as_deref() {
        None | Some("asc") => false,
        Some("desc") => true,
        Some(_) => return Err(refused_query("order", "`order` is `asc` or `desc`.")),
    };
    let bound = format!("{id} {is_newest_first}");
    let pages = app.list(&identity, "steps", &bound);
    let after: Option<(u64, String)> =
        pages.place(asked.cursor.as_deref(), |place| serde_json::from_str(place))?;
    let mut log = app.engine_for(&identity).get_log(run).await.map_err(|error| problem_of(&error))?;
    let mut steps = std::mem::take(&mut log.steps);
    steps.sort_by_cached_key(place_of);
    if is_newest_first {
        steps.reverse();
    }
    let is_after = |step: &StepRecord| {
        let place = place_of(step);
        after.as_ref().is_none_or(|after| if is_newest_first { place < *after } else { place > *after })
    };
    log.steps = steps.into_iter().filter(is_after).take(limit).collect();
    let place = |step: &StepRecord| serde_json::to_string(&place_of(step)).expect("a text is JSON");
    let next_cursor = pages.next(&log.steps, limit, place);
    Ok(Json(api::Page { items: steps_to_api(&log), next_cursor }))
}

/// Filters for runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunFilter {
    /// Only with one of these statuses, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// Only of this workflow: `order` for all its versions, `order@2` for version 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    /// Only with this subject, open or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// Only the run that this idempotency key names. A key that expired or was released names no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Only created at this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    since: Option<String>,
    /// Only created before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(format = DateTime)]
    until: Option<String>,
    /// Only with this `currentStepName`. `charge` also finds its repetitions, such as `charge#2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_step: Option<String>,
    /// Only open runs that wait for this: `promise:KEY`, `promise:ID`, `signal:NAME` (the name of the waiting step), `child`, or `timer` (the end of a sleep).
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// `true`: only runs that wait for a person to act.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<bool>)]
    needs_attention: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl RunFilter {
    fn statuses(&self) -> Result<Vec<RunStatus>, Refused> {
        let named = |text: &str| {
            let detail = "`status` is a list, separated by commas, of PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED.";
            parse_status(text).ok_or_else(|| refused_query("status", detail))
        };
        match self.status.as_deref() {
            Some(statuses) => statuses.split(',').map(named).collect(),
            None => Ok(Vec::new()),
        }
    }

    fn needs_attention(&self) -> Result<bool, Refused> {
        match self.needs_attention.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(refused_query("needsAttention", "`needsAttention` is `true` or absent.")),
        }
    }

    /// The conditions of the query, except the wait.
    fn request(&self) -> Result<ListRuns, Refused> {
        let workflow: Option<WorkflowSelector> =
            self.workflow.as_deref().map(str::parse).transpose().map_err(|_| {
                refused_query(
                    "workflow",
                    "`workflow` is the name of a workflow, or a name and a version: order@2.",
                )
            })?;
        let subject = self.subject.as_deref().map(Subject::new).transpose();
        let key = self.key.as_deref().map(IdempotencyKey::new).transpose();
        let filter = store::RunFilter {
            version: workflow.as_ref().and_then(|workflow| workflow.version),
            subject: subject.map_err(|invalid| problem_of_invalid(&invalid).with("path", "query:subject"))?,
            key: key.map_err(|invalid| problem_of_invalid(&invalid).with("path", "query:key"))?,
            since: time("since", self.since.as_deref())?,
            until: time("until", self.until.as_deref())?,
            current_step: self.current_step.clone(),
            waits_for: None,
        };
        Ok(ListRuns {
            workspace: None,
            statuses: self.statuses()?,
            workflow: workflow.map(|workflow| workflow.name),
            filter,
            before: None,
            limit: page_limit(self.limit.as_deref())?,
        })
    }

    /// The filters as text. A cursor is good only for the filters of its list.
    fn bound(&self) -> String {
        let plain = RunFilter { limit: None, cursor: None, ..self.clone() };
        serde_json::to_string(&plain).expect("texts are JSON")
    }
}

/// The wait that `waitsFor` names. `None` if no run can wait for it: no such promise is pending.
async fn find_wait(engine: &Engine, text: &str) -> Result<Option<WaitsFor>, Refused> {
    let refused = || {
        let detail = "`waitsFor` is `promise:` and a key or id, `signal:` and a name, `child` or `timer`.";
        refused_query("waitsFor", detail)
    };
    match text.split_once(':') {
        None if text == "child" => Ok(Some(WaitsFor::Child)),
        None if text == "timer" => Ok(Some(WaitsFor::Timer)),
        Some(("signal", name)) if !name.is_empty() => Ok(Some(WaitsFor::Signal(name.to_owned()))),
        Some(("promise", promise)) if !promise.is_empty() => {
            let mut references = Vec::new();
            if let Ok(key) = IdempotencyKey::new(promise) {
                references.push(PromiseRef::Key(key));
            }
            references.push(PromiseRef::Id(PromiseId::from_stored(promise)));
            for reference in references {
                let found = engine.find_promise(&reference).await.map_err(|error| problem_of(&error))?;
                if let Some(promise) = found {
                    let is_pending = promise.state == PromiseState::Pending;
                    return Ok(is_pending.then_some(WaitsFor::Promise(promise.id)));
                }
            }
            Ok(None)
        }
        _ => Err(refused()),
    }
}

fn refused_query(name: &str, detail: &'static str) -> Refused {
    Refused::new(Code::InvalidRequest, detail).with("path", format!("query:{name}"))
}

/// Runs, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<RunFilter>,
) -> Result<Json<api::Page<api::Run>>, Refused> {
    let mut request = filter.request()?;
    let needs_attention = filter.needs_attention()?;
    let bound = filter.bound();
    let list = app.list(&identity, "runs", &bound);
    let before = list.open(filter.cursor.as_deref())?;
    request.before = before.map(|place: String| run_id(&place)).transpose()?;
    let engine = app.engine_for(&identity);
    if let Some(text) = &filter.waits_for {
        request.filter.waits_for = find_wait(&engine, text).await?;
        if request.filter.waits_for.is_none() {
            return Ok(Json(api::Page { items: Vec::new(), next_cursor: None }));
        }
    }
    let page = match needs_attention {
        true => engine.list_needing_attention(request).await,
        false => engine.list_with_attention(request).await,
    };
    let page = page.map_err(|error| problem_of(&error))?;
    let shown = |(view, attention): &(RunView, Option<Attention>)| {
        let run = view.head.id();
        let needs_attention = attention.as_ref().map(|attention| attention_to_api(run, attention));
        api::Run { needs_attention, ..run_to_api(view, definition_of(&app, view)) }
    };
    let items = page.runs.iter().map(shown).collect();
    let next_cursor = page.next.map(|next| list.seal(&next.to_string()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// Result of a run: 200 once it has ended in any way, and 202 while it is open. Waits for the end
/// if requested.
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
    let mut draining = app.options.draining.clone();
    tokio::select! {
        ended = tokio::time::timeout(wait, handle.wait_for_end()) => {
            if let Ok(Err(error)) = ended {
                return Err(problem_of(&error).into());
            }
        }
        // The caller retries on a server that is not about to stop.
        _ = draining.begun() => {}
    }
    let view = handle.view().await.map_err(|error| problem_of(&error))?;
    let result = result_to_api(&view);
    match view.result {
        Some(_) => Ok(Json(result).into_response()),
        None => {
            let again = [(header::RETRY_AFTER, HeaderValue::from(1))];
            Ok((StatusCode::ACCEPTED, again, Json(result)).into_response())
        }
    }
}
