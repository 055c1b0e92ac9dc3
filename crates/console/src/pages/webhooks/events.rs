//! Events that came in: whether they were believed, what they did, and processing them once more.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{
    Page, ReceivedStatus, ReceivedWebhook, ReceivedWebhookSummary, ReprocessWebhooks, ReprocessedWebhooks,
    WebhookActionOutcome, WebhookActionStatus, WebhookDelivery, WebhookOutcome, WebhookSource,
    WebhookSourceSummary,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::evidence::tile;
use super::{PATH, heading};
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::limits::PAGE_ROWS;
use crate::visit::Visit;
use crate::{ops, text, ui};

/// Which events. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    source: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    cursor: String,
}

/// The page of one event.
fn path(source: &str, event: &str) -> String {
    format!("{PATH}/events/{}/{}", text::encode(source), text::encode(event))
}

pub(super) async fn list(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let filters = [("source", Some(filter.source.as_str())), ("status", Some(filter.status.as_str()))];
    let mut query = filters.to_vec();
    query.push(("cursor", Some(&filter.cursor)));
    let page: Page<ReceivedWebhookSummary> = visit.read(&ops::LIST_WEBHOOK_EVENTS, &[], &query).await?;
    let sources: Page<WebhookSourceSummary> =
        visit.read(&ops::LIST_SOURCES, &[], &[("limit", Some("200"))]).await?;
    let overview = overview(&visit).await?;
    let rows = page.items.iter().map(row).collect();
    let names: Vec<_> = std::iter::once(("", "any"))
        .chain(sources.items.iter().map(|source| (source.name.as_str(), source.name.as_str())))
        .collect();
    let statuses: Vec<_> = std::iter::once(("", "any"))
        .chain(ReceivedStatus::ALL.iter().map(|status| (status.as_str(), status.as_str())))
        .collect();
    let about = html! { "Events that providers sent, newest first. Only those whose signature was right are here: any other was refused, and nothing of it was kept." };
    let content = html! {
        (heading(&visit, PATH, about))
        (overview)
        form.filters action=(PATH) {
            (form::choice("source", "Source", &names, &filter.source))
            (form::choice("status", "Status", &statuses, &filter.status))
            button.plain type="submit" { "Filter" }
        }
        (ui::table(&["Event", "Source", "Status", "Received", "Came again", "Processed", "What it did"], rows, "No webhook matches. Make a source, and give its address to the provider."))
        (ui::pager(PATH, &filters, filter.cursor.is_empty(), page.next_cursor.as_deref()))
        @if visit.may(&ops::REPROCESS_EVENTS) && !page.items.is_empty() { (many(&visit, &filter, &names)) }
    };
    Ok(visit.page("Webhooks", content))
}

/// Failures in both directions, with their count and age.
async fn overview(visit: &Visit) -> Result<Markup, Failure> {
    let limit = PAGE_ROWS.to_string();
    let query = |status| [("status", Some(status)), ("limit", Some(limit.as_str()))];
    let failed: Page<ReceivedWebhookSummary> =
        visit.read(&ops::LIST_WEBHOOK_EVENTS, &[], &query("failed")).await?;
    let unmatched: Page<ReceivedWebhookSummary> =
        visit.read(&ops::LIST_WEBHOOK_EVENTS, &[], &query("unmatched")).await?;
    let dead: Page<WebhookDelivery> = visit.read(&ops::LIST_DELIVERIES, &[], &query("dead")).await?;
    let newest = |at: Option<&str>| html! { @match at { Some(at) => { "The newest: " (ui::time(at)) "." }, None => { "None." } } };
    let of_event =
        |page: &Page<ReceivedWebhookSummary>| newest(page.items.first().map(|it| it.received_at.as_str()));
    let count = |items: usize, is_more: bool| format!("{items}{}", if is_more { "+" } else { "" });
    Ok(html! {
        div.tiles.overview {
            (tile("Received and failed", &count(failed.items.len(), failed.next_cursor.is_some()), Some("/console/webhooks?status=failed"), of_event(&failed)))
            (tile("Received, and nothing waits for it", &count(unmatched.items.len(), unmatched.next_cursor.is_some()), Some("/console/webhooks?status=unmatched"), of_event(&unmatched)))
            (tile("Sent and given up", &count(dead.items.len(), dead.next_cursor.is_some()), Some("/console/webhooks/deliveries?status=dead"), newest(dead.items.iter().filter_map(|it| it.given_up_at.as_deref()).max())))
        }
    })
}

