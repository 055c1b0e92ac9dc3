//! The server: its health and its settings.

use axum::response::Response;
use hapax_api::{Health, HealthStatus, IdempotencyPolicy, Readiness, Workspace};
use maud::{Markup, html};

use super::{PATH, heading};
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, ui};

pub(super) async fn show(visit: Visit) -> Result<Response, Failure> {
    let health: Health = visit.read(&ops::SHOW_HEALTH, &[], &[]).await?;
    let readiness: Readiness = visit.read(&ops::SHOW_READINESS, &[], &[]).await?;
    let policy: IdempotencyPolicy = visit.read(&ops::SHOW_POLICY, &[], &[]).await?;
    let workspace: Option<Workspace> = visit.find(&ops::SHOW_WORKSPACE, &[&visit.session.workspace]).await?;
    let figures = match visit.may(&ops::SHOW_METRICS) {
        true => Some(visit.ask(&ops::SHOW_METRICS, &[], &[]).await?.text()),
        false => None,
    };
    let checks = readiness.checks.iter().map(|check| {
        vec![
            html! { b { (check.name) } },
            badge(check.status),
            html! { @match &check.detail { Some(detail) => { (detail) }, None => { (ui::none()) } } },
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Whether this node is well, and the rules that it keeps." }))
        (ui::known(vec![
            ("Node", Some(badge(readiness.status))),
            ("Version", Some(html! { (health.server_version) })),
            ("Workspace", Some(html! { (workspace.as_ref().map_or(visit.session.workspace.as_str(), |it| &it.name)) })),
            ("You are", Some(html! { (visit.session.name) ", " (visit.session.role.as_str()) })),
        ]))
        section { h2 { "Checks" } (ui::table(&["Check", "How it is", "What is wrong"], checks.collect(), "There is no check.")) }
        section { h2 { "Settings in force" } (settings(&policy)) }
        section {
            h2 { "Figures" }
            @match &figures {
                Some(figures) => { (table_of(figures)) }
                None => { p.hint { "Figures are about all workspaces, so they are for credentials of the installation. Prometheus reads them from " code { "/metrics" } "." } }
            }
        }
    };
    Ok(visit.page("Administration", content))
}

fn badge(status: HealthStatus) -> Markup {
    let (state, word) = match status {
        HealthStatus::Ok => (ui::State::Good, "Well"),
        HealthStatus::Unavailable => (ui::State::Bad, "Unavailable"),
        HealthStatus::Draining => (ui::State::Held, "Draining"),
    };
    ui::badge(state, word)
}

fn settings(policy: &IdempotencyPolicy) -> Markup {
    let (request, business) = (&policy.request_keys, &policy.business_keys);
    let statuses: Vec<_> = request.statuses_not_stored.iter().map(u16::to_string).collect();
    let row = |name: &str, value: Markup, about: &str| {
        vec![html! { (name) }, value, html! { span.dim { (about) } }]
    };
    let rows = vec![
        row(
            "Header of request keys",
            html! { code { (request.header) } },
            &format!("On {}.", request.methods.join(", ")),
        ),
        row(
            "Length of a request key",
            html! { (request.min_chars) " to " (request.max_chars) },
            "Characters.",
        ),
        row(
            "Answers are kept for",
            html! { (request.retention.to_string()) },
            "A repeat within it gets the first answer.",
        ),
        row("Then refused for", html! { (request.grace.to_string()) }, "A late repeat does nothing."),
        row(
            "A second request waits",
            html! { (request.wait.to_string()) ", at most " (request.max_wait.to_string()) },
            "For the first one's answer.",
        ),
        row(
            "Answers are kept whole up to",
            html! { (request.max_stored_body_bytes / 1024) " kB" },
            "A repeat of a larger one is told so.",
        ),
        row("Statuses not kept", html! { (statuses.join(", ")) }, "The key may be used again after them."),
        row(
            "Field of business keys",
            html! { code { (business.field) } },
            &format!("{} to {} characters.", business.min_chars, business.max_chars),
        ),
        row(
            "Business keys live",
            html! { @match business.retention { Some(kept) => { (kept.to_string()) }, None => { "for ever" } } },
            "After the run has ended; a definition may say otherwise.",
        ),
        row(
            "A failed run frees its key",
            html! { @if business.released_on_failure { "yes" } @else { "no" } },
            "A definition may say otherwise.",
        ),
        row(
            "Keys of promises live",
            html! { (policy.promise_keys.ttl.to_string()) },
            "Never less than until the promise is settled.",
        ),
        row("Two requests are the same by", html! { (policy.fingerprint) }, ""),
    ];
    ui::table(&["Setting", "Value", "What it means"], rows, "None.")
}

/// Figures for Prometheus as a table.
fn table_of(figures: &str) -> Markup {
    let lines = figures.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket"));
    let rows = lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| vec![html! { code { (name) } }, html! { span.number { (value) } }]);
    ui::table(&["Figure", "Value"], rows.collect(), "Nothing is counted.")
}
