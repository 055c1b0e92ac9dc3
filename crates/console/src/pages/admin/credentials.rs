//! Credentials: API keys, what they may do, and how long they count.

use axum::extract::{Path, Query};
use axum::response::Response;
use hapax_api::{
    CreateCredential, Credential, IssuedCredential, Page, RevokeCredential, Role, RotateCredential,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::heading;
use crate::failure::Failure;
use crate::form::{self, Submitted, Tone};
use crate::visit::Visit;
use crate::{ops, text, ui};

const PATH: &str = "/console/admin/credentials";

#[derive(Debug, Default, Deserialize)]
pub(super) struct PageQuery {
    #[serde(default)]
    workspace: String,
    #[serde(default)]
    cursor: String,
}

/// The list, for one workspace. Only credentials of the installation may look into another.
fn path(workspace: &str) -> String {
    format!("{PATH}{}", text::query(&[("workspace", Some(workspace))]))
}

pub(super) async fn list(visit: Visit, Query(place): Query<PageQuery>) -> Result<Response, Failure> {
    let filters = [("workspace", Some(place.workspace.as_str()))];
    let query = [filters[0], ("cursor", Some(place.cursor.as_str()))];
    let page: Page<Credential> = visit.read(&ops::LIST_CREDENTIALS, &[], &query).await?;
    let rows = page.items.iter().map(|it| row(&visit, it, &place.workspace)).collect();
    let content = html! {
        (heading(&visit, PATH, html! { "API keys. Each acts under its own name in the audit log, within the role it has." }))
        @if !place.workspace.is_empty() { p { "Of the workspace " (ui::id(&place.workspace)) ". " a href=(PATH) { "Those of your own" } } }
        @if visit.may(&ops::CREATE_CREDENTIAL) { div.actions.above { (creation(&visit, &place.workspace)) } }
        (ui::table(&["Name", "Status", "Role", "Last used", "Created", "Ends", "Id", ""], rows, "There is no credential."))
        (ui::pager(PATH, &filters, place.cursor.is_empty(), page.next_cursor.as_deref()))
    };
    Ok(visit.page("Credentials", content))
}

fn row(visit: &Visit, it: &Credential, workspace: &str) -> Vec<Markup> {
    let is_over =
        it.expires_at.as_deref().and_then(|at| ui::until_ms(at, visit.now_ms)).is_some_and(|ms| ms <= 0);
    let status = match (&it.revoked_at, is_over) {
        (Some(_), _) => ui::badge(ui::State::Gone, "Revoked"),
        (None, true) => ui::badge(ui::State::Gone, "Expired"),
        (None, false) => ui::badge(ui::State::Good, "Active"),
    };
    let instant = |at: Option<&str>, none: &str| match at {
        Some(at) => ui::ago(at, visit.now_ms),
        None => html! { span.dim { (none) } },
    };
    let is_own = it.id == visit.session.credential;
    vec![
        html! { b { (it.name) } @if is_own { " " (ui::tag("yours")) } @if let Some(requester) = &it.requester { div.dim { "for " (requester) } } },
        html! { (status) @if let Some(until) = &it.old_secret_until { div.dim { "old secret until " (ui::time(until)) } } },
        html! {
            (it.role.as_str())
            @if it.hides_payloads { div.dim { "sees no payloads" } }
            @if !it.networks.is_empty() { div.dim { "from " (it.networks.join(", ")) } }
            @if !it.routes.is_empty() { div.dim { "only " (it.routes.join(", ")) } }
        },
        instant(it.last_used_at.as_deref(), "never"),
        ui::ago(&it.created_at, visit.now_ms),
        instant(it.revoked_at.as_deref().or(it.expires_at.as_deref()), "never"),
        ui::id(&it.id),
        html! { @if it.revoked_at.is_none() { (buttons(visit, it, workspace, is_own)) } },
    ]
}

fn buttons(visit: &Visit, it: &Credential, workspace: &str, is_own: bool) -> Markup {
    let to = |what: &str| format!("{PATH}/{}/{what}", text::encode(&it.id));
    let hidden = html! { input type="hidden" name="workspace" value=(workspace); };
    html! {
        div.actions {
            @if visit.may(&ops::ROTATE_CREDENTIAL) {
                (form::disclosed("Rotate…", Tone::Plain, form::form(visit, &to("rotate"), None, html! {
                    (hidden)
                    p { "It gets a new secret. Its name, its role and the keys it used stay its own." }
                    @if is_own { p { "It is the one you are signed in with." } }
                    (form::text_field("overlap", "The old secret still counts for", "1h", Some("For example 30m, 24h or 7d; nothing ends it now."), false))
                    (form::submit("Rotate", Tone::Primary))
                })))
            }
            @if visit.may(&ops::REVOKE_CREDENTIAL) {
                (form::disclosed("Revoke…", Tone::Danger, form::form(visit, &to("revoke"), None, html! {
                    (hidden)
                    p { "It stops counting now, and for ever." }
                    @if is_own { p { b { "It is the one you are signed in with: you will be signed out." } } }
                    (form::area("reason", "Reason", "", Some("Kept in the audit log."), false))
                    (form::submit("Revoke", Tone::Danger))
                })))
            }
        }
    }
}

fn creation(visit: &Visit, workspace: &str) -> Markup {
    let roles = Role::ALL.map(|role| (role.as_str(), role.as_str()));
    let fields = html! {
        input type="hidden" name="workspace" value=(workspace);
        (form::text_field("name", "Name", "", Some("For people, and for the audit log."), true))
        (form::choice("role", "Role", &roles, "operator"))
        p.hint { a href="/console/admin/roles" { "What each role may do" } }
        (form::text_field("requester", "On whose behalf", "", Some("For approvals and entity workflows that name people."), false))
        (form::text_field("expires", "Counts for", "", Some("For example 30d; until it is revoked, if nothing is said."), false))
        (form::text_field("networks", "From", "", Some("Networks such as 10.8.0.0/16, separated by commas; anywhere, if nothing is said."), false))
        label.check { input type="checkbox" name="hides-payloads" value="yes"; span { "Hide inputs, outputs and other payloads" } }
        (form::submit("Create", Tone::Primary))
    };
    form::disclosed("Create a credential…", Tone::Primary, form::form(visit, PATH, None, fields))
}

/// The page that shows the key, this once. It is the answer to the form, so no address leads to it.
fn secret(visit: &Visit, issued: &IssuedCredential, workspace: &str, title: &str) -> Response {
    let content = html! {
        div.heading { p.crumb { a href=(path(workspace)) { "Credentials" } } h1 { (title) } }
        (ui::secret("The API key. It is shown this once: keep it as you keep a password.", &issued.api_key))
        (ui::known(vec![
            ("Name", Some(html! { (issued.credential.name) })),
            ("Role", Some(html! { (issued.credential.role.as_str()) })),
            ("Ends", issued.credential.expires_at.as_deref().map(ui::time)),
            ("Old secret until", issued.credential.old_secret_until.as_deref().map(ui::time)),
        ]))
        div.actions { a.button.primary href=(path(workspace)) { "I have kept it" } }
    };
    visit.page(title, content)
}

pub(super) async fn create(mut form: Submitted) -> Result<Response, Failure> {
    let workspace = form.text("workspace").to_owned();
    form.leads_back_to(&path(&workspace));
    let asked = CreateCredential {
        name: form.text("name").into(),
        role: form.word("role")?,
        requester: form.given("requester"),
        expires_in: form.duration("expires")?,
        networks: form
            .text("networks")
            .split([',', ' '])
            .filter(|it| !it.is_empty())
            .map(Into::into)
            .collect(),
        routes: Vec::new(),
        hides_payloads: form.is_ticked("hides-payloads"),
        may_offer: None,
    };
    let query = [("workspace", Some(workspace.as_str()))];
    let answer = form.send_with(&ops::CREATE_CREDENTIAL, &[], &query, Some(&asked)).await?;
    let issued: IssuedCredential = form.read(&answer)?;
    Ok(secret(&form.visit, &issued, &workspace, "The credential is made"))
}

pub(super) async fn rotate(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let workspace = form.text("workspace").to_owned();
    form.leads_back_to(&path(&workspace));
    let asked = RotateCredential { overlap: form.duration("overlap")? };
    let query = [("workspace", Some(workspace.as_str()))];
    let answer = form.send_with(&ops::ROTATE_CREDENTIAL, &[&id], &query, Some(&asked)).await?;
    let issued: IssuedCredential = form.read(&answer)?;
    Ok(secret(&form.visit, &issued, &workspace, "The credential has a new secret"))
}

pub(super) async fn revoke(Path(id): Path<String>, mut form: Submitted) -> Result<Response, Failure> {
    let path = path(form.text("workspace"));
    form.leads_back_to(&path);
    let query = [("workspace", Some(form.text("workspace")))];
    let asked = RevokeCredential { reason: form.given("reason") };
    form.send_with(&ops::REVOKE_CREDENTIAL, &[&id], &query, Some(&asked)).await?;
    Ok(form.done(&path, "The credential was revoked. It counts no more."))
}
