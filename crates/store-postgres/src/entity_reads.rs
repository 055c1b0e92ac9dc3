//! Reads of entities and operations, and heartbeats of their holders.

use std::collections::HashSet;
use std::sync::Arc;

use hapax_engine::limits::{MAX_HEARTBEATS, MAX_PAGE, MAX_STALE_CLAIMS};
use hapax_engine::model::{
    Entity, EntityRef, EntityStorage, IdempotencyKey, Name, Operation, OperationId, OwnerId, TableRef,
    Timestamp, WorkspaceId,
};
use hapax_engine::store::{
    FindLatestOperations, HeldOperation, LatestOperations, ListEntities, ListOperations, OpenClaim,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, millis};
use crate::entities::entity;
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::operations::{operation, operation_id, operation_uuid};
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, owner_uuid};
use crate::user_tables::{self, UserTables};

/// Class of errors about values rather than statements.
const DATA_EXCEPTION: &str = "22";

pub(crate) async fn find_entity(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    tables: Arc<UserTables>,
    (workspace, entity_ref, home): (WorkspaceId, EntityRef, EntityStorage),
) -> Result<Option<Entity>, Fault> {
    let EntityStorage::UserTable(table) = &home else {
        let Some(workspace) = interned_names.find_workspace(held.link(), &workspace).await? else {
            return Ok(None);
        };
        let place: [&(dyn ToSql + Sync); 3] =
            [&workspace.0, &entity_ref.kind.as_str(), &entity_ref.id.as_str()];
        let found = query(&held, include_str!("../sql/find_entity.sql"), &place).await?;
        return rows::at_most_one(&found, entity);
    };
    let described = tables.get_table(held.link(), table).await?;
    if described.may_have(&entity_ref.id) == Some(false) {
        return Ok(None);
    }
    match query(&held, &described.find, &[&entity_ref.id.as_str()]).await {
        Ok(found) => rows::at_most_one(&found, |row| user_tables::entity(&entity_ref.kind, table, row)),
        Err(fault) if is_about_values(&fault) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns true if a row of the table can have this id.
pub(crate) async fn may_have(
    held: Arc<HeldConnection>,
    tables: Arc<UserTables>,
    table: TableRef,
    id: hapax_engine::model::EntityId,
) -> Result<bool, Fault> {
    let described = tables.get_table(held.link(), &table).await?;
    if let Some(known) = described.may_have(&id) {
        return Ok(known);
    }
    match query(&held, &described.try_id, &[&id.as_str()]).await {
        Ok(_) => Ok(true),
        Err(fault) if is_about_values(&fault) => Ok(false),
        Err(fault) => Err(fault),
    }
}

fn is_about_values(fault: &Fault) -> bool {
    // A domain rejects values by a constraint.
    let class = |error: &tokio_postgres::Error| error.code().map(|code| code.code()[..2].to_owned());
    matches!(fault, Fault::Sql(error) if class(error).is_some_and(|class| class == DATA_EXCEPTION || class == "23"))
}

pub(crate) async fn list_entities(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    tables: Arc<UserTables>,
    request: ListEntities,
) -> Result<Vec<Entity>, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let status = request.status.as_ref().map(|status| status.as_str());
    let after = request.after.as_ref().map(|after| after.as_str());
    if let EntityStorage::UserTable(table) = &request.home {
        let described = tables.get_table(held.link(), table).await?;
        let found = match &after {
            None => query(&held, &described.list, &[&status, &limit]).await?,
            Some(after) => query(&held, &described.list_after, &[&status, &limit, after]).await?,
        };
        return rows::collect(&found, |row| user_tables::entity(&request.kind, table, row));
    }
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    // No id is empty.
    let (kind, after) = (request.kind.as_str(), after.unwrap_or_default());
    let found = match &status {
        None => {
            let sql = include_str!("../sql/list_entities.sql");
            query(&held, sql, &[&workspace.0, &kind, &after, &limit]).await?
        }
        Some(status) => {
            let sql = include_str!("../sql/list_entities_in_status.sql");
            query(&held, sql, &[&workspace.0, &kind, &after, &limit, status]).await?
        }
    };
    rows::collect(&found, entity)
}

pub(crate) async fn check_table(
    held: Arc<HeldConnection>,
    tables: Arc<UserTables>,
    table: TableRef,
) -> Result<(), Fault> {
    tables.get_table(held.link(), &table).await?.check_unique(&table)
}

pub(crate) async fn find_operation(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    name: WorkspaceId,
    id: OperationId,
) -> Result<Option<Operation>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &name).await? else { return Ok(None) };
    let place: [&(dyn ToSql + Sync); 2] = [&workspace.0, &operation_uuid(id)];
    let found = query(&held, include_str!("../sql/find_operation.sql"), &place).await?;
    rows::at_most_one(&found, |mut row| operation(name, &mut row))
}

