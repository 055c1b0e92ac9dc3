//! What is set up in workspaces.

use async_trait::async_trait;

use super::MemoryStore;
use crate::limits::MAX_PAGE;
use crate::model::{Item, ItemKind, Name, Version, WorkspaceId};
use crate::store::{Catalog, ListItems, PutItem, PutOutcome, Store, StoreResult};

#[async_trait]
impl Catalog for MemoryStore {
    async fn put_item(&self, request: PutItem) -> StoreResult<PutOutcome> {
        let (now, mut state) = (self.now(), self.state());
        let place = (request.kind, request.id.clone());
        let found = state.items.get(&place).cloned();
        let version = match (request.expected, &found) {
            (None, Some(found)) => return Ok(PutOutcome::Exists(found.clone())),
            (None, None) => Version::new(1),
            (Some(_), None) => return Ok(PutOutcome::Missing),
            (Some(_), Some(found)) if found.workspace != request.workspace => return Ok(PutOutcome::Missing),
            (Some(expected), Some(found)) if found.version != expected => {
                return Ok(PutOutcome::Stale(found.clone()));
            }
            (Some(expected), Some(_)) => expected.next(),
        };
        let has_name = |item: &&Item| {
            item.workspace == request.workspace
                && item.kind == request.kind
                && item.name == request.name
                && item.id != request.id
        };
        if let Some(other) = state.items.values().find(has_name) {
            return Ok(PutOutcome::NameTaken(other.clone()));
        }
        let item = Item {
            workspace: request.workspace,
            kind: request.kind,
            id: request.id,
            name: request.name,
            version,
            body: request.body,
            created_at: found.map_or(now, |found| found.created_at),
            changed_at: now,
        };
        state.items.insert(place, item.clone());
        state.append_notes(request.note);
        Ok(PutOutcome::Put(item))
    }

    async fn find_item(&self, kind: ItemKind, id: &Name) -> StoreResult<Option<Item>> {
        Ok(self.state().items.get(&(kind, id.clone())).cloned())
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: ItemKind,
        name: &str,
    ) -> StoreResult<Option<Item>> {
        let is_it = |item: &&Item| item.workspace == *workspace && item.kind == kind && item.name == name;
        Ok(self.state().items.values().find(is_it).cloned())
    }

    async fn list_items(&self, request: ListItems) -> StoreResult<Vec<Item>> {
        let state = self.state();
        let fits = |item: &&Item| {
            item.kind == request.kind
                && request.workspace.as_ref().is_none_or(|workspace| item.workspace == *workspace)
                && request.changed_since.is_none_or(|since| item.changed_at >= since)
                && request.after.as_ref().is_none_or(|after| item.id > *after)
        };
        Ok(state.items.values().filter(fits).take(request.limit.clamp(1, MAX_PAGE)).cloned().collect())
    }
}
