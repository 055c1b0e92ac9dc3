//! Lists of runs, newest first. Each status has a query that does not walk over the others; a filter picks the
//! query that leads to the fewest runs.

use hapax_engine::limits::{MAX_PAGE, MAX_RUNS_SCANNED};
use hapax_engine::model::{KeyKind, KeyTarget, RunId, RunStatus, StepId, WorkspaceId};
use hapax_engine::store::{ListRuns, RunPage, RunView, WaitsFor};
use rusqlite::{Connection, OptionalExtension, params};

use crate::codes::Code;
use crate::fault::Fault;
use crate::find;
use crate::limits::RUNS_SCANNED_AT_ONCE;
use crate::read::{find_workflow, find_workspace};
use crate::rows::{self, bytes};
use crate::session::{WorkflowRowId, WorkspaceRowId};
use crate::statements::Statements;

/// Common parameters of the page's queries.
struct RunPageQuery {
    /// Only ids below this one; longer than any id if all are wanted.
    below: Vec<u8>,
    workflow: Option<WorkflowRowId>,
    version: Option<u32>,
    /// `None` means any.
    statuses: Option<Vec<RunStatus>>,
    limit: i64,
}

/// A run on the page; the order of the fields is the order of the page.
type RunOnPage = (RunId, i64);

/// Open runs of a workspace, counted up to a bound.
pub(crate) fn count_open_runs(
    connection: &Connection,
    workspace: &WorkspaceId,
    up_to: usize,
) -> Result<usize, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(0) };
    let mut count = connection.prepare_cached(include_str!("../sql/count_open_runs.sql"))?;
    let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
    let counted: i64 = count.query_row(params![workspace.0, up_to], |row| row.get(0))?;
    Ok(usize::try_from(counted).unwrap_or_default())
}

pub(crate) fn list_runs(connection: &Connection, request: &ListRuns) -> Result<RunPage, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let workflow = match &request.workflow {
        None => None,
        Some(name) => match find_workflow(connection, name)? {
            None => return Ok(RunPage::default()),
            number => number,
        },
    };
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match find_workspace(connection, name)? {
            None => return Ok(RunPage::default()),
            number => number,
        },
    };
    let mut wanted = RunPageQuery {
        below: request.upper_bound().map_or(vec![u8::MAX; 17], |run| bytes(run).to_vec()),
        workflow,
        version: request.filter.version,
        statuses: request.wanted_statuses(),
        limit: limit as i64 + 1,
    };
    if request.filter.needs_steps() {
        wanted.limit = wanted.limit.max(RUNS_SCANNED_AT_ONCE as i64);
    }
    let (mut runs, mut scanned) = (Vec::new(), 0);
    loop {
        let mut places = match workspace {
            None => list_everywhere(connection, &wanted)?,
            Some(workspace) => list_in(connection, workspace, request, &wanted)?,
        };
        let is_whole = (places.len() as i64) < wanted.limit;
        let in_reach = places.partition_point(|(run, _)| *run >= request.lower_bound());
        let is_end = is_whole || in_reach < places.len();
        places.truncate(in_reach);
        scanned += places.len();
        let last = places.last().map(|(run, _)| *run);
        for (run, workspace) in places {
            let view = find::view(connection, WorkspaceRowId(workspace), run)?;
            let view = view.ok_or_else(|| Fault::Broken(format!("{run} is listed but has no facts")))?;
            if request.admits(&view.head)
                && fits_steps(connection, WorkspaceRowId(workspace), request, &view)?
            {
                runs.push(view);
            }
            if runs.len() > limit {
                runs.truncate(limit);
                let next = runs.last().map(|run| run.head.id());
                return Ok(RunPage { runs, next });
            }
        }
        match last {
            None => return Ok(RunPage { runs, next: None }),
            Some(_) if is_end => return Ok(RunPage { runs, next: None }),
            Some(last) if scanned >= MAX_RUNS_SCANNED => return Ok(RunPage { runs, next: Some(last) }),
            Some(last) => wanted.below = bytes(last).to_vec(),
        }
    }
}

