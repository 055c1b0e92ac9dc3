//! Promises and early settlements, one page at a time.

use hapax_engine::limits::{MAX_PAGE, MAX_PROMISES_SCANNED};
use hapax_engine::model::{PromiseId, RunId, Timestamp};
use hapax_engine::store::{ListEarlySettlements, ListPromises, PromisePage, StoredEarlySettlement};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use crate::codes::{Code, millis};
use crate::early::early;
use crate::fault::Fault;
use crate::promises::promise;
use crate::read::{find_workspace, list_workspaces};
use crate::rows::{self, bytes};
use crate::session::WorkspaceRowId;

pub(crate) fn list_promises(
    connection: &Connection,
    request: &ListPromises,
    now: Timestamp,
) -> Result<PromisePage, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else {
        return Ok(PromisePage::default());
    };
    // No id is empty.
    let after = request.after.as_ref().map_or("", |after| after.as_str());
    let status = request.status.map(Code::code);
    let limit = request.limit.clamp(1, MAX_PAGE);
    let upto = match status {
        Some(_) => find_ahead(connection, workspace, request.run, after)?,
        None => None,
    };
    // To SQLite any bytes are more than any text.
    let end = upto.clone().map_or(Value::Blob(Vec::new()), Value::Text);
    let (at, room) = (millis(now), limit as i64);
    let found = match request.run {
        None => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_promises.sql"))?;
            let found = list.query(params![workspace.0, after, at, status, room, end])?;
            rows::collect(found, promise)?
        }
        Some(run) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_promises_of_one_run.sql"))?;
            let found = list.query(params![workspace.0, after, at, status, room, end, bytes(run)])?;
            rows::collect(found, promise)?
        }
    };
    let found = found.into_iter().map(|promise| promise.seen_at(now)).collect();
    Ok(PromisePage::new(found, limit, upto.map(|id| PromiseId::from_stored(&id))))
}

/// The last promise that is looked at for a page; `None` if that reaches to the end.
fn find_ahead(
    connection: &Connection,
    workspace: WorkspaceRowId,
    run: Option<RunId>,
    after: &str,
) -> Result<Option<String>, Fault> {
    let ahead = MAX_PROMISES_SCANNED as i64 - 1;
    let found = match run {
        None => {
            let mut find = connection.prepare_cached(include_str!("../sql/find_promise_ahead.sql"))?;
            find.query_row(params![workspace.0, after, ahead], |row| row.get(0)).optional()?
        }
        Some(run) => {
            let mut find =
                connection.prepare_cached(include_str!("../sql/find_promise_ahead_of_one_run.sql"))?;
            find.query_row(params![workspace.0, after, ahead, bytes(run)], |row| row.get(0)).optional()?
        }
    };
    Ok(found)
}

/// In the order of workspace names, not of their numbers.
pub(crate) fn list_early_settlements(
    connection: &Connection,
    request: &ListEarlySettlements,
    now: Timestamp,
) -> Result<Vec<StoredEarlySettlement>, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE);
    let from = request.after.as_ref().map(|(workspace, _)| workspace);
    let mut list = connection.prepare_cached(include_str!("../sql/list_early.sql"))?;
    let mut kept = Vec::new();
    for (number, workspace) in list_workspaces(connection, request.workspace.as_ref(), from)? {
        // No key is empty.
        let after = match &request.after {
            Some((from, key)) if *from == workspace => key.as_str(),
            _ => "",
        };
        let room = (limit - kept.len()) as i64;
        let found = list.query(params![number.0, after, millis(now), room])?;
        kept.extend(rows::collect(found, |mut row| {
            let key = rows::key_text(&mut row)?;
            Ok(StoredEarlySettlement { workspace: workspace.clone(), key, early: early(&mut row)? })
        })?);
        if kept.len() == limit {
            break;
        }
    }
    Ok(kept)
}
