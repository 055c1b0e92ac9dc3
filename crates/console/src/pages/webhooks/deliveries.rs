//! Deliveries of outgoing webhooks: their attempts, the answers of receivers, and redelivery.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{
    DeliveryStatus, DiscardWebhooks, Page, RedeliverWebhook, RedeliverWebhooks, Subscription, WebhookDelivery,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{heading, with_reason};
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/webhooks/deliveries";

/// Which deliveries. The address holds all of it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    #[serde(default)]
    subscription: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    cursor: String,
}

const COLUMNS: &[&str] = &["Event", "Told of", "To", "Status", "Committed", "Attempts", "Last answer", ""];

pub(super) async fn list(visit: Visit, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let filters =
        [("subscription", Some(filter.subscription.as_str())), ("status", Some(filter.status.as_str()))];
    let mut query = filters.to_vec();
    query.push(("cursor", Some(&filter.cursor)));
    let page: Page<WebhookDelivery> = visit.read(&ops::LIST_DELIVERIES, &[], &query).await?;
    let subscriptions: Page<Subscription> =
        visit.read(&ops::LIST_SUBSCRIPTIONS, &[], &[("limit", Some("200"))]).await?;
    let names: Vec<_> = subscriptions.items.iter().map(|it| (it.id.as_str(), it.name.as_str())).collect();
    let any: Vec<_> = std::iter::once(("", "any")).chain(names.iter().copied()).collect();
    let statuses: Vec<_> = std::iter::once(("", "any"))
        .chain(DeliveryStatus::ALL.iter().map(|status| (status.as_str(), status.as_str())))
        .collect();
    let rows = page.items.iter().map(|delivery| row(&visit, delivery, &names)).collect();
    let content = html! {
        (heading(&visit, PATH, html! { "What subscriptions are told. Every attempt of one delivery carries the same " code { "webhook-id" } "." }))
        form.filters action=(PATH) {
            (form::choice("subscription", "To", &any, &filter.subscription))
            (form::choice("status", "Status", &statuses, &filter.status))
            button.plain type="submit" { "Filter" }
        }
        (ui::table(COLUMNS, rows, "No delivery matches."))
        (ui::pager(PATH, &filters, filter.cursor.is_empty(), page.next_cursor.as_deref()))
        @if !names.is_empty() { (many(&visit, &filter, &names)) }
    };
    Ok(visit.page("Deliveries", content))
}

fn row(visit: &Visit, delivery: &WebhookDelivery, names: &[(&str, &str)]) -> Vec<Markup> {
    let name = names.iter().find(|(id, _)| *id == delivery.subscription_id).map(|(_, name)| *name);
    let subscription = format!("/console/webhooks/subscriptions/{}", text::encode(&delivery.subscription_id));
    vec![
        html! { (delivery.event) details.more { summary { "Body" } p { (ui::id(&delivery.webhook_id)) } (ui::json(delivery.body.text())) } },
        ui::run_link(&delivery.run_id),
        html! { a href=(subscription) { (name.unwrap_or(&delivery.subscription_id)) } },
        badge(delivery.status),
        ui::ago(&delivery.created_at, visit.now_ms),
        html! { span.number { (delivery.attempts) } },
        answer(visit, delivery),
        html! {
            @let is_over = matches!(delivery.status, DeliveryStatus::Dead | DeliveryStatus::Delivered);
            @if is_over && visit.may(&ops::REDELIVER) {
                (with_reason(visit, "Redeliver", Tone::Plain, &format!("{PATH}/{}/redeliver", text::encode(&delivery.id)), None, (html! {}, true)))
            }
        },
    ]
}

/// The last answer of the receiver, and the time of the next attempt.
fn answer(visit: &Visit, delivery: &WebhookDelivery) -> Markup {
    html! {
        @if let Some(failure) = &delivery.failure { div { (ui::sentence(&failure.message)) @if let Some(code) = &failure.code { " " code { (code) } } } }
        @match (&delivery.delivered_at, &delivery.given_up_at, &delivery.next_attempt_at) {
            (Some(at), _, _) => { "Taken " (ui::ago(at, visit.now_ms)) }
            (None, Some(at), _) => { span.dim { "Given up " (ui::ago(at, visit.now_ms)) } }
            (None, None, Some(at)) => { span.dim { "Next try " (ui::ago(at, visit.now_ms)) } }
            (None, None, None) => { @if delivery.failure.is_none() { (ui::none()) } }
        }
    }
}