/// Returns true if the conditions about steps hold. Waiters of a standalone promise were found by it.
fn fits_steps(
    connection: &Connection,
    workspace: WorkspaceRowId,
    request: &ListRuns,
    view: &RunView,
) -> Result<bool, Fault> {
    let filter = &request.filter;
    let (head, run) = (&view.head, bytes(view.head.id()));
    if filter.current_step.is_some() {
        let mut find = connection.prepare_cached(include_str!("../sql/find_current_step.sql"))?;
        let step: Option<String> = find.query_row(params![workspace.0, run], |row| row.get(0)).optional()?;
        if !filter.fits_current_step(step.map(|step| StepId::from_stored(&step)).as_ref()) {
            return Ok(false);
        }
    }
    let Some(wait) = &filter.waits_for else { return Ok(true) };
    let mut list = connection.prepare_cached(include_str!("../sql/list_waiting_steps.sql"))?;
    let steps = list.query(params![workspace.0, run, wait.step_kind().code()])?;
    let steps: Vec<String> = rows::collect(steps, |mut row| row.get())?;
    Ok(steps.iter().any(|step| wait.is_of_step(head, &StepId::from_stored(step))))
}

/// Candidates for the page, by the condition that leaves the fewest.
fn list_in(
    connection: &Connection,
    workspace: WorkspaceRowId,
    request: &ListRuns,
    wanted: &RunPageQuery,
) -> Result<Vec<RunOnPage>, Fault> {
    let filter = &request.filter;
    let place = |mut row: rows::Columns<'_>| Ok((row.run()?, workspace.0));
    let is_below = |run: &RunId| bytes(*run).as_slice() < wanted.below.as_slice();
    if let Some(key) = &filter.key {
        let record = find::key(&Statements::new(connection), workspace, KeyKind::Run, key)?;
        let run = record.and_then(|record| match record.target {
            KeyTarget::Run { run, .. } => Some(run),
            KeyTarget::Promise(_) | KeyTarget::Nothing => None,
        });
        // The key of a deleted run may still be there.
        let run =
            run.filter(is_below).map(|run| find::view(connection, workspace, run)).transpose()?.flatten();
        return Ok(run.map(|view| (view.head.id(), workspace.0)).into_iter().collect());
    }
    if let Some(WaitsFor::Promise(promise)) = &filter.waits_for {
        if let Some(run) = promise.run() {
            let run = if is_below(&run) { find::view(connection, workspace, run)? } else { None };
            return Ok(run.map(|view| (view.head.id(), workspace.0)).into_iter().collect());
        }
        let mut list = connection.prepare_cached(include_str!("../sql/list_runs_awaiting_promise.sql"))?;
        return rows::collect(
            list.query(params![workspace.0, promise.as_str(), wanted.below, wanted.limit])?,
            place,
        );
    }
    if let Some(subject) = &filter.subject {
        let mut list = connection.prepare_cached(include_str!("../sql/list_runs_with_subject.sql"))?;
        return rows::collect(
            list.query(params![workspace.0, subject.as_str(), wanted.below, wanted.limit])?,
            place,
        );
    }
    list_by_status(connection, workspace, wanted)
}

/// One query per status, merged.
fn list_by_status(
    connection: &Connection,
    workspace: WorkspaceRowId,
    wanted: &RunPageQuery,
) -> Result<Vec<RunOnPage>, Fault> {
    let RunPageQuery { below, workflow, version, statuses, limit } = wanted;
    let workflow = workflow.map(|workflow| workflow.0);
    let Some(statuses) = statuses else {
        let mut list = connection.prepare_cached(include_str!("../sql/list_runs.sql"))?;
        let found = list.query(params![workspace.0, below, workflow, limit, version])?;
        return rows::collect(found, |mut row| Ok((row.run()?, workspace.0)));
    };
    let mut places = Vec::new();
    for status in statuses {
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
        let found = list.query(params![workspace.0, below, workflow, limit, status.code(), version])?;
        places.extend(rows::collect(found, |mut row| Ok((row.run()?, workspace.0)))?);
    }
    places.sort_unstable_by(|a, b| b.cmp(a));
    places.truncate(*limit as usize);
    Ok(places)
}

fn list_everywhere(connection: &Connection, wanted: &RunPageQuery) -> Result<Vec<RunOnPage>, Fault> {
    let all = wanted.statuses.as_deref().unwrap_or(&RunStatus::ALL);
    let bits = all.iter().fold(0, |bits, status| bits | 1i64 << status.code());
    let mut list = connection.prepare_cached(include_str!("../sql/list_runs_of_all_workspaces.sql"))?;
    let workflow = wanted.workflow.map(|workflow| workflow.0);
    let found = list.query(params![wanted.below, workflow, wanted.limit, bits])?;
    rows::collect(found, |mut row| Ok((row.run()?, row.get()?)))
}
