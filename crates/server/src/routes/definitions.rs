//! Definitions: documents that can be run.

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

/// Uploads a definition, as JSON or YAML. A version never changes: the same again is found, something else is refused.
#[utoipa::path(
    post, path = "/api/v1/workflow-definitions", tag = "definitions", operation_id = "create_definition",
    request_body(content((api::CreateDefinition = "application/json"), (String = "application/yaml"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer.")),
    responses(
        (status = 201, description = "It was made", body = api::Definition),
        (status = 200, description = "It was there, with the same content", body = api::Definition),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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
#[utoipa::path(
    get, path = "/api/v1/workflow-definitions/{id}", tag = "definitions", operation_id = "show_definition",
    params(("id" = String, Path, description = "The definition")),
    responses(
        (status = 200, description = "The definition", body = api::Definition),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Response, Refused> {
    Ok(shown(&*app.definitions.get(&identity.workspace, &id).await?))
}

/// Archives a definition, or takes it out of the archive. An archived one starts no new runs; runs that began with it go on.
#[utoipa::path(
    patch, path = "/api/v1/workflow-definitions/{id}", tag = "definitions", operation_id = "change_definition",
    request_body = api::ChangeDefinition,
    params(
        ("id" = String, Path, description = "The definition"),
        ("If-Match" = Option<String>, Header, description = "Only if the definition still has this revision"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The definition as it is now", body = api::Definition),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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

/// Deletes a definition. Refused with `definition_in_use` while open runs need it.
#[utoipa::path(
    delete, path = "/api/v1/workflow-definitions/{id}", tag = "definitions", operation_id = "delete_definition",
    params(
        Deletion,
        ("id" = String, Path, description = "The definition"),
        ("If-Match" = Option<String>, Header, description = "Only if the definition still has this revision"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "The definition as it was", body = api::Definition),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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
#[utoipa::path(
    get, path = "/api/v1/workflow-definitions", tag = "definitions", operation_id = "list_definitions", params(DefinitionFilter),
    responses(
        (status = 200, description = "One page", body = api::Page<api::DefinitionSummary>),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
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
