//! One version of a workflow: its steps, its open runs, and whether it starts new ones.

use axum::extract::Path;
use axum::response::Response;
use hapax_api::{ChangeDefinition, Definition, DefinitionStatus, DefinitionSummary, Page, Run};
use maud::{Markup, html};
use serde_json::Value;

use super::{PATH, path, steps};
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) async fn show(visit: Visit, Path(id): Path<String>) -> Result<Response, Failure> {
    let it: Definition = visit.read(&ops::SHOW_DEFINITION, &[&id], &[]).await?;
    let all: Page<DefinitionSummary> =
        visit.read(&ops::LIST_DEFINITIONS, &[], &[("limit", Some("200"))]).await?;
    let mut versions: Vec<_> = all.items.iter().filter(|other| other.name == it.name).collect();
    versions.sort_by_key(|other| std::cmp::Reverse(other.version));
    let open = "PENDING,RUNNING,WAITING,PAUSED";
    let query = [("workflow", Some(it.name.as_str())), ("status", Some(open)), ("limit", Some("200"))];
    let runs: Page<Run> = visit.read(&ops::LIST_RUNS, &[], &query).await?;
    let to_runs = format!("/console/runs{}", text::query(&query[..2]));
    let rows = versions.iter().map(|other| version(other, &runs, &to_runs, other.id == it.id)).collect();
    let document: Value = serde_json::from_str(it.document.text()).unwrap_or_default();
    let content = html! {
        div.heading {
            p.crumb { a href=(PATH) { "Workflows" } }
            h1 { (it.name) " " span.dim { "version " (it.version) } " " (badge(it.status)) }
            @if let Some(about) = &it.description { p.about { (about) } }
        }
        (ui::known(vec![
            ("Id", Some(ui::id(&it.id))),
            ("Input", Some(html! { @if document.get("input").is_some() { "as its schema says" } @else { "any JSON object" } })),
            ("Key of a run", Some(html! { (text::spelled(&it.idempotency)) })),
            ("Uploaded", Some(ui::time(&it.created_at))),
            ("SHA-256 of the document", Some(ui::id(&it.digest))),
        ]))
        (buttons(&visit, &it))
        section { h2 { "Steps" } (steps::drawn(&document)) }
        section { h2 { "Versions" } (ui::table(&["Version", "Status", "Open runs", "Uploaded"], rows, "None.")) }
        section { h2 { "Document" } (ui::json(it.document.text())) }
    };
    Ok(visit.page(&format!("{} v{}", it.name, it.version), content))
}

fn badge(status: DefinitionStatus) -> Markup {
    match status {
        DefinitionStatus::Active => ui::badge(ui::State::Good, "Active"),
        DefinitionStatus::Archived => ui::badge(ui::State::Held, "Archived"),
    }
}

/// One version with how many runs it has open, as far as one page of them tells.
fn version(it: &DefinitionSummary, runs: &Page<Run>, to_runs: &str, is_here: bool) -> Vec<Markup> {
    let name = format!("{}@{}", it.name, it.version);
    let open = runs.items.iter().filter(|run| run.workflow == name).count();
    let more = if runs.next_cursor.is_some() { "+" } else { "" };
    vec![
        html! { @if is_here { b { "v" (it.version) } " " (ui::tag("this one")) } @else { a href=(path(&it.id)) { "v" (it.version) } } },
        badge(it.status),
        html! { @if open == 0 && more.is_empty() { span.dim { "none" } } @else { a href=(to_runs) { (open) (more) } } },
        ui::time(&it.created_at),
    ]
}

fn buttons(visit: &Visit, it: &Definition) -> Markup {
    let to = |what: &str| format!("{}/{what}", path(&it.id));
    let is_active = it.status == DefinitionStatus::Active;
    let (label, word, tone, effect) = match is_active {
        true => ("Archive", "archived", Tone::Plain, "It starts no new runs. Runs that began with it go on."),
        false => ("Take out of the archive", "active", Tone::Primary, "It starts runs again."),
    };
    let name = format!("{} version {}", it.name, it.version);
    html! {
        div.actions {
            @if is_active && visit.may(&ops::START_RUN) { a.button.primary href=(to("start")) { "Start a run" } }
            @if visit.may(&ops::CHANGE_DEFINITION) {
                (form::disclosed(&format!("{label}…"), tone, form::form(visit, &to("change"), Some(it.revision), html! {
                    p { b { (name) } ". " (effect) }
                    input type="hidden" name="status" value=(word);
                    (form::area("reason", "Reason", "", Some("Kept in the audit log."), false))
                    (form::submit(label, tone))
                })))
            }
            @if visit.may(&ops::DELETE_DEFINITION) {
                (form::disclosed("Delete…", Tone::Danger, form::form(visit, &to("delete"), Some(it.revision), html! {
                    p { b { (name) } ". It is gone for good; the server refuses while a run is open that needs it." }
                    (form::area("reason", "Reason", "", Some("Kept in the audit log."), false))
                    (form::submit("Delete", Tone::Danger))
                })))
            }
        }
    }
}

pub(super) async fn change(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(&id);
    form.leads_back_to(&path);
    let status: DefinitionStatus = form.word("status")?;
    form.send(&ops::CHANGE_DEFINITION, &[&id], &ChangeDefinition { status, reason: form.given("reason") })
        .await?;
    Ok(form.done(&path, &format!("It is {}.", text::spelled(&status))))
}

pub(super) async fn delete(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(&path(&id));
    form.send_bare(&ops::DELETE_DEFINITION, &[&id], &[("reason", Some(form.text("reason")))]).await?;
    Ok(form.done(PATH, "The version was deleted."))
}