pub(crate) async fn find_keyed_operation(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    name: WorkspaceId,
    key: IdempotencyKey,
) -> Result<Option<Operation>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &name).await? else { return Ok(None) };
    let place: [&(dyn ToSql + Sync); 2] = [&workspace.0, &key.as_str()];
    let found = query(&held, include_str!("../sql/find_keyed_operation.sql"), &place).await?;
    rows::at_most_one(&found, |mut row| operation(name, &mut row))
}

pub(crate) async fn list_operations(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListOperations,
) -> Result<Vec<Operation>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(Vec::new());
    };
    let workspace = workspace.0;
    let before = request.before.map_or(Uuid::max(), operation_uuid);
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let kind = request.kind.as_ref().map(|kind| kind.as_str());
    let entity = request.entity.as_ref().map(|entity| entity.as_str());
    let step = request.step.as_ref().map(|step| step.as_str());
    let status = request.status.map(Code::code);
    let found = match (&kind, &entity, &status) {
        (Some(kind), Some(entity), status) => {
            let sql = include_str!("../sql/list_operations_of_entity.sql");
            query(&held, sql, &[&workspace, &before, &limit, kind, entity, &step, status]).await?
        }
        (kind, None, Some(status)) => {
            let sql = include_str!("../sql/list_operations_in_status.sql");
            query(&held, sql, &[&workspace, &before, &limit, kind, &step, status]).await?
        }
        // An id alone names an entity of each type.
        (kind, entity, status) => {
            let sql = include_str!("../sql/list_operations.sql");
            query(&held, sql, &[&workspace, &before, &limit, kind, &step, entity, status]).await?
        }
    };
    rows::collect(&found, |mut row| operation(request.workspace.clone(), &mut row))
}

pub(crate) async fn list_stale_operations(
    held: Arc<HeldConnection>,
    module: Name,
    unheard_since: Timestamp,
    limit: usize,
) -> Result<Vec<Operation>, Fault> {
    let limit = limit.clamp(1, MAX_STALE_CLAIMS) as i64;
    let sql = include_str!("../sql/list_stale_operations.sql");
    let found = query(&held, sql, &[&module.as_str(), &millis(unheard_since), &limit]).await?;
    rows::collect(&found, |mut row| {
        let workspace = rows::workspace_name(&mut row)?;
        operation(workspace, &mut row)
    })
}

pub(crate) async fn list_doubted_operations(
    held: Arc<HeldConnection>,
    module: Name,
    after: Option<(Timestamp, OperationId)>,
    limit: usize,
) -> Result<Vec<Operation>, Fault> {
    let limit = limit.clamp(1, MAX_STALE_CLAIMS) as i64;
    let (at, id) = after.map_or((i64::MIN, Uuid::nil()), |(at, id)| (millis(at), operation_uuid(id)));
    let sql = include_str!("../sql/list_doubted_operations.sql");
    let found = query(&held, sql, &[&module.as_str(), &at, &id, &limit]).await?;
    rows::collect(&found, |mut row| {
        let workspace = rows::workspace_name(&mut row)?;
        operation(workspace, &mut row)
    })
}

