//! Operations on entities and their outcomes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    EntityJournalEntry, IdempotencyKey, OperationId, OperationStatus, Resolution, Ruling,
};
use hapax_engine::store::ListOperations;
use hapax_http_idempotency::OperationId as RequestId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::entities::filter_name;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::strict_json::StrictJson;
use crate::translate::{history_to_api, operation_to_api};

/// Filters for operations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OperationFilter {
    /// Only operations with this status: PENDING, DONE, REJECTED, FAILED, REVERTED or IN_DOUBT.
    status: Option<String>,
    /// Only those on entities of this type.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    kind: Option<String>,
    /// Only operations of this step.
    step_key: Option<String>,
    /// Only the one under this key.
    idempotency_key: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Operations, newest first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<OperationFilter>,
) -> Result<Json<api::Page<api::Operation>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let status = filter.status.as_deref().map(parse_status).transpose()?;
    let (kind, step) = (
        filter_name("entity type", filter.kind.as_deref())?,
        filter_name("step key", filter.step_key.as_deref())?,
    );
    let bound = format!("{status:?} {kind:?} {step:?} {:?}", filter.idempotency_key);
    let pages = app.list(&identity, "operations", &bound);
    let before = pages.place(filter.cursor.as_deref(), str::parse)?;
    let engine = app.engine_for(&identity);
    if let Some(key) = &filter.idempotency_key {
        let key = IdempotencyKey::new(key).map_err(|invalid| problem_of_invalid(&invalid))?;
        let found = engine.find_keyed_operation(&key).await.map_err(|error| problem_of(&error))?;
        let fits = |operation: &hapax_engine::model::Operation| {
            status.is_none_or(|status| operation.state.status() == status)
                && kind.as_ref().is_none_or(|kind| operation.entity.kind == *kind)
                && step.as_ref().is_none_or(|step| operation.step == *step)
        };
        let items = found.iter().filter(|found| fits(found)).map(operation_to_api).collect();
        return Ok(Json(api::Page { items, next_cursor: None }));
    }
    let workspace = identity.workspace.clone();
    let request = ListOperations { workspace, kind, entity: None, step, status, before, limit };
    let found = engine.list_operations(request).await.map_err(|error| problem_of(&error))?;
    let next_cursor = pages.next(&found, limit, |last| last.id.to_string());
    Ok(Json(api::Page { items: found.iter().map(operation_to_api).collect(), next_cursor }))
}

fn parse_status(text: &str) -> Result<OperationStatus, Refused> {
    OperationStatus::from_name(text).ok_or_else(|| {
        let detail = "`status` is one of PENDING, DONE, REJECTED, FAILED, REVERTED, IN_DOUBT.";
        Refused::new(Code::InvalidRequest, detail).with("path", "query:status")
    })
}

/// One operation with its history.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::OperationDetail>, Refused> {
    let id = operation_id(&id)?;
    let engine = app.engine_for(&identity);
    let operation = engine.get_operation(id).await.map_err(|error| problem_of(&error))?;
    let (kind, entity) = (operation.entity.kind.as_str(), operation.entity.id.as_str());
    let notes = engine.list_entity_journal(kind, entity, Some(id), 0, MAX_PAGE).await;
    let notes = notes.map_err(|error| problem_of(&error))?;
    let notes: Vec<EntityJournalEntry> = notes.into_iter().map(|placed| placed.note).collect();
    let history = history_to_api(&operation, &notes);
    Ok(Json(api::OperationDetail { operation: operation_to_api(&operation), history }))
}

fn operation_id(text: &str) -> Result<OperationId, Refused> {
    text.parse().map_err(|_| {
        Refused::new(Code::NotFound, "There is no such operation; ids of operations begin with op_.")
    })
}

/// Decides an operation in doubt. The decision applies once, and is in the audit log.
pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    request: Option<Extension<RequestId>>,
    StrictJson { value: asked, .. }: StrictJson<api::ResolveOperation>,
) -> Result<Json<api::Operation>, Refused> {
    let id = operation_id(&id)?;
    let ruling = Ruling {
        resolution: resolution_of(&asked),
        by: identity.actor(identity.speaks_for(asked.by.as_deref())?),
        // As for doubts: only the role of the credential counts.
        seconded_by: None,
        reason: asked.reason,
    };
    let engine = app.engine_for(&identity);
    let decided = match request {
        Some(Extension(RequestId(request))) => {
            engine.resolve_operation_once(id, asked.attempt, ruling, &request.to_string()).await
        }
        None => engine.resolve_operation(id, asked.attempt, ruling).await,
    };
    Ok(Json(operation_to_api(&decided.map_err(|error| problem_of(&error))?)))
}

fn resolution_of(asked: &api::ResolveOperation) -> Resolution {
    let output = || asked.result.as_ref().and_then(|result| serde_json::from_str(result.text()).ok());
    match asked.resolution {
        api::OperationResolution::Happened => Resolution::Happened { output: output().unwrap_or_default() },
        api::OperationResolution::DidNotHappen => Resolution::DidNotHappen,
    }
}
