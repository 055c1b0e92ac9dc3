//! Entities: types, lists, and the support desk of one entity.

mod desk;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::response::Response;
use axum::routing::{get, post};
use hapax_api::{Entity, EntityWorkflow, EntityWorkflowSummary, Operation, OperationStatus, Page};
use maud::{Markup, html};
use serde::Deserialize;

use crate::Console;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/entities";

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(PATH, get(types))
        .route("/console/entities/{type}", get(list))
        .route("/console/entities/{type}/{id}", get(desk::show))
        .route("/console/entities/{type}/{id}/steps/{step}", post(desk::take))
        .route("/console/entities/{type}/{id}/steps/{step}/override", post(desk::take_overriding))
        .route("/console/entities/{type}/{id}/notes", post(desk::add_note))
}

async fn types(visit: Visit) -> Result<Response, Failure> {
    let page: Page<EntityWorkflowSummary> =
        visit.read(&ops::LIST_ENTITY_WORKFLOWS, &[], &[("limit", Some("200"))]).await?;
    let pending: Page<Operation> =
        visit.read(&ops::LIST_OPERATIONS, &[], &[("status", Some("PENDING")), ("limit", Some("20"))]).await?;
    let rows = page.items.iter().map(|workflow| {
        vec![
            html! { a href={ (PATH) "/" (text::encode(&workflow.entity_type)) } { b { (workflow.entity_type) } } },
            html! { (workflow.name) " " span.dim { (workflow.description.as_deref().unwrap_or_default()) } },
            html! { (workflow.module) },
            html! { @match &workflow.table { Some(table) => { code { (table) } }, None => { "kept by Hapax" } } },
        ]
    });
    let open = pending.items.iter().map(|operation| operation_row(operation, &visit));
    let content = html! {
        (ui::heading("Entities", html! { "Business objects whose status is their state. Open one for what may be done with it now." }))
        (ui::table(&["Type", "Moved by", "Module", "Lives in"], rows.collect(), "No entity workflow is there yet. Upload one to see its entities here."))
        section { h2 { "In progress" } (ui::table(OPERATION_COLUMNS, open.collect(), "No operation is in progress.")) }
    };
    Ok(visit.page("Entities", content))
}

/// Columns of [`operation_row`].
const OPERATION_COLUMNS: &[&str] = &["Step", "Status", "Entity", "Asked for by", "Began"];

fn operation_row(operation: &Operation, visit: &Visit) -> Vec<Markup> {
    vec![
        html! { a href={ "/console/operations/" (text::encode(&operation.id)) } { b { (operation.step_key) } } },
        ui::operation_badge(operation.status),
        ui::entity_link(&operation.entity_type, &operation.entity_id),
        html! { @match &operation.actor { Some(actor) => { (ui::actor(actor)) }, None => { (ui::none()) } } },
        match operation.status {
            OperationStatus::Pending => ui::ago(&operation.began_at, visit.now_ms),
            _ => ui::time(&operation.began_at),
        },
    ]
}

/// Which entities.
#[derive(Debug, Default, Deserialize)]
struct Filter {
    #[serde(default)]
    status: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    cursor: String,
}

/// The workflow that moves entities of a type, if there is one.
async fn workflow_of(visit: &Visit, kind: &str) -> Result<Option<EntityWorkflow>, Failure> {
    let page: Page<EntityWorkflowSummary> =
        visit.read(&ops::LIST_ENTITY_WORKFLOWS, &[], &[("limit", Some("200"))]).await?;
    match page.items.iter().find(|workflow| workflow.entity_type == kind) {
        Some(found) => visit.find(&ops::SHOW_ENTITY_WORKFLOW, &[&found.name]).await,
        None => Ok(None),
    }
}

/// The statuses that a workflow knows, in their order.
fn statuses(workflow: &EntityWorkflow) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Document {
        #[serde(default)]
        status_types: Vec<String>,
    }
    serde_json::from_str::<Document>(workflow.document.text()).unwrap_or_default().status_types
}

async fn list(
    visit: Visit,
    Path(kind): Path<String>,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let here = format!("{PATH}/{}", text::encode(&kind));
    if !filter.id.trim().is_empty() {
        return Ok(axum::response::IntoResponse::into_response(axum::response::Redirect::to(
            &ui::entity_path(&kind, filter.id.trim()),
        )));
    }
    let query = [("status", Some(filter.status.as_str())), ("cursor", Some(filter.cursor.as_str()))];
    let page: Page<Entity> = visit.read(&ops::LIST_ENTITIES, &[&kind], &query).await?;
    let workflow = workflow_of(&visit, &kind).await?;
    let rows = page.items.iter().map(|entity| {
        vec![
            ui::entity_link(&kind, &entity.id),
            html! { (ui::tag(&entity.status)) },
            ui::time(&entity.updated_at),
            html! { span.number { (entity.version) } },
        ]
    });
    let tab = |name: &str, status: &str| {
        (
            name.to_owned(),
            format!("{here}{}", text::query(&[("status", Some(status))])),
            filter.status == status,
        )
    };
    let mut views = vec![tab("All", "")];
    views.extend(workflow.iter().flat_map(statuses).map(|status| tab(&status, &status)));
    let views: Vec<_> = views
        .iter()
        .map(|(name, path, is_here)| ui::Tab { name, path: path.clone(), is_here: *is_here })
        .collect();
    let content = html! {
        div.heading { p.crumb { a href=(PATH) { "Entities" } } h1 { (kind) } p.about { "In the order of their ids." } }
        (ui::tabs(&views))
        form.filters action=(here) {
            label { span { "Id" } input type="search" name="id" required autocomplete="off" placeholder="exact id"; }
            button.plain type="submit" { "Open" }
        }
        (ui::table(&["Entity", "Status", "Changed", "Version"], rows.collect(), "No entity is here."))
        (ui::pager(&here, &[("status", Some(&filter.status))], filter.cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page(&kind, content))
}
