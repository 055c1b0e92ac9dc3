//! Catalog items, as rows.

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{CatalogItem, CatalogKind, Name, Payload, Version};
use hapax_engine::store::ListCatalogItems;
use rusqlite::{Connection, params};

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::read::find_workspace;
use crate::rows::{self, Columns, broken};
use crate::session::WorkspaceRowId;
use crate::statements::Statements;

pub(crate) fn find_item(
    statements: &Statements<'_>,
    kind: CatalogKind,
    id: &Name,
) -> Result<Option<CatalogItem>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_item.sql"))?;
    rows::at_most_one(find.query(params![kind.code(), id.as_str()])?, item)
}

/// Only the version: what an item says may be long.
pub(crate) fn find_item_version(
    statements: &Statements<'_>,
    kind: CatalogKind,
    id: &Name,
) -> Result<Option<Version>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_item_version.sql"))?;
    rows::at_most_one(find.query(params![kind.code(), id.as_str()])?, |mut row| {
        Ok(Version::new(row.count()?))
    })
}

pub(crate) fn find_named_item(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    kind: CatalogKind,
    name: &str,
) -> Result<Option<CatalogItem>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_named_item.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, kind.code(), name])?, item)
}

pub(crate) fn list_items(
    connection: &Connection,
    request: &ListCatalogItems,
) -> Result<Vec<CatalogItem>, Fault> {
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match find_workspace(connection, name)? {
            None => return Ok(Vec::new()),
            found => found.map(|number| number.0),
        },
    };
    let kind = request.kind.code();
    // No id is empty.
    let after = request.after.as_ref().map_or("", |after| after.as_str());
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    match (request.changed_since, workspace) {
        (Some(since), workspace) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_changed_items.sql"))?;
            rows::collect(list.query(params![kind, after, limit, workspace, millis(since)])?, item)
        }
        (None, Some(workspace)) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_items_of_workspace.sql"))?;
            rows::collect(list.query(params![kind, after, limit, workspace])?, item)
        }
        (None, None) => {
            let mut list = connection.prepare_cached(include_str!("../sql/list_items.sql"))?;
            rows::collect(list.query(params![kind, after, limit])?, item)
        }
    }
}

fn item(mut row: Columns<'_>) -> Result<CatalogItem, Fault> {
    Ok(CatalogItem {
        kind: row.code()?,
        id: Name::new("id", row.text()?).map_err(broken)?,
        workspace: rows::workspace_name(&mut row)?,
        name: row.get()?,
        version: Version::new(row.count()?),
        body: Payload::from_stored(row.text()?),
        created_at: row.at()?,
        changed_at: row.at()?,
    })
}
