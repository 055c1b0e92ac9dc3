//! Workspaces: who owns what. For credentials of the installation.

use axum::extract::Query;
use axum::response::Response;
use hapax_api::{CreateWorkspace, Page, Workspace};
use maud::html;
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/admin/workspaces";

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    cursor: String,
}

pub(super) async fn list(
    visit: Visit,
    Query(PageQuery { cursor }): Query<PageQuery>,
) -> Result<Response, Failure> {
    let page: Page<Workspace> = visit.read(&ops::LIST_WORKSPACES, &[], &[("cursor", Some(&cursor))]).await?;
    let rows = page.items.iter().map(|it| {
        let credentials =
            format!("/console/admin/credentials{}", text::query(&[("workspace", Some(&it.id))]));
        vec![
            html! { b { (it.name) } },
            html! { @match &it.description { Some(about) => { (about) }, None => { (ui::none()) } } },
            ui::id(&it.id),
            ui::time(&it.created_at),
            html! { a href=(credentials) { "Credentials" } },
        ]
    });
    let content = html! {
        (heading(&visit, PATH, html! { "Each workspace has its own runs, keys and credentials. Nobody sees into another." }))
        @if visit.may(&ops::CREATE_WORKSPACE) {
            div.actions.above {
                (form::disclosed("Create a workspace…", Tone::Primary, form::form(&visit, PATH, None, html! {
                    (form::text_field("name", "Name", "", Some("Letters, digits, dots, dashes, underscores."), true))
                    (form::text_field("description", "Description", "", None, false))
                    (form::submit("Create", Tone::Primary))
                })))
            }
        }
        (ui::table(&["Name", "Description", "Id", "Created", ""], rows.collect(), "There is no workspace."))
        (ui::pager(PATH, &[], cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Workspaces", content))
}

pub(super) async fn create(mut form: Submitted) -> Result<Response, Failure> {
    form.leads_back_to(PATH);
    let asked = CreateWorkspace { name: form.text("name").into(), description: form.given("description") };
    let answer = form.send(&ops::CREATE_WORKSPACE, &[], &asked).await?;
    let made: Workspace = form.read(&answer)?;
    let credentials = format!("/console/admin/credentials{}", text::query(&[("workspace", Some(&made.id))]));
    Ok(form.done(&credentials, "The workspace is there. Give it a first credential, with the role admin."))
}
