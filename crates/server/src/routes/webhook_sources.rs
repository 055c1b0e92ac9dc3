//! Webhook sources: whom to believe, and what to do with what they send.

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
use crate::hooks::Uploading;
use crate::identity::Acting;
use crate::strict_json::StrictJson;
use crate::uploaded::Uploaded;

/// Uploads a source, as JSON or YAML. One of its name that says the same is found; another one is not replaced.
#[utoipa::path(
    post, path = "/api/v1/webhook-sources", tag = "webhooks", operation_id = "create_source",
    request_body(content((api::PutWebhookSource = "application/json"), (String = "application/yaml"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer.")),
    responses(
        (status = 201, description = "It was made", body = api::WebhookSource),
        (status = 200, description = "It was there, and says the same", body = api::WebhookSource),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let made = app.hooks.create_source(&identity.workspace, &uploaded, identity.actor(None)).await?;
    let (status, source) = match made {
        Uploading::Made(source) => (StatusCode::CREATED, source),
        Uploading::Found(source) => (StatusCode::OK, source),
    };
    let location = format!("/api/v1/webhook-sources/{}", source.name());
    let told = [(header::ETAG, etag(source.version()))];
    Ok((status, told, [(header::LOCATION, location)], Json(source.shown()?)).into_response())
}

/// Sources, in the order of their ids, without those that were deleted. A page may be short though there are more.
#[utoipa::path(
    get, path = "/api/v1/webhook-sources", tag = "webhooks", operation_id = "list_sources", params(PageOf),
    responses(
        (status = 200, description = "One page", body = api::Page<api::WebhookSourceSummary>),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::WebhookSourceSummary>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "webhook-sources", "");
    let after = pages.place(page.cursor.as_deref(), |place| Name::new("place", place))?;
    let (found, next) = app.hooks.list_sources(&identity.workspace, after, limit).await?;
    let items = found.iter().map(|source| source.summary()).collect();
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One source with its document.
#[utoipa::path(
    get, path = "/api/v1/webhook-sources/{name}", tag = "webhooks", operation_id = "show_source",
    params(("name" = String, Path, description = "The name of the source")),
    responses(
        (status = 200, description = "The source", body = api::WebhookSource),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
) -> Result<Response, Refused> {
    let source = app.hooks.get_source(&identity.workspace, &name).await?;
    Ok(([(header::ETAG, etag(source.version()))], Json(source.shown()?)).into_response())
}

/// Replaces what a source says. Its address stays; events that come from now on are treated by it.
#[utoipa::path(
    put, path = "/api/v1/webhook-sources/{name}", tag = "webhooks", operation_id = "replace_source",
    request_body(content((api::PutWebhookSource = "application/json"), (String = "application/yaml"))),
    params(
        ("name" = String, Path, description = "The name of the source"),
        ("If-Match" = Option<String>, Header, description = "Only if the source still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The source as it is now", body = api::WebhookSource),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn replace(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let (expected, by) = (expected_version(&headers)?, identity.actor(None));
    let source = app.hooks.replace_source(&identity.workspace, &name, &uploaded, expected, by).await?;
    Ok(([(header::ETAG, etag(source.version()))], Json(source.shown()?)).into_response())
}

/// Enables or disables a source. A disabled one refuses its webhooks; what was accepted before is still processed.
#[utoipa::path(
    patch, path = "/api/v1/webhook-sources/{name}", tag = "webhooks", operation_id = "change_source",
    request_body = api::ChangeWebhookSource,
    params(
        ("name" = String, Path, description = "The name of the source"),
        ("If-Match" = Option<String>, Header, description = "Only if the source still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The source as it is now", body = api::WebhookSource),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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

/// Deletes a source. Its webhooks are refused and it is not shown any more. What was accepted before is still processed and shown. One
/// that is made again under its name has its address, and accepts no event that came before.
#[utoipa::path(
    delete, path = "/api/v1/webhook-sources/{name}", tag = "webhooks", operation_id = "delete_source",
    params(
        Deletion,
        ("name" = String, Path, description = "The name of the source"),
        ("If-Match" = Option<String>, Header, description = "Only if the source still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The source as it was", body = api::WebhookSource),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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
        app.hooks.steer_source(&identity.workspace, name, to, reason.as_deref(), expected, by).await?;
    Ok(([(header::ETAG, etag(changed.version()))], Json(changed.shown()?)).into_response())
}
