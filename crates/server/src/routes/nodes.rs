//! The node that answers, and the leases of all nodes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hapax_api as api;
use hapax_engine::model::RunStatus;
use hapax_engine::runtime::BackgroundLoop;
use hapax_engine::store::{ListRuns, RunView};

use super::doubts::PageOf;
use super::request::{Caller, QueryOf, page_limit};
use super::runs::run_id;
use crate::answer::Refused;
use crate::app::App;
use crate::errors::problem_of;

/// The node that answers: when its loops last ran, and its settings.
pub(crate) async fn show(State(app): State<Arc<App>>, Caller(_): Caller) -> Json<api::Node> {
    let loops = app.engine.background_loops().list();
    let settings = app.options.settings.iter();
    Json(api::Node {
        id: app.engine.owner().to_string(),
        server_version: env!("CARGO_PKG_VERSION").into(),
        now: app.store.now().to_string(),
        loops: loops.into_iter().map(loop_to_api).collect(),
        settings: settings
            .map(|(name, value)| api::NodeSetting { name: name.clone(), in_force: value.clone() })
            .collect(),
    })
}

fn loop_to_api(of: BackgroundLoop) -> api::NodeLoop {
    api::NodeLoop {
        name: of.name,
        last_run_at: of.last_pass_at.map(|at| at.to_string()),
        is_down: of.is_down,
        panics: of.panics,
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
    Ok(Json(api::Page { items: found.runs.iter().filter_map(lease_to_api).collect(), next_cursor }))
}

/// The lease of a run. `None` if it waits for a node to claim it.
fn lease_to_api(view: &RunView) -> Option<api::RunLease> {
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
