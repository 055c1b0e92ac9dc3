//! The ledger: every effect, and each time its code was entered.

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use hapax_api::{LedgerClass, LedgerEntry, Page};
use maud::{Markup, html};
use serde::Deserialize;

use super::run::attempts;
use crate::Console;
use crate::failure::Failure;
use crate::form;
use crate::limits::{MAX_EVIDENCE_PAGES, PAGE_ROWS};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) const PATH: &str = "/console/ledger";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route(PATH, get(list))
}

/// Which effects. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
struct Filter {
    /// Part of an effect key, a run, an entity or a step.
    #[serde(default)]
    key: String,
    #[serde(default)]
    class: String,
    /// Host of the provider.
    #[serde(default)]
    provider: String,
    /// Name of a view: `twice`, `perhaps`, `entered`, or one of [`FURTHER_VIEWS`].
    #[serde(default)]
    only: String,
    /// To the minute in UTC, such as 2026-11-18T09:00, or a whole day.
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    cursor: String,
}

const CLASSES: &[(&str, &str)] =
    &[("", "any"), ("idempotent", "idempotent"), ("claimed", "claimed"), ("transactional", "transactional")];

/// Names of the views, and what they show.
const VIEWS: &[(&str, &str)] = &[
    ("All", ""),
    ("Entered more than once", "entered"),
    ("May have happened twice", "perhaps"),
    ("Happened twice", "twice"),
];

/// Views that other pages lead to.
const FURTHER_VIEWS: &[(&str, &str)] = &[
    ("Known to have happened", "happened"),
    ("Sent again under one key", "again"),
    ("Late outcome refused", "refused"),
    ("Provider was asked", "probed"),
    ("Decided by people", "ruled"),
];

impl Filter {
    fn pairs(&self) -> [(&'static str, Option<&str>); 6] {
        [
            ("key", Some(&self.key)),
            ("class", Some(&self.class)),
            ("only", Some(&self.only)),
            ("since", Some(&self.since)),
            ("until", Some(&self.until)),
            ("provider", Some(&self.provider)),
        ]
    }

    fn is_empty(&self) -> bool {
        self.pairs().iter().all(|(_, value)| value.is_none_or(str::is_empty))
    }

    fn admits(&self, entry: &LedgerEntry) -> bool {
        let named = |text: &str| text.contains(self.key.trim());
        let entity = entry.entity.as_ref().is_some_and(|it| named(&format!("{}/{}", it.kind, it.id)));
        let workflow = entry.workflow.as_deref().is_some_and(named);
        let is_named = named(&entry.effect_key) || named(&entry.step_id) || entity || workflow;
        let host = self.provider.trim().to_ascii_lowercase();
        let is_provider = host.is_empty() || entry.provider.as_deref().is_some_and(|it| it.contains(&host));
        let is_class = self.class.is_empty() || self.class == word(entry.class);
        // The same rows that the evidence counts: under one key, an idempotent provider does nothing a second time.
        let is_idempotent = entry.class == LedgerClass::Idempotent;
        let is_only = match self.only.as_str() {
            "twice" => entry.happened_twice > 0 && !is_idempotent,
            "perhaps" => entry.may_have_happened_twice > 0 && !is_idempotent,
            "again" => is_idempotent && entry.happened_twice + entry.may_have_happened_twice > 0,
            "happened" => entry.happened > 0,
            "entered" => entry.attempt_log.len() > 1,
            "refused" => entry.refused_writes > 0,
            "probed" => !entry.probes.is_empty(),
            "ruled" => !entry.rulings.is_empty(),
            _ => true,
        };
        // Days and minutes compare as text, as instants do.
        let began = first(entry).unwrap_or_default();
        let is_in_time = (self.since.is_empty() || began >= self.since.as_str())
            && (self.until.is_empty()
                || began.get(..self.until.len()).unwrap_or_default() <= self.until.as_str());
        is_named && is_class && is_provider && is_only && is_in_time
    }
}

/// A day as its first or last minute, as the field for times takes it.
fn minute(given: &str, of_day: &str) -> String {
    if given.len() == "2026-11-18".len() { format!("{given}{of_day}") } else { given.to_owned() }
}

/// When the effect was first entered.
pub(super) fn first(entry: &LedgerEntry) -> Option<&str> {
    entry.attempt_log.iter().filter_map(|it| it.began_at.as_deref().or(it.ended_at.as_deref())).min()
}

fn word(class: LedgerClass) -> &'static str {
    match class {
        LedgerClass::Idempotent => "idempotent",
        LedgerClass::Claimed => "claimed",
        LedgerClass::Transactional => "transactional",
    }
}