fn row(event: &ReceivedWebhookSummary) -> Vec<Markup> {
    let source = format!("{PATH}/sources/{}", text::encode(&event.source));
    vec![
        ui::id_link(&path(&event.source, &event.event_id), &event.event_id),
        html! { a href=(source) { (event.source) } },
        badge(event.status),
        ui::time(&event.received_at),
        html! { span.number { @if event.duplicates == 0 { span.dim { "never" } } @else { (event.duplicates) "×" } } },
        html! { span.number { (event.attempts) "×" } },
        html! { @match &event.outcome { Some(outcome) => { (in_short(outcome)) }, None => { (ui::none()) } } },
    ]
}

fn badge(status: ReceivedStatus) -> Markup {
    let (state, word) = match status {
        ReceivedStatus::Received => (ui::State::Active, "Received"),
        ReceivedStatus::Applied => (ui::State::Good, "Applied"),
        ReceivedStatus::Ignored => (ui::State::Gone, "Ignored"),
        ReceivedStatus::Unmatched => (ui::State::Waiting, "Unmatched"),
        ReceivedStatus::Failed => (ui::State::Bad, "Failed"),
    };
    ui::badge(state, word)
}

fn in_short(outcome: &WebhookOutcome) -> Markup {
    let told = outcome.actions.iter().filter(|action| action.status != WebhookActionStatus::Skipped);
    html! {
        @if let Some(detail) = &outcome.detail { (detail) }
        @for action in told {
            div { (action.action) " " @match (&action.run_id, &action.promise_id) {
                (Some(run), _) => { (ui::run_link(run)) }
                (None, Some(promise)) => { code { (promise) } }
                (None, None) => { @if let Some(detail) = &action.detail { span.dim { (ui::told(detail)) } } }
            } }
        }
    }
}

/// A form that processes many once more, bounded.
fn many(visit: &Visit, filter: &Filter, sources: &[(&str, &str)]) -> Markup {
    let statuses =
        [("failed", "failed"), ("unmatched", "unmatched"), ("ignored", "ignored"), ("applied", "applied")];
    let chosen = if filter.status.is_empty() { "failed" } else { &filter.status };
    let fields = html! {
        p { "They are processed with the source as it is now, the oldest of them first. What an event did before is not done again: its settlement, start or signal carries the same key." }
        (form::choice("source", "Source", sources, &filter.source))
        (form::choice("status", "Those that are", &statuses, chosen))
        (form::text_field("limit", "At most", "20", Some("1 to 100: the newest of them."), true))
        (form::submit("Process again", Tone::Primary))
    };
    html! {
        div.actions { (form::disclosed("Process many again…", Tone::Plain, form::form(visit, "/console/webhooks/reprocess", None, fields))) }
    }
}

pub(super) async fn reprocess_many(mut form: Submitted) -> Result<Response, Failure> {
    let status: ReceivedStatus = form.word("status")?;
    let back = format!(
        "{PATH}{}",
        text::query(&[("source", Some(form.text("source"))), ("status", Some(status.as_str()))])
    );
    form.leads_back_to(&back);
    let asked = ReprocessWebhooks {
        source: form.given("source"),
        status,
        limit: form.number("limit")?,
        cursor: form.given("from"),
    };
    let answer = form.send(&ops::REPROCESS_EVENTS, &[], &asked).await?;
    let done: ReprocessedWebhooks = form.read(&answer)?;
    let rows = done.items.iter().map(row).collect();
    let still = done.items.iter().filter(|event| event.status == status).count();
    let visit = &form.visit;
    let content = html! {
        (heading(visit, PATH, html! { "This is what became of them." }))
        p { b { (done.items.len()) } " processed again, " b { (still) } " of them still " (status.as_str()) "." }
        section { (ui::table(&["Event", "Source", "Status", "Received", "Came again", "Processed", "What it did"], rows, "No event was there to process.")) }
        div.actions {
            a.button.plain href=(back) { "Back to the list" }
            @if let Some(next) = &done.next_cursor {
                (form::form(visit, "/console/webhooks/reprocess", None, html! {
                    @for (name, value) in [("source", form.text("source")), ("status", status.as_str()), ("limit", form.text("limit")), ("from", next)] {
                        input type="hidden" name=(name) value=(value);
                    }
                    (form::submit("Go on with those before them", Tone::Primary))
                }))
            }
        }
    };
    Ok(visit.page("Processed again", content))
}