fn badge(status: DeliveryStatus) -> Markup {
    let (state, word) = match status {
        DeliveryStatus::Due => (ui::State::Waiting, "Due"),
        DeliveryStatus::Claimed => (ui::State::Active, "Under way"),
        DeliveryStatus::Delivered => (ui::State::Good, "Delivered"),
        DeliveryStatus::Dead => (ui::State::Bad, "Given up"),
    };
    ui::badge(state, word)
}

/// Forms for many at once, bounded.
fn many(visit: &Visit, filter: &Filter, names: &[(&str, &str)]) -> Markup {
    let whom = |of: Markup| {
        html! {
            (form::choice("subscription", "Subscription", names, &filter.subscription))
            (of)
            (form::text_field("limit", "At most", "20", Some("1 to 100."), true))
        }
    };
    let statuses = [("dead", "were given up"), ("delivered", "were delivered")];
    let again = html! {
        p { "Each is sent under the same " code { "webhook-id" } " as before, so that a receiver that had it can tell." }
        (whom(form::choice("status", "Those that", &statuses, &filter.status)))
    };
    let away = html! {
        p { "Those that were given up for it are forgotten. Nobody can redeliver them after that." }
        (whom(html! {}))
    };
    html! {
        div.actions {
            @if visit.may(&ops::REDELIVER_MANY) {
                (with_reason(visit, "Redeliver many", Tone::Plain, &format!("{PATH}/redeliver"), None, (again, true)))
            }
            @if visit.may(&ops::DISCARD_DELIVERIES) {
                (with_reason(visit, "Discard many", Tone::Danger, &format!("{PATH}/discard"), None, (away, true)))
            }
        }
    }
}

pub(super) async fn redeliver(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = RedeliverWebhook { reason: form.text("reason").into(), by: None };
    form.send(&ops::REDELIVER, &[&id], &asked).await?;
    Ok(form.done(PATH, "It is delivered once more."))
}

pub(super) async fn redeliver_many(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = RedeliverWebhooks {
        subscription_id: form.text("subscription").into(),
        status: form.word("status")?,
        limit: form.number("limit")?,
        cursor: form.given("from"),
        reason: form.text("reason").into(),
        by: None,
    };
    let answer = form.send(&ops::REDELIVER_MANY, &[], &asked).await?;
    let done: Page<WebhookDelivery> = form.read(&answer)?;
    Ok(done_with(&form, &done, "redeliver", "are delivered once more"))
}

pub(super) async fn discard(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = DiscardWebhooks {
        subscription_id: form.text("subscription").into(),
        limit: form.number("limit")?,
        reason: form.text("reason").into(),
        by: None,
    };
    let answer = form.send(&ops::DISCARD_DELIVERIES, &[], &asked).await?;
    let done: Page<WebhookDelivery> = form.read(&answer)?;
    Ok(done_with(&form, &done, "discard", "were forgotten"))
}

/// The result of a bulk action, with a button for the rest.
fn done_with(form: &Submitted, done: &Page<WebhookDelivery>, action: &str, what: &str) -> Response {
    let visit = &form.visit;
    let rows = done.items.iter().map(|delivery| row(visit, delivery, &[])).collect();
    let kept = ["subscription", "status", "limit", "reason"].map(|name| (name, form.text(name)));
    let content = html! {
        (heading(visit, PATH, html! { b { (done.items.len()) } " " (what) "." }))
        (ui::table(COLUMNS, rows, "None was there."))
        div.actions {
            a.button.plain href={ (PATH) (text::query(&[("subscription", Some(form.text("subscription")))])) } { "Back to the list" }
            @if let Some(next) = &done.next_cursor {
                (form::form(visit, &format!("{PATH}/{action}"), None, html! {
                    @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                    input type="hidden" name="from" value=(next);
                    (form::submit("Go on with the rest", Tone::Primary))
                }))
            }
        }
    };
    visit.page("Deliveries", content)
}
