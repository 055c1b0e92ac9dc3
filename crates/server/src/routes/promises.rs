//! Promises: create, find, await and settle them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::Error;
use hapax_engine::limits::KEEP_EARLY_SETTLEMENT_FOR;
use hapax_engine::model::{
    IdempotencyKey, PromiseId, PromiseRef, RunId, SettleRequest, Settlement, is_same_creation,
};
use hapax_engine::runtime::{CreatePromiseOutcome, NewPromise, SettlePromiseOutcome};
use hapax_engine::store::ListPromises;
use hapax_http_idempotency::{OperationId, read_wait};
use http::{HeaderMap, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::doubts::PageOf;
use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::{Refused, echo};
use crate::app::App;
use crate::errors::problem_of;
use crate::identity::{Acting, Identity};
use crate::metrics::{KeyOf, KeyUse};
use crate::strict_json::StrictJson;
use crate::translate::{
    deadline_of, early_settlement_to_api, parse_promise_ref, parse_promise_status, promise_to_api, rejection,
    value_of,
};

/// Creates a promise without a run: any caller may settle it, and any number of runs and callers
/// may wait for it.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::CreatePromise>,
) -> Result<Response, Refused> {
    let now = app.store.now();
    // A request that is repeated after a crash finds the promise of its first try.
    let operation = operation.map(|Extension(OperationId(id))| id);
    let made_by = operation.and_then(|id| IdempotencyKey::new(&id.to_string()).ok());
    let own_id = operation.map(|id| PromiseId::from_u128(id.as_u128()).to_string());
    let new = NewPromise {
        deadline_at: deadline_of(&asked, now)?,
        about: asked.about.as_ref().map(|about| value_of(Some(about))).transpose()?,
        keep_key_for: asked.idempotency_key_ttl_seconds.map(Duration::from_secs),
        create_key: made_by.as_ref().map(ToString::to_string),
        id: asked.id.or(own_id),
        key: asked.idempotency_key,
    };
    let is_keyed = new.key.is_some();
    let made = app.engine_for(&identity).create_promise(new).await;
    let usage = match &made {
        Ok(CreatePromiseOutcome::Created(_)) => Some(KeyUse::New),
        Ok(CreatePromiseOutcome::Exists(_)) => Some(KeyUse::Replayed),
        Err(Error::PromiseKeyConflict { .. }) => Some(KeyUse::Conflicted),
        Err(_) => None,
    };
    if let Some(usage) = usage.filter(|_| is_keyed) {
        app.metrics.key_used(&identity, KeyOf::Promise, usage);
    }
    let promise = match made.map_err(|error| problem_of(&error))? {
        CreatePromiseOutcome::Created(promise) => promise,
        CreatePromiseOutcome::Exists(promise) if is_same_creation(&promise, made_by.as_ref(), false, now) => {
            promise
        }
        CreatePromiseOutcome::Exists(promise) => {
            let detail = format!("Promise {} already exists; nothing was created.", promise.id);
            return Err(Refused::new(Code::PromiseExists, detail));
        }
    };
    let id = utf8_percent_encode(promise.id.as_str(), NON_ALPHANUMERIC);
    let location = format!("/api/v1/promises/id:{id}");
    let shown = promise_to_api(&promise, app.store.now());
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(shown)).into_response())
}

/// Filters for promises.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PromiseFilter {
    /// Only of this run.
    run_id: Option<String>,
    /// Only promises with this status: PENDING, RESOLVED, REJECTED, CANCELLED, TIMED_OUT or
    /// KEY_TAKEN.
    status: Option<String>,
    /// `true`: only promises without a run.
    stand_alone: Option<String>,
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    /// Cursor from the page before.
    cursor: Option<String>,
}

impl PromiseFilter {
    /// The run in the filter; the nil run for promises without a run.
    fn run(&self) -> Result<Option<RunId>, Refused> {
        let refused = |detail: &str| {
            Err(Refused::new(Code::InvalidRequest, detail.to_owned()).with("path", "query:standAlone"))
        };
        match (&self.run_id, self.stand_alone.as_deref()) {
            (None, None) => Ok(None),
            (Some(run), None) => run_id(run).map(Some),
            (None, Some("true")) => Ok(Some(RunId::NONE)),
            (Some(_), Some("true")) => {
                refused("A promise of a run is not standalone: send one of the two filters.")
            }
            (_, Some(_)) => refused("`standAlone` is `true` or absent."),
        }
    }
}

