//! One-time addresses that settle a promise without a credential. Only POST settles, because mail
//! scanners and previews follow links. A caller without a valid token learns nothing, not even why
//! it is invalid.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::Error;
use hapax_engine::model::{PromiseRef, SettleRequest};
use hapax_engine::runtime::SettlePromiseOutcome;
use http::StatusCode;

use super::request::{Caller, PathOf};
use crate::answer::{Refused, echo};
use crate::app::App;
use crate::body_budget::BodyCharge;
use crate::connection::Peer;
use crate::errors::problem_of;
use crate::identity::holder_of_token;
use crate::limits::MAX_SETTLE_BODY_BYTES;
use crate::settle_token::{SettleSecret, digest_of};
use crate::strict_json::StrictJson;
use crate::trace::TraceId;
use crate::translate::{life_of_token, parse_promise_ref, settlement_by_token};

/// Creates a token that settles the promise without a credential. Only this response shows it.
pub(crate) async fn issue(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(promise): PathOf<String>,
    asked: Option<StrictJson<api::CreateSettleToken>>,
) -> Result<Response, Refused> {
    let promise = parse_promise_ref(&promise)?;
    let lives_for = life_of_token(asked.as_ref().map(|StrictJson { value: asked, .. }| asked))?;
    let engine = app.engine_for(&identity);
    let found = engine.find_promise(&promise).await.map_err(|error| problem_of(&error))?;
    let found = found.ok_or_else(|| problem_of(&Error::NoSuchPromise(echo(&promise.to_string()))))?;
    let secret = SettleSecret::generate().map_err(|error| {
        tracing::error!(%error, "no token can be made");
        Refused::new(Code::Internal, "The server failed. Report `traceId` to the operator.")
    })?;
    let expires_at = app.store.now().plus(lives_for);
    let kept = engine
        .put_settle_token(&found.id, digest_of(secret.reveal()), expires_at, Some(identity.actor(None)))
        .await;
    kept.map_err(|error| problem_of(&error))?;
    let issued = api::IssuedSettleToken {
        token: secret.reveal().to_owned(),
        url: format!("/settle/{}", secret.reveal()),
        expires_at: expires_at.to_string(),
    };
    Ok((StatusCode::CREATED, Json(issued)).into_response())
}

/// Settles the promise of a token.
pub(crate) async fn settle(
    State(app): State<Arc<App>>,
    PathOf(token): PathOf<String>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Json<api::SettledByToken>, Refused> {
    let address = peer.map(|Extension(peer)| peer.address.ip());
    // Checked before the body is read: without a token, the server buffers nothing.
    let digest = digest_of(&token);
    let found = app.engine.find_settle_token(&digest).await.map_err(|error| problem_of(&error))?;
    let Some(found) = found else { return Err(refuse(&app, address)) };
    if let Some(charge) = request.extensions().get::<BodyCharge>() {
        charge.count_for(&found.workspace);
    }
    let by = holder_of_token(&digest, address, request.extensions().get::<TraceId>().copied());
    let asked = StrictJson::<api::SettleByToken>::read(request, MAX_SETTLE_BODY_BYTES).await?;
    let settlement = settlement_by_token(&asked.value)?;
    let promise = PromiseRef::Id(found.promise);
    match app.settle(&found.workspace, promise, SettleRequest::new(settlement), None, by).await {
        Ok(SettlePromiseOutcome::Settled(_) | SettlePromiseOutcome::AlreadySettled(_)) => {
            Ok(Json(api::SettledByToken { settled: true }))
        }
        Ok(SettlePromiseOutcome::KeptEarly { .. })
        | Err(Error::AlreadySettled | Error::PromiseTimedOut | Error::NoSuchPromise(_)) => {
            Err(refuse(&app, address))
        }
        Err(error) => Err(problem_of(&error).into()),
    }
}

/// The same response for every invalid token; after too many, the caller must wait.
fn refuse(app: &App, address: Option<IpAddr>) -> Refused {
    let counted = address.map(|address| app.strangers.count(address, None, Instant::now()));
    if let Some(Err(too_often)) = counted {
        return too_often;
    }
    Refused::new(Code::NotFound, "This address is invalid or no longer valid. Ask its sender for a new one.")
}

/// Response to a GET, from a person or a program that follows links: it reveals nothing about the
/// token and changes nothing.
pub(crate) async fn explain() -> &'static str {
    "Send your answer to this address by POST, as application/json: {\"value\": …} or {\"reject\": {\"message\": \"…\"}}.\n\
     Opening it changes nothing.\n"
}
