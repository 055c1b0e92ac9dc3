//! The sources that this node knows: all of them, with changes of other nodes within a second.

use std::sync::Arc;

use async_trait::async_trait;
use hapax_api::{Code, Problem};
use hapax_engine::model::{CatalogItem, CatalogKind, Name, WorkspaceId};
use hapax_engine::store::{ListCatalogItems, Store};

use super::source::StoredSource;
use super::{InboundWebhooks, KnownSources};
use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::errors::problem_of_store;
use crate::limits::CATALOG_OVERLAP;

impl InboundWebhooks {
    /// Number of sources known here.
    pub(crate) fn count(&self) -> usize {
        self.known.read().expect("no holder panics").by_id.values().filter(|one| !one.is_deleted()).count()
    }

    /// The source with this id that this node knows, in any workspace.
    pub(super) fn find_by_id(&self, id: &str) -> Option<Arc<StoredSource>> {
        let id = Name::new("source id", id).ok()?;
        self.known.read().expect("no holder panics").by_id.get(&id).cloned()
    }

    /// The source with this name that this node knows.
    pub(super) fn find_by_name(&self, workspace: &WorkspaceId, name: &str) -> Option<Arc<StoredSource>> {
        let known = self.known.read().expect("no holder panics");
        let id = known.by_name.get(&(workspace.clone(), name.to_owned()))?;
        known.by_id.get(id).cloned()
    }

    /// One source of a workspace, read from the store, unless it is deleted.
    pub(crate) async fn get_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
    ) -> Result<Arc<StoredSource>, Problem> {
        let found = self.find_source(workspace, name).await?;
        found.filter(|found| !found.is_deleted()).ok_or_else(no_such_source)
    }

    /// One source of a workspace, read from the store, even if it is deleted.
    pub(super) async fn find_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
    ) -> Result<Option<Arc<StoredSource>>, Problem> {
        // A malformed name cannot exist.
        if Name::new("source name", name).is_err() {
            return Ok(None);
        }
        let item = self.catalog().find_named_item(workspace, CatalogKind::Source, name).await;
        item.map_err(|error| problem_of_store(&error))?.map(|item| self.learn(&item)).transpose()
    }

    /// The source with this id, in any workspace, read from the store, even if it is deleted.
    pub(super) async fn find_source_by_id(&self, id: &str) -> Result<Option<Arc<StoredSource>>, Problem> {
        let Ok(id) = Name::new("source id", id) else { return Ok(None) };
        let item = self.catalog().find_item(CatalogKind::Source, &id).await;
        item.map_err(|error| problem_of_store(&error))?.map(|item| self.learn(&item)).transpose()
    }

    /// Sources of a workspace after `after`, in the order of their ids, and where the next page begins. Deleted ones are left out, so a page
    /// may be short.
    pub(crate) async fn list_sources(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<(Vec<Arc<StoredSource>>, Option<Name>), Problem> {
        let request = ListCatalogItems {
            workspace: Some(workspace.clone()),
            kind: CatalogKind::Source,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        let next = items.last().filter(|_| items.len() == limit).map(|last| last.id.clone());
        let found: Result<Vec<_>, Problem> = items.iter().map(|item| self.learn(item)).collect();
        Ok((found?.into_iter().filter(|one| !one.is_deleted()).collect(), next))
    }

    /// Caches an item, unless a newer version is known.
    pub(super) fn learn(&self, item: &CatalogItem) -> Result<Arc<StoredSource>, Problem> {
        if let Some(known) = self.known.read().expect("no holder panics").by_id.get(&item.id)
            && known.version == item.version
        {
            return Ok(known.clone());
        }
        let found = Arc::new(StoredSource::of(item)?);
        let mut known = self.known.write().expect("no holder panics");
        if let Some(newer) = known.by_id.get(&item.id).filter(|known| known.version > found.version) {
            return Ok(newer.clone());
        }
        known.by_name.insert((item.workspace.clone(), item.name.clone()), item.id.clone());
        known.by_id.insert(item.id.clone(), found.clone());
        Ok(found)
    }

    /// Removes deleted sources from the cache once no caller can hold an older version.
    fn forget_buried(&self) {
        let deadline = self.store.now().minus(CATALOG_OVERLAP);
        let mut known = self.known.write().expect("no holder panics");
        let KnownSources { by_id, by_name } = &mut *known;
        by_id.retain(|_, one| !(one.is_deleted() && one.changed_at() < deadline));
        by_name.retain(|_, id| by_id.contains_key(id));
    }
}

#[async_trait]
impl CatalogWatcher for InboundWebhooks {
    const KIND: CatalogKind = CatalogKind::Source;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        self.learn(item).map(drop)
    }

    fn after_read(&self) {
        self.forget_buried();
    }
}

pub(super) fn no_such_source() -> Problem {
    Problem::new(
        Code::NotFound,
        "There is no such webhook source in this workspace; list them with GET /api/v1/webhook-sources.",
    )
}
