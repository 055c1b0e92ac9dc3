//! The ledger: the effects of runs and operations.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{EffectKey, Invalid, LedgerEntry, WorkflowRef, WorkflowSelector};

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::identity::Identity;
use crate::translate::effect_to_api;

/// Effects, each with the host of its provider if a document on this node names it.
fn to_api(app: &App, identity: &Identity, entries: &[LedgerEntry]) -> Vec<api::LedgerEntry> {
    let provider = |entry: &LedgerEntry| match &entry.entity {
        Some(entity) => {
            let found = app.entities.find_by_type(&identity.workspace, &entity.kind)?;
            found.document().provider_of(&entry.step)
        }
        None => {
            let of: WorkflowSelector = entry.workflow.as_deref()?.parse().ok()?;
            let workflow = WorkflowRef { name: of.name, version: of.version? };
            let found = app.definitions.find_document(&identity.workspace, &workflow)?;
            found.document().provider_of(&entry.step)
        }
    };
    entries.iter().map(|entry| effect_to_api(entry, provider(entry))).collect()
}

/// The effects of one run: every attempt, claim, probe, ruling and rejected write.
pub(crate) async fn list_of_run(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::Page<api::LedgerEntry>>, Refused> {
    let run = run_id(&id)?;
    let entries = app.engine_for(&identity).ledger(run).await.map_err(|error| problem_of(&error))?;
    Ok(Json(api::Page { items: to_api(&app, &identity, &entries), next_cursor: None }))
}

/// The effects of the workspace: of runs, newest run first, then of operations on entities; `limit` counts runs and operations.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::LedgerEntry>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "ledger", "");
    let after: Option<String> = pages.open(page.cursor.as_deref())?;
    let after =
        after.map(|place| place.parse()).transpose().map_err(|error: Invalid| problem_of(&error.into()))?;
    let listed = app.engine_for(&identity).list_effects(after, limit).await;
    let listed = listed.map_err(|error| problem_of(&error))?;
    let next_cursor = listed.next.map(|next| pages.seal(&next.to_string()));
    Ok(Json(api::Page { items: to_api(&app, &identity, &listed.entries), next_cursor }))
}

/// One effect, by the key that its provider received.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(key): PathOf<String>,
) -> Result<Json<api::LedgerEntry>, Refused> {
    let found = app.engine_for(&identity).find_effect(&EffectKey::from_stored(&key)).await;
    let entry = found.map_err(|error| problem_of(&error))?.ok_or_else(|| {
        let detail =
            "There is no effect with this key in this workspace; list effects with GET /api/v1/ledger.";
        Refused::new(Code::NotFound, detail)
    })?;
    let mut shown = to_api(&app, &identity, std::slice::from_ref(&entry));
    Ok(Json(shown.remove(0)))
}
