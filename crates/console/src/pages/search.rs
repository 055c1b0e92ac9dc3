//! Search: everything that one word names, and what the run behind it waits for.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use hapax_api::{LedgerClass, LedgerEntry, Page, RunDetail, Why, WhyMatch, WhyMatchKind};
use maud::{Markup, html};
use serde::Deserialize;

use super::run::{family, waits};
use super::{keys, ledger};
use crate::Console;
use crate::failure::Failure;
use crate::limits::{MAX_COMMITS_WITH_ATTEMPTS, MAX_SEARCHED_RUNS, PAGE_ROWS};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route("/console/search", get(show))
}

#[derive(Debug, Default, Deserialize)]
struct SearchQuery {
    #[serde(default)]
    q: String,
}

async fn show(mut visit: Visit, Query(SearchQuery { q }): Query<SearchQuery>) -> Result<Response, Failure> {
    let q = q.trim().to_owned();
    visit.frame.search.clone_from(&q);
    let why: Option<Why> = match q.is_empty() {
        true => None,
        false => visit.look_up(&ops::WHY, &[("q", Some(&q))]).await?,
    };
    let history = match q.is_empty() {
        true => Vec::new(),
        false => keys::history_of_any(&visit, &q).await?,
    };
    let effects = match &why {
        Some(why) => effects_of(&visit, why).await?,
        None => None,
    };
    let content = html! {
        @match &why {
            Some(why) => {
                (ui::heading(&q, html! { (why.matches.len()) @if why.matches.len() == 1 { " match" } @else { " matches" } " in this workspace." }))
                (answer(&visit, why))
                @if let Some(effects) = &effects { (told(effects)) }
            }
            None => {
                (ui::heading(if q.is_empty() { "Search" } else { &q }, html! { "Nothing in this workspace has exactly this name." }))
                div.notice {
                    p { "Search takes whole names: an order number that is a subject or a key, a run id, " code { "type/id" } " of an entity, a promise key, an operation id, or a provider's event id." }
                    @if !q.is_empty() && visit.may(&ops::SHOW_KEY) {
                        p.actions { a.button.plain href={ "/console/keys" (text::query(&[("key", Some(&q))])) } { "Look it up among all keys" } }
                    }
                }
            }
        }
        @if !history.is_empty() { section { h2 { "What people did with this key" } (ui::journal(&history, "")) } }
    };
    Ok(visit.page(&format!("Search {q}"), content))
}

/// Effects of the matches.
struct Effects {
    entries: Vec<LedgerEntry>,
    /// Were effects left out, because there are many?
    is_cut: bool,
}

/// What the matched runs did to the world: did anything happen twice? Entities have their own page.
async fn effects_of(visit: &Visit, why: &Why) -> Result<Option<Effects>, Failure> {
    let mut runs: Vec<&str> = why.matches.iter().filter_map(|found| found.run_id.as_deref()).collect();
    runs.extend(why.runs.iter().map(|run| run.run_id.as_str()));
    let mut seen = BTreeSet::new();
    runs.retain(|run| seen.insert(*run));
    if runs.is_empty() {
        return Ok(None);
    }
    let mut effects = Effects { entries: Vec::new(), is_cut: runs.len() > MAX_SEARCHED_RUNS };
    for run in runs.into_iter().take(MAX_SEARCHED_RUNS) {
        let query = [("steps", Some("false"))];
        let detail: Option<RunDetail> = visit.look_up_at(&ops::SHOW_RUN, &[run], &query).await?;
        let Some(detail) = detail else { continue };
        if detail.run.version > MAX_COMMITS_WITH_ATTEMPTS {
            effects.is_cut = true;
            continue;
        }
        let found: Option<Page<LedgerEntry>> = visit.find(&ops::SHOW_RUN_LEDGER, &[run]).await?;
        effects.entries.extend(found.into_iter().flat_map(|page| page.items));
    }
    effects.is_cut |= effects.entries.len() > PAGE_ROWS;
    Ok(Some(effects))
}

