//! Counts of open runs by version of their workflow.

use std::collections::BTreeMap;

use hapax_api::Problem;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Name, RunStatus, WorkspaceId};
use hapax_engine::store::{ListRuns, Store};

use crate::errors::problem_of_store;
use crate::limits::MAX_COUNTED_OPEN_RUNS;

/// Statuses of runs that have not ended.
pub(crate) const OPEN: [RunStatus; 4] =
    [RunStatus::Pending, RunStatus::Running, RunStatus::Waiting, RunStatus::Paused];

/// Counts the open runs of each version of a workflow: the newest [`MAX_COUNTED_OPEN_RUNS`] of all its versions.
pub(crate) async fn count_by_version(
    store: &dyn Store,
    workspace: &WorkspaceId,
    workflow: &Name,
) -> Result<BTreeMap<u32, usize>, Problem> {
    let (mut counts, mut seen, mut before) = (BTreeMap::new(), 0, None);
    loop {
        let request = ListRuns {
            workspace: Some(workspace.clone()),
            statuses: OPEN.into(),
            workflow: Some(workflow.clone()),
            filter: Default::default(),
            before,
            limit: MAX_PAGE,
        };
        let page = store.list_runs(request).await.map_err(|error| problem_of_store(&error))?;
        for run in &page.runs {
            *counts.entry(run.head.facts.workflow.version).or_default() += 1;
        }
        seen += page.runs.len();
        before = page.next;
        if before.is_none() || seen >= MAX_COUNTED_OPEN_RUNS {
            return Ok(counts);
        }
    }
}
