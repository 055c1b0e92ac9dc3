//! Webhook deliveries: list, redeliver and discard.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::{Code, DeliveryStatus};
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{EffectKey, OutboxMessage, OutboxStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::identity::Acting;
use crate::limits::{MAX_DELIVERY_LOOKS, MAX_SETTLED_AT_ONCE};
use crate::strict_json::StrictJson;
use crate::translate::{delivery_to_api, parse_delivery_status};
use crate::webhooks::outbound::{Deliveries, subscription_of};

/// Filters for deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    /// Only to this subscription.
    subscription: Option<String>,
    /// Only with this status: due, claimed, delivered or dead.
    #[param(value_type = Option<api::DeliveryStatus>)]
    status: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Deliveries in the order of their runs. A page may be short although there are more: `nextCursor`
/// says so.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(wanted): QueryOf<DeliveryQuery>,
) -> Result<Json<api::Page<api::WebhookDelivery>>, Refused> {
    let limit = page_limit(wanted.limit.as_deref())?;
    let named = |text: &String| {
        parse_delivery_status(text).ok_or_else(|| {
            Refused::new(Code::InvalidRequest, "`status` is due, claimed, delivered or dead.")
                .with("path", "query:status")
        })
    };
    let status = wanted.status.as_ref().map(named).transpose()?;
    let (of, spelled) = (wanted.subscription.as_deref(), wanted.status.as_deref());
    let filter = format!("{} {}", of.unwrap_or_default(), spelled.unwrap_or_default());
    let pages = app.list(&identity, "webhook-deliveries", &filter);
    let after = pages.open(wanted.cursor.as_deref())?;
    let after = after.map(|place: String| EffectKey::from_stored(&place));
    let (found, next) = match of {
        Some(id) => {
            let to = app.subscriptions.get(&identity.workspace, id).await?;
            app.subscriptions.list_deliveries(&to, status, after, limit).await?
        }
        None => list_of_all_subscriptions(&app, &identity, status, after, limit).await?,
    };
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items: shown(&found), next_cursor }))
}

fn shown(posts: &[OutboxMessage]) -> Vec<api::WebhookDelivery> {
    let shown = |post: &OutboxMessage| Some(delivery_to_api(post, subscription_of(&post.target)?));
    posts.iter().filter_map(shown).collect()
}

/// Searches all after-effects for webhook deliveries, up to the limit of one request.
async fn list_of_all_subscriptions(
    app: &App,
    identity: &Acting,
    status: Option<OutboxStatus>,
    mut after: Option<EffectKey>,
    limit: usize,
) -> Result<Deliveries, Refused> {
    let engine = app.engine_for(identity);
    let mut found: Vec<OutboxMessage> = Vec::new();
    for _ in 0..MAX_DELIVERY_LOOKS {
        let page = engine.list_after_effects(status, after.clone(), MAX_PAGE).await;
        let page = page.map_err(|error| problem_of(&error))?;
        let is_last = page.len() < MAX_PAGE;
        for post in page {
            if found.len() == limit {
                return Ok((found, after));
            }
            after = Some(post.id.clone());
            if subscription_of(&post.target).is_some() {
                found.push(post);
            }
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((found, after))
}

/// One delivery.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::WebhookDelivery>, Refused> {
    let post = app.engine_for(&identity).get_after_effect(&EffectKey::from_stored(&id)).await;
    let post = post.map_err(|error| problem_of(&error))?;
    let subscription = subscription_of(&post.target).ok_or_else(absent)?;
    Ok(Json(delivery_to_api(&post, subscription)))
}

fn absent() -> Refused {
    let detail =
        "There is no such delivery in this workspace; list them with GET /api/v1/webhook-deliveries.";
    Refused::new(Code::NotFound, detail)
}

/// Redelivers a delivery that was delivered or given up, under the same `webhook-id`.
pub(crate) async fn redeliver(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::RedeliverWebhook>,
) -> Result<Json<api::WebhookDelivery>, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    let engine = app.engine_for(&identity);
    let id = EffectKey::from_stored(&id);
    let post = engine.get_after_effect(&id).await.map_err(|error| problem_of(&error))?;
    let subscription = subscription_of(&post.target).ok_or_else(absent)?.to_owned();
    app.subscriptions.get(&identity.workspace, &subscription).await?.require_enabled()?;
    let post = engine.redeliver(&id, by, &asked.reason).await.map_err(|error| problem_of(&error))?;
    Ok(Json(delivery_to_api(&post, &subscription)))
}

/// Redelivers many that were given up or delivered, each under its own `webhook-id`. They are sent
/// in the order of their runs.
pub(crate) async fn redeliver_many(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::RedeliverWebhooks>,
) -> Result<Json<api::Page<api::WebhookDelivery>>, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    let limit = limit_of(asked.limit)?;
    let status = match asked.status {
        DeliveryStatus::Dead => OutboxStatus::Dead,
        DeliveryStatus::Delivered => OutboxStatus::Delivered,
        DeliveryStatus::Due | DeliveryStatus::Claimed => {
            let detail = "`status` is dead or delivered: a delivery in progress cannot be redelivered.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/status"));
        }
    };
    let to = app.subscriptions.get(&identity.workspace, &asked.subscription_id).await?;
    let filter = format!("{} {}", asked.subscription_id, asked.status.as_str());
    let pages = app.list(&identity, "webhook-deliveries", &filter);
    let after = pages.open(asked.cursor.as_deref())?;
    let after = after.map(|place: String| EffectKey::from_stored(&place));
    let again = app.subscriptions.redeliver_many(&to, status, after, limit, &by, &asked.reason);
    let (due, next) = again.await?;
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items: shown(&due), next_cursor }))
}

/// Discards dead deliveries that nobody needs any more, for example of a deleted subscription. The
/// audit log keeps their ids, the person who discarded them, and the reason.
pub(crate) async fn discard(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::DiscardWebhooks>,
) -> Result<Json<api::Page<api::WebhookDelivery>>, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    let limit = limit_of(asked.limit)?;
    let of = app.subscriptions.get(&identity.workspace, &asked.subscription_id).await?;
    let forgotten = app.subscriptions.discard_many(&of, limit, &by, &asked.reason).await?;
    Ok(Json(api::Page { items: shown(&forgotten), next_cursor: None }))
}

fn limit_of(asked: u64) -> Result<usize, Refused> {
    let limit = usize::try_from(asked).ok().filter(|limit| (1..=MAX_SETTLED_AT_ONCE).contains(limit));
    limit.ok_or_else(|| {
        let detail = format!("`limit` is a number from 1 to {MAX_SETTLED_AT_ONCE}.");
        Refused::new(Code::InvalidRequest, detail).with("path", "/limit")
    })
}
