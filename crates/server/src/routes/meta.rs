//! The server itself: its idempotency policy, health, metrics and description.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_engine::model::{CatalogKind, Name};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::answer::Refused;
use crate::app::App;

/// The idempotency policy in force.
pub(crate) async fn policy(State(app): State<Arc<App>>) -> Json<api::IdempotencyPolicy> {
    Json(app.options.idempotency_policy())
}

/// Is the process alive?
pub(crate) async fn health() -> Json<api::Health> {
    Json(api::Health { status: api::HealthStatus::Ok, server_version: env!("CARGO_PKG_VERSION").into() })
}

/// May traffic be sent to it?
pub(crate) async fn readiness(State(app): State<Arc<App>>) -> Response {
    let probe = Name::new("item", "readiness").expect("a plain word");
    let answered = match app.store.catalog() {
        Some(catalog) => catalog.find_item(CatalogKind::Setting, &probe).await.is_ok(),
        None => false,
    };
    // A store on a full disk answers reads.
    let is_writable = app.store_probe.is_writable();
    let store = match answered && is_writable {
        true => api::HealthStatus::Ok,
        false => api::HealthStatus::Unavailable,
    };
    let detail = (answered && !is_writable).then(|| "the store takes no writes".to_owned());
    let node = match app.options.draining.has_begun() {
        true => api::HealthStatus::Draining,
        false => api::HealthStatus::Ok,
    };
    let loops = app.engine.background_loops().list();
    let down: Vec<&str> = loops.iter().filter(|each| each.is_down).map(|each| each.name.as_str()).collect();
    let background = match down.is_empty() {
        true => api::HealthStatus::Ok,
        false => api::HealthStatus::Unavailable,
    };
    let is_down =
        (!down.is_empty()).then(|| format!("panicked and waits for its restart: {}", down.join(", ")));
    let status = if node == api::HealthStatus::Ok { store } else { node };
    let status = if status == api::HealthStatus::Ok { background } else { status };
    let check = |name: &str, status, detail| api::ReadinessCheck { name: name.into(), status, detail };
    let checks = vec![
        check("store", store, detail),
        check("node", node, None),
        check("background loops", background, is_down),
    ];
    let readiness = api::Readiness { status, checks };
    let code = if status == api::HealthStatus::Ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(readiness)).into_response()
}

/// Metrics for Prometheus.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refused> {
    let text = app.metrics.render(&app).await;
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// This description.
pub(crate) async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], crate::openapi::text()).into_response()
}

/// The JSON Schema of documents.
pub(crate) async fn document_schema() -> Response {
    let kind = HeaderValue::from_static("application/schema+json");
    ([(header::CONTENT_TYPE, kind)], hapax_documents::json_schema().to_string()).into_response()
}

/// The JSON Schema of webhook sources.
pub(crate) async fn source_schema() -> Response {
    let kind = HeaderValue::from_static("application/schema+json");
    ([(header::CONTENT_TYPE, kind)], hapax_documents::source_schema().to_string()).into_response()
}

/// The JSON Schema of entity workflows.
pub(crate) async fn entity_schema() -> Response {
    let kind = HeaderValue::from_static("application/schema+json");
    ([(header::CONTENT_TYPE, kind)], hapax_documents::entity_schema().to_string()).into_response()
}

/// The description, for people.
pub(crate) async fn docs() -> Response {
    crate::docs_page::answer()
}

/// Links to the other pages.
pub(crate) async fn home(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    crate::home::answer(&headers, app.options.console)
}