pub(crate) async fn list_open_claims(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    workspace: Option<WorkspaceId>,
    limit: usize,
) -> Result<Vec<OpenClaim>, Fault> {
    let number = match &workspace {
        None => None,
        Some(workspace) => match interned_names.find_workspace(held.link(), workspace).await? {
            Some(number) => Some(number.0),
            None => return Ok(Vec::new()),
        },
    };
    let limit = limit.clamp(1, MAX_PAGE) as i64;
    let found = query(&held, include_str!("../sql/list_open_claims.sql"), &[&limit, &number]).await?;
    rows::collect(&found, |mut row| {
        Ok(OpenClaim {
            module: Name::new("module", row.text()?).map_err(rows::broken)?,
            workflow: Name::new("workflow", row.text()?).map_err(rows::broken)?,
            claim_into: Name::new("status", row.text()?).map_err(rows::broken)?,
        })
    })
}

pub(crate) async fn find_latest_operations(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: FindLatestOperations,
) -> Result<LatestOperations, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(LatestOperations::default());
    };
    let (kind, id) = (request.entity.kind.to_string(), request.entity.id.to_string());
    let read = |mut row: rows::Columns<'_>| {
        let _workspace: i32 = row.get()?;
        operation(request.workspace.clone(), &mut row)
    };
    let one: [&(dyn ToSql + Sync); 4] = [&1_i64, &vec![workspace.0], &vec![kind.clone()], &vec![id.clone()]];
    let found = query(&held, include_str!("../sql/find_holders.sql"), &one).await?;
    let holder = rows::at_most_one(&found, read)?;
    let steps: Vec<String> = request.steps.iter().take(MAX_PAGE).map(Name::to_string).collect();
    let number = steps.len() as i64;
    let of_entity = (vec![workspace.0; steps.len()], vec![kind; steps.len()], vec![id; steps.len()]);
    let asked: [&(dyn ToSql + Sync); 5] = [&number, &of_entity.0, &of_entity.1, &of_entity.2, &steps];
    let found = query(&held, include_str!("../sql/find_last_operations.sql"), &asked).await?;
    let mut last: Vec<Operation> = rows::collect(&found, read)?;
    last.sort_by_key(|one| request.steps.iter().position(|step| *step == one.step));
    Ok(LatestOperations { holder, last })
}

pub(crate) fn check_heard(held: &[HeldOperation]) -> Result<(), Fault> {
    match held.len() > MAX_HEARTBEATS {
        true => Err(Fault::Refused(format!("at most {MAX_HEARTBEATS} operations are heard of at once"))),
        false => Ok(()),
    }
}

/// Returns the lost ones, in the order of the request.
pub(crate) async fn heartbeat_operations(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    owner: OwnerId,
    operations: Vec<HeldOperation>,
    now: Timestamp,
) -> Result<Vec<OperationId>, Fault> {
    let mut places = Vec::with_capacity(operations.len());
    for asked in &operations {
        let workspace = interned_names.find_workspace(held.link(), &asked.workspace).await?;
        places.push(workspace.map(|workspace| (asked.operation, workspace.0, asked.attempt.cast_signed())));
    }
    // The common lock order of operations.
    let mut known: Vec<_> = places.iter().flatten().copied().collect();
    known.sort_unstable();
    known.dedup();
    let workspaces: Vec<i32> = known.iter().map(|(_, workspace, _)| *workspace).collect();
    let ids: Vec<Uuid> = known.iter().map(|(id, ..)| operation_uuid(*id)).collect();
    let attempts: Vec<i32> = known.iter().map(|(.., attempt)| *attempt).collect();
    let (number, owner) = (known.len() as i64, owner_uuid(owner));
    let sql = include_str!("../sql/hear_of_operations.sql");
    let found = query(&held, sql, &[&number, &workspaces, &ids, &attempts, &millis(now), &owner]).await?;
    let heard = rows::collect(&found, |mut row| {
        let workspace: i32 = row.get()?;
        Ok((operation_id(&mut row)?, workspace, row.get::<i32>()?))
    })?;
    let heard: HashSet<_> = heard.into_iter().collect();
    let is_lost = |place: &Option<_>| place.as_ref().is_none_or(|place| !heard.contains(place));
    let lost = operations.iter().zip(&places).filter(|(_, place)| is_lost(place));
    Ok(lost.map(|(asked, _)| asked.operation).collect())
}
