//! The support desk: what an entity is, what is going on with it, and exactly the steps that may be taken now.

use axum::extract::Path;
use axum::response::Response;
use hapax_api::{
    AddEntityNote, AllowedAction, EntityDetail, Janitor, JournalEntry, JsonObject, Operation,
    OperationStatus, OverrideStep, Page, PendingOperation, TakeStep, TakenStep,
};
use maud::{Markup, html};

use super::{OPERATION_COLUMNS, PATH, operation_row, workflow_of};
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) async fn show(
    mut visit: Visit,
    Path((kind, id)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let detail: EntityDetail = visit.read(&ops::SHOW_ENTITY, &[&kind, &id], &[]).await?;
    let operations: Page<Operation> =
        visit.read(&ops::LIST_ENTITY_OPERATIONS, &[&kind, &id], &[("limit", Some("20"))]).await?;
    let notes: Page<JournalEntry> =
        visit.read(&ops::LIST_ENTITY_NOTES, &[&kind, &id], &[("limit", Some("100"))]).await?;
    let workflow = workflow_of(&visit, &kind).await?;
    let picture = match &workflow {
        Some(workflow) => Some(
            visit
                .ask(&ops::DRAW_ENTITY_WORKFLOW, &[&workflow.summary.name], &[("format", Some("svg"))])
                .await?
                .text(),
        ),
        None => None,
    };
    visit.frame.refresh = true;
    let entity = &detail.entity;
    let rows = operations.items.iter().map(|operation| operation_row(operation, &visit)).collect();
    let path = ui::entity_path(&kind, &id);
    let content = html! {
        div #desk data-fragment {
            div.heading {
                p.crumb { a href=(PATH) { "Entities" } " / " a href={ (PATH) "/" (text::encode(&kind)) } { (kind) } }
                h1 { (kind) " " (id) " " span.status-now { (entity.status) } }
                p.about { "Changed " (ui::ago(&entity.updated_at, visit.now_ms)) " · version " (entity.version) }
            }
            @if let Some(pending) = &detail.pending_operation { (in_progress(&visit, pending, &operations.items, detail.janitor.as_ref())) }
            section {
                h2 { "What may be done" }
                div.desk { @for action in &detail.allowed_actions { (button(&visit, &detail, action)) } }
                @if detail.allowed_actions.is_empty() { (ui::empty("Its workflow has no step.")) }
            }
        }
        div.plan {
            section {
                h2 { "Notes and history" }
                @if visit.may(&ops::ADD_ENTITY_NOTE) {
                    div.compose { (form::form(&visit, &format!("{path}/notes"), None, html! {
                        (form::area("text", "Note", "", Some("Possible at any time, whatever is in progress."), true))
                        (form::submit("Add note", form::Tone::Plain))
                    })) }
                }
                div #desk-history data-fragment { (ui::journal(&notes.items, "Nothing was noted yet.")) }
            }
            section { h2 { "Data" } (ui::json(entity.data.text())) @if let Some(picture) = &picture { h2 { "Where it stands" } (ui::diagram(picture, Some(&entity.status))) } }
        }
        section { h2 { "Operations" } div #desk-operations data-fragment { (ui::table(OPERATION_COLUMNS, rows, "Nothing was asked of it yet.")) } }
    };
    Ok(visit.page(&format!("{kind} {id}"), content))
}

/// The operation that is in the way of others: whose, since when, and what happens if its holder is gone.
fn in_progress(
    visit: &Visit,
    pending: &PendingOperation,
    known: &[Operation],
    janitor: Option<&Janitor>,
) -> Markup {
    let found = known.iter().find(|operation| operation.id == pending.id);
    let is_doubt = pending.status == OperationStatus::InDoubt;
    html! {
        div.notice.(if is_doubt { "doubt" } else { "active" }) role="status" {
            p.sentence {
                (pending.step_key) @if is_doubt { " is in doubt" } @else { " is in progress" } " since " (pending.age.to_string()) ": " (ui::operation_link(&pending.id))
            }
            @if let Some(operation) = found {
                p {
                    @if let Some(actor) = &operation.actor { "Asked for by " (ui::actor(actor)) ". " }
                    @if let Some(heard) = &operation.heard_at { "Its holder was last heard of " (ui::ago(heard, visit.now_ms)) ". " }
                    @if let (false, Some(left)) = (is_doubt, janitor.and_then(|janitor| stale_in(visit, operation, janitor))) { (left) }
                    @match (is_doubt, operation.recovery.as_str()) {
                        (true, _) => "Nothing else can begin until people decide.",
                        (false, "hold") => "If its holder vanishes, the janitor leaves it for people to decide.",
                        (false, _) => "If its holder vanishes, the janitor gives the claim back.",
                    }
                }
            }
        }
    }
}

/// When the janitor may treat the holder as gone, if it stays silent.
fn stale_in(visit: &Visit, operation: &Operation, janitor: &Janitor) -> Option<Markup> {
    let heard = operation.heard_at.as_deref().unwrap_or(&operation.began_at);
    let stale_after = i64::try_from(janitor.stale_after.0.as_millis()).unwrap_or(i64::MAX);
    let left = ui::until_ms(heard, visit.now_ms)?.saturating_add(stale_after);
    Some(html! {
        @if left > 0 { "The janitor of " (janitor.module) " steps in if the holder stays silent for another " span.number { (ui::span_text(left)) } "; it looks every " (janitor.every.to_string()) ". " }
        @else { "The holder is silent for too long: the janitor of " (janitor.module) " steps in within " (janitor.every.to_string()) ". " }
    })
}

/// The button of one step: enabled if the server would take it, else disabled with the reason and what is in the way.
fn button(visit: &Visit, detail: &EntityDetail, action: &AllowedAction) -> Markup {
    let entity = &detail.entity;
    let path =
        format!("{}/steps/{}", ui::entity_path(&entity.kind, &entity.id), text::encode(&action.step_key));
    let label = format!("{} → {}", action.step_key, action.to);
    if !action.enabled {
        return html! { div.step-button { (withheld(visit, detail, action, &path, &label)) } };
    }
    if !visit.may(&ops::TAKE_STEP) {
        return html! { div.step-button { (form::disabled(&label, html! { "Your role may look, and not act." })) } };
    }
    let fields = html! {
        @if action.irreversible { p { "This cannot be taken back." } }
        (form::area("input", "Input", "", Some("A JSON object for the action; empty if it needs none."), false))
        (form::submit(&label, if action.irreversible { Tone::Danger } else { Tone::Primary }))
    };
    html! {
        div.step-button {
            @if action.irreversible {
                (form::disclosed(&format!("{label}…"), Tone::Danger, form::form(visit, &path, Some(entity.version), fields)))
                p.hint { "Cannot be taken back." }
            } @else {
                (form::form(visit, &path, Some(entity.version), form::submit(&label, Tone::Primary)))
                details.more { summary { "with input" } (form::form(visit, &path, Some(entity.version), fields)) }
            }
        }
    }
}

fn withheld(visit: &Visit, detail: &EntityDetail, action: &AllowedAction, path: &str, label: &str) -> Markup {
    let entity = &detail.entity;
    let why = action.reason.as_deref().unwrap_or("It may not be taken now.");
    let reason = match &action.operation_id {
        Some(operation) => ui::linked(why, operation, &ui::operation_link(operation)),
        None => html! { (why) },
    };
    let needs_override = action.code.as_deref() == Some("override_required");
    html! {
        (form::disabled(label, reason))
        @if needs_override && visit.may(&ops::OVERRIDE_STEP) {
            (form::disclosed("Override…", Tone::Danger, form::form(visit, &format!("{path}/override"), Some(entity.version), html! {
                p { "It may have happened. An override takes the step once more, as a new effect. If it did happen, it happens twice." }
                (form::area("reason", "How do you know that it did not happen?", "", Some("Kept in the audit log, under your name."), true))
                (form::area("input", "Input", "", Some("A JSON object for the action; empty if it needs none."), false))
                (form::submit("Override and take the step", Tone::Danger))
            })))
        }
    }
}

/// The input that was typed, which must be an object.
fn input_of(form: &Submitted) -> Result<JsonObject, Failure> {
    let Some(given) = form.json("input")? else { return Ok(JsonObject::default()) };
    JsonObject::from_json(given).ok_or_else(|| {
        let detail = "`input` must be a JSON object: {…}.";
        form.visit.refuse(hapax_api::Problem::new(hapax_api::Code::InvalidRequest, detail))
    })
}

fn how_it_went(taken: &TakenStep) -> &'static str {
    match taken.operation.status {
        OperationStatus::Pending => "in progress",
        OperationStatus::InDoubt => "in doubt",
        OperationStatus::Done => "taken",
        OperationStatus::Rejected | OperationStatus::Failed | OperationStatus::Reverted => "not done",
    }
}

