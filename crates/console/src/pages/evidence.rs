//! Evidence: what happened twice, what may have, and what that is computed from.

mod export;
mod history;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::get;
use hapax_api::{Doubt, LedgerClass, LedgerEntry, Operation, Page, Run};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::limits::MAX_EVIDENCE_PAGES;
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/evidence";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route(PATH, get(show)).route("/console/evidence/export", get(export::export))
}

#[derive(Debug, Default, Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: String,
}

/// Effects of the workspace, the newest runs first, from a place on; and where the rest begins.
async fn read_ledger(visit: &Visit, cursor: &str) -> Result<(Vec<LedgerEntry>, Option<String>), Failure> {
    let mut entries = Vec::new();
    let mut next = Some(cursor.to_owned());
    for _ in 0..MAX_EVIDENCE_PAGES {
        let Some(cursor) = next.take() else { break };
        let query = [("limit", Some("200")), ("cursor", Some(cursor.as_str()))];
        let page: Page<LedgerEntry> = visit.read(&ops::SHOW_LEDGER, &[], &query).await?;
        entries.extend(page.items);
        next = page.next_cursor;
        if next.is_none() {
            break;
        }
    }
    Ok((entries, next))
}

/// Totals of the ledger.
#[derive(Debug, Default)]
struct LedgerTotals {
    effects: usize,
    attempts: usize,
    happened: u64,
    twice: u64,
    perhaps_twice: u64,
    /// Sent again under a key that the provider honours.
    again_under_key: u64,
    refused: u64,
    probes: usize,
    rulings: usize,
    by_class: [usize; 3],
}

impl LedgerTotals {
    fn of(entries: &[LedgerEntry]) -> Self {
        entries.iter().fold(LedgerTotals::default(), |mut sums, entry| {
            sums.effects += 1;
            sums.attempts += entry.attempt_log.len();
            sums.happened += u64::from(entry.happened);
            let (twice, perhaps) =
                (u64::from(entry.happened_twice), u64::from(entry.may_have_happened_twice));
            match entry.class {
                LedgerClass::Idempotent => sums.again_under_key += twice + perhaps,
                LedgerClass::Claimed | LedgerClass::Transactional => {
                    sums.twice += twice;
                    sums.perhaps_twice += perhaps;
                }
            }
            sums.refused += u64::from(entry.refused_writes);
            sums.probes += entry.probes.len();
            sums.rulings += entry.rulings.len();
            let class = match entry.class {
                LedgerClass::Idempotent => 0,
                LedgerClass::Claimed => 1,
                LedgerClass::Transactional => 2,
            };
            sums.by_class[class] += 1;
            sums
        })
    }
}

