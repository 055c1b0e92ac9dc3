//! Lists of runs, newest first. Each status has a query that skips the others.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{RunId, RunStatus};
use hapax_engine::store::{ListRuns, RunPage, RunView};
use uuid::Uuid;

use crate::codes::Code;
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkflowRowId, WorkspaceRowId};
use crate::pools::HeldConnection;
use crate::read::{BEGIN_SNAPSHOT, query};
use crate::rows::{self, uuid};

/// Common parameters of the page's queries.
struct Wanted {
    /// The greatest id allowed on the page.
    upto: Uuid,
    workflow: Option<i32>,
    limit: i64,
}

/// A run on the page; the order of the fields is the order of the page.
type Place = (RunId, WorkspaceRowId);

pub(crate) async fn list_runs(
    held: Arc<HeldConnection>,
    numbers: Arc<InternedNames>,
    request: ListRuns,
) -> Result<RunPage, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let workflow = match &request.workflow {
        None => None,
        Some(name) => match numbers.find_workflow(held.link(), name).await? {
            None => return Ok(RunPage::default()),
            Some(WorkflowRowId(number)) => Some(number),
        },
    };
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match numbers.find_workspace(held.link(), name).await? {
            None => return Ok(RunPage::default()),
            number => number,
        },
    };
    let upto = request.before.map_or(Some(u128::MAX), |before| before.as_u128().checked_sub(1));
    let Some(upto) = upto else { return Ok(RunPage::default()) };
    let wanted = Wanted { upto: Uuid::from_u128(upto), workflow, limit: limit as i64 + 1 };
    held.batch_execute(BEGIN_SNAPSHOT).await?;
    let mut places = match workspace {
        None => list_everywhere(&held, &request.statuses, &wanted).await?,
        Some(workspace) => list_in(&held, workspace, &request.statuses, &wanted).await?,
    };
    let more = places.len() > limit;
    places.truncate(limit);
    let next = places.last().filter(|_| more).map(|(run, _)| *run);
    let runs = read_all(&held, &places).await?;
    held.batch_execute("COMMIT").await?;
    Ok(RunPage { runs, next })
}

/// One query per status, merged.
async fn list_in(
    held: &HeldConnection,
    workspace: WorkspaceRowId,
    statuses: &[RunStatus],
    wanted: &Wanted,
) -> Result<Vec<Place>, Fault> {
    let Wanted { upto, workflow, limit } = wanted;
    if statuses.is_empty() {
        let all = include_str!("../sql/list_runs.sql");
        return places(&query(held, all, &[&workspace.0, upto, workflow, limit]).await?);
    }
    let mut found = Vec::new();
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
        let of_status = query(held, sql, &[&workspace.0, upto, workflow, limit, &status.code()]).await?;
        found.extend(places(&of_status)?);
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

async fn list_everywhere(
    held: &HeldConnection,
    statuses: &[RunStatus],
    wanted: &Wanted,
) -> Result<Vec<Place>, Fault> {
    let all = if statuses.is_empty() { &RunStatus::ALL[..] } else { statuses };
    let codes: Vec<i16> = all.iter().map(|status| status.code()).collect();
    let sql = include_str!("../sql/list_runs_of_all_workspaces.sql");
    places(&query(held, sql, &[&wanted.upto, &wanted.workflow, &wanted.limit, &codes]).await?)
}

fn places(found: &[tokio_postgres::Row]) -> Result<Vec<Place>, Fault> {
    rows::collect(found, |mut row| {
        let workspace = WorkspaceRowId(row.get()?);
        Ok((row.run()?, workspace))
    })
}

/// The runs of a page, in its order.
async fn read_all(held: &HeldConnection, places: &[Place]) -> Result<Vec<RunView>, Fault> {
    let workspaces: Vec<i32> = places.iter().map(|(_, workspace)| workspace.0).collect();
    let ids: Vec<Uuid> = places.iter().map(|(run, _)| uuid(*run)).collect();
    let sql = include_str!("../sql/find_runs.sql");
    let found = query(held, sql, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    let views = rows::collect(&found, rows::view)?;
    let mut views: HashMap<RunId, RunView> = views.into_iter().map(|view| (view.head.id(), view)).collect();
    let get = |(run, _): &Place| {
        views.remove(run).ok_or_else(|| Fault::Broken(format!("{run} is listed but has no facts")))
    };
    places.iter().map(get).collect()
}
