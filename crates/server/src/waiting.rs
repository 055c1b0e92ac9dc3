//! Responses of a server that waits for its store at launch: alive, not ready, and nothing else.

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hapax_api as api;
use hapax_api::{Code, Problem};
use http::StatusCode;

use crate::answer::{Refused, add_response_layers};
use crate::limits::STORE_RETRY_AFTER_SECONDS;
use crate::routes::meta;

/// The routes of a server that waits for its store: `/healthz` succeeds, `/readyz` fails,
/// everything else is 503.
pub fn waiting_router() -> Router {
    let routes = Router::new().route("/healthz", get(meta::health)).route("/readyz", get(not_ready));
    add_response_layers(routes.fallback(refuse).method_not_allowed_fallback(refuse))
}

async fn not_ready() -> Response {
    let status = api::HealthStatus::Unavailable;
    let check = api::ReadinessCheck { name: "store".into(), status, detail: None };
    let readiness = api::Readiness { status, checks: vec![check] };
    (StatusCode::SERVICE_UNAVAILABLE, Json(readiness)).into_response()
}

async fn refuse() -> Refused {
    let detail = "The server waits for its store, and nothing was done. Send the same request again, under the same key.";
    Problem::new(Code::StoreUnavailable, detail).retry_after(STORE_RETRY_AFTER_SECONDS).into()
}
