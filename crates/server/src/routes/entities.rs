//! Entities: create, read and annotate them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::Engine;
use hapax_engine::model::{EntityId, Name, Payload};
use hapax_engine::store::{CreateEntityOutcome, ListOperations};
use http::{StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::etag;
use crate::access::Access;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::identity::Identity;
use crate::strict_json::StrictJson;
use crate::translate::{entity_entry_to_api, entity_to_api, entity_view_to_api, operation_to_api};

/// Creates an entity. The same one is found; a different existing one is not changed.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(kind): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::CreateEntity>,
) -> Result<Response, Refused> {
    let data = Payload::parse(asked.data.text()).map_err(|invalid| problem_of_invalid(&invalid))?;
    let engine = app.engine_for(&identity);
    let made = engine.create_entity_payload(&kind, &asked.id, &asked.status, data.clone()).await;
    let (status, entity) = match made.map_err(|error| problem_of(&error))? {
        CreateEntityOutcome::Created(entity) => (StatusCode::CREATED, entity),
        CreateEntityOutcome::Exists(entity) if entity.matches_creation(&asked.status, &data) => {
            (StatusCode::OK, entity)
        }
        CreateEntityOutcome::Exists(entity) => {
            let detail = format!(
                "A {} with another status or other data exists; nothing was changed. Read it with GET /api/v1/entities/{}/{}.",
                entity.entity, entity.entity.kind, entity.entity.id
            );
            return Err(Refused::new(Code::EntityExists, detail)
                .with("entityStatus", entity.status.as_str())
                .with("version", entity.version.get()));
        }
    };
    let told = [(header::ETAG, etag(entity.version))];
    let created =
        api::CreatedEntity { entity: entity_to_api(&entity), created: status == StatusCode::CREATED };
    Ok((status, told, Json(created)).into_response())
}

/// Filters for entities.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EntityFilter {
    /// Only those in this status.
    status: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Entities of one type, in the order of their ids.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(kind): PathOf<String>,
    QueryOf(filter): QueryOf<EntityFilter>,
) -> Result<Json<api::Page<api::Entity>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let bound = format!("{kind:?} {:?}", filter.status);
    let pages = app.list(&identity, "entities", &bound);
    let after = pages.place(filter.cursor.as_deref(), EntityId::new)?;
    let engine = app.engine_for(&identity);
    let found = engine.list_entities(&kind, filter.status.as_deref(), after, limit).await;
    let found = found.map_err(|error| problem_of(&error))?;
    let next_cursor = pages.next(&found, limit, |last| last.entity.id.to_string());
    Ok(Json(api::Page { items: found.iter().map(entity_to_api).collect(), next_cursor }))
}

/// Requester of a read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RequesterQuery {
    /// Requester that the allowed steps are computed for. A credential with a requester of its own
    /// always uses that one.
    requester: Option<String>,
}

/// One entity, its pending operation, and its allowed steps.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((kind, id)): PathOf<(String, String)>,
    QueryOf(of): QueryOf<RequesterQuery>,
) -> Result<Response, Refused> {
    let requester = requester_of(&identity, of.requester)?;
    let engine = app.engine_for(&identity);
    let view = engine.get_entity(&kind, &id, requester.as_deref()).await;
    let view = view.map_err(|error| problem_of(&error))?;
    let found = engine.find_entity_workflow(&view.entity.entity.kind);
    let janitor = found.as_ref().and_then(|workflow| janitor_of(&engine, &workflow.module));
    let workflow = found.map(|workflow| workflow.name).unwrap_or_else(|| view.entity.entity.kind.clone());
    let told = [(header::ETAG, etag(view.entity.version))];
    let mut shown = entity_view_to_api(&view, &workflow, app.store.now());
    shown.janitor = janitor;
    if !Access::Operate.allows(identity.role, identity.is_installation()) {
        withhold_all(&mut shown.allowed_actions, identity.role);
    }
    Ok((told, Json(shown)).into_response())
}

