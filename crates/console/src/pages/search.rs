//! Search: everything that one word names, and what the run behind it waits for.

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use hapax_api::{Why, WhyMatch, WhyMatchKind};
use maud::{Markup, html};
use serde::Deserialize;

use super::run::{family, waits};
use crate::Console;
use crate::failure::Failure;
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
    let content = html! {
        @match &why {
            Some(why) => {
                (ui::heading(&q, html! { (why.matches.len()) @if why.matches.len() == 1 { " match" } @else { " matches" } " in this workspace." }))
                (answer(&visit, why))
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
    };
    Ok(visit.page(&format!("Search {q}"), content))
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