pub(super) async fn show(
    visit: Visit,
    Path((source, event)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let found: ReceivedWebhook = visit.read(&ops::SHOW_WEBHOOK_EVENT, &[&source, &event], &[]).await?;
    let believed: Option<WebhookSource> = visit.find(&ops::SHOW_SOURCE, &[&source]).await?;
    let (summary, outcome) = (&found.summary, found.summary.outcome.clone().unwrap_or_default());
    let source_path = format!("{PATH}/sources/{}", text::encode(&source));
    let headers =
        found.headers.iter().map(|(name, value)| vec![html! { code { (name) } }, html! { code { (value) } }]);
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&found.raw_body).is_ok();
    let content = html! {
        div.heading {
            p.crumb { a href=(PATH) { "Webhooks" } " / " a href=(source_path) { (source) } }
            h1 { (summary.event_id) " " (badge(summary.status)) }
        }
        (ui::known(vec![
            ("Signature", Some(signature(believed.as_ref()))),
            ("Received", Some(ui::time(&summary.received_at))),
            ("Last changed", Some(ui::time(&summary.changed_at))),
            ("Came again", Some(html! { (times(summary.duplicates)) @if summary.duplicates > 0 { "; nothing was done then" } })),
            ("Processed", Some(html! { (times(summary.attempts.into())) })),
        ]))
        section {
            h2 { "What it did" }
            @if let Some(detail) = &outcome.detail { p { (detail) } }
            @if !outcome.actions.is_empty() || outcome.detail.is_none() {
                (ui::table(&["Action", "Outcome", "On", "In words"], outcome.actions.iter().map(action).collect(), "Nothing yet."))
            }
            @if visit.may(&ops::REPROCESS_EVENT) {
                div.actions {
                    (form::disclosed("Process again…", Tone::Plain, form::form(&visit, &format!("{}/reprocess", path(&source, &event)), None, html! {
                        p { "It is processed with the source as it is now. What it did before is not done twice." }
                        (form::submit("Process again", Tone::Primary))
                    })))
                }
            }
        }
        section { h2 { "Body" } @if is_json { (ui::json(&found.raw_body)) } @else { pre.json.raw tabindex="0" { (found.raw_body) } } }
        section { h2 { "Headers" } p.hint { "Without signatures and secrets, which are not kept." } (ui::table(&["Name", "Value"], headers.collect(), "None was kept.")) }
    };
    Ok(visit.page(&format!("Webhook {event}"), content))
}

fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

fn signature(source: Option<&WebhookSource>) -> Markup {
    match source.map(|source| source.summary.scheme.as_str()) {
        Some("none") => {
            html! { (ui::badge(ui::State::Doubt, "Unsigned")) " The source takes what anybody sends." }
        }
        Some(scheme) => html! { (ui::badge(ui::State::Good, "Right")) " " (scheme) },
        None => html! { (ui::badge(ui::State::Good, "Right")) " when it came; the source is gone" },
    }
}

fn action(action: &WebhookActionOutcome) -> Vec<Markup> {
    let (state, word) = match action.status {
        WebhookActionStatus::Applied => (ui::State::Good, "Applied"),
        WebhookActionStatus::Skipped => (ui::State::Gone, "Skipped"),
        WebhookActionStatus::Unmatched => (ui::State::Waiting, "Unmatched"),
        WebhookActionStatus::Failed => (ui::State::Bad, "Failed"),
    };
    vec![
        html! { (action.action) },
        ui::badge(state, word),
        html! {
            @match (&action.run_id, &action.promise_id) {
                (Some(run), _) => { (ui::run_link(run)) }
                (None, Some(promise)) => { (ui::id(promise)) }
                (None, None) => { (ui::none()) }
            }
        },
        html! { @match &action.detail { Some(detail) => { (ui::told(detail)) }, None => { (ui::none()) } } },
    ]
}

pub(super) async fn reprocess(
    Path((source, event)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let path = path(&source, &event);
    form.leads_back_to(&path);
    let answer = form.send_bare(&ops::REPROCESS_EVENT, &[&source, &event], &[]).await?;
    let now: ReceivedWebhookSummary = form.read(&answer)?;
    Ok(form.done(&path, &format!("It was processed again, and is now {}.", now.status.as_str())))
}
