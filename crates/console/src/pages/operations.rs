//! One operation on an entity: where it stands, what happened to it, and the ruling if nobody knows.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{Operation, OperationDetail, OperationResolution, OperationStatus, ResolveOperation};
use maud::{Markup, html};

use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/operations/{id}", get(show))
        .route("/console/operations/{id}/resolve", post(resolve))
}

fn path(id: &str) -> String {
    format!("/console/operations/{}", text::encode(id))
}

async fn show(mut visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let detail: OperationDetail = visit.read(&ops::SHOW_OPERATION, &[&id], &[]).await?;
    let operation = &detail.operation;
    visit.frame.refresh = operation.status == OperationStatus::Pending;
    let content = html! {
        div #operation data-fragment {
            div.heading {
                p.crumb { a href="/console/entities" { "Entities" } " / " (ui::entity_link(&operation.entity_type, &operation.entity_id)) }
                h1 { (operation.step_key) " " (ui::operation_badge(operation.status)) }
                p.about { (ui::id(&operation.id)) }
            }
            @if let Some(failure) = &operation.failure {
                div.notice.bad { p.sentence { (ui::sentence(&failure.message)) } @if let Some(code) = &failure.code { p { code { (code) } } } }
            }
            @if operation.status == OperationStatus::InDoubt { (rulings(&visit, operation)) }
            @if operation.may_repeat { p.hint { "An earlier attempt under the same effect key may have happened. The provider keeps it from happening twice only if it honours the key." } }
            (facts(&visit, operation))
            section.plan {
                div { h2 { "Input" } (ui::json(operation.input.text())) }
                @if let Some(result) = &operation.result { div { h2 { "Result" } (ui::json(result.text())) } }
            }
            section { h2 { "What happened to it" } (ui::journal(&detail.history, "Nothing yet.")) }
        }
    };
    Ok(visit.page(&format!("{} {}", operation.step_key, operation.entity_id), content))
}

fn facts(visit: &Visit, operation: &Operation) -> Markup {
    let key = |key: &String| ui::id_link(&format!("/console/keys/operation/{}", text::encode(key)), key);
    ui::known(vec![
        ("Moves", Some(html! { code { (operation.from) } " → " code { (operation.to) } })),
        ("Asked for by", operation.actor.as_ref().map(ui::actor)),
        ("As requester", operation.requester.as_ref().map(|it| html! { (it) })),
        ("Key", operation.idempotency_key.as_ref().map(key)),
        ("Effect key", Some(ui::id(&operation.effect_key))),
        ("Began", Some(ui::time(&operation.began_at))),
        ("Ended", operation.ended_at.as_deref().map(ui::time)),
        ("Holder last heard of", operation.heard_at.as_ref().map(|at| ui::ago(at, visit.now_ms))),
        ("Attempts", Some(html! { (operation.attempts) })),
        (
            "If its holder vanishes",
            Some(html! { (operation.recovery) ", by the janitor of " (operation.module) }),
        ),
        ("Can be taken back", Some(html! { @if operation.irreversible { "no" } @else { "yes" } })),
        ("Run", operation.run_id.as_deref().map(ui::run_link)),
    ])
}

fn rulings(visit: &Visit, operation: &Operation) -> Markup {
    let action = format!("{}/resolve", path(&operation.id));
    let fields = |word: &str, effect: &str, output: bool, label: &str, tone: Tone| {
        form::form(
            visit,
            &action,
            None,
            html! {
                input type="hidden" name="resolution" value=(word);
                input type="hidden" name="attempt" value=(operation.attempts);
                p { (effect) }
                @if output { (form::area("result", "Result", "", Some("One JSON value: what the action gave."), false)) }
                (form::area("reason", "How do you know?", "", Some("Kept in the audit log, under your name."), true))
                (form::submit(label, tone))
            },
        )
    };
    let happened = "The entity gets the status that the step leads to. Nothing is sent again.";
    let not = "The claim is given back, and the step can be taken again. If it did happen, it may then happen twice.";
    html! {
        div.notice.doubt {
            p.sentence { "Nobody knows whether it happened: its holder vanished, or the provider did not say." }
            p { "Ask the provider about " (ui::id(&operation.effect_key)) ", then decide." }
            div.actions {
                @if visit.may(&ops::RESOLVE_OPERATION) {
                    (form::disclosed("It happened…", Tone::Primary, fields("happened", happened, true, "It happened", Tone::Primary)))
                    @if visit.is_manager() {
                        (form::disclosed("It did not happen…", Tone::Danger, fields("did_not_happen", not, false, "It did not happen", Tone::Danger)))
                    } @else { (form::disabled("It did not happen", html! { "This cannot be taken back, so it takes a manager." })) }
                } @else { (form::disabled("Decide", html! { "Your role may look, and not decide." })) }
            }
        }
    }
}

async fn resolve(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&id);
    form.leads_back_to(&path);
    let resolution = match form.text("resolution") {
        "happened" => OperationResolution::Happened,
        _ => OperationResolution::DidNotHappen,
    };
    let asked = ResolveOperation {
        attempt: form.number("attempt")?,
        resolution,
        result: form.json("result")?,
        reason: form.text("reason").into(),
        by: None,
    };
    form.send(&ops::RESOLVE_OPERATION, &[&id], &asked).await?;
    Ok(form.done(&path, &format!("Decided: it {}.", text::spelled(&resolution))))
}
