//! Workflows of entities: diagram, claims, warnings.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{EntityWorkflow, EntityWorkflowSummary, Page};
use maud::{Markup, html};
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, text, ui};

pub(super) const PATH: &str = "/console/workflows/entities";

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
    let page: Page<EntityWorkflowSummary> = visit.read(&ops::LIST_ENTITY_WORKFLOWS, &[], &query).await?;
    let rows = page.items.iter().map(|it| {
        let entities = format!("/console/entities/{}", text::encode(&it.entity_type));
        let is_open = it.claims.iter().any(|claim| claim.covered_by.is_none());
        vec![
            html! { a href={ (PATH) "/" (text::encode(&it.name)) } { b { (it.name) } } @if let Some(about) = &it.description { div.dim { (about) } } },
            html! { a href=(entities) { (it.entity_type) } },
            html! { (it.module) },
            html! {
                @if it.claims.is_empty() { (ui::none()) }
                @else if is_open { (ui::badge(ui::State::Bad, "Not covered")) }
                @else { (ui::badge(ui::State::Good, "Covered")) }
            },
            html! { @match &it.table { Some(table) => { code { (table) } }, None => { span.dim { "of Hapax" } } } },
            ui::ago(&it.changed_at, visit.now_ms),
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Which statuses business objects know, and which steps move them." }))
        (ui::table(&["Workflow", "Entity", "Module", "Claims", "Table", "Changed"], rows.collect(), "There is no entity workflow. Upload one with: hapax apply FILE."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Workflows of entities", content))
}

pub(super) async fn show(visit: Visit, Path(name): Path<String>) -> Result<Response, Failure> {
    let workflow: EntityWorkflow = visit.read(&ops::SHOW_ENTITY_WORKFLOW, &[&name], &[]).await?;
    let drawn = visit.ask(&ops::DRAW_ENTITY_WORKFLOW, &[&name], &[("format", Some("svg"))]).await?;
    let it = &workflow.summary;
    let entities = format!("/console/entities/{}", text::encode(&it.entity_type));
    let content = html! {
        div.heading {
            p.crumb { a href=(super::PATH) { "Workflows" } " / " a href=(PATH) { "Of entities" } }
            h1 { (it.name) }
            @if let Some(about) = &it.description { p.about { (about) } }
        }
        (ui::known(vec![
            ("Entities", Some(html! { a href=(entities) { (it.entity_type) } })),
            ("Module", Some(html! { (it.module) })),
            ("Table", Some(html! { @match &it.table { Some(table) => { code { (table) } }, None => { "of Hapax" } } })),
            ("Version", Some(html! { (it.version) })),
            ("Created", Some(ui::time(&it.created_at))),
            ("Changed", Some(ui::time(&it.changed_at))),
        ]))
        @if workflow.warnings.is_empty() { div.notice.good { p { "Nobody needs to look at anything: every status can be reached and left, and every claim is covered." } } }
        (ui::warnings(&workflow.warnings))
        section { h2 { "States and steps" } (ui::diagram(&drawn.text(), None)) }
        section { h2 { "Claims" } (claims(it)) }
        section { h2 { "Document" } p.hint { "In its canonical form." } (ui::json(workflow.document.text())) }
    };
    Ok(visit.page(&format!("Workflow {name}"), content))
}

fn claims(it: &EntityWorkflowSummary) -> Markup {
    let rows = it.claims.iter().map(|claim| {
        vec![
            html! { code { (claim.claim_into) } },
            html! { code { (claim.revert_to) } },
            match &claim.covered_by {
                Some(module) => html! { (ui::badge(ui::State::Good, "Covered")) " by the janitor of " (module) },
                None => html! { (ui::badge(ui::State::Bad, "Not covered")) " No janitor on this node frees it after a crash." },
            },
        ]
    });
    ui::table(&["Claimed into", "Goes back to", "After a crash"], rows.collect(), "No step claims an entity.")
}
