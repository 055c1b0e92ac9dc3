//! Received webhooks and their outcomes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::{Code, ReceivedStatus};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::limits::MAX_REPROCESSED_WEBHOOKS;
use crate::strict_json::StrictJson;
use crate::webhooks::inbound::{EventFilter, event_with_body_to_api, shown};

/// Filters for events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WebhookEventFilter {
    /// Only of this source.
    source: Option<String>,
    /// Only those with this status.
    #[param(value_type = Option<ReceivedStatus>)]
    status: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Received events, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(asked): QueryOf<WebhookEventFilter>,
) -> Result<Json<api::Page<api::ReceivedWebhookSummary>>, Refused> {
    let limit = page_limit(asked.limit.as_deref())?;
    let filter =
        EventFilter { status: asked.status.as_deref().map(parse_status).transpose()?, source: asked.source };
    let said = format!("{filter:?}");
    let pages = app.list(&identity, "webhook-events", &said);
    let before = pages.place(asked.cursor.as_deref(), str::parse)?;
    let (items, next) = app.inbound.list_events(&identity.workspace, &filter, before, limit).await?;
    let next_cursor = next.map(|place| pages.seal(&place.to_string()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One event with its headers and body.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((source, event)): PathOf<(String, String)>,
) -> Result<Json<api::ReceivedWebhook>, Refused> {
    Ok(Json(event_with_body_to_api(&app.inbound.get_event(&identity.workspace, &source, &event).await?)))
}

/// Processes an event again, with the current source. Completed actions are not repeated.
pub(crate) async fn reprocess(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((source, event)): PathOf<(String, String)>,
) -> Result<Json<api::ReceivedWebhookSummary>, Refused> {
    let by = identity.actor(None);
    Ok(Json(shown(&app.inbound.reprocess(&identity.workspace, &source, &event, by).await?)))
}

/// Processes the newest events of a status again, oldest first; continue to earlier ones with
/// `nextCursor`.
pub(crate) async fn reprocess_many(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::ReprocessWebhooks>,
) -> Result<Json<api::ReprocessedWebhooks>, Refused> {
    let limit =
        usize::try_from(asked.limit).ok().filter(|limit| (1..=MAX_REPROCESSED_WEBHOOKS).contains(limit));
    let limit = limit.ok_or_else(|| {
        let detail = format!("`limit` is a number from 1 to {MAX_REPROCESSED_WEBHOOKS}.");
        Refused::new(Code::InvalidRequest, detail).with("path", "/limit")
    })?;
    let filter = EventFilter { source: asked.source, status: Some(asked.status) };
    let said = format!("{filter:?}");
    let pages = app.list(&identity, "webhook-events", &said);
    let before = pages.place(asked.cursor.as_deref(), str::parse)?;
    let by = identity.actor(None);
    let (items, next) = app.inbound.reprocess_many(&identity.workspace, &filter, before, limit, &by).await?;
    let next_cursor = next.map(|place| pages.seal(&place.to_string()));
    Ok(Json(api::ReprocessedWebhooks { items, next_cursor }))
}

fn parse_status(text: &str) -> Result<ReceivedStatus, Refused> {
    ReceivedStatus::from_name(text).ok_or_else(|| {
        let known = ReceivedStatus::ALL.map(ReceivedStatus::as_str).join(", ");
        Refused::new(Code::InvalidRequest, format!("`status` is one of {known}."))
            .with("path", "query:status")
    })
}
