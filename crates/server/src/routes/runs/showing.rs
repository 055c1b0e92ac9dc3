//! Reads of runs: one with its steps, lists, and results.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{Attention, Name};
use hapax_engine::store::{ListRuns, RunView};
use hapax_http_idempotency::read_wait;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{definition_of, etag, run_id};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{of_invalid, problem_of};
use crate::limits::SHOW_TRIES;
use crate::routes::request::{Caller, PathOf, QueryOf, page_limit};
use crate::translate::{shown_attention, shown_result, shown_run, shown_run_with_steps, status_named};

/// One run with its steps.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    let id = run_id(&id)?;
    let engine = app.engine_for(&identity);
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
    let mut detail = shown_run_with_steps(&view, &log, definition_of(&app, &view));
    let attention = engine.find_attention(&log).await.map_err(|error| problem_of(&error))?;
    detail.run.needs_attention = attention.map(|attention| shown_attention(id, &attention));
    let version = view.head.version;
    Ok(([(header::ETAG, etag(version))], Json(detail)).into_response())
}

/// Filters for runs.
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

/// Runs, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<RunFilter>,
) -> Result<Json<api::Page<api::Run>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let named = |text: &str| {
        status_named(text).ok_or_else(|| {
            Refused::new(Code::InvalidRequest, "`status` is a list, separated by commas, of PENDING, RUNNING, WAITING, PAUSED, COMPLETED, FAILED, CANCELLED.")
                .with("path", "query:status")
        })
    };
    let statuses: Vec<_> = match filter.status.as_deref() {
        Some(statuses) => statuses.split(',').map(named).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let workflow = filter.workflow.as_deref().map(|name| Name::new("workflow name", name)).transpose();
    let workflow = workflow.map_err(|invalid| of_invalid(&invalid))?;
    let needs_attention = match filter.needs_attention.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let detail = "`needsAttention` is `true` or absent.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "query:needsAttention"));
        }
    };
    let bound = format!("{:?} {:?} {needs_attention}", filter.status, filter.workflow);
    let list = app.list(&identity, "runs", &bound);
    let before = list.open(filter.cursor.as_deref())?;
    let before = before.map(|place: String| run_id(&place)).transpose()?;
    let request = ListRuns { workspace: None, statuses, workflow, before, limit };
    let engine = app.engine_for(&identity);
    let page = match needs_attention {
        true => engine.list_needing_attention(request).await,
        false => engine.list_with_attention(request).await,
    };
    let page = page.map_err(|error| problem_of(&error))?;
    let shown = |(view, attention): &(RunView, Option<Attention>)| {
        let run = view.head.id();
        let needs_attention = attention.as_ref().map(|attention| shown_attention(run, attention));
        api::Run { needs_attention, ..shown_run(view, definition_of(&app, view)) }
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
        () = draining.begun() => {}
    }
    let view = handle.view().await.map_err(|error| problem_of(&error))?;
    let result = shown_result(&view);
    match view.result {
        Some(_) => Ok(Json(result).into_response()),
        None => {
            let again = [(header::RETRY_AFTER, HeaderValue::from(1))];
            Ok((StatusCode::ACCEPTED, again, Json(result)).into_response())
        }
    }
}
