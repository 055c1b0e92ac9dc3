//! Sessions of workers. A session lives on one node; the others forward its calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Name, Timestamp, WorkspaceId};
use hapax_workers::limits::MAX_COMMIT_BYTES;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of_invalid;
use crate::identity::Identity;
use crate::limits::{ASK_NODES_TIMEOUT, MAX_BODY_BYTES, MAX_SESSION_PAGES, MAX_SHOWN_SESSIONS};
use crate::open_runs::count_by_version;
use crate::routes::doubts::PageOf;
use crate::routes::request::{Caller, PathOf, QueryOf, page_limit};
use crate::strict_json::StrictJson;

/// Name of the list of sessions in its cursors.
const SESSIONS: &str = "worker-sessions";

/// Opens a session.
pub(crate) async fn open(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::OpenWorkerSession>,
) -> Result<(StatusCode, Json<api::OpenedWorkerSession>), Refused> {
    app.worker_names.keep(identity.worker(), &asked).await?;
    let instance = asked.instance.clone();
    let opened = app.workers.open(identity.worker(), asked)?;
    if let Some(instance) = instance {
        // The answer does not wait for it: what keeps the older session from acting is its own hold.
        tokio::spawn(announce_everywhere(
            app.clone(),
            identity.workspace.clone(),
            headers,
            opened.session_id.clone(),
            instance,
        ));
    }
    Ok((StatusCode::CREATED, Json(opened)))
}

/// Tells all other nodes that a session of an instance was opened here.
async fn announce_everywhere(
    app: Arc<App>,
    workspace: WorkspaceId,
    headers: HeaderMap,
    session: String,
    instance: String,
) {
    let Some(opened_at) = app.workers.opened_at(&workspace, &session) else { return };
    let (session_id, opened_at) = (session.clone(), opened_at.to_string());
    let news = api::AnnounceWorkerSession { session_id, instance, opened_at };
    let Ok(body) = serde_json::to_vec(&news) else { return };
    let path = "/api/v1/worker-sessions/announce";
    let answers = app.nodes.ask_others(Method::POST, path, &headers, body.into(), ASK_NODES_TIMEOUT).await;
    let known = answers.iter().filter_map(|answer| serde_json::from_slice(answer).ok());
    if known.into_iter().any(|known: api::AnnouncedWorkerSession| !known.is_newest) {
        app.workers.give_way(&workspace, &session);
    }
}

/// A node tells that a session of an instance was opened there.
pub(crate) async fn announce(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::AnnounceWorkerSession>,
) -> Result<Json<api::AnnouncedWorkerSession>, Refused> {
    let opened_at: jiff::Timestamp = asked.opened_at.parse().map_err(|_| {
        Refused::new(Code::InvalidRequest, "It is an RFC 3339 instant.").with("path", "/openedAt")
    })?;
    let opened_at = Timestamp::from_millis(opened_at.as_millisecond());
    let caller = identity.worker();
    let is_newest = app.workers.replace_older(caller, &asked.instance, opened_at, &asked.session_id)?;
    Ok(Json(api::AnnouncedWorkerSession { is_newest }))
}

/// Where a call of a session is answered.
enum Answerer {
    Here(Request),
    Elsewhere(Response),
}

/// Has the node of the session answer, if it is another one.
async fn of_session(app: &App, session: &str, request: Request) -> Result<Answerer, Refused> {
    match app.nodes.elsewhere(session, request.headers()) {
        Some(node) => Ok(Answerer::Elsewhere(app.nodes.forward(&node, request, MAX_COMMIT_BYTES).await?)),
        None => Ok(Answerer::Here(request)),
    }
}

/// Waits for messages.
pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
    request: Request,
) -> Result<Response, Refused> {
    let request = match of_session(&app, &session, request).await? {
        Answerer::Here(request) => request,
        Answerer::Elsewhere(response) => return Ok(response),
    };
    let asked = StrictJson::<api::PollWorkerSession>::read(request, MAX_BODY_BYTES).await?.value;
    Ok(messages(app.workers.poll(identity.worker(), &session, &asked).await?))
}

/// Takes in what runs did.
pub(crate) async fn commit(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
    request: Request,
) -> Result<Response, Refused> {
    let request = match of_session(&app, &session, request).await? {
        Answerer::Here(request) => request,
        Answerer::Elsewhere(response) => return Ok(response),
    };
    let asked = StrictJson::<api::CommitWorkerSession>::read(request, MAX_COMMIT_BYTES).await?.value;
    Ok(messages(app.workers.commit(identity.worker(), &session, asked).await?))
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
    request: Request,
) -> Result<Response, Refused> {
    if let Answerer::Elsewhere(response) = of_session(&app, &session, request).await? {
        return Ok(response);
    }
    let after = page.after.as_deref().unwrap_or("0").parse().map_err(|_| {
        Refused::new(Code::InvalidRequest, "`after` is the number of records that you have.")
            .with("path", "query:after")
    })?;
    let page = app.workers.read_log(identity.worker(), &session, &run, &page.activation, after)?;
    Ok(Json(page).into_response())
}

