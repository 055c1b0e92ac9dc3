//! The node that answers, and the leases of all nodes.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_engine::model::{RunStatus, Timestamp};
use hapax_engine::runtime::{BackgroundLoop, LoopState};
use hapax_engine::store::{ListRuns, RunView};

use super::doubts::PageOf;
use super::request::{Caller, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;
use crate::limits::LOOP_IS_LATE_AFTER;

/// The node that answers: when its loops last ran, and its settings.
pub(crate) async fn show(State(app): State<Arc<App>>, Caller(_): Caller) -> Json<api::Node> {
    let now = app.store.now();
    let loops = app.engine.list_background_loops();
    Json(api::Node {
        id: app.engine.owner().to_string(),
        server_version: env!("CARGO_PKG_VERSION").into(),
        now: now.to_string(),
        loops: loops.iter().map(|state| shown_loop(state, app.launched_at, now)).collect(),
        settings: app
            .options
            .settings
            .iter()
            .map(|(name, value)| api::NodeSetting { name: name.clone(), value: value.clone() })
            .collect(),
    })
}

fn shown_loop(state: &LoopState, launched_at: Timestamp, now: Timestamp) -> api::NodeLoop {
    let name = match &state.of {
        BackgroundLoop::Scheduler => "scheduler".to_owned(),
        BackgroundLoop::LeaseRenewal => "lease_renewal".to_owned(),
        BackgroundLoop::Outbox => "outbox".to_owned(),
        BackgroundLoop::Heartbeats => "heartbeats".to_owned(),
        BackgroundLoop::FamilySweep => "family_sweep".to_owned(),
        BackgroundLoop::Retention => "retention".to_owned(),
        BackgroundLoop::Janitor(module) => format!("janitor:{module}"),
    };
    let seen = state.last_run_at.unwrap_or(launched_at);
    let patience: Duration = state.every * 3 + LOOP_IS_LATE_AFTER;
    api::NodeLoop {
        name,
        every: state.every.into(),
        last_run_at: state.last_run_at.map(|at| at.to_string()),
        is_late: now.since(seen) > patience,
    }
}

/// Runs of the workspace that some node drives, newest first, with their leases.
pub(crate) async fn leases(
    State(app): State<Arc<App>>,
    Caller(identity): Caller,
    QueryOf(page): QueryOf<PageOf>,
) -> Result<Json<api::Page<api::RunLease>>, Refused> {
    let pages = app.list(&identity, "leases", "");
    let before = pages.open(page.cursor.as_deref())?;
    let request = ListRuns {
        workspace: None,
        statuses: vec![RunStatus::Running],
        workflow: None,
        filter: Default::default(),
        before: before.map(|place: String| run_id(&place)).transpose()?,
        limit: page_limit(page.limit.as_deref())?,
    };
    let found = app.engine_for(&identity).list(request).await.map_err(|error| problem_of(&error))?;
    let next_cursor = found.next.map(|next| pages.seal(&next.to_string()));
    Ok(Json(api::Page { items: found.runs.iter().filter_map(shown_lease).collect(), next_cursor }))
}

/// The lease of a run. `None` if it waits for a node to claim it.
fn shown_lease(view: &RunView) -> Option<api::RunLease> {
    let lease = view.head.state.lease()?;
    let of = &view.head.facts.workflow;
    Some(api::RunLease {
        run_id: view.head.id().to_string(),
        workflow: format!("{}@{}", of.name, of.version),
        owner: lease.owner.to_string(),
        fence: view.head.fence.get(),
        expires_at: lease.until.to_string(),
    })
}