/// Promises, in the order of their ids.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(filter): QueryOf<PromiseFilter>,
) -> Result<Json<api::Page<api::Promise>>, Refused> {
    let limit = page_limit(filter.limit.as_deref())?;
    let run = filter.run()?;
    let status = filter.status.as_deref().map(|text| {
        let detail = "`status` is one of PENDING, RESOLVED, REJECTED, CANCELLED, TIMED_OUT, KEY_TAKEN.";
        parse_promise_status(text)
            .ok_or_else(|| Refused::new(Code::InvalidRequest, detail).with("path", "query:status"))
    });
    let status = status.transpose()?;
    let bound = format!("{run:?} {status:?}");
    let pages = app.list(&identity, "promises", &bound);
    let after = pages.open(filter.cursor.as_deref())?;
    let after = after.map(|place: String| PromiseId::from_stored(&place));
    // Reads one more than the page holds, to know if there is a next page.
    let workspace = identity.workspace.clone();
    let request = ListPromises { workspace, run, status, after, limit: limit + 1 };
    let found = app.engine_for(&identity).list_promises(request).await;
    let page = found.map_err(|error| problem_of(&error))?.cut_to(limit);
    let next_cursor = page.next.map(|next| pages.seal(next.as_str()));
    let now = app.store.now();
    let items = page.promises.iter().map(|promise| promise_to_api(promise, now)).collect();
    Ok(Json(api::Page { items, next_cursor }))
}

/// Settlements that wait for their promise, in the order of their keys.
pub(crate) async fn list_early_settlements(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::EarlySettlement>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "early-settlements", "");
    let after = pages.open(page.cursor.as_deref())?;
    let after = after.and_then(|place: String| IdempotencyKey::new(&place).ok());
    let found = app.engine_for(&identity).list_early_settlements(after, limit + 1).await;
    let mut found = found.map_err(|error| problem_of(&error))?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| has_more).map(|last| pages.seal(last.key.as_str()));
    Ok(Json(api::Page { items: found.iter().map(early_settlement_to_api).collect(), next_cursor }))
}

/// The settlement that waits for a promise with this key.
pub(crate) async fn show_early_settlement(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(key): PathOf<String>,
) -> Result<Json<api::EarlySettlement>, Refused> {
    let key = IdempotencyKey::new(&key).map_err(|invalid| problem_of(&invalid.into()))?;
    let found = app.engine_for(&identity).find_early_settlement(&key).await;
    let kept = found.map_err(|error| problem_of(&error))?.ok_or_else(|| {
        let detail = "No settlement waits for a promise with this key. It may have settled its promise: read it with \
                      GET /api/v1/promises/key:{key}.";
        Refused::new(Code::NotFound, detail)
    })?;
    Ok(Json(early_settlement_to_api(&kept)))
}

/// One promise; waits for its settlement if requested.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(promise): PathOf<String>,
    headers: HeaderMap,
) -> Result<Json<api::Promise>, Refused> {
    shown(&app, &identity, &promise, &headers).await
}

/// Gives a promise its value. The first settlement wins; repeating the same value succeeds.
pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(promise): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::ResolvePromise>,
) -> Result<Response, Refused> {
    let value = Settlement::Resolved(value_of(asked.value.as_ref())?);
    settled(&app, &identity, parse_promise_ref(&promise)?, value).await
}

/// Rejects a promise: runs and callers that wait for it see a failure.
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(promise): PathOf<String>,
    StrictJson { value: asked, .. }: StrictJson<api::RejectPromise>,
) -> Result<Response, Refused> {
    let failure = Settlement::Rejected(rejection(&asked)?);
    settled(&app, &identity, parse_promise_ref(&promise)?, failure).await
}

/// The same as `/api/v1/promises/{ref}`, under the name of the workspace.
pub(crate) async fn show_of_tenant(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((slug, promise)): PathOf<(String, String)>,
    headers: HeaderMap,
) -> Result<Json<api::Promise>, Refused> {
    check_tenant(&identity, &slug)?;
    shown(&app, &identity, &promise, &headers).await
}

