//! The catalog of the store.

use async_trait::async_trait;
use hapax_engine::model::{CatalogItem, CatalogKind, Name, WorkspaceId};
use hapax_engine::store::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome, StoreResult};

use crate::items;
use crate::store::PostgresStore;

#[async_trait]
impl Catalog for PostgresStore {
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome> {
        request.check()?;
        self.consider(request).await
    }

    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>> {
        let id = id.clone();
        self.read(|held| items::find_item(held, kind, id)).await
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>> {
        let (interned_names, workspace, name) = (self.interned_names(), workspace.clone(), name.to_owned());
        self.read(|held| items::find_named_item(held, interned_names, workspace, kind, name)).await
    }

    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>> {
        let interned_names = self.interned_names();
        self.read(|held| items::list_items(held, interned_names, request)).await
    }
}
