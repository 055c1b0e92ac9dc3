//! The journal of a run, and notes of people in it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use http::StatusCode;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::strict_json::StrictJson;
use crate::translate::journal_entry_to_api;

/// The journal of one run, oldest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::JournalEntry>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "journal", &id);
    let after = pages.place(page.cursor.as_deref(), str::parse)?;
    let engine = app.engine_for(&identity);
    let found = engine.list_journal(Some(run_id(&id)?), false, after.unwrap_or(0), limit).await;
    let found = found.map_err(|error| problem_of(&error))?;
    let next_cursor = pages.next(&found, limit, |last| last.place.to_string());
    let items = found.iter().map(|placed| journal_entry_to_api(&placed.note)).collect();
    Ok(Json(api::Page { items, next_cursor }))
}

/// Adds a note to a run, in any status.
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::AddNote>,
) -> Result<Response, Refused> {
    let run = run_id(&id)?;
    let engine = app.engine_for(&identity);
    let note = engine.remark(run, asked.step_id.as_deref(), identity.actor(None), &asked.text).await;
    let note = note.map_err(|error| problem_of(&error))?;
    Ok((StatusCode::CREATED, Json(journal_entry_to_api(&note))).into_response())
}
