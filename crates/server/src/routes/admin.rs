//! Workspaces and credentials.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::{Code, Role};
use hapax_engine::model::{Name, WorkspaceId, is_misleading_name};
use hapax_workers::check_bound_names;
use http::{Method, StatusCode, header};
use ipnet::IpNet;
use serde::Deserialize;
use utoipa::IntoParams;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use crate::answer::Refused;
use crate::app::App;
use crate::directory::NewCredential;
use crate::identity::Identity;
use crate::limits::{MAX_NETWORKS_PER_CREDENTIAL, MAX_ROUTES_PER_CREDENTIAL};
use crate::routes::list_routes;
use crate::strict_json::StrictJson;

/// Creates a workspace.
pub(crate) async fn create_workspace(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    StrictJson { value: asked, .. }: StrictJson<api::CreateWorkspace>,
) -> Result<Response, Refused> {
    let (workspace, is_new) = app.directory.create_workspace(&asked, identity.actor(None)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(workspace)).into_response())
}

/// Workspaces of the installation.
pub(crate) async fn list_workspaces(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::Workspace>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "workspaces", "");
    let after = pages.place(page.cursor.as_deref(), |place| Name::new("place", place))?;
    let items = app.directory.list_workspaces(after, limit).await?;
    let next_cursor = pages.next(&items, limit, |last| last.id.clone());
    Ok(Json(api::Page { items, next_cursor }))
}

/// One workspace: the caller's own, or any for an admin of the installation.
pub(crate) async fn show_workspace(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::Workspace>, Refused> {
    let may_see = identity.is_installation() || identity.workspace.as_str() == id;
    let found = if may_see { app.directory.find_workspace(&id).await? } else { None };
    Ok(Json(
        found.ok_or_else(|| {
            Refused::new(Code::NotFound, "The workspace does not exist, or it is not yours.")
        })?,
    ))
}

/// Workspace of the credentials.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InWorkspace {
    /// The workspace, for an admin of the installation; the caller's own if absent.
    workspace: Option<String>,
}

/// Creates a credential. Only this response shows its key.
pub(crate) async fn create_credential(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(of): QueryOf<InWorkspace>,
    StrictJson { value: asked, .. }: StrictJson<api::CreateCredential>,
) -> Result<Response, Refused> {
    let workspace = workspace(&app, &identity, of).await?;
    for (path, text) in [("/name", Some(&asked.name)), ("/requester", asked.requester.as_ref())] {
        if text.is_some_and(|text| {
            text.trim().is_empty() || text.chars().count() > 128 || is_misleading_name(text)
        }) {
            let detail = "Use 1 to 128 visible characters, on one line.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", path));
        }
    }
    let lives_for = asked.expires_in.map(|given| given.0);
    if lives_for.is_some_and(|span| span.is_zero() || span > hapax_engine::limits::MAX_SPAN) {
        return Err(Refused::new(
            Code::InvalidRequest,
            "A credential lives for at least a second and at most ten years.",
        )
        .with("path", "/expiresIn"));
    }
    check_lifetime(app.options.longest_credential_life, lives_for)?;
    if let Some(names) = &asked.may_offer {
        check_bound_names(names)?;
        if asked.role != Role::Worker {
            let detail = "Only a credential of the role worker is bound to names; omit `mayOffer`.";
            return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/mayOffer"));
        }
    }
    let new = NewCredential {
        name: asked.name,
        role: asked.role,
        requester: asked.requester,
        lives_for,
        networks: networks(&asked.networks)?,
        routes: routes(asked.routes)?,
        hides_payloads: asked.hides_payloads,
        may_offer: asked.may_offer,
    };
    let (credential, key) = app.directory.create_credential(&workspace, new, identity.actor(None)).await?;
    let location = format!("/api/v1/credentials/{}", credential.id);
    let issued = api::IssuedCredential { credential: credential.shown(), api_key: key.reveal().to_owned() };
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(issued)).into_response())
}

/// Where credentials must end, a new one says when.
fn check_lifetime(longest: Option<Duration>, asked: Option<Duration>) -> Result<(), Refused> {
    let Some(longest) = longest else { return Ok(()) };
    if asked.is_some_and(|asked| asked <= longest) {
        return Ok(());
    }
    let longest = api::DurationText(longest);
    let detail =
        format!("Credentials of this server live for at most {longest}; say how long this one does.");
    Err(Refused::new(Code::InvalidRequest, detail)
        .with("path", "/expiresIn")
        .with("maximum", longest.to_string()))
}

