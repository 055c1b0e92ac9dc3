//! Lists of runs, newest first. Each status has a query that skips the others; a filter picks the query that
//! leads to the fewest runs.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_engine::limits::{MAX_PAGE, MAX_RUNS_SCANNED};
use hapax_engine::model::{KeyKind, KeyTarget, RunId, RunStatus, StepId, WorkspaceId};
use hapax_engine::store::{ListRuns, RunPage, RunView, WaitsFor};
use uuid::Uuid;

use crate::codes::Code;
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkflowRowId, WorkspaceRowId};
use crate::limits::RUNS_SCANNED_AT_ONCE;
use crate::pools::HeldConnection;
use crate::read::{BEGIN_SNAPSHOT, query};
use crate::rows::{self, uuid};

/// Common parameters of the page's queries.
struct RunPageQuery {
    /// The greatest id allowed on the page.
    upto: Uuid,
    workflow: Option<i32>,
    version: Option<i32>,
    /// `None` means any.
    statuses: Option<Vec<RunStatus>>,
    limit: i64,
}

/// A run on the page; the order of the fields is the order of the page.
type RunOnPage = (RunId, WorkspaceRowId);

/// Open runs of a workspace, counted up to a bound.
pub(crate) async fn count_open_runs(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    workspace: WorkspaceId,
    up_to: usize,
) -> Result<usize, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &workspace).await? else { return Ok(0) };
    let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
    let found = query(&held, include_str!("../sql/count_open_runs.sql"), &[&workspace.0, &up_to]).await?;
    let counted = rows::collect(&found, |mut row| row.count())?;
    Ok(counted.first().map_or(0, |count| usize::try_from(*count).unwrap_or_default()))
}

pub(crate) async fn list_runs(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListRuns,
) -> Result<RunPage, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let workflow = match &request.workflow {
        None => None,
        Some(name) => match interned_names.find_workflow(held.link(), name).await? {
            None => return Ok(RunPage::default()),
            Some(WorkflowRowId(number)) => Some(number),
        },
    };
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match interned_names.find_workspace(held.link(), name).await? {
            None => return Ok(RunPage::default()),
            number => number,
        },
    };
    let upto = request.upper_bound().map_or(Some(u128::MAX), |bound| bound.as_u128().checked_sub(1));
    let Some(upto) = upto else { return Ok(RunPage::default()) };
    let mut wanted = RunPageQuery {
        upto: Uuid::from_u128(upto),
        workflow,
        version: request.filter.version.map(u32::cast_signed),
        statuses: request.wanted_statuses(),
        limit: limit as i64 + 1,
    };
    if request.filter.needs_steps() {
        wanted.limit = wanted.limit.max(RUNS_SCANNED_AT_ONCE as i64);
    }
    held.batch_execute(BEGIN_SNAPSHOT).await?;
    let page = list_page(&held, workspace, &request, &mut wanted).await?;
    held.batch_execute("COMMIT").await?;
    Ok(page)
}

async fn list_page(
    held: &HeldConnection,
    workspace: Option<WorkspaceRowId>,
    request: &ListRuns,
    wanted: &mut RunPageQuery,
) -> Result<RunPage, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let (mut runs, mut scanned) = (Vec::new(), 0);
    loop {
        let mut places = match workspace {
            None => list_everywhere(held, wanted).await?,
            Some(workspace) => list_in(held, workspace, request, wanted).await?,
        };
        let is_whole = (places.len() as i64) < wanted.limit;
        let in_reach = places.partition_point(|(run, _)| *run >= request.lower_bound());
        let is_end = is_whole || in_reach < places.len();
        places.truncate(in_reach);
        scanned += places.len();
        let last = places.last().map(|(run, _)| *run);
        let waiting = retain_by_steps(held, request, &mut places).await?;
        for some in places.chunks(limit + 1) {
            let mut views = read_all(held, some).await?;
            views.retain(|view| request.admits(&view.head) && fits_wait(request, view, &waiting));
            runs.append(&mut views);
            if runs.len() > limit {
                runs.truncate(limit);
                let next = runs.last().map(|run| run.head.id());
                return Ok(RunPage { runs, next });
            }
        }
        let below = last.and_then(|last| last.as_u128().checked_sub(1));
        match (last, below) {
            (Some(last), Some(below)) if !is_end => match scanned >= MAX_RUNS_SCANNED {
                true => return Ok(RunPage { runs, next: Some(last) }),
                false => wanted.upto = Uuid::from_u128(below),
            },
            _ => return Ok(RunPage { runs, next: None }),
        }
    }
}

/// Keeps the places whose steps may fit, and returns their waiting steps of the wanted kind.
async fn retain_by_steps(
    held: &HeldConnection,
    request: &ListRuns,
    places: &mut Vec<RunOnPage>,
) -> Result<HashMap<RunId, Vec<StepId>>, Fault> {
    let filter = &request.filter;
    let step = |mut row: rows::Columns<'_>| Ok((row.run()?, StepId::from_stored(row.text()?)));
    if filter.current_step.is_some() {
        let (workspaces, ids) = columns(places);
        let sql = include_str!("../sql/list_current_steps.sql");
        let found = query(held, sql, &[&(ids.len() as i64), &workspaces, &ids]).await?;
        let found: HashMap<RunId, StepId> = rows::collect(&found, step)?.into_iter().collect();
        places.retain(|(run, _)| filter.fits_current_step(found.get(run)));
    }
    let mut waiting: HashMap<RunId, Vec<StepId>> = HashMap::new();
    if let Some(wait) = &filter.waits_for {
        let (workspaces, ids) = columns(places);
        let sql = include_str!("../sql/list_waiting_steps.sql");
        let kind = wait.step_kind().code();
        let found = query(held, sql, &[&(ids.len() as i64), &workspaces, &ids, &kind]).await?;
        for (run, step) in rows::collect(&found, step)? {
            waiting.entry(run).or_default().push(step);
        }
        places.retain(|(run, _)| waiting.contains_key(run));
    }
    Ok(waiting)
}

