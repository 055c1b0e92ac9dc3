//! Workers: programs that carry out workflows, tasks and actions for the server.

use axum::extract::Query;
use axum::response::Response;
use hapax_api::{Page, WorkerSession};
use maud::html;
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::visit::Visit;
use crate::{ops, ui};

pub(super) const PATH: &str = "/console/workflows/workers";

#[derive(Debug, Default, Deserialize)]
pub(super) struct Place {
    #[serde(default)]
    cursor: String,
}

pub(super) async fn list(
    mut visit: Visit,
    Query(Place { cursor }): Query<Place>,
) -> Result<Response, Failure> {
    visit.frame.refresh = true;
    let query = [("cursor", Some(cursor.as_str()))];
    let page: Page<WorkerSession> = visit.read(&ops::LIST_WORKER_SESSIONS, &[], &query).await?;
    let rows = page.items.iter().map(|it| {
        let names = |kind: &str, names: &[String]| {
            html! { @if !names.is_empty() { div { span.dim { (kind) " " } (names.join(", ")) } } }
        };
        let workflows: Vec<String> =
            it.workflows.iter().map(|workflow| format!("{}@{}", workflow.name, workflow.version)).collect();
        vec![
            html! { b { (it.name) } @if let Some(instance) = &it.instance { " " span.dim { (instance) } } div { (ui::id(&it.session_id)) } },
            html! { (it.host.as_deref().unwrap_or("–")) @if let Some(sdk) = &it.sdk { div.dim { (sdk) " " (it.sdk_version.as_deref().unwrap_or_default()) } } },
            html! { (names("workflows", &workflows)) (names("tasks", &it.tasks)) (names("actions", &it.actions)) },
            html! { span.number { (it.under_way) " of " (it.concurrency) } },
            html! { span.number { (it.run_count) } },
            ui::ago(&it.heard_at, visit.now_ms),
            ui::ago(&it.opened_at, visit.now_ms),
        ]
    });
    let columns = ["Worker", "Machine", "Offers", "Under way", "Runs in memory", "Last heard of", "Since"];
    let content = html! {
        (heading(&visit, PATH, html! { "Programs that carry out workflows, tasks and actions, connected to the node that answers." }))
        div #workers data-fragment {
            (ui::table(&columns, rows.collect(), "No worker is connected to this node. Runs whose code is in a worker wait until one comes."))
            (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
        }
    };
    Ok(visit.page("Workers", content))
}