async fn show(visit: Visit, Query(PageQuery { cursor }): Query<PageQuery>) -> Result<Response, Failure> {
    let (entries, next) = read_ledger(&visit, &cursor).await?;
    let doubts: Page<Doubt> = visit.read(&ops::LIST_DOUBTS, &[], &[("limit", Some("200"))]).await?;
    let held: Page<Operation> = visit
        .read(&ops::LIST_OPERATIONS, &[], &[("status", Some("IN_DOUBT")), ("limit", Some("200"))])
        .await?;
    let attention: Page<Run> =
        visit.read(&ops::LIST_RUNS, &[], &[("needsAttention", Some("true")), ("limit", Some("200"))]).await?;
    let figures = match visit.may(&ops::SHOW_METRICS) {
        true => Some(visit.ask(&ops::SHOW_METRICS, &[], &[]).await?.text()),
        false => None,
    };
    let sums = LedgerTotals::of(&entries);
    let rows = |name: &str, value: &str| rows(name, value, &cursor);
    let content = html! {
        (ui::heading("Evidence", html! { "What happened to the world, and how that is known." }))
        div.verdicts {
            (verdict("Happened twice", sums.twice, "bad", &rows("only", "twice"), "Effects known to have happened more than once."))
            (verdict("May have happened twice", sums.perhaps_twice, "doubt", &rows("only", "perhaps"), "Effects that may have happened beyond the first time."))
        }
        (basis(&sums, &entries, &cursor, next.as_deref()))
        (history::over_time(&entries))
        section {
            h2 { "Open questions" }
            div.tiles {
                (tile("Steps in doubt", &count(doubts.items.len(), doubts.next_cursor.is_some()), Some("/console/doubts"), oldest(&visit, doubts.items.first().map(|doubt| doubt.since.as_str()))))
                (tile("Operations in doubt", &count(held.items.len(), held.next_cursor.is_some()), Some("/console/doubts"), html! {}))
                (tile("Runs that need people", &count(attention.items.len(), attention.next_cursor.is_some()), Some("/console/runs?attention=yes"), html! {}))
            }
        }
        section {
            h2 { "How it was kept" }
            div.tiles {
                (tile("Attempts beyond the first", &sums.attempts.saturating_sub(sums.effects).to_string(), Some(&rows("only", "entered")), html! { "Retries and takeovers." }))
                (tile("Late outcomes refused", &sums.refused.to_string(), Some(&rows("only", "refused")), html! { "By a fence: their worker no longer held the run." }))
                (tile("Questions to providers", &sums.probes.to_string(), Some(&rows("only", "probed")), html! { "By probes." }))
                (tile("Decisions by people", &sums.rulings.to_string(), Some(&rows("only", "ruled")), html! { "About effects." }))
                (tile("Idempotent", &sums.by_class[0].to_string(), Some(&rows("class", "idempotent")), html! { "The provider honours the key." }))
                (tile("Claimed", &sums.by_class[1].to_string(), Some(&rows("class", "claimed")), html! { "A claim is committed first." }))
                (tile("Transactional", &sums.by_class[2].to_string(), Some(&rows("class", "transactional")), html! { "Commits with its record." }))
            }
        }
        @if let Some(figures) = &figures { (server_wide(figures)) }
        section {
            h2 { "For auditors" }
            p { "Each row of an export carries the SHA-256 of the row before it and of itself, so a row that was changed, taken out or moved shows." }
            div.actions {
                a.button.plain href={ (PATH) "/export" (text::query(&[("format", Some("csv")), ("cursor", Some(&cursor))])) } download { "Export as CSV" }
                a.button.plain href={ (PATH) "/export" (text::query(&[("format", Some("json")), ("cursor", Some(&cursor))])) } download { "Export as JSON" }
            }
        }
    };
    Ok(visit.page("Evidence", content))
}

/// The rows behind a number: the ledger from the same place on, with one filter.
fn rows(name: &str, value: &str, cursor: &str) -> String {
    format!("{}{}", super::ledger::PATH, text::query(&[(name, Some(value)), ("cursor", Some(cursor))]))
}

/// A number in large: calm if it is 0, loud if not.
fn verdict(name: &str, number: u64, tone: &str, path: &str, about: &str) -> Markup {
    let tone = if number == 0 { "good" } else { tone };
    html! {
        a.verdict.(tone) href=(path) {
            span.name { (name) }
            span.figure { (number) }
            span.about { (about) }
        }
    }
}

/// Explains where the two numbers come from.
fn basis(sums: &LedgerTotals, entries: &[LedgerEntry], cursor: &str, next: Option<&str>) -> Markup {
    let is_older = !cursor.is_empty();
    let rows = |name: &str, value: &str| rows(name, value, cursor);
    let first = entries
        .iter()
        .flat_map(|entry| &entry.attempt_log)
        .filter_map(|attempt| attempt.began_at.as_deref().or(attempt.ended_at.as_deref()))
        .min();
    html! {
        div.basis {
            p {
                "Computed now from " b { a href=(rows("only", "")) { (text::count(sums.effects, "effect")) } } " with " b { (text::count(sums.attempts, "attempt")) }
                @if let Some(first) = first { ", the oldest from " (ui::time(first)) }
                @if is_older { ", older than those on the first page" }
                ". " b { a href=(rows("only", "happened")) { (sums.happened) } } @if sums.happened == 1 { " is" } @else { " are" } " known to have happened."
                @if sums.again_under_key > 0 { " Beyond that, " a href=(rows("only", "again")) { (sums.again_under_key) " requests" } " of the class idempotent were sent again under the same key, which their provider answers without doing it again." }
                @if next.is_none() && !is_older { " These are all effects that are kept." }
            }
            @if let Some(next) = next {
                p { a href={ (PATH) (text::query(&[("cursor", Some(next))])) } { "Go on with older effects" } " — these numbers are about the newest ones." }
            }
        }
    }
}

fn count(items: usize, is_more: bool) -> String {
    format!("{items}{}", if is_more { "+" } else { "" })
}

