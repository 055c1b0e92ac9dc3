//! Promises and early settlements, one page at a time.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Promise, Timestamp};
use hapax_engine::store::{KeptEarly, ListEarly, ListPromises};
use rusqlite::{Connection, params};

use crate::codes::{Code, millis};
use crate::early::early;
use crate::fault::Fault;
use crate::promises::promise;
use crate::read::{find_workspace, list_workspaces};
use crate::rows::{self, bytes};

pub(crate) fn list_promises(
    connection: &Connection,
    request: &ListPromises,
    now: Timestamp,
) -> Result<Vec<Promise>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    // No id is empty.
    let after = request.after.as_ref().map_or("", |after| after.as_str());
    let status = request.status.map(Code::code);
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let found = match request.run {
        None => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_promises.sql"))?;
            let found = list.query(params![workspace.0, after, millis(now), status, limit])?;
            rows::collect(found, promise)?
        }
        Some(run) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_promises_of_one_run.sql"))?;
            let found = list.query(params![workspace.0, after, millis(now), status, limit, bytes(run)])?;
            rows::collect(found, promise)?
        }
    };
    Ok(found.into_iter().map(|promise| promise.seen_at(now)).collect())
}

/// In the order of workspace names, not of their numbers.
pub(crate) fn list_early(
    connection: &Connection,
    request: &ListEarly,
    now: Timestamp,
) -> Result<Vec<KeptEarly>, Fault> {
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
            Ok(KeptEarly { workspace: workspace.clone(), key, early: early(&mut row)? })
        })?);
        if kept.len() == limit {
            break;
        }
    }
    Ok(kept)
}
