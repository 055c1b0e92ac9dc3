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
use crate::webhooks::outbound::Subscription;

/// Creates a subscription. Only this response shows its secret.
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

/// Subscriptions that are not deleted, without their secrets. A page may be short although there
/// are more.
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
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    Ok(shown(&*app.subscriptions.get(&identity.workspace, &id).await?))
}

/// Gives a subscription a new secret. Both sign for a while, so that the receiver can switch.
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

/// Changes a subscription: its name, address, events, description, or status. Absent fields stay as
/// they are. Waiting deliveries of a disabled one are given up, visibly, and can be redelivered
/// once it is enabled.
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

/// Deletes a subscription. It is no longer listed; its deliveries are.
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

/// Sends a subscription a `test.ping` now, once, and returns the result. The test has no other
/// effect: a 410 does not disable the subscription.
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::TestedSubscription>, Refused> {
    let subscription = app.subscriptions.get(&identity.workspace, &id).await?;
    if subscription.is_deleted() {
        return Err(Refused::new(Code::NotFound, "The subscription was deleted; create a new one."));
    }
    let now = app.store.now();
    let body = serde_json::json!({
        "type": "test.ping",
        "timestamp": now.to_string(),
        "data": { "subscriptionId": subscription.id.as_str() },
    });
    let message =
        MessageId::from_key(identity.workspace.as_str(), &format!("test {id} {now} {}", fastrand::u64(..)));
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
