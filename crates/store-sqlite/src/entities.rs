//! Entities: rows of the store's own table, or of one of the user's.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{Entity, EntityId, EntityRef, EntityStorage, Name, Payload, Version, WorkspaceId};
use hapax_engine::store::ListEntities;
use rusqlite::{Connection, params};

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::read::find_workspace;
use crate::rows::{self, Columns, broken};
use crate::session::{Session, WorkspaceRowId};
use crate::statements::Statements;
use crate::user_tables::{self, InstantAs};

/// An entity, and what is needed to write it back.
pub(crate) struct FoundEntity {
    pub(crate) entity: Entity,
    /// How its row keeps the instant of the last change.
    pub(crate) instant_as: InstantAs,
}

pub(crate) fn find_entity(
    connection: &Connection,
    workspace: &WorkspaceId,
    entity: &EntityRef,
    home: &EntityStorage,
) -> Result<Option<Entity>, Fault> {
    let workspace = find_workspace(connection, workspace)?;
    Ok(find_entity_in(&Statements::new(connection), workspace, entity, home)?.map(|found| found.entity))
}

/// The same, where the workspace is known by its number; one that has none has no entities here.
pub(crate) fn find_entity_in(
    statements: &Statements<'_>,
    workspace: Option<WorkspaceRowId>,
    entity: &EntityRef,
    home: &EntityStorage,
) -> Result<Option<FoundEntity>, Fault> {
    match (home, workspace) {
        (EntityStorage::UserTable(table), _) => user_tables::find_row(statements.connection(), table, entity),
        (EntityStorage::BuiltIn, None) => Ok(None),
        (EntityStorage::BuiltIn, Some(workspace)) => {
            let mut find = statements.take(include_str!("../sql/find_entity.sql"))?;
            let found = find.query(params![workspace.0, entity.kind.as_str(), entity.id.as_str()])?;
            let found = rows::at_most_one(found, |row| own_entity(&entity.kind, row))?;
            Ok(found.map(|entity| FoundEntity { entity, instant_as: InstantAs::Millis }))
        }
    }
}

/// Writes how an entity is now, if it still is as it was found.
pub(crate) fn write_entity(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    home: &EntityStorage,
    found: &FoundEntity,
    entity: &Entity,
) -> Result<(), Fault> {
    if let EntityStorage::UserTable(table) = home {
        return user_tables::write_row(session.connection(), table, found, entity);
    }
    let before = &found.entity;
    let changed = session.prepare(include_str!("../sql/write_entity.sql"))?.execute(params![
        workspace.0,
        before.entity.kind.as_str(),
        before.entity.id.as_str(),
        before.status.as_str(),
        count(before.version.get()),
        entity.status.as_str(),
        count(entity.version.get()),
        millis(entity.updated_at),
        entity.data.as_str(),
    ])?;
    match changed {
        1 => Ok(()),
        n => Err(Fault::Broken(format!("writing {} changed {n} rows", entity.entity))),
    }
}

pub(crate) fn list_entities(connection: &Connection, request: &ListEntities) -> Result<Vec<Entity>, Fault> {
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    if let EntityStorage::UserTable(table) = &request.home {
        return user_tables::list_rows(connection, table, request, limit);
    }
    let Some(workspace) = find_workspace(connection, &request.workspace)? else { return Ok(Vec::new()) };
    let kind = request.kind.as_str();
    // No id is empty.
    let after = request.after.as_ref().map_or("", EntityId::as_str);
    let to_entity = |row: Columns<'_>| own_entity(&request.kind, row);
    match &request.status {
        None => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_entities.sql"))?;
            rows::collect(list.query(params![workspace.0, kind, after, limit])?, to_entity)
        }
        Some(status) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_entities_in_status.sql"))?;
            let found = list.query(params![workspace.0, kind, after, limit, status.as_str()])?;
            rows::collect(found, to_entity)
        }
    }
}

fn own_entity(kind: &Name, mut row: Columns<'_>) -> Result<Entity, Fault> {
    let id = EntityId::new(row.text()?).map_err(broken)?;
    Ok(Entity {
        entity: EntityRef { kind: kind.clone(), id },
        status: Name::new("status", row.text()?).map_err(broken)?,
        version: Version::new(row.count()?),
        updated_at: row.at()?,
        data: Payload::from_stored(row.text()?),
    })
}