fn janitor_of(engine: &Engine, module: &Name) -> Option<api::Janitor> {
    let (every, stale_after) = engine.find_janitor(module)?;
    Some(api::Janitor { module: module.to_string(), every: every.into(), stale_after: stale_after.into() })
}

/// Withholds the steps that only the role of the caller rules out.
fn withhold_all(actions: &mut [api::AllowedAction], role: api::Role) {
    for action in actions.iter_mut().filter(|action| action.enabled) {
        action.enabled = false;
        action.code = Some(Code::Forbidden.to_string());
        action.reason = Some(format!("the role {} may look, and not act", role.as_str()));
    }
}

/// Requester of a request. A credential with a requester of its own always uses that one.
pub(super) fn requester_of(identity: &Identity, asked: Option<String>) -> Result<Option<String>, Refused> {
    match (&identity.requester, asked) {
        (Some(own), Some(asked)) if *own != asked => Err(Refused::new(
            Code::RequesterNotAllowed,
            format!("The credential acts only for {own:?}. Omit `requester`."),
        )
        .with("requester", own.as_str())),
        (Some(own), _) => Ok(Some(own.clone())),
        (None, asked) => Ok(asked),
    }
}

/// Adds a note to an entity, also while an operation is pending.
pub(crate) async fn add_note(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((kind, id)): PathOf<(String, String)>,
    StrictJson { value: asked, .. }: StrictJson<api::AddEntityNote>,
) -> Result<Response, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    let note = app.engine_for(&identity).remark_on_entity(&kind, &id, by, &asked.text).await;
    let note = note.map_err(|error| problem_of(&error))?;
    Ok((StatusCode::CREATED, Json(entity_entry_to_api(&note))).into_response())
}

/// Notes and events of an entity, oldest first.
pub(crate) async fn notes(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((kind, id)): PathOf<(String, String)>,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::JournalEntry>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let bound = format!("{kind:?} {id:?}");
    let pages = app.list(&identity, "entity-notes", &bound);
    let after = pages.place(page.cursor.as_deref(), str::parse)?;
    let engine = app.engine_for(&identity);
    engine.get_entity(&kind, &id, None).await.map_err(|error| problem_of(&error))?;
    let found = engine.list_entity_journal(&kind, &id, None, after.unwrap_or(0), limit).await;
    let found = found.map_err(|error| problem_of(&error))?;
    let next_cursor = pages.next(&found, limit, |last| last.place.to_string());
    let items = found.iter().map(|placed| entity_entry_to_api(&placed.note)).collect();
    Ok(Json(api::Page { items, next_cursor }))
}

/// The operations of one entity, newest first.
pub(crate) async fn operations(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((kind, id)): PathOf<(String, String)>,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::Operation>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let bound = format!("{kind:?} {id:?}");
    let pages = app.list(&identity, "entity-operations", &bound);
    let before = pages.place(page.cursor.as_deref(), str::parse)?;
    let engine = app.engine_for(&identity);
    let view = engine.get_entity(&kind, &id, None).await.map_err(|error| problem_of(&error))?;
    let request = ListOperations {
        workspace: identity.workspace.clone(),
        kind: Some(view.entity.entity.kind),
        entity: Some(view.entity.entity.id),
        step: None,
        status: None,
        before,
        limit,
    };
    let found = engine.list_operations(request).await.map_err(|error| problem_of(&error))?;
    let next_cursor = pages.next(&found, limit, |last| last.id.to_string());
    Ok(Json(api::Page { items: found.iter().map(operation_to_api).collect(), next_cursor }))
}

/// A name in a filter.
pub(super) fn filter_name(what: &'static str, text: Option<&str>) -> Result<Option<Name>, Refused> {
    let name = text.map(|text| Name::new(what, text)).transpose();
    Ok(name.map_err(|invalid| problem_of_invalid(&invalid))?)
}
