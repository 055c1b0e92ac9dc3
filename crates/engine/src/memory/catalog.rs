//! The catalog.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::State;
use crate::limits::MAX_PAGE;
use crate::model::{CatalogItem, CatalogKind, Name, WorkspaceId};
use crate::store::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome, Store, StoreResult};

#[async_trait]
impl Catalog for MemoryStore {
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome> {
        request.check()?;
        let (now, mut state) = (self.now(), self.state());
        let place = (request.kind, request.id.clone());
        let found = state.items.get(&place).cloned();
        let namesake = state.find_named_item(&request.workspace, request.kind, &request.name);
        let outcome = request.decide(found, namesake, now);
        if let PutOutcome::Put(item) = &outcome {
            state.items.insert(place, item.clone());
            state.append_journal(request.note);
        }
        Ok(outcome)
    }

    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>> {
        Ok(self.state().items.get(&(kind, id.clone())).cloned())
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>> {
        Ok(self.state().find_named_item(workspace, kind, name))
    }

    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>> {
        let state = self.state();
        let fits = |item: &&CatalogItem| {
            item.kind == request.kind
                && request.workspace.as_ref().is_none_or(|workspace| item.workspace == *workspace)
                && request.changed_since.is_none_or(|since| item.changed_at >= since)
                && request.after.as_ref().is_none_or(|after| item.id > *after)
        };
        Ok(state.items.values().filter(fits).take(request.limit.clamp(1, MAX_PAGE)).cloned().collect())
    }
}

impl State {
    fn find_named_item(&self, workspace: &WorkspaceId, kind: CatalogKind, name: &str) -> Option<CatalogItem> {
        let is_it =
            |item: &&CatalogItem| item.workspace == *workspace && item.kind == kind && item.name == name;
        self.items.values().find(is_it).cloned()
    }
}
