//! One run: where it stands and why, its steps over time, its effects, its history, and what people can do.

mod actions;
mod live;
mod retry;
mod reveal;
mod timeline;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{
    JournalEntry, LedgerClass, LedgerEntry, Page, Run, RunDetail, RunEvent, RunStatus, Why, WhyReason, WhyRun,
};
use maud::{Markup, html};
use serde::Deserialize;

pub(super) use timeline::attempts;

use crate::Console;
use crate::failure::Failure;
use crate::limits::MAX_STEPS_SHOWN;
use crate::visit::Visit;
use crate::{form, ops, text, ui};

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/runs/{id}", get(show))
        .route("/console/runs/{id}/live", get(live::stream))
        .route("/console/runs/{id}/retry", get(retry::plan).post(retry::send))
        .route("/console/runs/{id}/cancel", post(actions::cancel))
        .route("/console/runs/{id}/pause", post(actions::pause))
        .route("/console/runs/{id}/resume", post(actions::resume))
        .route("/console/runs/{id}/signal", post(actions::signal))
        .route("/console/runs/{id}/settle", post(actions::settle))
        .route("/console/runs/{id}/notes", post(actions::add_note))
        .route("/console/runs/{id}/reveal", post(reveal::show))
}

/// Part of the run to show.
#[derive(Debug, Default, Deserialize)]
struct View {
    #[serde(default)]
    tab: String,
    /// First effect on the page, counted from 0.
    #[serde(default)]
    steps: String,
    /// Steps in the order they started, `asc`, or the newest first, `desc`.
    #[serde(default)]
    order: String,
    #[serde(default)]
    cursor: String,
}

async fn show(
    mut visit: Visit,
    Path(id): Path<String>,
    Query(view): Query<View>,
) -> Result<Response, Failure> {
    let detail: RunDetail = visit.read(&ops::SHOW_RUN, &[&id], &[("steps", Some("false"))]).await?;
    let why: Option<Why> = visit.look_up(&ops::WHY, &[("q", Some(&id))]).await?;
    let run = &detail.run;
    let is_open = is_open(run.status);
    let path = ui::run_path(&id);
    if is_open {
        visit.frame.live = Some(format!("{path}/live?seen={}", run.version));
    }
    let content = match view.tab.as_str() {
        "effects" => effects(&visit, &id, &view.steps).await?,
        "history" => history(&visit, &id, &view.cursor).await?,
        "notes" => notes(&visit, &id, &view.cursor).await?,
        _ => {
            let shown = timeline::Shown::read(&visit, run, &view.order, &view.cursor).await?;
            let timeline = timeline::timeline(&visit, run, &shown);
            html! { (reveal::offer(&visit, run, shown.steps())) (timeline) }
        }
    };
    let tab = |name: &'static str, key: &str| ui::Tab {
        name,
        path: format!("{path}{}", text::query(&[("tab", Some(key))])),
        is_here: view.tab == key,
    };
    let tabs = [
        tab("Timeline", ""),
        tab("Effects", "effects"),
        tab("History", "history"),
        tab("Journal and notes", "notes"),
    ];
    let page = html! {
        div #run-head data-fragment { (head(&visit, run, why.as_ref())) }
        (ui::tabs(&tabs))
        div #run-body data-fragment { (content) }
    };
    Ok(visit.page(&format!("{} {}", run.workflow, short(&id)), page))
}

/// The end of an id, which tells it from its neighbours.
fn short(id: &str) -> &str {
    &id[id.len().saturating_sub(8)..]
}

pub(super) fn is_open(status: RunStatus) -> bool {
    match status {
        RunStatus::Pending | RunStatus::Running | RunStatus::Waiting | RunStatus::Paused => true,
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => false,
    }
}

