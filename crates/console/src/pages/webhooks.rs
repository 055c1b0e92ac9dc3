//! Webhooks: received events with their outcome, sources, deliveries, subscriptions.

mod deliveries;
mod early;
mod events;
mod sources;
mod subscription;
mod subscriptions;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use maud::{Markup, html};

use crate::Console;
use crate::form::{self, Tone};
use crate::ops::{self, Op};
use crate::ui;
use crate::visit::Visit;

const PATH: &str = "/console/webhooks";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(events::list))
        .route("/console/webhooks/reprocess", post(events::reprocess_many))
        .route("/console/webhooks/events/{source}/{event}", get(events::show))
        .route("/console/webhooks/events/{source}/{event}/reprocess", post(events::reprocess))
        .route("/console/webhooks/early", get(early::list))
        .route("/console/webhooks/deliveries", get(deliveries::list))
        .route("/console/webhooks/deliveries/redeliver", post(deliveries::redeliver_many))
        .route("/console/webhooks/deliveries/discard", post(deliveries::discard))
        .route("/console/webhooks/deliveries/{id}/redeliver", post(deliveries::redeliver))
        .route("/console/webhooks/subscriptions", get(subscriptions::list).post(subscriptions::create))
        .route("/console/webhooks/subscriptions/{id}", get(subscription::show))
        .route("/console/webhooks/subscriptions/{id}/change", post(subscription::change))
        .route("/console/webhooks/subscriptions/{id}/switch", post(subscription::switch))
        .route("/console/webhooks/subscriptions/{id}/rotate", post(subscription::rotate))
        .route("/console/webhooks/subscriptions/{id}/test", post(subscription::test))
        .route("/console/webhooks/subscriptions/{id}/delete", post(subscription::delete))
        .route("/console/webhooks/sources", get(sources::list).post(sources::create))
        .route("/console/webhooks/sources/{name}", get(sources::show))
        .route("/console/webhooks/sources/{name}/replace", post(sources::replace))
        .route("/console/webhooks/sources/{name}/switch", post(sources::switch))
        .route("/console/webhooks/sources/{name}/delete", post(sources::delete))
}

/// Views of webhooks. Each needs an operation.
const VIEWS: &[(&str, &str, Op)] = &[
    ("Received", PATH, ops::LIST_WEBHOOK_EVENTS),
    ("Early settlements", "/console/webhooks/early", ops::LIST_EARLY_SETTLEMENTS),
    ("Sources", "/console/webhooks/sources", ops::LIST_SOURCES),
    ("Deliveries", "/console/webhooks/deliveries", ops::LIST_DELIVERIES),
    ("Subscriptions", "/console/webhooks/subscriptions", ops::LIST_SUBSCRIPTIONS),
];

/// The heading of a list, with links to the others.
fn heading(visit: &Visit, here: &str, about: Markup) -> Markup {
    let allowed = VIEWS.iter().filter(|(_, _, op)| visit.may(op));
    let tabs: Vec<_> = allowed
        .map(|(name, path, _)| ui::Tab { name, path: (*path).into(), is_here: *path == here })
        .collect();
    html! { (ui::heading("Webhooks", about)) (ui::tabs(&tabs)) }
}

/// A form that gives a reason and does one thing.
fn with_reason(
    visit: &Visit,
    label: &str,
    tone: Tone,
    action: &str,
    version: Option<u64>,
    (fields, is_required): (Markup, bool),
) -> Markup {
    let inside = html! {
        (fields)
        (form::area("reason", "Reason", "", Some("Kept in the audit log."), is_required))
        (form::submit(label, tone))
    };
    form::disclosed(&format!("{label}…"), tone, form::form(visit, action, version, inside))
}
