//! Effects with an unknown outcome.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use hapax_api as api;
use hapax_api::Code;
use hapax_engine::model::{DoubtRef, Ruling, StepId, Timestamp, Version};
use hapax_engine::runtime::fresh_request;
use hapax_engine::store::DoubtCursor;
use hapax_http_idempotency::OperationId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{Caller, PathOf, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::identity::Acting;
use crate::strict_json::StrictJson;
use crate::translate::{actor_to_api, doubt_to_api, resolution_to_api, ruling};

/// Position and size of a page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageOf {
    /// Most items on the page, 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    pub(crate) limit: Option<String>,
    /// Cursor from the page before.
    pub(crate) cursor: Option<String>,
}

/// Effects in doubt without a ruling, the oldest doubt first.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::Doubt>>, Refused> {
    let limit = page_limit(page.limit.as_deref())?;
    let pages = app.list(&identity, "doubts", "");
    let after = pages.open(page.cursor.as_deref())?;
    let after = after.map(|place: String| place_of(&place)).transpose()?;
    let engine = app.engine_for(&identity);
    let found = engine.list_doubts(after, limit).await.map_err(|error| problem_of(&error))?;
    let mut items = Vec::with_capacity(found.doubts.len());
    for doubt in &found.doubts {
        let view = engine.get(doubt.run).await.map_err(|error| problem_of(&error))?;
        items.push(doubt_to_api(doubt, view.head.facts.workflow.name.to_string(), engine.takes_two_people()));
    }
    let next_cursor =
        found.next.map(|next| pages.seal(&format!("{} {} {}", next.since.as_millis(), next.run, next.step)));
    Ok(Json(api::Page { items, next_cursor }))
}

/// One effect in doubt without a ruling.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((run, step)): PathOf<(String, String)>,
) -> Result<Json<api::Doubt>, Refused> {
    let (id, engine) = (run_id(&run)?, app.engine_for(&identity));
    let view = engine.get(id).await.map_err(|error| problem_of(&error))?;
    let found =
        engine.find_doubt(id, &StepId::from_stored(&step)).await.map_err(|error| problem_of(&error))?;
    let doubt = found.ok_or_else(|| {
        let detail =
            "The step is not in doubt, or somebody has resolved it; list doubts with GET /api/v1/doubts.";
        Refused::new(Code::NotFound, detail)
    })?;
    let workflow = view.head.facts.workflow.name.to_string();
    Ok(Json(doubt_to_api(&doubt, workflow, engine.takes_two_people())))
}

fn place_of(text: &str) -> Result<DoubtCursor, Refused> {
    let refused = || Refused::new(Code::InvalidCursor, "Begin again without `cursor`.");
    let mut parts = text.splitn(3, ' ');
    let (Some(since), Some(run), Some(step)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(refused());
    };
    Ok(DoubtCursor {
        since: Timestamp::from_millis(since.parse().map_err(|_| refused())?),
        run: run.parse().map_err(|_| refused())?,
        step: StepId::from_stored(step),
    })
}

fn ruling_by(identity: &Acting, asked: &api::ResolveDoubt) -> Result<Ruling, Refused> {
    let by = identity.actor(identity.speaks_for(asked.by.as_deref())?);
    ruling(asked, by).ok_or_else(|| {
        let detail = "`happened` and `compensate` need `output`, the output of the effect, so that the run can continue with it.";
        Refused::new(Code::InvalidRequest, detail).with("path", "/output")
    })
}

/// Proposes a decision about an effect in doubt. It settles nothing until another person confirms it.
pub(crate) async fn propose(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((run, step)): PathOf<(String, String)>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::ResolveDoubt>,
) -> Result<Json<api::ProposedRuling>, Refused> {
    let run = run_id(&run)?;
    let ruling = ruling_by(&identity, &asked)?;
    let doubt = DoubtRef { run, step: StepId::from_stored(&step), seen: Version::new(asked.version) };
    let request = request_of(operation);
    let proposed = app.engine_for(&identity).propose_ruling(&doubt, ruling, &request).await;
    let proposed = proposed.map_err(|error| problem_of(&error))?;
    Ok(Json(api::ProposedRuling {
        run_id: run.to_string(),
        step_id: step,
        proposal_id: proposed.id,
        resolution: asked.resolution,
        actor: actor_to_api(&proposed.by),
        proposed_at: proposed.at.to_string(),
        version: proposed.seen,
    }))
}

/// Confirms a proposed decision as a second person, and so resolves the doubt.
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((run, step)): PathOf<(String, String)>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::ConfirmRuling>,
) -> Result<Json<api::ResolvedDoubt>, Refused> {
    let run = run_id(&run)?;
    let by = identity.actor(None);
    let actor = actor_to_api(&by);
    let doubt = DoubtRef { run, step: StepId::from_stored(&step), seen: Version::new(asked.version) };
    let engine = app.engine_for(&identity);
    let request = request_of(operation);
    let confirmed = engine.confirm_ruling(&doubt, &asked.proposal_id, by, &asked.reason, &request).await;
    let ruling = confirmed.map_err(|error| problem_of(&error))?;
    let version = engine.get(run).await.map_or(asked.version, |view| view.head.version.get());
    let resolution = resolution_to_api(&ruling.resolution);
    Ok(Json(api::ResolvedDoubt { run_id: run.to_string(), step_id: step, resolution, actor, version }))
}

/// Names one request, so that its repetition finds what it did.
fn request_of(operation: Option<Extension<OperationId>>) -> String {
    operation.map_or_else(fresh_request, |Extension(OperationId(id))| id.to_string())
}

/// Decides an effect in doubt. The decision applies once, to the doubt as it was seen, and is in
/// the audit log.
pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    PathOf((run, step)): PathOf<(String, String)>,
    operation: Option<Extension<OperationId>>,
    StrictJson { value: asked, .. }: StrictJson<api::ResolveDoubt>,
) -> Result<Json<api::ResolvedDoubt>, Refused> {
    let run = run_id(&run)?;
    let ruling = ruling_by(&identity, &asked)?;
    let doubt = DoubtRef { run, step: StepId::from_stored(&step), seen: Version::new(asked.version) };
    let actor = actor_to_api(&ruling.by);
    let engine = app.engine_for(&identity);
    let resolved = match operation {
        Some(Extension(OperationId(id))) => engine.resolve_doubt_once(&doubt, ruling, &id.to_string()).await,
        None => engine.resolve_doubt(&doubt, ruling).await,
    };
    resolved.map_err(|error| problem_of(&error))?;
    let version = engine.get(run).await.map_or(asked.version, |view| view.head.version.get());
    Ok(Json(api::ResolvedDoubt {
        run_id: run.to_string(),
        step_id: step,
        resolution: asked.resolution,
        actor,
        version,
    }))
}