/// Ends a session.
pub(crate) async fn close(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(session): PathOf<String>,
    request: Request,
) -> Result<Response, Refused> {
    if let Answerer::Elsewhere(response) = of_session(&app, &session, request).await? {
        return Ok(response);
    }
    Ok(Json(app.workers.close(identity.worker(), &session)?).into_response())
}

/// Sessions of all nodes that answer, the oldest first. Another node that asks gets the sessions of this one.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
    headers: HeaderMap,
) -> Result<Json<api::Page<api::WorkerSession>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    Ok(Json(sessions(&app, &identity, limit, page.cursor.as_deref(), &headers).await?))
}

/// One page of the sessions of all nodes.
async fn sessions(
    app: &App,
    identity: &Identity,
    limit: usize,
    cursor: Option<&str>,
    headers: &HeaderMap,
) -> Result<api::Page<api::WorkerSession>, Refused> {
    let pages = app.list(identity, SESSIONS, "");
    let after: Option<String> = pages.open(cursor)?;
    let mut items = app.workers.list(&identity.workspace);
    let place = |session: &api::WorkerSession| format!("{} {}", session.opened_at, session.session_id);
    items.retain(|session| after.as_ref().is_none_or(|after| place(session) > *after));
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    let path = format!("/api/v1/worker-sessions?limit={limit}{cursor}");
    let others = app.nodes.ask_others(Method::GET, &path, headers, Bytes::new(), ASK_NODES_TIMEOUT).await;
    let mut has_more = false;
    for page in others.iter().filter_map(|page| serde_json::from_slice(page).ok()) {
        let api::Page::<api::WorkerSession> { items: found, next_cursor } = page;
        has_more |= next_cursor.is_some();
        items.extend(found);
    }
    items.sort_by_cached_key(place);
    has_more |= items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| has_more).map(|last| pages.seal(place(last).as_str()));
    Ok(api::Page { items, next_cursor })
}

/// Versions of workflows whose code workers have, with their open runs and the sessions that offer them.
pub(crate) async fn versions(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
    headers: HeaderMap,
) -> Result<Json<api::Page<api::WorkerWorkflowVersion>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "worker-workflows", "");
    let place = |(name, version): &(String, u32)| format!("{version:010} {name}");
    let read = |place: &str| {
        let (version, name) = place.split_once(' ').ok_or(())?;
        Ok::<_, ()>((name.to_owned(), version.parse().map_err(|_| ())?))
    };
    let after = pages.place(page.cursor.as_deref(), read)?;
    let known = app.worker_names.workflows(&identity.workspace).into_iter();
    let known: Vec<_> =
        known.filter(|known| after.as_ref().is_none_or(|after| known > after)).take(limit).collect();
    let offered = offered_versions(&app, &identity, &headers).await?;
    let mut items: Vec<api::WorkerWorkflowVersion> = Vec::with_capacity(known.len());
    let mut counted: Option<(Name, BTreeMap<u32, usize>)> = None;
    for (name, version) in &known {
        let workflow = Name::new("workflow name", name).map_err(|invalid| problem_of_invalid(&invalid))?;
        if counted.as_ref().is_none_or(|(of, _)| *of != workflow) {
            let counts = count_by_version(&*app.store, &identity.workspace, &workflow).await?;
            counted = Some((workflow, counts));
        }
        let open_runs = counted.as_ref().and_then(|(_, counts)| counts.get(version)).copied().unwrap_or(0);
        let newest = offered.range((name.clone(), 0)..=(name.clone(), u32::MAX)).next_back();
        let is_newest = newest.is_some_and(|((_, newest), _)| newest == version);
        let mut sessions = offered.get(&(name.clone(), *version)).cloned().unwrap_or_default();
        sessions.truncate(MAX_SHOWN_SESSIONS);
        let status = match (is_newest, open_runs, sessions.is_empty()) {
            (true, ..) => api::WorkerVersionStatus::Current,
            (false, 0, _) => api::WorkerVersionStatus::Drained,
            (false, _, false) => api::WorkerVersionStatus::Draining,
            (false, _, true) => api::WorkerVersionStatus::Stranded,
        };
        let (name, version) = (name.clone(), *version);
        items.push(api::WorkerWorkflowVersion { name, version, open_runs, sessions, status });
    }
    let next_cursor = pages.next(&known, limit, place);
    Ok(Json(api::Page { items, next_cursor }))
}

/// Sessions by the version that they offer, the oldest first.
async fn offered_versions(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
) -> Result<BTreeMap<(String, u32), Vec<String>>, Refused> {
    let (mut offered, mut cursor): (BTreeMap<_, Vec<String>>, Option<String>) = (BTreeMap::new(), None);
    for _ in 0..MAX_SESSION_PAGES {
        let page = sessions(app, identity, MAX_PAGE, cursor.as_deref(), headers).await?;
        for session in page.items {
            for api::WorkerWorkflow { name, version } in session.workflows {
                offered.entry((name, version)).or_default().push(session.session_id.clone());
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(offered)
}

fn messages(answer: Bytes) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