pub(super) async fn take(
    Path((kind, id, step)): Path<(String, String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let path = ui::entity_path(&kind, &id);
    form.leads_back_to(&path);
    let asked = TakeStep { input: input_of(&form)?, ..TakeStep::default() };
    let answer = form.send(&ops::TAKE_STEP, &[&kind, &id, &step], &asked).await?;
    let how = how_it_went(&form.read(&answer)?);
    Ok(form.done(&path, &format!("{step}: {how}.")))
}

pub(super) async fn take_overriding(
    Path((kind, id, step)): Path<(String, String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let path = ui::entity_path(&kind, &id);
    form.leads_back_to(&path);
    let asked = OverrideStep {
        reason: form.text("reason").into(),
        requester: None,
        input: input_of(&form)?,
        idempotency_key: None,
        by: None,
    };
    let answer = form.send(&ops::OVERRIDE_STEP, &[&kind, &id, &step], &asked).await?;
    let how = how_it_went(&form.read(&answer)?);
    Ok(form.done(&path, &format!("{step}: {how}, by override.")))
}

pub(super) async fn add_note(
    Path((kind, id)): Path<(String, String)>,
    mut form: Submitted,
) -> Result<Response, Failure> {
    let path = ui::entity_path(&kind, &id);
    form.leads_back_to(&path);
    form.send(
        &ops::ADD_ENTITY_NOTE,
        &[&kind, &id],
        &AddEntityNote { text: form.text("text").into(), by: None },
    )
    .await?;
    Ok(form.done(&path, "The note was added."))
}