/// Matching effects, the number of effects read, and the cursor of the rest.
struct Found {
    entries: Vec<LedgerEntry>,
    seen: usize,
    next: Option<String>,
}

/// Reads on until a page is full, or enough was looked at.
async fn find(visit: &Visit, filter: &Filter) -> Result<Found, Failure> {
    let limit = if filter.is_empty() { "50" } else { "200" };
    let mut found = Found { entries: Vec::new(), seen: 0, next: Some(filter.cursor.clone()) };
    for _ in 0..MAX_EVIDENCE_PAGES {
        let Some(cursor) = found.next.take() else { break };
        let query = [("limit", Some(limit)), ("cursor", Some(cursor.as_str()))];
        let page: Page<LedgerEntry> = visit.read(&ops::SHOW_LEDGER, &[], &query).await?;
        found.seen += page.items.len();
        found.entries.extend(page.items.into_iter().filter(|entry| filter.admits(entry)));
        found.next = page.next_cursor;
        if found.entries.len() >= PAGE_ROWS {
            break;
        }
    }
    Ok(found)
}

async fn list(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let found = find(&visit, &filter).await?;
    let rows = found.entries.iter().map(|entry| row(entry, &visit)).collect();
    let export = |format: &str| {
        format!(
            "/console/evidence/export{}",
            text::query(&[("format", Some(format)), ("cursor", Some(&filter.cursor))])
        )
    };
    let nothing = match found.next {
        Some(_) => "None of these effects matches. Look at the older ones.",
        None if filter.is_empty() => {
            "There is no effect yet. Each is here from the moment its code is entered."
        }
        None => "No effect matches.",
    };
    let content = html! {
        (ui::heading("Ledger", html! { "Every effect, and each time its code was entered. The newest runs come first." }))
        (ui::tabs(&views(&filter)))
        form.filters action=(PATH) {
            @if !filter.only.is_empty() { input type="hidden" name="only" value=(filter.only); }
            label { span { "Key, entity, step or workflow" } input type="search" name="key" value=(filter.key) placeholder="any part of it" autocomplete="off" spellcheck="false"; }
            (form::choice("class", "Class", CLASSES, &filter.class))
            label { span { "Provider" } input type="search" name="provider" value=(filter.provider) placeholder="host" autocomplete="off" spellcheck="false"; }
            label { span { "Entered since, UTC" } input type="datetime-local" name="since" value=(minute(&filter.since, "T00:00")); }
            label { span { "Until" } input type="datetime-local" name="until" value=(minute(&filter.until, "T23:59")); }
            button.plain type="submit" { "Filter" }
        }
        (ui::table(&["Effect", "Of", "Provider", "Class", "Status", "First entered", "Entered", "Happened"], rows, nothing))
        @if !filter.is_empty() { p.hint { "Found among " (found.seen) " effects" @if found.next.is_some() { "; there are older ones" } ". Times are in UTC." } }
        (ui::pager(PATH, &filter.pairs(), filter.cursor.is_empty(), found.next.as_deref()))
        section {
            h2 { "Take it along" }
            p { "The effects from here on, without the filter. Each row is sealed with the hash of the one before it." }
            div.actions {
                a.button.plain href=(export("csv")) download { "Export as CSV" }
                a.button.plain href=(export("json")) download { "Export as JSON" }
            }
        }
    };
    Ok(visit.page("Ledger", content))
}

fn views(filter: &Filter) -> Vec<ui::Tab<'static>> {
    let path = |only: &str| {
        let mut pairs = filter.pairs();
        pairs[2].1 = Some(only);
        format!("{PATH}{}", text::query(&pairs))
    };
    let further = FURTHER_VIEWS.iter().filter(|(_, only)| filter.only == *only);
    VIEWS
        .iter()
        .chain(further)
        .map(|(name, only)| ui::Tab { name, path: path(only), is_here: filter.only == *only })
        .collect()
}

