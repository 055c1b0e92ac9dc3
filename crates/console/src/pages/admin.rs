//! Administration: the server, its workspaces, who may do what, and what people did.

mod audit;
mod credentials;
mod nodes;
mod roles;
mod server;
mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use maud::{Markup, html};

use crate::ops::{self, Op};
use crate::visit::Visit;
use crate::{Console, ui};

const PATH: &str = "/console/admin";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(server::show))
        .route("/console/admin/audit", get(audit::list))
        .route("/console/admin/audit/export", get(audit::export))
        .route("/console/admin/credentials", get(credentials::list).post(credentials::create))
        .route("/console/admin/credentials/{id}/rotate", post(credentials::rotate))
        .route("/console/admin/credentials/{id}/revoke", post(credentials::revoke))
        .route("/console/admin/nodes", get(nodes::show))
        .route("/console/admin/roles", get(roles::show))
        .route("/console/admin/workspaces", get(workspaces::list).post(workspaces::create))
}

/// Views of the administration. Each needs an operation.
const VIEWS: &[(&str, &str, Op)] = &[
    ("Server", PATH, ops::SHOW_READINESS),
    ("Nodes", "/console/admin/nodes", ops::LIST_LEASES),
    ("Audit log", "/console/admin/audit", ops::LIST_AUDIT),
    ("Credentials", "/console/admin/credentials", ops::LIST_CREDENTIALS),
    ("Roles", "/console/admin/roles", ops::SHOW_POLICY),
    ("Workspaces", "/console/admin/workspaces", ops::LIST_WORKSPACES),
];

/// The heading of a view, with links to the others.
fn heading(visit: &Visit, here: &str, about: Markup) -> Markup {
    let allowed = VIEWS.iter().filter(|(_, _, op)| visit.may(op));
    let tabs: Vec<_> = allowed
        .map(|(name, path, _)| ui::Tab { name, path: (*path).into(), is_here: *path == here })
        .collect();
    html! { (ui::heading("Administration", about)) (ui::tabs(&tabs)) }
}
