//! The catalog of the store.

use async_trait::async_trait;
use hapax_engine::model::{CatalogItem, CatalogKind, Name, WorkspaceId};
use hapax_engine::store::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome, StoreResult};

use crate::items;
use crate::read::find_workspace;
use crate::statements::Statements;
use crate::store::SqliteStore;

#[async_trait]
impl Catalog for SqliteStore {
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome> {
        request.check()?;
        self.write(request).await
    }

    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>> {
        let id = id.clone();
        self.readers().find(move |connection| items::find_item(&Statements::new(connection), kind, &id)).await
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>> {
        let (workspace, name) = (workspace.clone(), name.to_owned());
        let find = move |connection: &rusqlite::Connection| match find_workspace(connection, &workspace)? {
            Some(workspace) => items::find_named_item(&Statements::new(connection), workspace, kind, &name),
            None => Ok(None),
        };
        self.readers().find(find).await
    }

    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>> {
        self.readers().read(move |connection| items::list_items(connection, &request)).await
    }
}
