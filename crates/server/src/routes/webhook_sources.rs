//! Webhook sources: permitted senders, and the actions of their events.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::SourceStatus;
use hapax_engine::model::Name;
use http::{HeaderMap, StatusCode, header};

use super::doubts::PageOf;
use super::request::{Caller, Deletion, PathOf, QueryOf, expected_version, page_limit};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::identity::Acting;
use crate::strict_json::StrictJson;
use crate::uploaded::Uploaded;
use crate::webhooks::inbound::Uploading;

/// Uploads a source, as JSON or YAML. The same document is found; a different one of the same name
/// is not replaced.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let made = app.inbound.create_source(&identity.workspace, &uploaded, identity.actor(None)).await?;
    let (status, source) = match made {
        Uploading::Made(source) => (StatusCode::CREATED, source),
        Uploading::Found(source) => (StatusCode::OK, source),
    };
    let location = format!("/api/v1/webhook-sources/{}", source.name());
    let told = [(header::ETAG, etag(source.version()))];
    Ok((status, told, [(header::LOCATION, location)], Json(source.shown()?)).into_response())
}

/// Sources that are not deleted, in the order of their ids. A page may be short although there are
/// more.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::WebhookSourceSummary>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "webhook-sources", "");
    let after = pages.place(page.cursor.as_deref(), |place| Name::new("place", place))?;
    let (found, next) = app.inbound.list_sources(&identity.workspace, after, limit).await?;
    let items = found.iter().map(|source| source.summary()).collect();
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One source with its document.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
) -> Result<Response, Refused> {
    let source = app.inbound.get_source(&identity.workspace, &name).await?;
    Ok(([(header::ETAG, etag(source.version()))], Json(source.shown()?)).into_response())
}

/// Replaces the document of a source. Its address stays; the new document applies to later events.
pub(crate) async fn replace(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let (expected, by) = (expected_version(&headers)?, identity.actor(None));
    let source = app.inbound.replace_source(&identity.workspace, &name, &uploaded, expected, by).await?;
    Ok(([(header::ETAG, etag(source.version()))], Json(source.shown()?)).into_response())
}

/// Enables or disables a source. A disabled one rejects its webhooks; earlier events are still
/// processed.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::ChangeWebhookSource>,
) -> Result<Response, Refused> {
    let to = match asked.status {
        api::ActivationStatus::Enabled => SourceStatus::Enabled,
        api::ActivationStatus::Disabled => SourceStatus::Disabled,
    };
    set_status(&app, &identity, &name, to, &headers, asked.reason).await
}

/// Deletes a source. Its webhooks are rejected, and it is no longer listed. Earlier events are
/// still processed and listed. A new source with the same name gets the same address, and accepts
/// no event that came before.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    QueryOf(deletion): QueryOf<Deletion>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    set_status(&app, &identity, &name, SourceStatus::Deleted, &headers, deletion.reason).await
}

async fn set_status(
    app: &App,
    identity: &Acting,
    name: &str,
    to: SourceStatus,
    headers: &HeaderMap,
    reason: Option<String>,
) -> Result<Response, Refused> {
    let (expected, by) = (expected_version(headers)?, identity.actor(None));
    let changed =
        app.inbound.steer_source(&identity.workspace, name, to, reason.as_deref(), expected, by).await?;
    Ok(([(header::ETAG, etag(changed.version()))], Json(changed.shown()?)).into_response())
}
