//! The pages, one file each.

mod runs;

use std::sync::Arc;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;

use crate::{Console, assets, session};

/// Every path of the console, as metrics name it.
pub const PATHS: &[&str] = &[
    "/console",
    "/console/assets/{name}",
    "/console/runs",
    "/console/sessions",
    "/console/sessions/end",
    "/console/sessions/end-all",
    "/console/sign-in",
    "/console/sign-in/link",
    "/console/sign-out",
    "/console/theme",
];

pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console", get(async || Redirect::to("/console/runs")))
        .merge(assets::routes())
        .merge(session::routes())
        .merge(runs::routes())
}
