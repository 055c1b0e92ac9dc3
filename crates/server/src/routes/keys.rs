//! Idempotency keys: look them up and release them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{
    HumanText, IdempotencyKey, JournalEntry, JournalEvent, KeyKind, KeyRecord, KeyTarget, Name,
    RequestRecord, RequestScope, RequestState, Timestamp,
};
use hapax_engine::store::{KeyRef, KeyUsage, ReleaseKey, ReleaseOutcome};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid, problem_of_store};
use crate::identity::Identity;
use crate::strict_json::StrictJson;
use crate::translate::actor_to_api;

/// Owner of a request key.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CredentialQuery {
    /// The credential that owns the request key; the caller's if absent.
    credential_id: Option<String>,
}

/// The scope of operation keys. They live as long as their operation, and so have no storage of
/// their own.
const OPERATION: &str = "operation";

/// Looks up a key: its first user, time, object, number of replays, and expiry.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((scope, key)): PathOf<(String, String)>,
    QueryOf(of): QueryOf<CredentialQuery>,
) -> Result<Json<api::KeyRecord>, Refused> {
    if scope == OPERATION {
        return Ok(Json(operation_key_to_api(&app, &identity, &key).await?));
    }
    let place = place(&identity, &scope, &key, of)?;
    Ok(Json(shown(&app, &place).await?))
}

/// Releases a key early, so that it can be used again. Its object must have ended.
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((scope, key)): PathOf<(String, String)>,
    QueryOf(of): QueryOf<CredentialQuery>,
    StrictJson { value: asked, .. }: StrictJson<api::ReleaseKey>,
) -> Result<Json<api::KeyRecord>, Refused> {
    HumanText::Reason.check(&asked.reason).map_err(|invalid| problem_of_invalid(&invalid))?;
    if scope == OPERATION {
        let detail = "The key of an operation cannot be released: it names the operation's record. Take the step again under a new key.";
        return Err(Refused::new(Code::InvalidRequest, detail));
    }
    let place = place(&identity, &scope, &key, of)?;
    let before = shown(&app, &place).await?;
    let caller = match &place {
        KeyRef::Run { .. } | KeyRef::Promise { .. } => None,
        KeyRef::Request { scope, .. } => Some(scope.caller.to_string()),
    };
    let what = JournalEvent::KeyReleased { kind: scope, key, caller, reason: asked.reason };
    let note =
        JournalEntry::on_workspace(identity.workspace.clone(), identity.actor(None), app.store.now(), what);
    let outcome = app.request_key_store().release_key(ReleaseKey { place, note }).await;
    match outcome.map_err(|error| problem_of_store(&error))? {
        ReleaseOutcome::Released => Ok(Json(before)),
        ReleaseOutcome::InUse { run } => {
            let detail = "The key's run, promise or request has not ended. Wait for it, or cancel it, then release the key.";
            let pending = match before.holder.filter(|_| before.scope == api::KeyScope::Promise) {
                Some(holder) => serde_json::json!(holder),
                None => serde_json::json!({ "kind": before.scope, "id": run.map(|run| run.to_string()) }),
            };
            Err(Refused::new(Code::OperationPending, detail).with("pending", pending))
        }
        ReleaseOutcome::NoSuchKey => Err(absent()),
    }
}

fn absent() -> Refused {
    Refused::new(Code::NotFound, "There is no such key in this workspace, or it is already released.")
}

fn place(identity: &Identity, scope: &str, key: &str, of: CredentialQuery) -> Result<KeyRef, Refused> {
    let key = IdempotencyKey::new(key).map_err(|invalid| problem_of_invalid(&invalid))?;
    match scope {
        "run" => Ok(KeyRef::Run { workspace: identity.workspace.clone(), key }),
        "promise" => Ok(KeyRef::Promise { workspace: identity.workspace.clone(), key }),
        "request" => {
            let caller = match of.credential_id {
                Some(id) => Name::new("credential id", &id).map_err(|_| absent())?,
                None => identity.credential.clone(),
            };
            Ok(KeyRef::Request { scope: RequestScope { workspace: identity.workspace.clone(), caller }, key })
        }
        _ => Err(Refused::new(
            Code::NotFound,
            "A key is looked up under `run`, `promise`, `operation` or `request`.",
        )),
    }
}

