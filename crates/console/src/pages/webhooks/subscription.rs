//! One subscription: change it, give it a new secret, try it, end it.

use axum::extract::Path;
use axum::response::Response;
use hapax_api::{
    ActivationStatus, ChangeSubscription, IssuedSubscription, RotateSubscription, Subscription,
    SubscriptionStatus, TestedSubscription,
};
use maud::{Markup, html};

use super::subscriptions::{self, badge, events, path, secret, ticked};
use super::with_reason;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) async fn show(visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let it: Subscription = visit.read(&ops::SHOW_SUBSCRIPTION, &[&id], &[]).await?;
    let content = page(&visit, &it, html! {});
    Ok(visit.page(&format!("Subscription {}", it.name), content))
}

fn page(visit: &Visit, it: &Subscription, above: Markup) -> Markup {
    let deliveries =
        format!("/console/webhooks/deliveries{}", text::query(&[("subscription", Some(&it.id))]));
    html! {
        div.heading {
            p.crumb { a href="/console/webhooks" { "Webhooks" } " / " a href=(subscriptions::PATH) { "Subscriptions" } }
            h1 { (it.name) " " (badge(it.status)) }
            @if let Some(about) = &it.description { p.about { (about) } }
        }
        (above)
        (ui::known(vec![
            ("Address", Some(html! { code { (it.url) } })),
            ("Events", Some(html! { @for event in &it.events { (ui::tag(event.as_str())) " " } })),
            ("Id", Some(ui::id(&it.id))),
            ("Public key", it.public_key.as_deref().map(ui::id)),
            ("Why it stands there", it.reason.as_ref().map(|reason| html! { (reason) })),
            ("Old secret signs until", it.old_secret_until.as_deref().map(ui::time)),
            ("Created", Some(ui::time(&it.created_at))),
            ("Changed", Some(ui::time(&it.changed_at))),
            ("Deliveries", Some(html! { a href=(deliveries) { "What it was told" } })),
        ]))
        @if it.status != SubscriptionStatus::Deleted { (buttons(visit, it)) }
    }
}

fn buttons(visit: &Visit, it: &Subscription) -> Markup {
    let to = |what: &str| format!("{}/{what}", path(&it.id));
    let (version, is_enabled) = (Some(it.version), it.status == SubscriptionStatus::Enabled);
    html! {
        div.actions {
            @if visit.may(&ops::TEST_SUBSCRIPTION) && is_enabled {
                (form::form(visit, &to("test"), None, form::submit("Send a test", Tone::Plain)))
            }
            @if visit.may(&ops::CHANGE_SUBSCRIPTION) {
                (form::disclosed("Edit…", Tone::Plain, form::form(visit, &to("change"), version, html! {
                    (form::text_field("name", "Name", &it.name, None, true))
                    (form::text_field("url", "Address", &it.url, None, true))
                    (events(&it.events))
                    (form::text_field("description", "Description", it.description.as_deref().unwrap_or_default(), None, false))
                    (form::text_field("reason", "Reason", "", Some("Kept in the audit log."), false))
                    (form::submit("Save", Tone::Primary))
                })))
                @let (label, word, tone) = if is_enabled { ("Disable", "disabled", Tone::Danger) } else { ("Enable", "enabled", Tone::Primary) };
                @let about = html! {
                    input type="hidden" name="status" value=(word);
                    @if is_enabled { p { "Nothing is sent any more. What waits is given up, and can be redelivered once it is enabled." } }
                };
                (with_reason(visit, label, tone, &to("switch"), version, (about, false)))
            }
            @if visit.may(&ops::ROTATE_SUBSCRIPTION) {
                (form::disclosed("New secret…", Tone::Plain, form::form(visit, &to("rotate"), None, html! {
                    p { "Both secrets sign for a while, so that the receiver can change over." }
                    (form::text_field("overlap", "The old one signs on for", "1d", Some("For example 30m, 24h or 7d."), false))
                    (form::submit("Make a new secret", Tone::Primary))
                })))
            }
            @if visit.may(&ops::DELETE_SUBSCRIPTION) {
                (with_reason(visit, "Delete", Tone::Danger, &to("delete"), version, (html! { p { "It is told nothing more. Its deliveries are kept." } }, false)))
            }
        }
    }
}

pub(super) async fn change(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&id);
    form.leads_back_to(&path);
    let asked = ChangeSubscription {
        name: form.given("name"),
        url: form.given("url"),
        events: Some(ticked(&form)),
        description: Some(form.text("description").into()),
        status: None,
        reason: form.given("reason"),
    };
    form.send(&ops::CHANGE_SUBSCRIPTION, &[&id], &asked).await?;
    Ok(form.done(&path, "The subscription was changed."))
}

pub(super) async fn switch(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&id);
    form.leads_back_to(&path);
    let status: ActivationStatus = form.word("status")?;
    let asked = ChangeSubscription {
        status: Some(status),
        reason: form.given("reason"),
        ..ChangeSubscription::default()
    };
    form.send(&ops::CHANGE_SUBSCRIPTION, &[&id], &asked).await?;
    Ok(form.done(&path, &format!("The subscription is {}.", text::spelled(&status))))
}

pub(super) async fn rotate(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&path(&id));
    let asked = RotateSubscription { overlap: form.duration("overlap")? };
    let answer = form.send(&ops::ROTATE_SUBSCRIPTION, &[&id], &asked).await?;
    let issued: IssuedSubscription = form.read(&answer)?;
    Ok(secret(&form.visit, &issued, "The subscription has a new secret"))
}

pub(super) async fn test(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&path(&id));
    let answer = form.send_bare(&ops::TEST_SUBSCRIPTION, &[&id], &[]).await?;
    let tested: TestedSubscription = form.read(&answer)?;
    let visit = &form.visit;
    let it: Subscription = visit.read(&ops::SHOW_SUBSCRIPTION, &[&id], &[]).await?;
    let told = html! {
        div.notice.(if tested.delivered { "good" } else { "bad" }) role="status" {
            p.sentence { @if tested.delivered { "The receiver took the test." } @else { "The receiver did not take the test." } }
            @if let Some(detail) = &tested.detail { p { (detail) } }
            (ui::known(vec![
                ("Answered with", tested.response_status.map(|status| html! { (status) })),
                ("Took", Some(html! { (tested.took.to_string()) })),
                ("webhook-id", Some(ui::id(&tested.webhook_id))),
            ]))
        }
    };
    Ok(visit.page(&format!("Test of {}", it.name), page(visit, &it, told)))
}

pub(super) async fn delete(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&path(&id));
    let query = [("reason", Some(form.text("reason")))];
    form.send_bare(&ops::DELETE_SUBSCRIPTION, &[&id], &query).await?;
    Ok(form.done(subscriptions::PATH, "The subscription was deleted."))
}