/// Says in a sentence whether anything happened twice, and lists the effects.
fn told(Effects { entries, is_cut }: &Effects) -> Markup {
    let is_protected = |entry: &&LedgerEntry| entry.class != LedgerClass::Idempotent;
    let twice = entries.iter().filter(is_protected).filter(|entry| entry.happened_twice > 0).count();
    let perhaps =
        entries.iter().filter(is_protected).filter(|entry| entry.may_have_happened_twice > 0).count();
    let in_doubt = entries.iter().filter(|entry| entry.happened == 0 && entry.may_have_happened > 0).count();
    let (tone, sentence) = match (twice, perhaps, in_doubt) {
        (0, 0, 0) => ("good", "Nothing happened twice.".to_owned()),
        (0, 0, some) => (
            "doubt",
            format!(
                "Nothing happened twice. Of {}, nobody knows yet whether it happened.",
                text::count(some, "effect")
            ),
        ),
        (0, some, _) => ("doubt", format!("{} may have happened twice.", text::count(some, "effect"))),
        (some, _, _) => ("bad", format!("{} happened twice.", text::count(some, "effect"))),
    };
    let rows = entries.iter().take(PAGE_ROWS).map(|entry| {
        vec![
            html! { b { (entry.step_id) } },
            html! { @match &entry.provider { Some(host) => { (host) }, None => { (ui::none()) } } },
            html! { @match entry.status { Some(status) => { (ui::step_badge(status)) }, None => { (ui::none()) } } },
            html! { span.number { (entry.attempt_log.len()) "×" } },
            ledger::happened(entry),
            html! { @if let Some(run) = &entry.run_id { (ui::run_link(run)) } },
        ]
    });
    html! {
        section {
            h2 { "What it did to the world" }
            @if entries.is_empty() { (ui::empty("It has had no effect.")) }
            @else {
                div.notice.(tone) { p.sentence { (sentence) } @if *is_cut { p { "These are the first effects; the pages of the runs have all." } } }
                (ui::table(&["Effect", "Provider", "Status", "Entered", "Happened", "Run"], rows.collect(), ""))
            }
        }
    }
}

fn answer(visit: &Visit, why: &Why) -> Markup {
    let here = why.matches.iter().find_map(|found| found.run_id.as_deref()).unwrap_or_default();
    let own = why.runs.iter().find(|run| run.run_id == here);
    let rows = why.matches.iter().map(|found| {
        vec![
            html! { (kind(found.kind)) },
            link(found),
            html! { "It " (ui::sentence(found.sentence.split("; `hapax").next().unwrap_or_default())) "." },
        ]
    });
    html! {
        @if let Some(run) = own { (waits(visit, run)) }
        (ui::table(&["What", "Which", "How it stands"], rows.collect(), "Nothing."))
        @if why.runs.len() > 1 { (family(&why.runs, here, why.is_cut)) }
    }
}

fn kind(kind: WhyMatchKind) -> &'static str {
    match kind {
        WhyMatchKind::Run => "Run",
        WhyMatchKind::RunKey => "Run, by its key",
        WhyMatchKind::Subject => "Run, by its subject",
        WhyMatchKind::Promise => "Promise",
        WhyMatchKind::PromiseKey => "Promise, by its key",
        WhyMatchKind::Operation => "Operation",
        WhyMatchKind::OperationKey => "Operation, by its key",
        WhyMatchKind::Entity => "Entity",
        WhyMatchKind::WebhookEvent => "Webhook event",
    }
}

/// The page of what was found.
fn link(found: &WhyMatch) -> Markup {
    let id = &found.id;
    match found.kind {
        WhyMatchKind::Run | WhyMatchKind::RunKey | WhyMatchKind::Subject => match &found.run_id {
            Some(run) => {
                html! { (ui::id_link(&ui::run_path(run), id)) @if run != id { " " (ui::run_link(run)) } }
            }
            None => ui::id(id),
        },
        WhyMatchKind::Promise | WhyMatchKind::PromiseKey => {
            html! { (ui::id(id)) @if let Some(run) = &found.run_id { " of " (ui::run_link(run)) } }
        }
        WhyMatchKind::Operation | WhyMatchKind::OperationKey => ui::operation_link(id),
        WhyMatchKind::Entity => match id.split_once('/') {
            Some((kind, entity)) => ui::entity_link(kind, entity),
            None => ui::id(id),
        },
        WhyMatchKind::WebhookEvent => match id.split_once('/') {
            Some((source, event)) => ui::id_link(
                &format!("/console/webhooks/events/{}/{}", text::encode(source), text::encode(event)),
                id,
            ),
            None => ui::id(id),
        },
    }
}
