//! Subscriptions to webhooks.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::Hold;
use hapax_engine::model::Name;
use hapax_webhooks::{MessageId, Verdict};
use http::{HeaderMap, StatusCode, header};
use secrecy::ExposeSecret;

use super::doubts::PageOf;
use super::request::{Caller, Deletion, PathOf, QueryOf, expected_version, page_limit};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::strict_json::StrictJson;
use crate::subscriptions::Subscription;

/// Makes a subscription. Its secret is in the answer, this once.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions", tag = "webhooks", operation_id = "create_subscription",
    request_body = api::CreateSubscription,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it does nothing, and is told what was made, without the secret."),
    ),
    responses(
        (status = 201, description = "The subscription, and its secret", body = api::IssuedSubscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::CreateSubscription>,
) -> Result<Response, Refused> {
    let made = app.subscriptions.create(&identity.workspace, asked, identity.actor(None)).await?;
    let (subscription, secret) = made;
    let secret = secret.expose_secret().to_owned();
    let issued = api::IssuedSubscription { subscription: subscription.shown(), secret };
    let location = format!("/api/v1/webhook-subscriptions/{}", issued.subscription.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(issued)).into_response())
}

/// Subscriptions, without their secrets and without those that were deleted. A page may be short though there are more.
#[utoipa::path(
    get, path = "/api/v1/webhook-subscriptions", tag = "webhooks", operation_id = "list_subscriptions", params(PageOf),
    responses(
        (status = 200, description = "One page", body = api::Page<api::Subscription>),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::Subscription>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "webhook-subscriptions", "");
    let after = pages.place(page.cursor.as_deref(), |place| Name::new("place", place))?;
    let (found, next) = app.subscriptions.list(&identity.workspace, after, limit).await?;
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items: found.iter().map(|one| one.shown()).collect(), next_cursor }))
}

/// One subscription, without its secret.
#[utoipa::path(
    get, path = "/api/v1/webhook-subscriptions/{id}", tag = "webhooks", operation_id = "show_subscription",
    params(("id" = String, Path, description = "The subscription")),
    responses(
        (status = 200, description = "The subscription", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    Ok(shown(&*app.subscriptions.get(&identity.workspace, &id).await?))
}

/// Gives a subscription a new secret. For a while both sign, so that the receiver can change over.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions/{id}/rotate", tag = "webhooks", operation_id = "rotate_subscription",
    request_body(content = Option<api::RotateSubscription>),
    params(
        ("id" = String, Path, description = "The subscription"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it does nothing, and is told what was made, without the secret."),
    ),
    responses(
        (status = 200, description = "The subscription, and its new secret", body = api::IssuedSubscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    asked: Option<StrictJson<api::RotateSubscription>>,
) -> Result<Json<api::IssuedSubscription>, Refused> {
    let overlap = asked.and_then(|StrictJson { value: asked, .. }| asked.overlap);
    let overlap = overlap.map(|given| given.0);
    let by = identity.actor(None);
    let (subscription, secret) = app.subscriptions.rotate(&identity.workspace, &id, overlap, by).await?;
    let secret = secret.expose_secret().to_owned();
    Ok(Json(api::IssuedSubscription { subscription: subscription.shown(), secret }))
}

/// Changes a subscription: its name, address, events, description, or whether anything is sent. Absent fields stay as they are. What waits
/// for a disabled one is given up, visibly, and can be redelivered once it is enabled.
#[utoipa::path(
    patch, path = "/api/v1/webhook-subscriptions/{id}", tag = "webhooks", operation_id = "change_subscription",
    request_body = api::ChangeSubscription,
    params(
        ("id" = String, Path, description = "The subscription"),
        ("If-Match" = Option<String>, Header, description = "Only if the subscription still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The subscription as it is now", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::ChangeSubscription>,
) -> Result<Response, Refused> {
    let (expected, by) = (expected_version(&headers)?, identity.actor(None));
    let changed = app.subscriptions.patch(&identity.workspace, &id, &asked, expected, by).await?;
    Ok(shown(&changed))
}

/// Deletes a subscription. It is not listed any more; its deliveries are.
#[utoipa::path(
    delete, path = "/api/v1/webhook-subscriptions/{id}", tag = "webhooks", operation_id = "delete_subscription",
    params(
        Deletion,
        ("id" = String, Path, description = "The subscription"),
        ("If-Match" = Option<String>, Header, description = "Only if the subscription still has this version"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The subscription as it was", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(deletion): QueryOf<Deletion>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (expected, by) = (expected_version(&headers)?, identity.actor(None));
    let (workspace, reason) = (&identity.workspace, deletion.reason.as_deref());
    let deleted = app.subscriptions.delete(workspace, &id, reason, expected, by).await?;
    Ok(shown(&deleted))
}

fn shown(subscription: &Subscription) -> Response {
    ([(header::ETAG, etag(subscription.version))], Json(subscription.shown())).into_response()
}

/// Sends a subscription a `test.ping` now, once, and tells what came of it. It counts for nothing: a 410 disables nothing.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions/{id}/test", tag = "webhooks", operation_id = "test_subscription",
    params(
        ("id" = String, Path, description = "The subscription"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "What came of it", body = api::TestedSubscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::TestedSubscription>, Refused> {
    let subscription = app.subscriptions.get(&identity.workspace, &id).await?;
    if subscription.is_deleted() {
        return Err(Refused::new(Code::NotFound, "The subscription was deleted; make a new one."));
    }
    let now = app.store.now();
    let body = serde_json::json!({
        "type": "test.ping",
        "timestamp": now.to_string(),
        "data": { "subscriptionId": subscription.id.as_str() },
    });
    let message =
        MessageId::of_key(identity.workspace.as_str(), &format!("test {id} {now} {}", fastrand::u64(..)));
    let attempted =
        app.subscriptions.send(&subscription, &message, body.to_string(), &Hold::unlimited()).await;
    Ok(Json(api::TestedSubscription {
        webhook_id: message.to_string(),
        delivered: attempted.verdict == Verdict::Delivered,
        response_status: attempted.status,
        detail: attempted.detail(),
        took: attempted.took.into(),
    }))
}
