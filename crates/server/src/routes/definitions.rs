//! Definitions: documents that can be run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_engine::model::Name;
use http::{StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::uploaded::Uploaded;

/// Uploads a definition, as JSON or YAML. A version never changes: the same again is found, something else is refused.
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
) -> Result<Json<api::Definition>, Refused> {
    Ok(Json(app.definitions.get(&identity.workspace, &id).await?.shown()))
}

/// Which definitions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DefinitionFilter {
    /// How many at most, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Where the page before ended.
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
    let found = app.definitions.list(&identity.workspace, after, limit).await?;
    let next_cursor = pages.next(&found, limit, |last| last.id.clone());
    Ok(Json(api::Page { items: found, next_cursor }))
}
