//! Workflows: documents with their versions and steps, starting their runs, and the workflows of entities.

mod definition;
mod entities;
mod input;
mod start;
mod steps;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{Code, CreateDefinition, Definition, DefinitionStatus, DefinitionSummary, Page, Problem};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/workflows";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(list).post(upload))
        .route("/console/workflows/definitions/{id}", get(definition::show))
        .route("/console/workflows/definitions/{id}/change", post(definition::change))
        .route("/console/workflows/definitions/{id}/delete", post(definition::delete))
        .route("/console/workflows/definitions/{id}/start", get(start::show).post(start::start))
        .route("/console/workflows/workers", get(workers::list))
        .route("/console/workflows/entities", get(entities::list))
        .route("/console/workflows/entities/{name}", get(entities::show))
}

/// The page of one version of a workflow.
fn path(id: &str) -> String {
    format!("{PATH}/definitions/{}", text::encode(id))
}

/// The heading of a list, with a link to the other one.
fn heading(visit: &Visit, here: &str, about: Markup) -> Markup {
    let views = [
        ("Workflows", PATH, ops::LIST_DEFINITIONS),
        ("Of entities", entities::PATH, ops::LIST_ENTITY_WORKFLOWS),
        ("Workers", workers::PATH, ops::LIST_WORKER_SESSIONS),
    ];
    let allowed = views.iter().filter(|(_, _, op)| visit.may(op));
    let tabs: Vec<_> = allowed
        .map(|(name, path, _)| ui::Tab { name, path: (*path).into(), is_here: *path == here })
        .collect();
    html! { (ui::heading("Workflows", about)) (ui::tabs(&tabs)) }
}

#[derive(Debug, Default, Deserialize)]
struct PageQuery {
    #[serde(default)]
    cursor: String,
}

/// Example of a workflow, to start from.
const EXAMPLE: &str = r#"{
  "name": "hello",
  "version": 1,
  "input": {
    "type": "object",
    "required": ["name"],
    "properties": { "name": { "type": "string" } }
  },
  "steps": [
    { "name": "greet", "type": "task", "task": "echo", "input": { "text": "Hello {{ input.name }}" } }
  ]
}"#;

async fn list(visit: Visit, Query(PageQuery { cursor }): Query<PageQuery>) -> Result<Response, Failure> {
    let query = [("limit", Some("200")), ("cursor", Some(cursor.as_str()))];
    let page: Page<DefinitionSummary> = visit.read(&ops::LIST_DEFINITIONS, &[], &query).await?;
    let mut by_name: BTreeMap<&str, Vec<&DefinitionSummary>> = BTreeMap::new();
    for definition in &page.items {
        by_name.entry(&definition.name).or_default().push(definition);
    }
    let rows = by_name.into_iter().map(|(name, mut versions)| {
        versions.sort_by_key(|it| std::cmp::Reverse(it.version));
        row(&visit, name, &versions)
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Documents that runs follow. What a version says never changes; a run stays with the version it began with." }))
        @if visit.may(&ops::UPLOAD_DEFINITION) {
            div.actions.above {
                (form::disclosed("Upload a workflow…", Tone::Primary, form::form(&visit, PATH, None, html! {
                    (form::code_area("document", "Document", EXAMPLE, Some("JSON. For YAML use: hapax apply FILE."), 16))
                    (form::submit("Upload", Tone::Primary))
                })))
            }
        }
        (ui::table(&["Workflow", "Versions", "Key", "Runs", "Latest upload", ""], rows.collect(), "There is no workflow yet. Upload one, here or with: hapax apply FILE."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Workflows", content))
}

fn row(visit: &Visit, name: &str, versions: &[&DefinitionSummary]) -> Vec<Markup> {
    let latest = versions[0];
    let runs = format!("/console/runs{}", text::query(&[("workflow", Some(name))]));
    let startable = versions.iter().find(|it| it.status == DefinitionStatus::Active);
    vec![
        html! { a href=(path(&latest.id)) { b { (name) } } @if let Some(about) = &latest.description { div.dim { (about) } } },
        html! {
            @for it in versions {
                a.version href=(path(&it.id)) { "v" (it.version) @if it.status == DefinitionStatus::Archived { span.dim { " archived" } } } " "
            }
        },
        html! { (text::spelled(&latest.idempotency)) },
        html! { a href=(runs) { "Its runs" } },
        ui::ago(&latest.created_at, visit.now_ms),
        html! { @if let Some(it) = startable { @if visit.may(&ops::START_RUN) { a.button.plain.small href={ (path(&it.id)) "/start" } { "Start a run" } } } },
    ]
}

async fn upload(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let missing = || Problem::new(Code::InvalidRequest, "The document is missing. Nothing was done.");
    let document = form.json("document")?.ok_or_else(|| form.visit.refuse(missing()))?;
    let answer = form.send(&ops::UPLOAD_DEFINITION, &[], &CreateDefinition(document)).await?;
    let made: Definition = form.read(&answer)?;
    Ok(form.done(&path(&made.id), &format!("{} version {} is there.", made.name, made.version)))
}
