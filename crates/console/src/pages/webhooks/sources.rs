//! Sources: whom to believe, and what to do with what they send.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{
    ActivationStatus, ChangeWebhookSource, Code, Page, Problem, PutWebhookSource, SourceStatus,
    WebhookSource, WebhookSourceSummary,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{heading, with_reason};
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/webhooks/sources";

fn path(name: &str) -> String {
    format!("{PATH}/{}", text::encode(name))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    cursor: String,
}

/// Example of a source, to start from.
const EXAMPLE: &str = r#"{
  "name": "stripe-payments",
  "preset": "stripe",
  "secrets": ["secret://stripe-webhook"],
  "filter": "body.type == \"charge.succeeded\"",
  "actions": [
    { "settle": { "key": "stripe:{{ body.data.object.id }}", "value": "{{ body.data.object }}" } }
  ]
}"#;

pub(super) async fn list(
    visit: Visit,
    Query(PageQuery { cursor }): Query<PageQuery>,
) -> Result<Response, Failure> {
    let query = [("cursor", Some(cursor.as_str()))];
    let page: Page<WebhookSourceSummary> = visit.read(&ops::LIST_SOURCES, &[], &query).await?;
    let rows = page.items.iter().map(|it| {
        vec![
            html! { a href=(path(&it.name)) { b { (it.name) } } @if let Some(about) = &it.description { div.dim { (about) } } },
            badge(it.status),
            scheme(&it.scheme),
            html! { code { (it.path) } },
            ui::ago(&it.changed_at, visit.now_ms),
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Providers that may send webhooks, and what is done with what they send." }))
        @if visit.may(&ops::CREATE_SOURCE) {
            div.actions.above {
                (form::disclosed("Make a source…", Tone::Primary, form::form(&visit, PATH, None, html! {
                    (form::code_area("document", "Document", EXAMPLE, Some("Presets: stripe, github, shopify, slack, standard-webhooks. Secrets are named, never written here."), 12))
                    (form::submit("Make it", Tone::Primary))
                })))
            }
        }
        (ui::table(&["Name", "Status", "Signed", "Address", "Changed"], rows.collect(), "There is no source. Make one, and give its address to the provider."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Webhook sources", content))
}

fn badge(status: SourceStatus) -> Markup {
    let (state, word) = match status {
        SourceStatus::Enabled => (ui::State::Good, "Enabled"),
        SourceStatus::Disabled => (ui::State::Held, "Disabled"),
        SourceStatus::Deleted => (ui::State::Gone, "Deleted"),
    };
    ui::badge(state, word)
}

fn scheme(scheme: &str) -> Markup {
    match scheme {
        "none" => ui::badge(ui::State::Doubt, "Not at all"),
        scheme => html! { (scheme) },
    }
}

pub(super) async fn show(visit: Visit, Path(name): Path<String>) -> Result<Response, Failure> {
    let source: WebhookSource = visit.read(&ops::SHOW_SOURCE, &[&name], &[]).await?;
    let it = &source.summary;
    let received = format!("/console/webhooks{}", text::query(&[("source", Some(&it.name))]));
    let content = html! {
        div.heading {
            p.crumb { a href="/console/webhooks" { "Webhooks" } " / " a href=(PATH) { "Sources" } }
            h1 { (it.name) " " (badge(it.status)) }
            @if let Some(about) = &it.description { p.about { (about) } }
        }
        (ui::known(vec![
            ("Address, below that of the server", Some(ui::id(&it.path))),
            ("Signed", Some(scheme(&it.scheme))),
            ("Why it stands there", it.reason.as_ref().map(|reason| html! { (reason) })),
            ("Created", Some(ui::time(&it.created_at))),
            ("Changed", Some(ui::time(&it.changed_at))),
            ("Events", Some(html! { a href=(received) { "What it sent" } })),
        ]))
        (ui::warnings(&source.warnings))
        @if it.status != SourceStatus::Deleted { (buttons(&visit, &source)) }
        section { h2 { "Document" } p.hint { "With what its preset stands for." } (ui::json(source.document.text())) }
    };
    Ok(visit.page(&format!("Source {name}"), content))
}

fn buttons(visit: &Visit, source: &WebhookSource) -> Markup {
    let it = &source.summary;
    let to = |what: &str| format!("{}/{what}", path(&it.name));
    let (version, is_enabled) = (Some(it.version), it.status == SourceStatus::Enabled);
    html! {
        div.actions {
            @if visit.may(&ops::REPLACE_SOURCE) {
                (form::disclosed("Edit…", Tone::Plain, form::form(visit, &to("replace"), version, html! {
                    (form::code_area("document", "Document", &text::pretty(source.document.text()), Some("Later webhooks, and those that are processed again, are read with it."), 16))
                    (form::submit("Save", Tone::Primary))
                })))
            }
            @if visit.may(&ops::CHANGE_SOURCE) {
                @let (label, word, tone) = if is_enabled { ("Disable", "disabled", Tone::Danger) } else { ("Enable", "enabled", Tone::Primary) };
                @let about = html! {
                    input type="hidden" name="status" value=(word);
                    @if is_enabled { p { "Its webhooks are refused. What was accepted before is still processed." } }
                };
                (with_reason(visit, label, tone, &to("switch"), version, (about, false)))
            }
            @if visit.may(&ops::DELETE_SOURCE) {
                (with_reason(visit, "Delete", Tone::Danger, &to("delete"), version, (html! { p { "Its webhooks are refused, and it is not shown any more. One that is made under its name gets its address." } }, false)))
            }
        }
    }
}

fn document(form: &Submitted) -> Result<PutWebhookSource, Failure> {
    let missing = || Problem::new(Code::InvalidRequest, "The document is missing. Nothing was done.");
    form.json("document")?.map(PutWebhookSource).ok_or_else(|| form.visit.refuse(missing()))
}

pub(super) async fn create(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let answer = form.send(&ops::CREATE_SOURCE, &[], &document(&form)?).await?;
    let made: WebhookSource = form.read(&answer)?;
    Ok(form.done(&path(&made.summary.name), "The source is there. Give its address to the provider."))
}

pub(super) async fn replace(Path(name): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&name);
    form.leads_back_to(&path);
    form.send(&ops::REPLACE_SOURCE, &[&name], &document(&form)?).await?;
    Ok(form.done(&path, "The source was changed."))
}

pub(super) async fn switch(Path(name): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&name);
    form.leads_back_to(&path);
    let status: ActivationStatus = form.word("status")?;
    form.send(&ops::CHANGE_SOURCE, &[&name], &ChangeWebhookSource { status, reason: form.given("reason") })
        .await?;
    Ok(form.done(&path, &format!("The source is {}.", text::spelled(&status))))
}

pub(super) async fn delete(Path(name): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&path(&name));
    let query = [("reason", Some(form.text("reason")))];
    form.send_bare(&ops::DELETE_SOURCE, &[&name], &query).await?;
    Ok(form.done(PATH, "The source was deleted."))
}