fn oldest(visit: &Visit, since: Option<&str>) -> Markup {
    html! { @if let Some(since) = since { "Oldest: " (ui::ago(since, visit.now_ms)) "." } @else { "None." } }
}

pub(super) fn tile(name: &str, number: &str, path: Option<&str>, about: Markup) -> Markup {
    let inner = html! { span.name { (name) } span.figure { (number) } span.about { (about) } };
    html! { @match path { Some(path) => { a.tile href=(path) { (inner) } }, None => { div.tile { (inner) } } } }
}

/// Figures of the whole server since its start, for credentials of the installation. They come from `/metrics`.
fn server_wide(figures: &str) -> Markup {
    let sum = |name: &str, labels: &str| -> f64 {
        let lines = figures.lines().filter(|line| !line.starts_with('#'));
        let of_name =
            lines.filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        of_name
            .filter(|line| line.contains(labels))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    };
    let count = |name: &str, labels: &str| format!("{}", sum(name, labels).round());
    let age = |name: &str| ui::span_text((sum(name, "") * 1_000.0).round() as i64);
    let by_credential_table = Some("#by-credential");
    let pending = Some("/console/webhooks/deliveries?status=due");
    let refused = Some("/console/ledger?only=refused");
    let shown = [
        (
            "Requests replayed",
            count(KEY_USES, "use=\"replayed\""),
            by_credential_table,
            "Answered from the record, not done again.",
        ),
        (
            "Starts replayed",
            count("hapax_starts_replayed_total", ""),
            by_credential_table,
            "Runs that were there already.",
        ),
        (
            "Key conflicts",
            count(KEY_USES, "use=\"conflicted\""),
            by_credential_table,
            "The same key for something else: refused.",
        ),
        ("Claims lost", count("hapax_claims_lost_total", ""), None, "Somebody else was first."),
        (
            "Writes fenced",
            count("hapax_fenced_writes_total", ""),
            refused,
            "Writers that no longer held their run. What they reported is in the ledger.",
        ),
        (
            "Janitor releases",
            count("hapax_janitor_releases_total", ""),
            None,
            "Claims given back after a crash. Each is in the history of its operation.",
        ),
        ("Outbox depth", count("hapax_outbox_depth", ""), pending, "After-effects to be delivered."),
        ("Oldest in the outbox", age("hapax_outbox_oldest_age_seconds"), pending, "How long it has waited."),
        (
            "Oldest live request key",
            age("hapax_oldest_request_key_age_seconds"),
            None,
            "A repeat of a request this old still gets the first answer.",
        ),
    ];
    html! {
        section {
            h2 { "The whole server" }
            p.hint { "All workspaces, since this node started. Numbers with a link lead to rows of your workspace." }
            div.tiles { @for (name, value, path, about) in shown { (tile(name, &value, path, html! { (about) })) } }
            (by_credential(figures))
        }
    }
}

/// The metric that counts uses of keys by credential.
const KEY_USES: &str = "hapax_credential_key_uses_total";

/// How each credential uses its keys. A client that repeats itself much, or changes what it sends under a key, stands out.
fn by_credential(figures: &str) -> Markup {
    let mut uses: BTreeMap<(&str, &str), [u64; 3]> = BTreeMap::new();
    for line in figures.lines().filter_map(|line| line.strip_prefix(KEY_USES)) {
        let label = |name: &str| line.split_once(&format!("{name}=\""))?.1.split('"').next();
        let place = ["new", "replayed", "conflicted"].iter().position(|usage| label("use") == Some(usage));
        let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
        if let (Some(workspace), Some(credential), Some(place), Some(count)) =
            (label("workspace"), label("credential"), place, count)
        {
            uses.entry((workspace, credential)).or_default()[place] = count as u64;
        }
    }
    let rows = uses.iter().map(|((workspace, credential), [new, replayed, conflicted])| {
        let rate = (*replayed as f64 / (*new).max(1) as f64 * 100.0).round();
        let mut cells = vec![html! { (workspace) }, ui::id(credential)];
        cells.extend([new, replayed, conflicted].map(|count| html! { span.number { (count) } }));
        cells.push(html! { span.number { (rate) " %" } });
        cells
    });
    let columns = ["Workspace", "Credential", "New", "Replayed", "Conflicts", "Replayed per new"];
    html! { section #by-credential { h3 { "Keys by credential" } (ui::table(&columns, rows.collect(), "No key was used yet.")) } }
}
