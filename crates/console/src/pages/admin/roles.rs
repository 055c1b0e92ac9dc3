//! Roles and permissions, as the server decides them.

use axum::response::Response;
use hapax_api::Role;
use maud::html;

use super::heading;
use crate::Session;
use crate::failure::Failure;
use crate::ops::{self, Op};
use crate::ui;
use crate::visit::Visit;

const PATH: &str = "/console/admin/roles";

/// Permissions in words, each with an operation that needs it.
const ALL: &[(&str, Op)] = &[
    ("See runs, entities, doubts, keys and webhooks", ops::LIST_RUNS),
    ("See the ledger and the audit log", ops::LIST_AUDIT),
    ("Start runs", ops::START_RUN),
    ("Pause, resume, cancel and retry runs", ops::CANCEL_RUN),
    ("Send signals, settle promises", ops::SEND_SIGNAL),
    ("Answer approvals that ask for the role", ops::ANSWER_APPROVAL),
    ("Take the steps of entities, leave notes", ops::TAKE_STEP),
    ("Decide doubts: it happened", ops::RESOLVE_DOUBT),
    ("Process webhooks again", ops::REPROCESS_EVENT),
    ("Redeliver webhooks", ops::REDELIVER),
    ("Take a step with an override", ops::OVERRIDE_STEP),
    ("Release keys", ops::RELEASE_KEY),
    ("Discard deliveries", ops::DISCARD_DELIVERIES),
    ("Upload, archive and delete workflows", ops::CHANGE_DEFINITION),
    ("Make and change webhook sources", ops::REPLACE_SOURCE),
    ("Make and change subscriptions", ops::CREATE_SUBSCRIPTION),
    ("Create, rotate and revoke credentials", ops::CREATE_CREDENTIAL),
];

pub(super) async fn show(visit: Visit) -> Result<Response, Failure> {
    let may = |role: Role, op: &Op| {
        let somebody = Session { role, is_installation: false, ..(*visit.session).clone() };
        visit.console.host.may(&somebody, &op.method, op.path)
    };
    let rows = ALL.iter().map(|(what, op)| {
        let mut row = vec![html! { (what) }];
        row.extend(Role::ALL.map(|role| match may(role, op) {
            true => html! { span.good.yes { "yes" } },
            false => html! { span.dim { "no" } },
        }));
        row
    });
    let columns: Vec<_> = std::iter::once("What").chain(Role::ALL.map(Role::as_str)).collect();
    let content = html! {
        (heading(&visit, PATH, html! { "What each role may do, as the server decides it. You are " b { (visit.session.role.as_str()) } "." }))
        (ui::table(&columns, rows.collect(), "None."))
        p.hint { "A worker takes work and records it. Doubts that cannot be taken back, and effects that a retry repeats, take a manager. Workspaces and figures of the whole server are for credentials of the installation." }
    };
    Ok(visit.page("Roles", content))
}
