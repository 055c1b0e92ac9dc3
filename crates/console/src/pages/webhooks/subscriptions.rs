//! Subscriptions: receivers of outgoing webhooks.

use axum::extract::Query;
use axum::response::Response;
use hapax_api::{
    CreateSubscription, IssuedSubscription, Page, Subscription, SubscriptionStatus, WebhookEvent,
    WebhookSigning,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) const PATH: &str = "/console/webhooks/subscriptions";

/// The page of one subscription.
pub(super) fn path(id: &str) -> String {
    format!("{PATH}/{}", text::encode(id))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    cursor: String,
}

pub(super) async fn list(
    visit: Visit,
    Query(PageQuery { cursor }): Query<PageQuery>,
) -> Result<Response, Failure> {
    let query = [("cursor", Some(cursor.as_str()))];
    let page: Page<Subscription> = visit.read(&ops::LIST_SUBSCRIPTIONS, &[], &query).await?;
    let rows = page.items.iter().map(|it| {
        vec![
            html! { a href=(path(&it.id)) { b { (it.name) } } @if let Some(about) = &it.description { div.dim { (about) } } },
            badge(it.status),
            html! { code { (it.url) } },
            html! { div.tags { @for event in &it.events { (ui::tag(event.as_str())) " " } } },
            ui::ago(&it.changed_at, visit.now_ms),
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Receivers that are told what becomes of runs." }))
        @if visit.may(&ops::CREATE_SUBSCRIPTION) { div.actions.above { (creation(&visit)) } }
        (ui::table(&["Name", "Status", "Address", "Events", "Changed"], rows.collect(), "Nobody is told. Create a subscription to send webhooks."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Subscriptions", content))
}

pub(super) fn badge(status: SubscriptionStatus) -> Markup {
    let (state, word) = match status {
        SubscriptionStatus::Enabled => (ui::State::Good, "Enabled"),
        SubscriptionStatus::Disabled => (ui::State::Held, "Disabled"),
        SubscriptionStatus::Deleted => (ui::State::Gone, "Deleted"),
    };
    ui::badge(state, word)
}

/// A box for each event.
pub(super) fn events(chosen: &[WebhookEvent]) -> Markup {
    html! {
        fieldset {
            legend { "Events" }
            @for event in WebhookEvent::ALL {
                label.check { input type="checkbox" name="event" value=(event.as_str()) checked[chosen.contains(&event)]; code { (event.as_str()) } }
            }
        }
    }
}

/// The boxes that were ticked.
pub(super) fn ticked(form: &Submitted) -> Vec<WebhookEvent> {
    form.all("event").iter().filter_map(|name| WebhookEvent::from_name(name)).collect()
}

fn creation(visit: &Visit) -> Markup {
    let signing = [
        ("hmac", "With a secret that both sides have"),
        ("ed25519", "With a private key: the receiver gets the public one"),
    ];
    let fields = html! {
        (form::text_field("name", "Name", "", Some("For people, and for the audit log."), true))
        (form::text_field("url", "Address", "", Some("https://…, where webhooks are sent."), true))
        (events(&WebhookEvent::ALL))
        (form::choice("signing", "Signed", &signing, "hmac"))
        (form::text_field("description", "Description", "", None, false))
        (form::submit("Create", Tone::Primary))
    };
    form::disclosed("Create a subscription…", Tone::Primary, form::form(visit, PATH, None, fields))
}

pub(super) async fn create(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = CreateSubscription {
        name: form.text("name").into(),
        url: form.text("url").into(),
        events: ticked(&form),
        description: form.given("description"),
        signing: WebhookSigning::from_name(form.text("signing")),
    };
    let answer = form.send(&ops::CREATE_SUBSCRIPTION, &[], &asked).await?;
    let issued: IssuedSubscription = form.read(&answer)?;
    Ok(secret(&form.visit, &issued, "The subscription is made"))
}

/// The page that shows the secret, this once. It is the answer to the form, so no address leads to it.
pub(super) fn secret(visit: &Visit, issued: &IssuedSubscription, title: &str) -> Response {
    let is_public = issued.secret.starts_with("whpk_");
    let about = match is_public {
        true => "The public key that the receiver checks webhooks with.",
        false => {
            "The secret that the receiver checks webhooks with. It is shown this once: keep it as you keep a password."
        }
    };
    let content = html! {
        div.heading { p.crumb { a href=(PATH) { "Subscriptions" } } h1 { (title) } }
        (ui::secret(about, &issued.secret))
        div.actions { a.button.primary href=(path(&issued.subscription.id)) { "I have kept it" } }
    };
    visit.page(title, content)
}
