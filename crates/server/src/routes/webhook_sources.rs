//! Webhook sources: whom to believe, and what to do with what they send.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::SourceState;
use hapax_engine::model::{Name, Version};
use http::{HeaderMap, StatusCode, header};

use super::doubts::PageOf;
use super::request::{Caller, IfMatch, PathOf, QueryOf, if_match, page_limit};
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
    post, path = "/api/v1/webhook-sources/{name}", tag = "webhooks", operation_id = "replace_source",
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
    let (expected, by) = (expected(&headers)?, identity.actor(None));
    let source = app.hooks.replace_source(&identity.workspace, &name, &uploaded, expected, by).await?;
    Ok(([(header::ETAG, etag(source.version()))], Json(source.shown()?)).into_response())
}

/// Refuses the webhooks of a source from now on. What was taken in before is still processed.
#[utoipa::path(
    post, path = "/api/v1/webhook-sources/{name}/disable", tag = "webhooks", operation_id = "disable_source",
    request_body(content = Option<api::SteerWebhookSource>),
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
pub(crate) async fn disable(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
    asked: Option<StrictJson<api::SteerWebhookSource>>,
) -> Result<Response, Refused> {
    steer(&app, &identity, &name, SourceState::Disabled, &headers, asked).await
}

/// Takes in the webhooks of a source again.
#[utoipa::path(
    post, path = "/api/v1/webhook-sources/{name}/enable", tag = "webhooks", operation_id = "enable_source",
    request_body(content = Option<api::SteerWebhookSource>),
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
pub(crate) async fn enable(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    headers: HeaderMap,
    asked: Option<StrictJson<api::SteerWebhookSource>>,
) -> Result<Response, Refused> {
    steer(&app, &identity, &name, SourceState::Enabled, &headers, asked).await
}

/// Ends a source. Its webhooks are refused and it is not shown any more; what was taken in before is still processed, and is shown. One that is made
/// under its name has its address, and takes in no event that came before.
#[utoipa::path(
    post, path = "/api/v1/webhook-sources/{name}/delete", tag = "webhooks", operation_id = "delete_source",
    request_body(content = Option<api::SteerWebhookSource>),
    params(
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
    headers: HeaderMap,
    asked: Option<StrictJson<api::SteerWebhookSource>>,
) -> Result<Response, Refused> {
    steer(&app, &identity, &name, SourceState::Deleted, &headers, asked).await
}

async fn steer(
    app: &App,
    identity: &Acting,
    name: &str,
    to: SourceState,
    headers: &HeaderMap,
    asked: Option<StrictJson<api::SteerWebhookSource>>,
) -> Result<Response, Refused> {
    let reason = asked.and_then(|StrictJson { value: asked, .. }| asked.reason);
    let (expected, by) = (expected(headers)?, identity.actor(None));
    let steered =
        app.hooks.steer_source(&identity.workspace, name, to, reason.as_deref(), expected, by).await?;
    Ok(([(header::ETAG, etag(steered.version()))], Json(steered.shown()?)).into_response())
}

fn expected(headers: &HeaderMap) -> Result<Option<Version>, Refused> {
    Ok(match if_match(headers)? {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version),
    })
}
