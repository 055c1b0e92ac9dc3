//! Entity workflows: documents that define the steps of business objects.

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
use super::request::{Caller, Deletion, IfMatch, PathOf, QueryOf, expected_version, if_match, page_limit};
use super::runs::etag;
use crate::answer::Refused;
use crate::app::App;
use crate::entities::Uploading;
use crate::negotiate::accepts;
use crate::uploaded::Uploaded;

/// Uploads an entity workflow, as JSON or YAML. The same document is found; a different one of the
/// same name is not replaced.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    uploaded: Uploaded,
) -> Result<Response, Refused> {
    let made = app.entities.create(&identity.workspace, &uploaded, identity.actor(None)).await?;
    answer(&app, made)
}

/// Replaces the entity workflow of this name, or creates it. With `If-Match`, it replaces only that
/// version.
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
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
) -> Result<Response, Refused> {
    let workflow = app.entities.get(&identity.workspace, &name).await?;
    let shown = workflow.shown(&app.entities.modules())?;
    Ok(([(header::ETAG, etag(workflow.version()))], Json(shown)).into_response())
}

/// Deletes an entity workflow. Rejected with `entity_workflow_in_use` while open operations need it.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(name): PathOf<String>,
    QueryOf(deletion): QueryOf<Deletion>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let (expected, reason) = (expected_version(&headers)?, deletion.reason.as_deref());
    let deleted = app.entities.delete(&identity, &name, reason, expected).await?;
    let shown = deleted.shown(&app.entities.modules())?;
    Ok(([(header::ETAG, etag(deleted.version()))], Json(shown)).into_response())
}

/// Format of a diagram.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiagramOf {
    /// `mermaid` or `svg`; by `Accept` if absent.
    format: Option<String>,
}

/// Draws an entity workflow: its statuses, and the steps between them.
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
    // The image may have its own style, and no external resources.
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
            "This route answers text/vnd.mermaid or image/svg+xml. Omit `Accept`, or accept one of them.",
        )),
    }
}
