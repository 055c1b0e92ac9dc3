//! Lists of operations.

use hapax_engine::limits::{MAX_PAGE, MAX_STALE_CLAIMS};
use hapax_engine::model::{EntityId, Name, Operation, OperationStatus, Timestamp};
use hapax_engine::store::ListOperations;
use rusqlite::{Connection, params};

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::operations::{operation, operation_bytes};
use crate::read::find_workspace;
use crate::rows::{self, workspace_name};

/// Sorts after every id of 16 bytes.
const AFTER_ALL: &[u8] = &[0xff; 17];

pub(crate) fn list_operations(
    connection: &Connection,
    request: &ListOperations,
) -> Result<Vec<Operation>, Fault> {
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let before = request.before.map(operation_bytes);
    let sql = match (&request.kind, &request.entity, request.status) {
        (Some(_), Some(_), _) => include_str!("../sql/list_operations_of_entity.sql"),
        (_, _, Some(status)) if status != OperationStatus::Done => {
            include_str!("../sql/list_operations_in_status.sql")
        }
        _ => include_str!("../sql/list_operations.sql"),
    };
    let mut list = connection.prepare_cached(sql)?;
    let found = list.query(params![
        workspace.0,
        before.as_ref().map_or(AFTER_ALL, |before| before.as_slice()),
        request.kind.as_ref().map(Name::as_str),
        request.entity.as_ref().map(EntityId::as_str),
        request.step.as_ref().map(Name::as_str),
        request.status.map(Code::code),
        request.limit.clamp(1, MAX_PAGE) as i64,
    ])?;
    rows::collect(found, |mut row| operation(&request.workspace, &mut row))
}

pub(crate) fn list_stale_operations(
    connection: &Connection,
    module: &Name,
    unheard_since: Timestamp,
    limit: usize,
) -> Result<Vec<Operation>, Fault> {
    let mut list = connection.prepare_cached(include_str!("../sql/list_stale_operations.sql"))?;
    let limit = limit.clamp(1, MAX_STALE_CLAIMS) as i64;
    let found = list.query(params![module.as_str(), millis(unheard_since), limit])?;
    rows::collect(found, |mut row| {
        let workspace = workspace_name(&mut row)?;
        operation(&workspace, &mut row)
    })
}
