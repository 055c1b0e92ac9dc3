//! The pages, one file each.

mod admin;
mod approvals;
mod doubts;
mod entities;
mod evidence;
mod keys;
mod ledger;
mod operations;
mod run;
mod runs;
mod search;
mod webhooks;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;

use hapax_api::{Code, Problem};

use crate::failure::Failure;
use crate::visit::Visit;
use crate::{Console, assets, session};

pub(crate) use approvals::AskingDefinitions;

/// Every path of the console, as metrics name it.
pub const PATHS: &[&str] = &[
    "/console",
    "/console/admin",
    "/console/admin/audit",
    "/console/admin/audit/export",
    "/console/admin/credentials",
    "/console/admin/credentials/{id}/revoke",
    "/console/admin/credentials/{id}/rotate",
    "/console/admin/nodes",
    "/console/admin/roles",
    "/console/admin/workspaces",
    "/console/approvals",
    "/console/approvals/{run}/{step}/answer",
    "/console/assets/{name}",
    "/console/doubts",
    "/console/doubts/{run}/{step}",
    "/console/doubts/{run}/{step}/confirm",
    "/console/doubts/{run}/{step}/propose",
    "/console/doubts/{run}/{step}/resolve",
    "/console/entities",
    "/console/entities/{type}",
    "/console/entities/{type}/{id}",
    "/console/entities/{type}/{id}/notes",
    "/console/entities/{type}/{id}/steps/{step}",
    "/console/entities/{type}/{id}/steps/{step}/override",
    "/console/evidence",
    "/console/evidence/export",
    "/console/keys",
    "/console/keys/{scope}/{key}",
    "/console/keys/{scope}/{key}/compare",
    "/console/keys/{scope}/{key}/release",
    "/console/ledger",
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
    "/console/runs/{id}/reveal",
    "/console/runs/{id}/settle",
    "/console/runs/{id}/signal",
    "/console/search",
    "/console/sessions",
    "/console/sessions/end",
    "/console/sessions/end-all",
    "/console/sign-in",
    "/console/sign-in/callback",
    "/console/sign-in/link",
    "/console/sign-in/provider",
    "/console/sign-out",
    "/console/theme",
    "/console/webhooks",
    "/console/webhooks/deliveries",
    "/console/webhooks/deliveries/discard",
    "/console/webhooks/deliveries/redeliver",
    "/console/webhooks/deliveries/{id}/redeliver",
    "/console/webhooks/early",
    "/console/webhooks/events/{source}/{event}",
    "/console/webhooks/events/{source}/{event}/reprocess",
    "/console/webhooks/reprocess",
    "/console/webhooks/sources",
    "/console/webhooks/sources/{name}",
    "/console/webhooks/sources/{name}/delete",
    "/console/webhooks/sources/{name}/replace",
    "/console/webhooks/sources/{name}/switch",
    "/console/webhooks/subscriptions",
    "/console/webhooks/subscriptions/{id}",
    "/console/webhooks/subscriptions/{id}/change",
    "/console/webhooks/subscriptions/{id}/delete",
    "/console/webhooks/subscriptions/{id}/rotate",
    "/console/webhooks/subscriptions/{id}/switch",
    "/console/webhooks/subscriptions/{id}/test",
    "/console/workflows",
    "/console/workflows/definitions/{id}",
    "/console/workflows/definitions/{id}/change",
    "/console/workflows/definitions/{id}/delete",
    "/console/workflows/definitions/{id}/start",
    "/console/workflows/entities",
    "/console/workflows/entities/{name}",
    "/console/workflows/workers",
    "/console/{*path}",
];

pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/{*path}", get(unknown))
        .route("/console", get(async || Redirect::to("/console/evidence")))
        .merge(assets::routes())
        .merge(session::routes())
        .merge(admin::routes())
        .merge(approvals::routes())
        .merge(doubts::routes())
        .merge(entities::routes())
        .merge(evidence::routes())
        .merge(keys::routes())
        .merge(ledger::routes())
        .merge(operations::routes())
        .merge(run::routes())
        .merge(runs::routes())
        .merge(search::routes())
        .merge(webhooks::routes())
        .merge(workflows::routes())
}

/// A page that nobody made: said as a page, with the way back.
async fn unknown(visit: Visit) -> Failure {
    let detail =
        "The console has no page at this address. Use the navigation, or search for what you look for.";
    visit.refuse(Problem::new(Code::NotFound, detail))
}
