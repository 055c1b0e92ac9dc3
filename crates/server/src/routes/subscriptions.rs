//! Subscriptions to webhooks.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::{Code, SubscriptionState};
use hapax_engine::Hold;
use hapax_engine::model::Name;
use hapax_webhooks::{MessageId, Verdict};
use http::{StatusCode, header};
use secrecy::ExposeSecret;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::identity::Acting;
use crate::strict_json::StrictJson;

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
) -> Result<Json<api::Subscription>, Refused> {
    Ok(Json(app.subscriptions.get(&identity.workspace, &id).await?.shown()))
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
    let overlap = asked.and_then(|StrictJson { value: asked, .. }| asked.overlap_seconds);
    let overlap = overlap.map(Duration::from_secs);
    let by = identity.actor(None);
    let (subscription, secret) = app.subscriptions.rotate(&identity.workspace, &id, overlap, by).await?;
    let secret = secret.expose_secret().to_owned();
    Ok(Json(api::IssuedSubscription { subscription: subscription.shown(), secret }))
}

/// Has a subscription be told again. What was given up meanwhile is not sent by itself: redeliver it.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions/{id}/enable", tag = "webhooks", operation_id = "enable_subscription",
    request_body(content = Option<api::SteerSubscription>),
    params(
        ("id" = String, Path, description = "The subscription"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The subscription", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn enable(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    asked: Option<StrictJson<api::SteerSubscription>>,
) -> Result<Json<api::Subscription>, Refused> {
    steer(&app, &identity, &id, SubscriptionState::Enabled, asked).await
}

/// Has a subscription be told nothing. What waits for it is given up, visibly, and can be redelivered once it is enabled.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions/{id}/disable", tag = "webhooks", operation_id = "disable_subscription",
    request_body(content = Option<api::SteerSubscription>),
    params(
        ("id" = String, Path, description = "The subscription"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The subscription", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn disable(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    asked: Option<StrictJson<api::SteerSubscription>>,
) -> Result<Json<api::Subscription>, Refused> {
    steer(&app, &identity, &id, SubscriptionState::Disabled, asked).await
}

/// Ends a subscription. It is not listed any more; its deliveries are.
#[utoipa::path(
    post, path = "/api/v1/webhook-subscriptions/{id}/delete", tag = "webhooks", operation_id = "delete_subscription",
    request_body(content = Option<api::SteerSubscription>),
    params(
        ("id" = String, Path, description = "The subscription"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The subscription", body = api::Subscription),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    asked: Option<StrictJson<api::SteerSubscription>>,
) -> Result<Json<api::Subscription>, Refused> {
    steer(&app, &identity, &id, SubscriptionState::Deleted, asked).await
}

async fn steer(
    app: &App,
    identity: &Acting,
    id: &str,
    to: SubscriptionState,
    asked: Option<StrictJson<api::SteerSubscription>>,
) -> Result<Json<api::Subscription>, Refused> {
    let reason = asked.and_then(|StrictJson { value: asked, .. }| asked.reason);
    let by = identity.actor(None);
    let steered = app.subscriptions.steer(&identity.workspace, id, to, reason.as_deref(), by).await?;
    Ok(Json(steered.shown()))
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
        status: attempted.status,
        detail: attempted.detail(),
        took_ms: u64::try_from(attempted.took.as_millis()).unwrap_or(u64::MAX),
    }))
}