fn head(visit: &Visit, run: &Run, why: Option<&Why>) -> Markup {
    let own = why.and_then(|why| why.runs.iter().find(|found| found.run_id == run.id));
    let took = match &run.closed_at {
        Some(end) => ui::span_between(&run.created_at, end),
        None => ui::until_ms(&run.created_at, visit.now_ms).map(|ms| -ms),
    };
    html! {
        div.heading {
            p.crumb { a href="/console/runs" { "Runs" } " / " a href={ "/console/runs" (text::query(&[("workflow", run.workflow.split('@').next())])) } { (run.workflow) } }
            h1 { (run.subject.as_deref().or(run.idempotency_key.as_deref()).unwrap_or(&run.workflow)) " " (ui::run_badge(run.status)) }
            p.about { (ui::id(&run.id)) }
        }
        @if let Some(own) = own { (waits(visit, own)) }
        @if let Some(attention) = &run.needs_attention {
            div.notice.doubt role="status" {
                p.sentence { "It stands still until people decide: " (text::spelled(&attention.reason)) "." }
                @if let Some(step) = attention.step_id.as_ref().filter(|_| attention.reason == hapax_api::AttentionReason::InDoubt) {
                    p { a.button.primary href=(super::doubts::path(&run.id, step)) { "Decide about " (step) } }
                } @else { p { (attention.detail) } }
            }
        }
        @if let Some(failure) = &run.failure {
            div.notice.bad { p.sentence { (ui::sentence(&failure.message)) } @if let Some(code) = &failure.code { p { code { (code) } } } }
        }
        @if let Some(asked) = run.pending_request { p.hint { "Asked to " (text::spelled(&asked)) ", not yet done." } }
        (actions::buttons(visit, run))
        (ui::known(vec![
            ("Started", Some(ui::time(&run.created_at))),
            ("Took", took.map(|ms| html! { (ui::span_text(ms)) @if run.closed_at.is_none() { " so far" } })),
            ("Key", run.idempotency_key.as_deref().map(|key| ui::id_link(&format!("/console/keys/run/{}", text::encode(key)), key))),
            ("Parent", run.parent.as_ref().map(|parent| html! { (ui::run_link(&parent.run_id)) " " span.dim { (parent.step_id) } })),
            ("Wakes", run.wake_at.as_deref().map(ui::time)),
            ("Must end by", run.deadline_at.as_deref().map(ui::time)),
            ("Version", Some(html! { (run.version) @if run.generation > 0 { " · generation " (run.generation) } })),
        ]))
        @if let Some(why) = why.filter(|why| why.runs.len() > 1) { (family(&why.runs, &run.id, why.is_cut)) }
    }
}

/// Says in plain sentences what a run waits for, with forms that end the wait.
pub(super) fn waits(visit: &Visit, run: &WhyRun) -> Markup {
    html! {
        @if is_open(run.status) && !run.waits_for.is_empty() {
            div.notice.active {
                @for wait in &run.waits_for {
                    // The command that ends the wait stands below.
                    @let told = wait.sentence.split("; `hapax").next().unwrap_or_default();
                    p.sentence { "It " (ui::sentence(told)) "." }
                    @if let Some(child) = &wait.child_run_id { p.dim { "Child: " (ui::run_link(child)) } }
                    @if let Some(command) = &wait.command { p.dim { "On a terminal: " code { (command) } } }
                    @if let Some(key) = wait.key.as_deref().filter(|_| wait.reason == WhyReason::Promise) { (actions::settling(visit, &run.run_id, key)) }
                }
            }
        }
    }
}

/// Parents, the run and its children, as a tree.
pub(super) fn family(runs: &[WhyRun], here: &str, is_cut: bool) -> Markup {
    html! {
        section.family {
            h2 { "Family" }
            ul {
                @for run in runs {
                    li class={ "depth-" (run.depth.min(8)) } aria-current=[(run.run_id == here).then_some("true")] {
                        (ui::run_badge(run.status)) " " (ui::run_link(&run.run_id)) " " span { (run.workflow) }
                        @if let Some(wait) = run.waits_for.first() { " " span.dim { (ui::sentence(wait.sentence.split("; `hapax").next().unwrap_or_default())) } }
                    }
                }
            }
            @if is_cut { p.hint { "Runs of the family were left out." } }
        }
    }
}

