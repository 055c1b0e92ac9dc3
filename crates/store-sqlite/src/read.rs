//! Reads: each function sees one snapshot of the file.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyRecord, Name, Promise, PromiseId, RunEvent, RunId, RunResult, StepId,
    StepStatus, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::{RunLog, RunView, StoredKey};
use rusqlite::{Connection, OptionalExtension, params};

use crate::codes::{Code, count};
use crate::fault::Fault;
use crate::find;
use crate::promises;
use crate::rows::{self, bytes};
use crate::session::{WorkflowRowId, WorkspaceRowId};
use crate::statements::Statements;

pub(crate) fn find_workspace(
    connection: &Connection,
    name: &WorkspaceId,
) -> Result<Option<WorkspaceRowId>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_workspace.sql"))?;
    Ok(find.query_row([name.as_str()], |row| row.get(0)).optional()?.map(WorkspaceRowId))
}

/// The workspaces that may have rows of a page, in the order of their names: `wanted` or all, from where the page begins.
pub(crate) fn list_workspaces(
    connection: &Connection,
    wanted: Option<&WorkspaceId>,
    from: Option<&WorkspaceId>,
) -> Result<Vec<(WorkspaceRowId, WorkspaceId)>, Fault> {
    match wanted {
        Some(wanted) if from.is_some_and(|from| from > wanted) => Ok(Vec::new()),
        Some(wanted) => {
            let number = find_workspace(connection, wanted)?;
            Ok(number.map(|number| (number, wanted.clone())).into_iter().collect())
        }
        None => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_workspaces.sql"))?;
            rows::collect(list.query([from.map_or("", |from| from.as_str())])?, |mut row| {
                Ok((WorkspaceRowId(row.get()?), rows::workspace_name(&mut row)?))
            })
        }
    }
}

pub(crate) fn find_workflow(connection: &Connection, name: &Name) -> Result<Option<WorkflowRowId>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_workflow.sql"))?;
    Ok(find.query_row([name.as_str()], |row| row.get(0)).optional()?.map(WorkflowRowId))
}

pub(crate) fn find_run(
    connection: &Connection,
    workspace: &WorkspaceId,
    run: RunId,
) -> Result<Option<RunView>, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(None) };
    find::view(connection, workspace, run)
}

pub(crate) fn find_log(
    connection: &Connection,
    workspace: &WorkspaceId,
    run: RunId,
) -> Result<Option<RunLog>, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(None) };
    let Some(RunView { head, input, .. }) = find::view(connection, workspace, run)? else { return Ok(None) };
    let steps = find::steps(&Statements::new(connection), workspace, &head)?;
    let mut children = Vec::new();
    for step in steps.iter().filter(|step| step.state.status() == StepStatus::Waiting) {
        if let Some(child) = step.child {
            children.push((child, find_result(connection, workspace, child)?));
        }
    }
    let of_run = params![workspace.0, bytes(run)];
    let mut list = connection.prepare_cached(include_str!("../sql/list_promises_of_run.sql"))?;
    let mut promises = rows::collect(list.query(of_run)?, promises::promise)?;
    let mut list = connection.prepare_cached(include_str!("../sql/list_awaited_promises.sql"))?;
    promises.extend(rows::collect(list.query(of_run)?, promises::promise)?);
    let mut list = connection.prepare_cached(include_str!("../sql/list_signals_of_run.sql"))?;
    let signals = rows::collect(list.query(of_run)?, rows::signal)?;
    let mut list = connection.prepare_cached(include_str!("../sql/list_reruns.sql"))?;
    let found = list.query(params![workspace.0, bytes(run), head.generation.get()])?;
    let attempts_before = rows::collect(found, |mut row| Ok((StepId::from_stored(row.text()?), row.get()?)))?;
    Ok(Some(RunLog { head, input, steps, promises, signals, children, attempts_before }))
}

fn find_result(
    connection: &Connection,
    workspace: WorkspaceRowId,
    run: RunId,
) -> Result<Option<RunResult>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_result.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, rows::result_row)
}

pub(crate) fn list_events(
    connection: &Connection,
    workspace: &WorkspaceId,
    run: RunId,
    after: Version,
) -> Result<Vec<RunEvent>, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(Vec::new()) };
    let mut list = connection.prepare_cached(include_str!("../sql/list_events.sql"))?;
    let found = list.query(params![workspace.0, bytes(run), count(after.get()), MAX_PAGE as i64])?;
    rows::collect(found, rows::event)
}

pub(crate) fn find_key(
    connection: &Connection,
    workspace: &WorkspaceId,
    kind: KeyKind,
    key: &IdempotencyKey,
) -> Result<Option<KeyRecord>, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(None) };
    find::key(&Statements::new(connection), workspace, kind, key)
}

/// Keys in the order of workspace names, not of their numbers.
pub(crate) fn list_keys(
    connection: &Connection,
    after: Option<&StoredKey>,
) -> Result<Vec<(StoredKey, KeyRecord)>, Fault> {
    let workspaces = list_workspaces(connection, None, after.map(|after| &after.workspace))?;
    let mut list = connection.prepare_cached(include_str!("../sql/list_keys.sql"))?;
    let mut keys = Vec::new();
    for (number, name) in workspaces {
        // No kind is below zero, so without a place to go on from every key counts.
        let (kind, key) = match after.filter(|after| after.workspace == name) {
            Some(after) => (after.kind.code(), after.key.as_str()),
            None => (-1, ""),
        };
        let room = MAX_PAGE - keys.len();
        let found = list.query(params![number.0, kind, key, room as i64])?;
        keys.extend(rows::collect(found, |mut row| {
            let (kind, key) = (row.code()?, rows::key_text(&mut row)?);
            let place = StoredKey { workspace: name.clone(), kind, key };
            Ok((place, rows::key_record(&mut row)?))
        })?);
        if keys.len() == MAX_PAGE {
            break;
        }
    }
    Ok(keys)
}

pub(crate) fn find_promise(
    connection: &Connection,
    workspace: &WorkspaceId,
    id: &PromiseId,
    now: Timestamp,
) -> Result<Option<Promise>, Fault> {
    let Some(workspace) = find_workspace(connection, workspace)? else { return Ok(None) };
    let found = find::promise(&Statements::new(connection), workspace, id)?;
    Ok(found.map(|promise| promise.seen_at(now)))
}
