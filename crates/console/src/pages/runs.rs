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
    subject: String,
    /// To the minute in UTC, such as 2026-11-18T09:00.
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    attention: String,
    #[serde(default)]
    cursor: String,
}

impl Filter {
    fn pairs(&self) -> [(&'static str, Option<&str>); 6] {
        [
            ("status", Some(&self.status)),
            ("workflow", Some(&self.workflow)),
            ("subject", Some(&self.subject)),
            ("since", Some(&self.since)),
            ("until", Some(&self.until)),
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
    let (since, until) = (instant(&filter.since), instant(&filter.until));
    let query = [
        ("status", Some(filter.status.as_str())),
        ("workflow", Some(filter.workflow.trim())),
        ("subject", Some(filter.subject.trim())),
        ("since", Some(since.as_str())),
        ("until", Some(until.as_str())),
        ("needsAttention", is_attention.then_some("true")),
        ("cursor", Some(filter.cursor.as_str())),
    ];
    let page: Page<Run> = visit.read(&ops::LIST_RUNS, &[], &query).await?;
    // A column that says nothing about any of them is left out.
    let has_steps = page.items.iter().any(|run| run.current_step_name.is_some());
    let step = has_steps.then_some("Step");
    let columns =
        ["Run", "Status", "Workflow", "Subject or key"].into_iter().chain(step).chain(["Started", "Took"]);
    let columns: Vec<_> = columns.collect();
    let rows = page.items.iter().map(|run| row(run, &visit, has_steps)).collect();
    let pairs = filter.pairs();
    let is_unused = page.items.is_empty() && pairs.iter().all(|(_, value)| value.is_none_or(str::is_empty));
    let content = html! {
        (ui::heading("Runs", html! { "Newest first." }))
        (ui::tabs(&views(&filter)))
        form.filters action=(PATH) {
            @if !filter.status.is_empty() { input type="hidden" name="status" value=(filter.status); }
            @if is_attention { input type="hidden" name="attention" value="yes"; }
            label { span { "Workflow" } input type="search" name="workflow" value=(filter.workflow) placeholder="any" autocomplete="off" spellcheck="false"; }
            label { span { "Subject" } input type="search" name="subject" value=(filter.subject) placeholder="exactly" autocomplete="off" spellcheck="false"; }
            label { span { "Started since, UTC" } input type="datetime-local" name="since" value=(filter.since); }
            label { span { "Before, UTC" } input type="datetime-local" name="until" value=(filter.until); }
            button.plain type="submit" { "Filter" }
        }
        div #runs data-fragment {
            @if is_unused {
                p.empty { "There is no run yet. " a href="/console/workflows" { "Start one" } " from a workflow, or through the API." }
            } @else { (ui::table(&columns, rows, "No run matches. Take a filter away.")) }
        }
        (ui::pager(PATH, &pairs, filter.cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Runs", content))
}

/// A minute as the API takes it.
fn instant(minute: &str) -> String {
    if minute.len() == "2026-11-18T09:00".len() { format!("{minute}:00Z") } else { minute.to_owned() }
}

fn views(filter: &Filter) -> Vec<ui::Tab<'static>> {
    let path = |status: &str, attention: &str| {
        let mut pairs = filter.pairs();
        pairs[0].1 = Some(status);
        pairs[5].1 = Some(attention);
        format!("{PATH}{}", crate::text::query(&pairs))
    };
    let is_attention = !filter.attention.is_empty();
    let mut tabs: Vec<_> = VIEWS
        .iter()
        .map(|(name, status)| ui::Tab {
            name,
            path: path(status, ""),
            is_here: !is_attention && filter.status == *status,
        })
        .collect();
    tabs.push(ui::Tab { name: "Needs attention", path: path("", "yes"), is_here: is_attention });
    tabs
}

fn row(run: &Run, visit: &Visit, has_steps: bool) -> Vec<Markup> {
    let ended = run.closed_at.as_deref();
    let took = match ended {
        Some(ended) => ui::span_between(&run.created_at, ended),
        None => ui::until_ms(&run.created_at, visit.now_ms).map(|ms| -ms),
    };
    let mut cells = vec![
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
    ];
    if has_steps {
        cells.push(
            html! { @match &run.current_step_name { Some(step) => { (step) }, None => { (ui::none()) } } },
        );
    }
    cells.extend([
        ui::time(&run.created_at),
        html! { span.number { @if let Some(ms) = took { (ui::span_text(ms)) } @if ended.is_none() { "…" } } },
    ]);
    cells
}