async fn effects(visit: &Visit, id: &str, given: &str) -> Result<Markup, Failure> {
    let ledger: Page<LedgerEntry> = visit.read(&ops::SHOW_RUN_LEDGER, &[id], &[]).await?;
    let first = given.parse::<usize>().unwrap_or(0).min(ledger.items.len());
    let shown = &ledger.items[first..ledger.items.len().min(first + MAX_STEPS_SHOWN)];
    let more = (first + MAX_STEPS_SHOWN < ledger.items.len()).then(|| (first + MAX_STEPS_SHOWN).to_string());
    let columns = [
        "Step",
        "Effect key",
        "Kept from repeating by",
        "Status",
        "Attempts",
        "Happened",
        "May have happened",
        "Decided",
    ];
    let next = more.map(|more| {
        format!("{}{}", ui::run_path(id), text::query(&[("tab", Some("effects")), ("steps", Some(&more))]))
    });
    Ok(html! {
        p.hint { "Each effect this run had on the outside world. Happened says how often it is known to have happened." }
        (ui::table(&columns, shown.iter().map(effect_row).collect(), "This run has had no effect."))
        @if let Some(next) = next {
            nav.pager aria-label="Pages of effects" {
                span.dim { "Effects " (first + 1) " to " (first + shown.len()) " of " (ledger.items.len()) }
                a.button.plain href=(next) rel="next" { "More effects" }
            }
        }
    })
}

fn effect_row(entry: &LedgerEntry) -> Vec<Markup> {
    let twice = entry.happened_twice > 0;
    vec![
        html! { (entry.step_id) },
        ui::id(&entry.effect_key),
        html! { (text::spelled(&entry.class)) },
        html! { @match entry.status { Some(status) => { (ui::step_badge(status)) }, None => { (ui::none()) } } },
        html! { span.number { (entry.attempt_log.len()) } },
        html! { span.number { (entry.happened) } @if twice { " " (ui::badge(ui::State::Bad, "twice")) } },
        html! { span.number { (entry.may_have_happened) } @if entry.may_have_happened_twice > 0 {
            " " @if entry.class == LedgerClass::Idempotent { (ui::tag("under one key")) } @else { (ui::badge(ui::State::Doubt, "perhaps twice")) }
        } },
        html! { @for ruling in &entry.rulings { p { (ui::actor(&ruling.actor)) ": " (ruling.reason) } } @if entry.rulings.is_empty() { (ui::none()) } },
    ]
}

async fn history(visit: &Visit, id: &str, cursor: &str) -> Result<Markup, Failure> {
    let page: Page<RunEvent> =
        visit.read(&ops::LIST_EVENTS, &[id], &[("limit", Some("100")), ("cursor", Some(cursor))]).await?;
    let rows = page.items.iter().map(|event| {
        vec![
            html! { span.number { (event.version) } },
            ui::time(&event.at),
            html! { (text::spelled(&event.kind)) },
            html! { span.number { (event.fence) } },
            html! { @match &event.note { Some(note) => { (note) }, None => { (ui::none()) } } },
        ]
    });
    Ok(html! {
        (ui::table(&["Version", "When", "What", "Fence", "Note"], rows.collect(), "No entries."))
        (ui::pager(&ui::run_path(id), &[("tab", Some("history"))], cursor.is_empty(), page.next_cursor.as_deref()))
    })
}

async fn notes(visit: &Visit, id: &str, cursor: &str) -> Result<Markup, Failure> {
    let page: Page<JournalEntry> =
        visit.read(&ops::LIST_RUN_NOTES, &[id], &[("limit", Some("100")), ("cursor", Some(cursor))]).await?;
    let path = ui::run_path(id);
    Ok(html! {
        @if visit.may(&ops::ADD_RUN_NOTE) {
            div.compose { (form::form(visit, &format!("{path}/notes"), None, html! {
                (form::area("text", "Note", "", Some("Kept with the run, under your name, for as long as the audit log."), true))
                (form::submit("Add note", form::Tone::Plain))
            })) }
        }
        (ui::journal(&page.items, "Nothing was noted yet."))
        (ui::pager(&path, &[("tab", Some("notes"))], cursor.is_empty(), page.next_cursor.as_deref()))
    })
}
