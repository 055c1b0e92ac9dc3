//! Runs: the list.

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use hapax_api::{Page, Run};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, ui};

const PATH: &str = "/console/runs";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route(PATH, get(list))
}

/// Which runs. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
struct Filter {
    #[serde(default)]
    status: String,
    #[serde(default)]
    workflow: String,
    #[serde(default)]
    attention: String,
    #[serde(default)]
    cursor: String,
}

impl Filter {
    fn pairs(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("status", Some(&self.status)),
            ("workflow", Some(&self.workflow)),
            ("attention", Some(&self.attention)),
        ]
    }
}

/// Names of the views, and the statuses they show.
const VIEWS: &[(&str, &str)] = &[
    ("All", ""),
    ("Open", "PENDING,RUNNING,WAITING,PAUSED"),
    ("Completed", "COMPLETED"),
    ("Failed", "FAILED"),
    ("Cancelled", "CANCELLED"),
];

async fn list(mut visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    // Later pages stand still, so that nobody loses their place.
    visit.frame.refresh = filter.cursor.is_empty();
    let is_attention = !filter.attention.is_empty();
    let query = [
        ("status", Some(filter.status.as_str())),
        ("workflow", Some(filter.workflow.as_str())),
        ("needsAttention", is_attention.then_some("true")),
        ("cursor", Some(filter.cursor.as_str())),
    ];
    let page: Page<Run> = visit.read(&ops::LIST_RUNS, &[], &query).await?;
    let rows = page.items.iter().map(|run| row(run, &visit)).collect();
    let pairs = filter.pairs();
    let content = html! {
        (ui::heading("Runs", html! { "Newest first." }))
        (ui::tabs(&views(&filter)))
        form.filters action=(PATH) {
            @if !filter.status.is_empty() { input type="hidden" name="status" value=(filter.status); }
            @if is_attention { input type="hidden" name="attention" value="yes"; }
            label { span { "Workflow" } input type="search" name="workflow" value=(filter.workflow) placeholder="any" autocomplete="off"; }
            button.plain type="submit" { "Filter" }
        }
        div #runs data-fragment {
            (ui::table(&["Run", "Status", "Workflow", "Subject or key", "At", "Started", "Took"], rows, "No run matches. Take a filter away, or start one."))
        }
        (ui::pager(PATH, &pairs, filter.cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Runs", content))
}

fn views(filter: &Filter) -> Vec<ui::Tab<'static>> {
    let workflow = ("workflow", Some(filter.workflow.as_str()));
    let is_attention = !filter.attention.is_empty();
    let mut tabs: Vec<_> = VIEWS
        .iter()
        .map(|(name, status)| ui::Tab {
            name,
            path: format!("{PATH}{}", crate::text::query(&[("status", Some(status)), workflow])),
            is_here: !is_attention && filter.status == *status,
        })
        .collect();
    tabs.push(ui::Tab {
        name: "Needs attention",
        path: format!("{PATH}{}", crate::text::query(&[("attention", Some("yes")), workflow])),
        is_here: is_attention,
    });
    tabs
}

fn row(run: &Run, visit: &Visit) -> Vec<Markup> {
    let ended = run.closed_at.as_deref();
    let took = match ended {
        Some(ended) => ui::span_between(&run.created_at, ended),
        None => ui::until_ms(&run.created_at, visit.now_ms).map(|ms| -ms),
    };
    vec![
        ui::run_link(&run.id),
        html! {
            (ui::run_badge(run.status))
            @if run.needs_attention.is_some() { " " (ui::badge(ui::State::Doubt, "Needs you")) }
        },
        html! { (run.workflow) },
        html! {
            @match run.subject.as_ref().or(run.idempotency_key.as_ref()) {
                Some(name) => { code { (name) } },
                None => { (ui::none()) },
            }
        },
        html! { @match &run.current_step_name { Some(step) => { (step) }, None => { (ui::none()) } } },
        ui::time(&run.created_at),
        html! { span.number { @if let Some(ms) = took { (ui::span_text(ms)) } @if ended.is_none() { "…" } } },
    ]
}