fn networks(texts: &[String]) -> Result<Vec<IpNet>, Refused> {
    let refused = |place: usize, detail: String| {
        Refused::new(Code::InvalidRequest, detail).with("path", format!("/networks/{place}"))
    };
    if texts.len() > MAX_NETWORKS_PER_CREDENTIAL {
        let detail = format!("A credential is bound to at most {MAX_NETWORKS_PER_CREDENTIAL} networks.");
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/networks"));
    }
    let read = |(place, text): (usize, &String)| {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map_err(|_| refused(place, "Use a network such as 10.8.0.0/16, or an address.".into()))
    };
    texts.iter().enumerate().map(read).collect()
}

/// Checks that these routes exist.
fn routes(asked: Vec<String>) -> Result<Vec<String>, Refused> {
    if asked.len() > MAX_ROUTES_PER_CREDENTIAL {
        let detail = format!("A credential is bound to at most {MAX_ROUTES_PER_CREDENTIAL} routes.");
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/routes"));
    }
    let known = list_routes();
    let is_known = |text: &String| {
        let is_this =
            |(method, path, _): &(Method, &str, _)| text.split_once(' ') == Some((method.as_str(), path));
        known.iter().any(is_this)
    };
    match asked.iter().position(|text| !is_known(text)) {
        Some(place) => {
            let detail = "There is no such route. Write method and path as the API description does: POST /api/v1/workflow-runs.";
            Err(Refused::new(Code::InvalidRequest, detail).with("path", format!("/routes/{place}")))
        }
        None => Ok(asked),
    }
}

/// Filters for credentials.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CredentialList {
    /// Only of this workspace; only an admin of the installation may name another one.
    workspace: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

/// Credentials, without their secrets.
pub(crate) async fn list_credentials(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(asked): QueryOf<CredentialList>,
) -> Result<Json<api::Page<api::Credential>>, Refused> {
    let limit = page_limit(asked.limit.as_deref())?;
    let workspace = workspace(&app, &identity, InWorkspace { workspace: asked.workspace }).await?;
    let pages = app.list(&identity, "credentials", workspace.as_str());
    let after = pages.place(asked.cursor.as_deref(), |place| Name::new("place", place))?;
    let found = app.directory.list_credentials(&workspace, after, limit).await?;
    let next_cursor = pages.next(&found, limit, |last| last.id.to_string());
    Ok(Json(api::Page { items: found.iter().map(|found| found.shown()).collect(), next_cursor }))
}

/// One credential, without its secret.
pub(crate) async fn show_credential(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(of): QueryOf<InWorkspace>,
) -> Result<Json<api::Credential>, Refused> {
    let workspace = workspace(&app, &identity, of).await?;
    Ok(Json(app.directory.get_credential(&workspace, &id).await?.shown()))
}

/// Gives a credential a new secret. Its scope of request keys stays.
pub(crate) async fn rotate_credential(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(of): QueryOf<InWorkspace>,
    asked: Option<StrictJson<api::RotateCredential>>,
) -> Result<Json<api::IssuedCredential>, Refused> {
    let overlap = asked.and_then(|StrictJson { value: asked, .. }| asked.overlap);
    let overlap = overlap.map_or(Duration::ZERO, |given| given.0);
    let workspace = workspace(&app, &identity, of).await?;
    let by = identity.actor(None);
    let (credential, key) = app.directory.rotate_credential(&workspace, &id, overlap, by).await?;
    app.authenticator.forget(&credential.id);
    Ok(Json(api::IssuedCredential { credential: credential.shown(), api_key: key.reveal().to_owned() }))
}

/// Revokes a credential: at once on this node, within five seconds on all others.
pub(crate) async fn revoke_credential(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    QueryOf(of): QueryOf<InWorkspace>,
    asked: Option<StrictJson<api::RevokeCredential>>,
) -> Result<Json<api::Credential>, Refused> {
    let reason = asked.and_then(|StrictJson { value: asked, .. }| asked.reason);
    let workspace = workspace(&app, &identity, of).await?;
    let by = identity.actor(None);
    let revoked = app.directory.revoke_credential(&workspace, &id, reason.as_deref(), by).await;
    // Even after an error: it may have been revoked for a moment.
    if let Ok(id) = Name::new("credential id", &id) {
        app.authenticator.forget(&id);
    }
    Ok(Json(revoked?.shown()))
}

async fn workspace(app: &App, identity: &Identity, of: InWorkspace) -> Result<WorkspaceId, Refused> {
    let Some(named) = of.workspace.filter(|named| *named != identity.workspace.as_str()) else {
        return Ok(identity.workspace.clone());
    };
    let absent = || Refused::new(Code::NotFound, "The workspace does not exist, or it is not yours.");
    if !identity.is_installation() {
        return Err(absent());
    }
    app.directory.find_workspace(&named).await?.ok_or_else(absent)?;
    WorkspaceId::new(&named).map_err(|_| absent())
}
