//! Sessions of workers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hapax_api as api;
use hapax_api::Code;
use hapax_workers::limits::MAX_COMMIT_BYTES;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::answer::Refused;
use crate::app::App;
use crate::routes::doubts::PageOf;
use crate::routes::request::{Caller, PathOf, QueryOf, page_limit};
use crate::strict_json::StrictJson;

/// Opens a session.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::OpenWorkerSession>,
) -> Result<(StatusCode, Json<api::OpenedWorkerSession>), Refused> {
    app.worker_names.keep(&identity.workspace, &asked).await?;
    let opened = app.workers.open(&identity.workspace, asked)?;
    Ok((StatusCode::CREATED, Json(opened)))
}

/// Waits for messages.
pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::PollWorkerSession>,
) -> Result<Response, Refused> {
    Ok(messages(app.workers.poll(&identity.workspace, &session, &asked).await?))
}

/// Takes in what runs did.
pub(crate) async fn commit(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
    request: Request,
) -> Result<Response, Refused> {
    let asked = StrictJson::<api::CommitWorkerSession>::read(request, MAX_COMMIT_BYTES).await?.value;
    Ok(messages(app.workers.commit(&identity.workspace, &session, asked).await?))
}

/// Which records are read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogPage {
    /// The activation that the records belong to.
    activation: String,
    /// How many records the worker has.
    after: Option<String>,
}

/// Reads records that `activate` had no room for.
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((session, run)): PathOf<(String, String)>,
    QueryOf(page): QueryOf<LogPage>,
) -> Result<Json<api::WorkerLogPage>, Refused> {
    let after = page.after.as_deref().unwrap_or("0").parse().map_err(|_| {
        Refused::new(Code::InvalidRequest, "`after` is the number of records that you have.")
            .with("path", "query:after")
    })?;
    Ok(Json(app.workers.read_log(&identity.workspace, &session, &run, &page.activation, after)?))
}

/// Ends a session.
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
) -> Result<Json<api::WorkerSession>, Refused> {
    Ok(Json(app.workers.close(&identity.workspace, &session)?))
}

/// Sessions of this node, the oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::WorkerSession>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "worker-sessions", "");
    let after: Option<String> = pages.open(page.cursor.as_deref())?;
    let mut items = app.workers.list(&identity.workspace);
    let place = |session: &api::WorkerSession| format!("{} {}", session.opened_at, session.session_id);
    items.retain(|session| after.as_ref().is_none_or(|after| place(session) > *after));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| has_more).map(|last| pages.seal(place(last).as_str()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One open session of this node.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::WorkerSession>, Refused> {
    let found = app.workers.list(&identity.workspace).into_iter().find(|session| session.session_id == id);
    let absent = || {
        let detail = "There is no such session on this node; list them with GET /api/v1/worker-sessions.";
        Refused::new(Code::NotFound, detail)
    };
    Ok(Json(found.ok_or_else(absent)?))
}

fn messages(answer: Bytes) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