async fn operation_key_to_api(app: &App, identity: &Identity, key: &str) -> Result<api::KeyRecord, Refused> {
    let key = IdempotencyKey::new(key).map_err(|invalid| problem_of_invalid(&invalid))?;
    let found = app.engine_for(identity).find_keyed_operation(&key).await;
    let operation = found.map_err(|error| problem_of(&error))?.ok_or_else(absent)?;
    Ok(api::KeyRecord {
        scope: api::KeyScope::Operation,
        key: key.to_string(),
        status: api::KeyStatus::Live,
        holder: Some(api::KeyHolder { kind: api::KeyScope::Operation, id: operation.id.to_string() }),
        actor: operation.by.as_ref().map(actor_to_api),
        credential_id: None,
        request: None,
        answer_status: None,
        fingerprint: Some(operation.fingerprint.to_string()),
        first_seen_at: operation.began_at.to_string(),
        expires_at: None,
        replays: None,
        conflicts: None,
    })
}

async fn shown(app: &App, place: &KeyRef) -> Result<api::KeyRecord, Refused> {
    // The response includes counts that are not written yet.
    app.metrics.flush().await;
    let uses =
        app.request_key_store().find_key_usage(place).await.map_err(|error| problem_of_store(&error))?;
    match place {
        KeyRef::Run { workspace, key } => {
            let found = app.store.find_key(workspace, KeyKind::Run, key).await;
            let record = found.map_err(|error| problem_of_store(&error))?.ok_or_else(absent)?;
            let run = record.run().ok_or_else(absent)?;
            let view = app.store.find_run(workspace, run).await.map_err(|error| problem_of_store(&error))?;
            let holder = (api::KeyScope::Run, Some(run.to_string()));
            Ok(business_key_to_api(key, &record, holder, view.is_some(), uses, app.store.now()))
        }
        KeyRef::Promise { workspace, key } => {
            let found = app.store.find_key(workspace, KeyKind::Promise, key).await;
            let record = found.map_err(|error| problem_of_store(&error))?.ok_or_else(absent)?;
            let promise = match record.promise() {
                Some(id) => {
                    app.store.find_promise(workspace, id).await.map_err(|error| problem_of_store(&error))?
                }
                None => None,
            };
            let holder = (api::KeyScope::Promise, record.promise().map(ToString::to_string));
            Ok(business_key_to_api(key, &record, holder, promise.is_some(), uses, app.store.now()))
        }
        KeyRef::Request { scope, key } => {
            let found = app.request_key_store().find_request(scope, key).await;
            let record = found.map_err(|error| problem_of_store(&error))?.ok_or_else(absent)?;
            Ok(request_key_to_api(&record, uses, app.store.now()))
        }
    }
}

fn business_key_to_api(
    key: &IdempotencyKey,
    record: &KeyRecord,
    (scope, id): (api::KeyScope, Option<String>),
    is_there: bool,
    uses: KeyUsage,
    now: Timestamp,
) -> api::KeyRecord {
    let status = match (record.is_live(now), &id, is_there) {
        (false, _, _) => api::KeyStatus::Expired,
        (true, None, _) => api::KeyStatus::Claimed,
        (true, Some(_), false) => api::KeyStatus::Tombstone,
        (true, Some(_), true) => api::KeyStatus::Live,
    };
    let fingerprint = match &record.target {
        KeyTarget::Run { fingerprint, .. } => Some(fingerprint.to_string()),
        KeyTarget::Promise(_) | KeyTarget::Nothing => None,
    };
    api::KeyRecord {
        scope,
        key: key.to_string(),
        status,
        holder: id.map(|id| api::KeyHolder { kind: scope, id }),
        actor: None,
        credential_id: None,
        request: None,
        answer_status: None,
        fingerprint,
        first_seen_at: record.first_seen_at.to_string(),
        expires_at: record.expires_at.map(|at| at.to_string()),
        replays: Some(uses.replays),
        conflicts: Some(uses.conflicts),
    }
}

fn request_key_to_api(record: &RequestRecord, uses: KeyUsage, now: Timestamp) -> api::KeyRecord {
    let (status, answer_status, expires_at) = match &record.state {
        RequestState::InFlight { .. } => (api::KeyStatus::InFlight, None, None),
        RequestState::Answered { answer, expires_at, free_at, .. } => {
            let status = match (now < *expires_at, now < *free_at) {
                (true, _) => api::KeyStatus::Live,
                (false, true) => api::KeyStatus::Grace,
                (false, false) => api::KeyStatus::Expired,
            };
            (status, Some(answer.status), Some(expires_at.to_string()))
        }
    };
    api::KeyRecord {
        scope: api::KeyScope::Request,
        key: record.key.to_string(),
        status,
        holder: Some(api::KeyHolder { kind: api::KeyScope::Request, id: record.id.to_string() }),
        actor: None,
        credential_id: Some(record.scope.caller.to_string()),
        request: Some(format!("{} {}", record.summary.method, record.summary.path)),
        answer_status,
        fingerprint: Some(record.fingerprint.to_string()),
        first_seen_at: record.first_seen_at.to_string(),
        expires_at,
        replays: Some(uses.replays),
        conflicts: Some(uses.conflicts),
    }
}
