//! Workflow definitions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_engine::model::Name;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, Deletion, PathOf, QueryOf, expected_version, page_limit};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::definitions::Definition;
use crate::strict_json::StrictJson;
use crate::uploaded::Uploaded;

/// Uploads a definition, as JSON or YAML. A version never changes: the same content is found,
/// different content is rejected.
pub(crate) async fn upload(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let (definition, is_new) = app.definitions.upload(&identity, uploaded).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/api/v1/workflow-definitions/{}", definition.id);
    Ok((status, [(header::LOCATION, location)], Json(definition)).into_response())
}

/// One definition with its document.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    Ok(shown(&*app.definitions.get(&identity.workspace, &id).await?))
}

/// Archives or unarchives a definition. An archived one starts no new runs; its open runs continue.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::ChangeDefinition>,
) -> Result<Response, Refused> {
    let changed = app.definitions.change(&identity, &id, &asked, expected_version(&headers)?).await?;
    Ok(shown(&changed))
}

/// Deletes a definition. Rejected with `definition_in_use` while open runs need it.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(deletion): QueryOf<Deletion>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (expected, reason) = (expected_version(&headers)?, deletion.reason.as_deref());
    Ok(shown(&*app.definitions.delete(&identity, &id, reason, expected).await?))
}

fn shown(definition: &Definition) -> Response {
    ([(header::ETAG, etag(definition.revision()))], Json(definition.shown())).into_response()
}

/// Filters for definitions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DefinitionFilter {
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Definitions, in the order of their ids.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<DefinitionFilter>,
) -> Result<Json<api::Page<api::DefinitionSummary>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let pages = app.list(&identity, "definitions", "");
    let after = pages.place(filter.cursor.as_deref(), |place| Name::new("definition id", place))?;
    let (items, next) = app.definitions.list(&identity.workspace, after, limit).await?;
    let next_cursor = next.map(|next| pages.seal(next.as_str()));
    Ok(Json(api::Page { items, next_cursor }))
}
