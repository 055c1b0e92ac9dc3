//! The pages, one file each.

mod doubts;
mod entities;
mod evidence;
mod operations;
mod run;
mod runs;
mod search;

use std::sync::Arc;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;

use hapax_api::{Code, Problem};

use crate::failure::Failure;
use crate::visit::Visit;
use crate::{Console, assets, session};

/// Every path of the console, as metrics name it.
pub const PATHS: &[&str] = &[
    "/console",
    "/console/assets/{name}",
    "/console/doubts",
    "/console/doubts/{run}/{step}",
    "/console/doubts/{run}/{step}/resolve",
    "/console/entities",
    "/console/entities/{type}",
    "/console/entities/{type}/{id}",
    "/console/entities/{type}/{id}/notes",
    "/console/entities/{type}/{id}/steps/{step}",
    "/console/entities/{type}/{id}/steps/{step}/override",
    "/console/evidence",
    "/console/evidence/export",
    "/console/operations/{id}",
    "/console/operations/{id}/resolve",
    assets::ELEMENT_PATH,
    "/console/runs",
    "/console/runs/{id}",
    "/console/runs/{id}/cancel",
    "/console/runs/{id}/live",
    "/console/runs/{id}/notes",
    "/console/runs/{id}/pause",
    "/console/runs/{id}/resume",
    "/console/runs/{id}/retry",
    "/console/runs/{id}/settle",
    "/console/runs/{id}/signal",
    "/console/search",
    "/console/sessions",
    "/console/sessions/end",
    "/console/sessions/end-all",
    "/console/sign-in",
    "/console/sign-in/link",
    "/console/sign-out",
    "/console/theme",
    "/console/{*path}",
];

pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/{*path}", get(unknown))
        .route("/console", get(async || Redirect::to("/console/evidence")))
        .merge(assets::routes())
        .merge(session::routes())
        .merge(doubts::routes())
        .merge(entities::routes())
        .merge(evidence::routes())
        .merge(operations::routes())
        .merge(run::routes())
        .merge(runs::routes())
        .merge(search::routes())
}

/// A page that nobody made: said as a page, with the way back.
async fn unknown(visit: Visit) -> Failure {
    let detail =
        "The console has no page at this address. Use the navigation, or search for what you look for.";
    visit.refuse(Problem::new(Code::NotFound, detail))
}