fn row(entry: &LedgerEntry, visit: &Visit) -> Vec<Markup> {
    let entered = entry.attempt_log.len();
    vec![
        html! { b { (entry.step_id) } details.more { summary { "key and attempts" } p { (ui::id(&entry.effect_key)) } (attempts(entry)) (ruled(entry)) } },
        html! {
            @match (&entry.run_id, &entry.entity, &entry.operation_id) {
                (Some(run), _, _) => { (ui::run_link(run)) }
                (None, Some(it), operation) => { (ui::entity_link(&it.kind, &it.id)) @if let Some(id) = operation { div { (ui::operation_link(id)) } } }
                (None, None, Some(id)) => { (ui::operation_link(id)) }
                (None, None, None) => { (ui::none()) }
            }
        },
        html! { @match &entry.provider { Some(host) => { a href={ (PATH) (text::query(&[("provider", Some(host))])) } { (host) } }, None => { (ui::none()) } } },
        html! { (word(entry.class)) },
        html! { @match entry.status { Some(status) => { (ui::step_badge(status)) }, None => { (ui::badge(ui::State::Gone, "No record stands")) } } },
        html! { @match first(entry) { Some(at) => { (ui::ago(at, visit.now_ms)) }, None => { (ui::none()) } } },
        html! { span.number { (entered) "×" } @if entry.refused_writes > 0 { div.dim { (entry.refused_writes) " late outcomes refused" } } },
        happened(entry),
    ]
}

/// How often it happened. An idempotent provider does nothing a second time under one key, so that is no alarm.
pub(super) fn happened(entry: &LedgerEntry) -> Markup {
    let again = entry.happened_twice + entry.may_have_happened_twice;
    if entry.class == LedgerClass::Idempotent && again > 0 {
        return html! { span.number { (entry.happened.min(1)) "×" } " " (ui::tag("sent again under one key")) };
    }
    match (entry.happened_twice, entry.may_have_happened_twice) {
        (0, 0) => {
            html! { span.number { (entry.happened) "×" } @if entry.may_have_happened > 0 { " " (ui::badge(ui::State::Doubt, "perhaps")) } }
        }
        (0, more) => ui::badge(ui::State::Doubt, &format!("perhaps {}×", more + entry.happened.max(1))),
        (_, _) => ui::badge(ui::State::Bad, &format!("{}×", entry.happened)),
    }
}

/// Rulings of people about the effect.
fn ruled(entry: &LedgerEntry) -> Markup {
    html! {
        @for ruling in &entry.rulings {
            p { (ui::time(&ruling.at)) " " (ui::actor(&ruling.actor)) @if let Some(resolution) = ruling.resolution { " " (ui::tag(&text::spelled(&resolution))) } ": " (ruling.reason) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> LedgerEntry {
        let text = r#"{"effectKey":"run_1:charge","runId":"run_1","stepId":"charge","class":"claimed","probes":[],"rulings":[],"workflow":"order@2","provider":"api.bank.example",
            "attemptLog":[{"number":1,"beganAt":"2026-11-18T10:00:00Z","status":"unknown"},{"number":2,"beganAt":"2026-11-18T11:00:00Z","status":"completed"}],
            "refusedWrites":0,"happened":1,"mayHaveHappened":1,"happenedTwice":0,"mayHaveHappenedTwice":1}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn filters_narrow_each_other_and_a_day_is_whole() {
        let filter = |name: &str, value: &str| {
            let pairs = format!("{{\"{name}\":\"{value}\"}}");
            serde_json::from_str::<Filter>(&pairs).unwrap().admits(&entry())
        };
        for (name, value) in [
            ("key", "run_1"),
            ("class", "claimed"),
            ("only", "entered"),
            ("only", "perhaps"),
            ("only", "happened"),
            ("since", "2026-11-18"),
            ("until", "2026-11-18"),
            ("since", "2026-11-18T10:00"),
            ("until", "2026-11-18T10:00"),
            ("provider", "Bank.example"),
            ("key", "order@2"),
        ] {
            assert!(filter(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("key", "run_2"),
            ("class", "idempotent"),
            ("only", "twice"),
            ("since", "2026-11-19"),
            ("until", "2026-11-17"),
            ("since", "2026-11-18T10:01"),
            ("provider", "stripe"),
            ("only", "refused"),
            ("only", "ruled"),
            ("only", "again"),
        ] {
            assert!(!filter(name, value), "{name}={value}");
        }
    }

    #[test]
    fn a_request_that_was_sent_again_under_one_key_is_not_among_what_happened_twice() {
        let idempotent = LedgerEntry { class: LedgerClass::Idempotent, ..entry() };
        let only = |only: &str| Filter { only: only.into(), ..Filter::default() }.admits(&idempotent);
        assert_eq!(
            (only("again"), only("perhaps"), only("twice"), only("entered")),
            (true, false, false, true)
        );
    }
}
