//! Promises for clients of the public specification of durable promises. Request keys do not apply
//! here: `idempotency-key` has the specification's own meaning.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::Error;
use hapax_engine::model::{IdempotencyKey, Promise, PromiseId, PromiseRef, is_same_creation};
use hapax_engine::runtime::{CreatePromiseOutcome, SettlePromiseOutcome};
use hapax_http_idempotency::read_key;
use http::{HeaderMap, StatusCode};

use super::request::{Caller, PathOf};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::strict_json::StrictJson;
use crate::translate::{completion, durable_promise_to_api, new_promise};

/// Creates a durable promise, or finds the one created under the same key.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::CreateDurablePromise>,
) -> Result<Response, Refused> {
    let (key, strict) = (key_of(&headers)?, is_strict(&headers)?);
    let new = new_promise(asked, key.as_ref())?;
    let made = app.engine_for(&identity).create_promise(new).await.map_err(|error| problem_of(&error))?;
    match made {
        CreatePromiseOutcome::Created(promise) => {
            Ok((StatusCode::CREATED, shown(&app, &promise)?).into_response())
        }
        CreatePromiseOutcome::Exists(promise)
            if is_same_creation(&promise, key.as_ref(), strict, app.store.now()) =>
        {
            Ok(shown(&app, &promise)?.into_response())
        }
        CreatePromiseOutcome::Exists(_) => Err(Refused::new(
            Code::PromiseExists,
            "The promise already exists under another idempotency-key or none, or it is no longer pending and the request is `strict`.",
        )),
    }
}

/// One durable promise.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
) -> Result<Json<api::DurablePromise>, Refused> {
    let promise = PromiseRef::Id(PromiseId::from_stored(&id));
    let found = app.engine_for(&identity).find_promise(&promise).await.map_err(|error| problem_of(&error))?;
    shown(&app, &found.ok_or_else(absent)?)
}

/// Completes a durable promise, or finds that it was completed under the same key.
pub(crate) async fn complete(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    StrictJson { value: asked, .. }: StrictJson<api::CompleteDurablePromise>,
) -> Result<Json<api::DurablePromise>, Refused> {
    let wish = completion(&asked, key_of(&headers)?, is_strict(&headers)?)?;
    let promise = PromiseRef::Id(PromiseId::from_stored(&id));
    match app.settle(&identity.workspace, promise, wish, None, identity.actor(None)).await {
        Ok(SettlePromiseOutcome::Settled(promise) | SettlePromiseOutcome::AlreadySettled(promise)) => {
            shown(&app, &promise)
        }
        Ok(SettlePromiseOutcome::KeptEarly { .. }) | Err(Error::NoSuchPromise(_)) => Err(absent()),
        Err(error @ (Error::AlreadySettled | Error::PromiseTimedOut)) => {
            let detail = format!("{error}. Read it with GET /promises/{{id}}.");
            Err(Refused::new(Code::PromiseCompletionRefused, detail))
        }
        Err(error) => Err(problem_of(&error).into()),
    }
}

fn shown(app: &App, promise: &Promise) -> Result<Json<api::DurablePromise>, Refused> {
    durable_promise_to_api(promise, app.store.now()).map(Json).ok_or_else(absent)
}

fn absent() -> Refused {
    Refused::new(Code::NotFound, "There is no such promise in this workspace; create it with POST /promises.")
}

fn key_of(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Refused> {
    read_key(headers).map_err(|refused| Problem::new(Code::InvalidIdempotencyKey, refused.detail).into())
}

fn is_strict(headers: &HeaderMap) -> Result<bool, Refused> {
    let mut given = headers.get_all("strict").iter();
    match (given.next().map(|value| value.as_bytes()), given.next()) {
        (None, _) => Ok(false),
        (Some(value), None) if value.eq_ignore_ascii_case(b"true") => Ok(true),
        (Some(value), None) if value.eq_ignore_ascii_case(b"false") => Ok(false),
        _ => {
            let detail = "The header `strict` is `true` or `false`, once, or absent.";
            Err(Refused::new(Code::InvalidRequest, detail).with("path", "header:strict"))
        }
    }
}
