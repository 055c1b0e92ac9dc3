//! Commands and signals for runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{Payload, RepeatPermission, RunCommand, RunId, StepId};
use hapax_http_idempotency::OperationId;
use http::{HeaderMap, header};

use super::{definition_of, etag, run_id};
use crate::answer::Refused;
use crate::app::App;
use crate::errors::{problem_of, problem_of_invalid};
use crate::identity::Acting;
use crate::metrics::{KeyOf, KeyUse};
use crate::routes::request::{Caller, PathOf, expected_version};
use crate::strict_json::StrictJson;
use crate::translate::run_to_api;

macro_rules! steers {
    ($(#[$doc:meta])* $name:ident, $command:expr) => {
        $(#[$doc])*
        pub(crate) async fn $name(
            State(app): State<Arc<App>>,
            Caller(identity): Caller,
            PathOf(id): PathOf<String>,
            headers: HeaderMap,
            asked: Option<StrictJson<api::SteerRun>>,
        ) -> Result<Response, Refused> {
            let reason = asked.and_then(|StrictJson { value: asked, .. }| asked.reason).unwrap_or_default();
            let command: fn(String) -> RunCommand = $command;
            steer(&app, &identity, &id, &headers, command(reason.clone()), &reason).await
        }
    };
}

/// Asks a run to undo what it can and end; for a root, optionally with all its descendants.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    asked: Option<StrictJson<api::CancelRun>>,
) -> Result<Response, Refused> {
    let asked = asked.map(|StrictJson { value: asked, .. }| asked).unwrap_or_default();
    let reason = asked.reason.unwrap_or_default();
    if asked.descendants {
        let (run, engine) = (run_id(&id)?, app.engine_for(&identity));
        let (expected, by) = (expected_version(&headers)?, identity.actor(None));
        let cancelled = engine.cancel_family_by(run, expected, by, &reason).await;
        cancelled.map_err(|error| problem_of(&error))?;
        return show(&app, &identity, run).await;
    }
    steer(&app, &identity, &id, &headers, RunCommand::Cancel { reason: reason.clone() }, &reason).await
}

steers! {
    /// Asks a run to stop at the next boundary.
    pause, |_| RunCommand::Pause
}
steers! {
    /// Lets a paused run go on.
    resume, |_| RunCommand::Resume
}

/// Reopens a failed run: the last failed step runs again, or all steps from a given one. Rejected
/// with `effects_would_repeat` if effects that have happened would happen again, unless a manager
/// names them.
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    headers: HeaderMap,
    asked: Option<StrictJson<api::RetryRun>>,
) -> Result<Response, Refused> {
    let asked = asked.map(|StrictJson { value: asked, .. }| asked).unwrap_or_default();
    let from = asked.from_step.as_deref().map(StepId::from_stored);
    let reason = asked.reason.unwrap_or_default();
    let effects: Vec<StepId> = asked.repeat_effects.iter().map(|step| StepId::from_stored(step)).collect();
    // Only the role counts here: any caller can write the name of a second person.
    let allow = |effects| RepeatPermission {
        effects,
        by: identity.actor(None),
        seconded_by: None,
        reason: reason.clone(),
    };
    let repeat = (!effects.is_empty()).then(|| Box::new(allow(effects)));
    steer(&app, &identity, &id, &headers, RunCommand::Retry { from, repeat }, &reason).await
}

async fn steer(
    app: &App,
    identity: &Acting,
    id: &str,
    headers: &HeaderMap,
    command: RunCommand,
    reason: &str,
) -> Result<Response, Refused> {
    let id = run_id(id)?;
    let engine = app.engine_for(identity);
    let (expected, by) = (expected_version(headers)?, identity.actor(None));
    engine.command_run_by(id, command, expected, by, reason).await.map_err(|error| problem_of(&error))?;
    show(app, identity, id).await
}

async fn show(app: &App, identity: &Acting, id: RunId) -> Result<Response, Refused> {
    let engine = app.engine_for(identity);
    let view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    let run = run_to_api(&view, definition_of(app, &view));
    Ok(([(header::ETAG, etag(view.head.version))], Json(run)).into_response())
}

/// Sends a run a signal; it is stored until the run reads it.
pub(crate) async fn signal(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf(id): PathOf<String>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::SendSignal>,
) -> Result<Json<api::SentSignal>, Refused> {
    let run = run_id(&id)?;
    if asked.name.starts_with(hapax_documents::APPROVAL_SIGNAL) {
        let detail = "This signal is reserved for approvals, which record who answers: POST /api/v1/workflow-runs/{id}/approvals/{step}.";
        return Err(Refused::new(Code::InvalidRequest, detail).with("path", "/name"));
    }
    let value = asked.value.as_ref().map_or("null", |value| value.text());
    let payload = Payload::parse(value).map_err(|invalid| problem_of_invalid(&invalid))?;
    // A request that is repeated after a crash must not send a second signal.
    let own_id = operation.map(|Extension(OperationId(id))| id.to_string());
    let is_keyed = asked.signal_id.is_some();
    let signal_id = asked.signal_id.or(own_id);
    let engine = app.engine_for(&identity);
    let stored = engine.signal_payload(run, &asked.name, payload, signal_id.as_deref()).await;
    let stored = stored.map_err(|error| problem_of(&error))?;
    if is_keyed {
        let usage = if stored { KeyUse::New } else { KeyUse::Replayed };
        app.metrics.key_used(&identity, KeyOf::Signal, usage);
    }
    Ok(Json(api::SentSignal { run_id: run.to_string(), stored }))
}
