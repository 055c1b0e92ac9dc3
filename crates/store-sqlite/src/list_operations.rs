//! Lists of operations.

use hapax_engine::limits::{MAX_PAGE, MAX_STALE_CLAIMS};
use hapax_engine::model::{EntityId, Name, Operation, OperationId, OperationStatus, Timestamp, WorkspaceId};
use hapax_engine::store::{FindLatestOperations, LatestOperations, ListOperations, OpenClaim};
use rusqlite::{Connection, params};

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::operations::{Workspace, find_holder, find_last_operation, operation, operation_bytes};
use crate::read::find_workspace;
use crate::rows::{self, broken, workspace_name};
use crate::statements::Statements;

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
        (_, _, Some(OperationStatus::Pending)) => include_str!("../sql/list_pending_operations.sql"),
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

pub(crate) fn list_doubted_operations(
    connection: &Connection,
    module: &Name,
    after: Option<(Timestamp, OperationId)>,
    limit: usize,
) -> Result<Vec<Operation>, Fault> {
    let mut list = connection.prepare_cached(include_str!("../sql/list_doubted_operations.sql"))?;
    let limit = limit.clamp(1, MAX_STALE_CLAIMS) as i64;
    let (at, id) = after.map_or((i64::MIN, [0; 16]), |(at, id)| (millis(at), operation_bytes(id)));
    let found = list.query(params![module.as_str(), at, id, limit])?;
    rows::collect(found, |mut row| {
        let workspace = workspace_name(&mut row)?;
        operation(&workspace, &mut row)
    })
}

pub(crate) fn list_open_claims(
    connection: &Connection,
    workspace: Option<&WorkspaceId>,
    limit: usize,
) -> Result<Vec<OpenClaim>, Fault> {
    let number = match workspace {
        None => None,
        Some(workspace) => match find_workspace(connection, workspace)? {
            Some(number) => Some(number.0),
            None => return Ok(Vec::new()),
        },
    };
    let mut list = connection.prepare_cached(include_str!("../sql/list_open_claims.sql"))?;
    let found = list.query(params![limit.clamp(1, MAX_PAGE) as i64, number])?;
    rows::collect(found, |mut row| {
        Ok(OpenClaim {
            module: Name::new("module", row.text()?).map_err(broken)?,
            workflow: Name::new("workflow", row.text()?).map_err(broken)?,
            claim_into: Name::new("status", row.text()?).map_err(broken)?,
        })
    })
}

pub(crate) fn find_latest_operations(
    connection: &Connection,
    request: &FindLatestOperations,
) -> Result<LatestOperations, Fault> {
    let Some(number) = find_workspace(connection, &request.workspace)? else {
        return Ok(LatestOperations::default());
    };
    let workspace = Workspace { number, name: &request.workspace };
    let holder = find_holder(&Statements::new(connection), workspace, &request.entity)?;
    let mut last = Vec::new();
    for step in request.steps.iter().take(MAX_PAGE) {
        last.extend(find_last_operation(&Statements::new(connection), workspace, &request.entity, step)?);
    }
    Ok(LatestOperations { holder, last })
}
