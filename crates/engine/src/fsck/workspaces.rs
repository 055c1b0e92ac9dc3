//! The workspaces of a store: those in the catalog, and those with data.

use std::collections::BTreeSet;

use crate::limits::MAX_PAGE;
use crate::model::{CatalogKind, WorkspaceId};
use crate::store::{ListCatalogItems, Store, StoreError, StoreResult};

/// Adds the workspaces of all catalog items to `known`.
pub(super) async fn add_set_up(store: &dyn Store, known: &mut BTreeSet<WorkspaceId>) -> StoreResult<()> {
    // An embedded engine uses only this workspace and has no catalog items.
    known.insert(WorkspaceId::default());
    let Some(catalog) = store.catalog() else { return Ok(()) };
    for kind in [CatalogKind::Workspace, CatalogKind::EntityWorkflow] {
        let mut after = None;
        loop {
            let request = ListCatalogItems {
                workspace: None,
                kind,
                changed_since: None,
                after: after.clone(),
                limit: MAX_PAGE,
            };
            let page = catalog.list_items(request).await?;
            let Some(last) = page.last().map(|last| last.id.clone()) else { break };
            if after.as_ref().is_some_and(|after| last <= *after) {
                return Err(StoreError::Broken(format!("the list of items goes back at {last}")));
            }
            after = Some(last);
            known.extend(page.into_iter().map(|item| item.workspace));
        }
    }
    Ok(())
}
