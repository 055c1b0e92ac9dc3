//! The history of a run: paged, or live.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::Version;
use http::HeaderMap;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::authenticate::Authenticator;
use crate::console::SignedIn;
use crate::errors::problem_of;
use crate::event_stream;
use crate::translate::event_to_api;

/// Events of a run as a whole, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::RunEvent>>, Refused> {
    let run = run_id(&id)?;
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "events", &id);
    let after = pages.place(page.cursor.as_deref(), str::parse)?;
    let after = Version::new(after.unwrap_or(0));
    let events =
        app.engine_for(&identity).list_events(run, after).await.map_err(|error| problem_of(&error))?;
    let is_more = events.len() > limit;
    let items: Vec<_> = events.iter().take(limit).map(event_to_api).collect();
    let next_cursor = items.last().filter(|_| is_more).map(|last| pages.seal(&last.version.to_string()));
    Ok(Json(api::Page { items, next_cursor }))
}

/// The live history of a run: events `run`, `step` and, at last, `end`. `Last-Event-ID` continues
/// where another stream stopped.
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    signed_in: Option<Extension<SignedIn>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let run = run_id(&id)?;
    let seen = match headers
        .get("last-event-id")
        .map(|value| value.to_str().ok().and_then(|text| text.parse().ok()))
    {
        None => 0,
        Some(Some(seen)) => seen,
        Some(None) => {
            return Err(Refused::new(
                Code::InvalidRequest,
                "`Last-Event-ID` is the number that the last event carried.",
            ));
        }
    };
    let engine = app.engine_for(&identity);
    engine.get(run).await.map_err(|error| problem_of(&error))?;
    let key = Authenticator::key_in(&headers);
    // The console looks by itself whether a session still counts.
    if key.is_none() && signed_in.is_none() && identity.ends_at.is_none() {
        let detail = "Send a valid key as `Authorization: Bearer hpx_…`, once.";
        return Err(Refused::new(Code::Unauthorized, detail));
    }
    let share = app.quotas.take_stream(&identity.workspace, Instant::now())?;
    let seat = app.streams.take(&identity.credential)?.within(share);
    Ok(event_stream::stream_run(app, engine, key, &identity.identity, run, Version::new(seen), seat)
        .into_response())
}
