//! Lists of runs, newest first. Each status has a query that does not walk over the others.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{RunId, RunStatus};
use hapax_engine::store::{ListRuns, RunPage};
use rusqlite::{Connection, params};

use crate::codes::Code;
use crate::fault::Fault;
use crate::find;
use crate::read::{find_workflow, find_workspace};
use crate::rows::{self, bytes};
use crate::session::{WorkflowRowId, WorkspaceRowId};

/// Common parameters of the page's queries.
struct Wanted {
    /// Only ids below this one; longer than any id if all are wanted.
    below: Vec<u8>,
    workflow: Option<WorkflowRowId>,
    limit: i64,
}

/// A run on the page; the order of the fields is the order of the page.
type Place = (RunId, i64);

pub(crate) fn list_runs(connection: &Connection, request: &ListRuns) -> Result<RunPage, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let workflow = match &request.workflow {
        None => None,
        Some(name) => match find_workflow(connection, name)? {
            None => return Ok(RunPage::default()),
            number => number,
        },
    };
    let below = request.before.map_or(vec![u8::MAX; 17], |run| bytes(run).to_vec());
    let wanted = Wanted { below, workflow, limit: limit as i64 + 1 };
    let mut places = match &request.workspace {
        None => list_everywhere(connection, &request.statuses, &wanted)?,
        Some(name) => match find_workspace(connection, name)? {
            None => return Ok(RunPage::default()),
            Some(workspace) => list_in(connection, workspace, &request.statuses, &wanted)?,
        },
    };
    let more = places.len() > limit;
    places.truncate(limit);
    let next = places.last().filter(|_| more).map(|(run, _)| *run);
    let mut runs = Vec::with_capacity(places.len());
    for (run, workspace) in places {
        let view = find::view(connection, WorkspaceRowId(workspace), run)?;
        runs.push(view.ok_or_else(|| Fault::Broken(format!("{run} is listed but has no facts")))?);
    }
    Ok(RunPage { runs, next })
}

/// One query per status, merged.
fn list_in(
    connection: &Connection,
    workspace: WorkspaceRowId,
    statuses: &[RunStatus],
    wanted: &Wanted,
) -> Result<Vec<Place>, Fault> {
    let Wanted { below, workflow, limit } = wanted;
    let workflow = workflow.map(|workflow| workflow.0);
    if statuses.is_empty() {
        let mut list = connection.prepare_cached(include_str!("../sql/list_runs.sql"))?;
        let found = list.query(params![workspace.0, below, workflow, limit])?;
        return rows::collect(found, |mut row| Ok((row.run()?, workspace.0)));
    }
    let mut places = Vec::new();
    for status in RunStatus::ALL.into_iter().filter(|status| statuses.contains(status)) {
        let sql = match status {
            RunStatus::Pending | RunStatus::Running | RunStatus::Waiting => {
                include_str!("../sql/list_open_runs.sql")
            }
            RunStatus::Paused | RunStatus::Failed | RunStatus::Cancelled => {
                include_str!("../sql/list_runs_set_aside.sql")
            }
            RunStatus::Completed => include_str!("../sql/list_completed_runs.sql"),
        };
        let mut list = connection.prepare_cached(sql)?;
        let found = list.query(params![workspace.0, below, workflow, limit, status.code()])?;
        places.extend(rows::collect(found, |mut row| Ok((row.run()?, workspace.0)))?);
    }
    places.sort_unstable_by(|a, b| b.cmp(a));
    Ok(places)
}

fn list_everywhere(
    connection: &Connection,
    statuses: &[RunStatus],
    wanted: &Wanted,
) -> Result<Vec<Place>, Fault> {
    let all = if statuses.is_empty() { &RunStatus::ALL[..] } else { statuses };
    let bits = all.iter().fold(0, |bits, status| bits | 1i64 << status.code());
    let mut list = connection.prepare_cached(include_str!("../sql/list_runs_of_all_workspaces.sql"))?;
    let workflow = wanted.workflow.map(|workflow| workflow.0);
    let found = list.query(params![wanted.below, workflow, wanted.limit, bits])?;
    rows::collect(found, |mut row| Ok((row.run()?, row.get()?)))
}
