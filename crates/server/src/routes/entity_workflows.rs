//! Entity workflows: documents that say which steps move business objects.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::{Code, DiagramFormat};
use hapax_documents::{draw_mermaid, draw_svg};
use hapax_engine::model::Name;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::doubts::PageOf;
use super::request::{Caller, IfMatch, PathOf, QueryOf, if_match, page_limit};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::entities::Uploading;
use crate::negotiate::accepts;
use crate::uploaded::Uploaded;

/// Uploads an entity workflow, as JSON or YAML. One of its name that says the same is found; another one is not replaced.
#[utoipa::path(
    post, path = "/api/v1/entity-workflows", tag = "entities", operation_id = "create_entity_workflow",
    request_body(content((api::PutEntityWorkflow = "application/json"), (String = "application/yaml"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer.")),
    responses(
        (status = 201, description = "It was made", body = api::EntityWorkflow),
        (status = 200, description = "It was there, and says the same", body = api::EntityWorkflow),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let made = app.entities.create(&identity.workspace, &uploaded, identity.actor(None)).await?;
    answer(&app, made)
}

/// Puts an entity workflow in place of the one of its name, or makes it. With `If-Match` only the version that was seen is replaced.
#[utoipa::path(
    put, path = "/api/v1/entity-workflows/{name}", tag = "entities", operation_id = "put_entity_workflow",
    request_body(content((api::PutEntityWorkflow = "application/json"), (String = "application/yaml"))),
    params(
        ("name" = String, Path, description = "The name of the entity workflow"),
        ("If-Match" = Option<String>, Header, description = "The version that is to be replaced, as `ETag` gave it"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: sent again it gets the same answer."),
    ),
    responses(
        (status = 200, description = "It stands", body = api::EntityWorkflow),
        (status = 201, description = "It was made", body = api::EntityWorkflow),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn replace(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    headers: HeaderMap,
    PathOf(name): PathOf<String>,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let expected = match if_match(&headers)? {
        IfMatch::Any => None,
        IfMatch::Version(version) => Some(version),
    };
    let by = identity.actor(None);
    let made = app.entities.replace(&identity.workspace, &name, &uploaded, expected, by).await?;
    answer(&app, made)
}

fn answer(app: &App, made: Uploading) -> Result<Response, Refused> {
    let (status, workflow) = match made {
        Uploading::Made(workflow) => (StatusCode::CREATED, workflow),
        Uploading::Found(workflow) => (StatusCode::OK, workflow),
    };
    let location = format!("/api/v1/entity-workflows/{}", workflow.name());
    let told = [(header::ETAG, etag(workflow.version()))];
    let shown = workflow.shown(&app.entities.modules())?;
    Ok((status, told, [(header::LOCATION, location)], Json(shown)).into_response())
}

/// Entity workflows, in the order of their ids.
#[utoipa::path(
    get, path = "/api/v1/entity-workflows", tag = "entities", operation_id = "list_entity_workflows", params(PageOf),
    responses(
        (status = 200, description = "One page", body = api::Page<api::EntityWorkflowSummary>),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::EntityWorkflowSummary>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "entity-workflows", "");
    let after = pages.place(page.cursor.as_deref(), |place| Name::new("place", place))?;
    let found = app.entities.list(&identity.workspace, after, limit).await?;
    let next_cursor = pages.next(&found, limit, |last| last.id().to_string());
    let modules = app.entities.modules();
    let items = found.iter().map(|workflow| workflow.summary(&modules)).collect();
    Ok(Json(api::Page { items, next_cursor }))
}

/// One entity workflow with its document.
#[utoipa::path(
    get, path = "/api/v1/entity-workflows/{name}", tag = "entities", operation_id = "show_entity_workflow",
    params(("name" = String, Path, description = "The name of the entity workflow")),
    responses(
        (status = 200, description = "The entity workflow", body = api::EntityWorkflow),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
) -> Result<Response, Refused> {
    let workflow = app.entities.get(&identity.workspace, &name).await?;
    let shown = workflow.shown(&app.entities.modules())?;
    Ok(([(header::ETAG, etag(workflow.version()))], Json(shown)).into_response())
}

/// In what it is drawn.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiagramOf {
    /// `mermaid` or `svg`; what `Accept` asks for if absent.
    format: Option<String>,
}

/// An entity workflow as a picture: its statuses, and what moves entities between them.
#[utoipa::path(
    get, path = "/api/v1/entity-workflows/{name}/diagram", tag = "entities", operation_id = "draw_entity_workflow",
    params(("name" = String, Path, description = "The name of the entity workflow"), DiagramOf),
    responses(
        (status = 200, description = "The picture", content((String = "text/vnd.mermaid"), (String = "image/svg+xml"))),
        (status = "4XX", description = "Refused", body = api::Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not done", body = api::Problem, content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn draw(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    headers: HeaderMap,
    PathOf(name): PathOf<String>,
    QueryOf(of): QueryOf<DiagramOf>,
) -> Result<Response, Refused> {
    let format = format_of(&headers, of.format.as_deref())?;
    let workflow = app.entities.get(&identity.workspace, &name).await?;
    let drawn = match format {
        DiagramFormat::Mermaid => draw_mermaid(workflow.workflow()),
        DiagramFormat::Svg => draw_svg(workflow.workflow()),
    };
    // A picture may hold its own style, and nothing from elsewhere.
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    let kind = HeaderValue::from_static(format.media_type());
    let told = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
    Ok((told, [(header::ETAG, etag(workflow.version()))], drawn).into_response())
}

fn format_of(headers: &HeaderMap, asked: Option<&str>) -> Result<DiagramFormat, Refused> {
    match asked {
        Some("mermaid") => Ok(DiagramFormat::Mermaid),
        Some("svg") => Ok(DiagramFormat::Svg),
        Some(_) => {
            Err(Refused::new(Code::InvalidRequest, "`format` is mermaid or svg.")
                .with("path", "query:format"))
        }
        None if accepts(headers, "text", "vnd.mermaid") => Ok(DiagramFormat::Mermaid),
        None if accepts(headers, "image", "svg+xml") => Ok(DiagramFormat::Svg),
        None => Err(Refused::new(
            Code::NotAcceptable,
            "This route answers text/vnd.mermaid or image/svg+xml. Leave `Accept` away, or accept one of them.",
        )),
    }
}
