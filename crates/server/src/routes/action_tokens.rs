//! Tokens for pages of the users' own that show the buttons of one entity.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::{Code, Role};
use http::StatusCode;

use super::entities::requester_of;
use super::request::{Caller, PathOf};
use crate::action_token::Grant;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::identity::Person;
use crate::limits::{ACTION_TOKEN_FOR, MAX_ACTION_TOKEN_FOR};
use crate::strict_json::StrictJson;

/// Creates a token that lets a page see one entity and take its steps. Only this response shows it.
pub(crate) async fn issue(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((kind, id)): PathOf<(String, String)>,
    asked: Option<StrictJson<api::CreateActionToken>>,
) -> Result<Response, Refused> {
    let asked = asked.map(|StrictJson { value, .. }| value).unwrap_or_default();
    Person::named(asked.by.as_deref())?;
    let lives_for = life_of(asked.expires_in)?;
    let role = role_of(asked.role.unwrap_or(Role::Operator), identity.role)?;
    let requester = requester_of(&identity, asked.requester)?;
    let view = app.engine_for(&identity).get_entity(&kind, &id, requester.as_deref()).await;
    view.map_err(|error| problem_of(&error))?;
    let expires_at = app.store.now().plus(lives_for);
    let grant = Grant {
        credential: identity.credential.to_string(),
        kind,
        id,
        role,
        requester,
        person: asked.by,
        expires_at: expires_at.as_millis(),
    };
    let token = app.action_tokens.seal(&grant);
    let issued = api::IssuedActionToken { token, role, expires_at: expires_at.to_string() };
    Ok((StatusCode::CREATED, Json(issued)).into_response())
}

fn life_of(asked: Option<api::DurationText>) -> Result<Duration, Refused> {
    match asked.map_or(ACTION_TOKEN_FOR, |given| given.0) {
        span if span.is_zero() || span > MAX_ACTION_TOKEN_FOR => {
            let most = api::DurationText(MAX_ACTION_TOKEN_FOR);
            let detail = format!("`expiresIn` is more than 0 and at most {most}.");
            Err(Refused::new(Code::InvalidRequest, detail).with("path", "/expiresIn"))
        }
        span => Ok(span),
    }
}

/// Role of the holder: a role for people, and not above the credential's role.
fn role_of(asked: Role, own: Role) -> Result<Role, Refused> {
    match asked {
        Role::Worker | Role::Admin => {
            let detail = "`role` is `viewer`, `operator` or `manager`.";
            Err(Refused::new(Code::InvalidRequest, detail).with("path", "/role"))
        }
        Role::Manager if !matches!(own, Role::Manager | Role::Admin) => {
            let detail =
                format!("A credential with the role {} cannot create a token for a manager.", own.as_str());
            Err(Refused::new(Code::Forbidden, detail).with("requiredRole", "manager"))
        }
        Role::Viewer | Role::Operator | Role::Manager => Ok(asked),
    }
}