/// The same as `/api/v1/promises/{ref}/resolve`, under the name of the workspace.
pub(crate) async fn resolve_of_tenant(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((slug, promise)): PathOf<(String, String)>,
    StrictJson { value: asked, .. }: StrictJson<api::ResolvePromise>,
) -> Result<Response, Refused> {
    check_tenant(&identity, &slug)?;
    let value = Settlement::Resolved(value_of(asked.value.as_ref())?);
    settled(&app, &identity, parse_promise_ref(&promise)?, value).await
}

/// The same as `/api/v1/promises/{ref}/reject`, under the name of the workspace.
pub(crate) async fn reject_of_tenant(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((slug, promise)): PathOf<(String, String)>,
    StrictJson { value: asked, .. }: StrictJson<api::RejectPromise>,
) -> Result<Response, Refused> {
    check_tenant(&identity, &slug)?;
    let failure = Settlement::Rejected(rejection(&asked)?);
    settled(&app, &identity, parse_promise_ref(&promise)?, failure).await
}

/// The name of another workspace is "not found", like an unknown one.
fn check_tenant(identity: &Identity, slug: &str) -> Result<(), Refused> {
    match identity.workspace.as_str() == slug {
        true => Ok(()),
        false => Err(Refused::new(
            Code::NotFound,
            "There is no such workspace for this credential; name the one it belongs to.",
        )),
    }
}

async fn shown(
    app: &App,
    identity: &Identity,
    promise: &str,
    headers: &HeaderMap,
) -> Result<Json<api::Promise>, Refused> {
    let promise = parse_promise_ref(promise)?;
    let wait = read_wait(headers).unwrap_or_default();
    let engine = app.engine_for(identity);
    let settled = match wait.is_zero() {
        true => None,
        false => tokio::time::timeout(wait, engine.wait_for_promise(&promise)).await.ok(),
    };
    let missing = || Error::NoSuchPromise(echo(&promise.to_string()));
    let found = match settled {
        Some(settled) => settled,
        None => engine.find_promise(&promise).await.and_then(|found| found.ok_or_else(missing)),
    };
    let found = found.map_err(|error| problem_of(&error))?;
    Ok(Json(promise_to_api(&found, app.store.now())))
}

async fn settled(
    app: &App,
    identity: &Acting,
    promise: PromiseRef,
    settlement: Settlement,
) -> Result<Response, Refused> {
    let key = match &promise {
        PromiseRef::Key(key) => key.to_string(),
        PromiseRef::Id(_) => String::new(),
    };
    let is_keyed = matches!(promise, PromiseRef::Key(_));
    let (wish, by) = (SettleRequest::new(settlement), identity.actor(None));
    let answer = app.settle(&identity.workspace, promise, wish, Some(KEEP_EARLY_SETTLEMENT_FOR), by).await;
    let usage = match &answer {
        Ok(SettlePromiseOutcome::Settled(_) | SettlePromiseOutcome::KeptEarly { .. }) => Some(KeyUse::New),
        Ok(SettlePromiseOutcome::AlreadySettled(_)) => Some(KeyUse::Replayed),
        Err(Error::AlreadySettled) => Some(KeyUse::Conflicted),
        Err(_) => None,
    };
    if let Some(usage) = usage.filter(|_| is_keyed) {
        app.metrics.key_used(identity, KeyOf::Promise, usage);
    }
    let now = app.store.now();
    let shown = |promise, already_settled| {
        Json(api::SettledPromise { promise: promise_to_api(promise, now), already_settled }).into_response()
    };
    Ok(match answer.map_err(|error| problem_of(&error))? {
        SettlePromiseOutcome::Settled(promise) => shown(&promise, false),
        SettlePromiseOutcome::AlreadySettled(promise) => shown(&promise, true),
        SettlePromiseOutcome::KeptEarly { until } => {
            let kept = api::KeptSettlement { kept: true, idempotency_key: key, until: until.to_string() };
            (StatusCode::ACCEPTED, Json(kept)).into_response()
        }
    })
}
