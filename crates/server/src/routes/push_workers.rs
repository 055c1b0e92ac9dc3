//! Push workers: functions that the server sends work to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use http::{StatusCode, header};

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::strict_json::StrictJson;

/// Registers a function. Only this response shows its secret.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::CreatePushWorker>,
) -> Result<Response, Refused> {
    let issued = app.push_workers.create(&identity.workspace, asked, identity.actor(None)).await?;
    let location = format!("/api/v1/push-workers/{}", issued.push_worker.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(issued)).into_response())
}

/// Push workers, without their secrets.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::PushWorker>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "push-workers", "");
    let after: Option<String> = pages.open(page.cursor.as_deref())?;
    let mut items = app.push_workers.list(&identity.workspace);
    items.retain(|worker| after.as_ref().is_none_or(|after| worker.id > *after));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| has_more).map(|last| pages.seal(last.id.as_str()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One push worker, without its secret.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::PushWorker>, Refused> {
    Ok(Json(app.push_workers.get(&identity.workspace, &id).await?))
}

/// Deletes a push worker. Its runs wait for another worker.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::PushWorker>, Refused> {
    Ok(Json(app.push_workers.delete(&identity.workspace, &id, identity.actor(None)).await?))
}