/// Returns true if a waiting step waits for what is wanted. Waiters of a standalone promise were found by it.
fn fits_wait(request: &ListRuns, view: &RunView, waiting: &HashMap<RunId, Vec<StepId>>) -> bool {
    let Some(wait) = &request.filter.waits_for else { return true };
    let steps = waiting.get(&view.head.id());
    steps.is_some_and(|steps| steps.iter().any(|step| wait.is_of_step(&view.head, step)))
}

fn columns(places: &[RunOnPage]) -> (Vec<i32>, Vec<Uuid>) {
    places.iter().map(|(run, workspace)| (workspace.0, uuid(*run))).unzip()
}

/// Candidates for the page, by the condition that leaves the fewest.
async fn list_in(
    held: &HeldConnection,
    workspace: WorkspaceRowId,
    request: &ListRuns,
    wanted: &RunPageQuery,
) -> Result<Vec<RunOnPage>, Fault> {
    let (filter, upto, limit) = (&request.filter, &wanted.upto, &wanted.limit);
    if let Some(key) = &filter.key {
        let sql = include_str!("../sql/find_key.sql");
        let found = query(held, sql, &[&workspace.0, &KeyKind::Run.code(), &key.as_str()]).await?;
        let record = rows::at_most_one(&found, |mut row| rows::key_record(&mut row))?;
        let run = record.and_then(|record| match record.target {
            KeyTarget::Run { run, .. } => Some(run),
            KeyTarget::Promise(_) | KeyTarget::Nothing => None,
        });
        return find_place(held, workspace, run, upto).await;
    }
    if let Some(WaitsFor::Promise(promise)) = &filter.waits_for {
        if let Some(run) = promise.run() {
            return find_place(held, workspace, Some(run), upto).await;
        }
        let sql = include_str!("../sql/list_runs_awaiting_promise.sql");
        return places(&query(held, sql, &[&workspace.0, &promise.as_str(), upto, limit]).await?);
    }
    if let Some(subject) = &filter.subject {
        let sql = include_str!("../sql/list_runs_with_subject.sql");
        return places(&query(held, sql, &[&workspace.0, &subject.as_str(), upto, limit]).await?);
    }
    list_by_status(held, workspace, wanted).await
}

/// The place of one run, if it exists. A key may outlive its run.
async fn find_place(
    held: &HeldConnection,
    workspace: WorkspaceRowId,
    run: Option<RunId>,
    upto: &Uuid,
) -> Result<Vec<RunOnPage>, Fault> {
    let Some(run) = run.filter(|run| uuid(*run) <= *upto) else { return Ok(Vec::new()) };
    let sql = include_str!("../sql/find_runs.sql");
    let found = query(held, sql, &[&1i64, &vec![workspace.0], &vec![uuid(run)]]).await?;
    Ok(if found.is_empty() { Vec::new() } else { vec![(run, workspace)] })
}

/// One query per status, merged.
async fn list_by_status(
    held: &HeldConnection,
    workspace: WorkspaceRowId,
    wanted: &RunPageQuery,
) -> Result<Vec<RunOnPage>, Fault> {
    let RunPageQuery { upto, workflow, version, statuses, limit } = wanted;
    let Some(statuses) = statuses else {
        let all = include_str!("../sql/list_runs.sql");
        return places(&query(held, all, &[&workspace.0, upto, workflow, limit, version]).await?);
    };
    let mut found = Vec::new();
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
        let of_status =
            query(held, sql, &[&workspace.0, upto, workflow, limit, &status.code(), version]).await?;
        found.extend(places(&of_status)?);
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(*limit as usize);
    Ok(found)
}

async fn list_everywhere(held: &HeldConnection, wanted: &RunPageQuery) -> Result<Vec<RunOnPage>, Fault> {
    let all = wanted.statuses.as_deref().unwrap_or(&RunStatus::ALL);
    let codes: Vec<i16> = all.iter().map(|status| status.code()).collect();
    let sql = include_str!("../sql/list_runs_of_all_workspaces.sql");
    places(&query(held, sql, &[&wanted.upto, &wanted.workflow, &wanted.limit, &codes]).await?)
}

fn places(found: &[tokio_postgres::Row]) -> Result<Vec<RunOnPage>, Fault> {
    rows::collect(found, |mut row| {
        let workspace = WorkspaceRowId(row.get()?);
        Ok((row.run()?, workspace))
    })
}

/// The runs of a page, in its order.
async fn read_all(held: &HeldConnection, places: &[RunOnPage]) -> Result<Vec<RunView>, Fault> {
    let (workspaces, ids) = columns(places);
    let sql = include_str!("../sql/find_runs.sql");
    let found = query(held, sql, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    let views = rows::collect(&found, rows::view)?;
    let mut views: HashMap<RunId, RunView> = views.into_iter().map(|view| (view.head.id(), view)).collect();
    let get = |(run, _): &RunOnPage| {
        views.remove(run).ok_or_else(|| Fault::Broken(format!("{run} is listed but has no facts")))
    };
    places.iter().map(get).collect()
}
