//! Catalog items, as rows.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{CatalogItem, CatalogKind, Name, Payload, Version, WorkspaceId};
use hapax_engine::store::ListCatalogItems;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::interned_names::InternedNames;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows::{self, Columns, broken};

pub(crate) async fn find_item(
    held: Arc<HeldConnection>,
    kind: CatalogKind,
    id: Name,
) -> Result<Option<CatalogItem>, Fault> {
    let found = query(&held, include_str!("../sql/find_item.sql"), &[&kind.code(), &id.as_str()]).await?;
    rows::at_most_one(&found, item)
}

pub(crate) async fn find_named_item(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    workspace: WorkspaceId,
    kind: CatalogKind,
    name: String,
) -> Result<Option<CatalogItem>, Fault> {
    // No item name contains this character, and the server would reject it.
    if name.contains('\0') {
        return Ok(None);
    }
    let Some(workspace) = interned_names.find_workspace(held.link(), &workspace).await? else {
        return Ok(None);
    };
    let sql = include_str!("../sql/find_named_item.sql");
    let found = query(&held, sql, &[&workspace.0, &kind.code(), &name]).await?;
    rows::at_most_one(&found, item)
}

pub(crate) async fn list_items(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListCatalogItems,
) -> Result<Vec<CatalogItem>, Fault> {
    let workspace = match &request.workspace {
        None => None,
        Some(name) => match interned_names.find_workspace(held.link(), name).await? {
            None => return Ok(Vec::new()),
            found => found.map(|number| number.0),
        },
    };
    let kind = request.kind.code();
    // No id is empty.
    let after = request.after.as_ref().map_or("", |after| after.as_str());
    let limit = request.limit.clamp(1, MAX_PAGE) as i64;
    let found = match (request.changed_since, workspace) {
        (Some(since), workspace) => {
            let sql = include_str!("../sql/list_changed_items.sql");
            query(&held, sql, &[&kind, &after, &limit, &workspace, &millis(since)]).await?
        }
        (None, Some(workspace)) => {
            let sql = include_str!("../sql/list_items_of_workspace.sql");
            query(&held, sql, &[&kind, &after, &limit, &workspace]).await?
        }
        (None, None) => query(&held, include_str!("../sql/list_items.sql"), &[&kind, &after, &limit]).await?,
    };
    rows::collect(&found, item)
}

pub(crate) fn item(mut row: Columns<'_>) -> Result<CatalogItem, Fault> {
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
