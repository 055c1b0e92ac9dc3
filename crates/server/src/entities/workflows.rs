//! The entity workflows that this node knows: all of them, with changes of other nodes within a
//! second.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use hapax_api::{Code, Problem};
use hapax_engine::model::{CatalogItem, CatalogKind, DocumentRef, Name, WorkspaceId};
use hapax_engine::runtime::LoadEntityWorkflow;
use hapax_engine::store::{ListCatalogItems, Store, StoreError, StoreResult};
use sha2::{Digest, Sha256};

use super::Entities;
use super::host::DocumentHost;
use super::stored::StoredWorkflow;
use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::errors::{problem_of, problem_of_store};

impl Entities {
    /// Number of workflows known here.
    pub(crate) fn count(&self) -> usize {
        let known = self.known.read().expect("no holder panics");
        known.values().filter(|workflow| !workflow.is_deleted()).count()
    }

    /// The workspaces with an entity workflow.
    pub(crate) fn workspaces(&self) -> BTreeSet<WorkspaceId> {
        let known = self.known.read().expect("no holder panics");
        let live = known.values().filter(|workflow| !workflow.is_deleted());
        live.map(|workflow| workflow.workspace.clone()).collect()
    }

    /// The modules whose janitors run here.
    pub(crate) fn modules(&self) -> BTreeSet<Name> {
        self.engine.modules()
    }

    /// The workflow for entities of this type, if it is known here.
    pub(crate) fn find_by_type(&self, workspace: &WorkspaceId, kind: &str) -> Option<Arc<StoredWorkflow>> {
        let known = self.known.read().expect("no holder panics");
        known.get(&id_of(workspace, kind)).filter(|known| !known.is_deleted()).cloned()
    }

    /// One entity workflow of a workspace, as it is in the store now.
    pub(crate) async fn get(
        &self,
        workspace: &WorkspaceId,
        name: &str,
    ) -> Result<Arc<StoredWorkflow>, Problem> {
        self.find(workspace, name).await?.ok_or_else(|| {
            Problem::new(
                Code::NotFound,
                "There is no such entity workflow in this workspace; list them with GET /api/v1/entity-workflows.",
            )
        })
    }

    pub(super) async fn find(
        &self,
        workspace: &WorkspaceId,
        name: &str,
    ) -> Result<Option<Arc<StoredWorkflow>>, Problem> {
        // A malformed name cannot exist.
        if Name::new("name of an entity workflow", name).is_err() {
            return Ok(None);
        }
        let item = self.catalog().find_named_item(workspace, CatalogKind::EntityWorkflow, name).await;
        match item.map_err(|error| problem_of_store(&error))? {
            Some(item) => Ok(Some(self.learn(&item).await?).filter(|found| !found.is_deleted())),
            None => Ok(None),
        }
    }

    /// Entity workflows of a workspace after `after`, in the order of their ids.
    pub(crate) async fn list(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<Arc<StoredWorkflow>>, Problem> {
        let (mut found, mut after) = (Vec::with_capacity(limit), after);
        loop {
            let request = ListCatalogItems {
                workspace: Some(workspace.clone()),
                kind: CatalogKind::EntityWorkflow,
                changed_since: None,
                after,
                limit: limit - found.len(),
            };
            let is_last = |read: usize| read < limit - found.len();
            let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
            let is_last = is_last(items.len());
            for item in &items {
                found.extend(Some(self.learn(item).await?).filter(|workflow| !workflow.is_deleted()));
            }
            // Deleted ones left room on the page.
            after = items.last().map(|last| last.id.clone());
            if is_last || found.len() == limit {
                return Ok(found);
            }
        }
    }

    /// Caches an item and registers it with the engine, unless a newer version is known.
    pub(super) async fn learn(&self, item: &CatalogItem) -> Result<Arc<StoredWorkflow>, Problem> {
        if let Some(known) = self.find_newer(item) {
            return Ok(known);
        }
        let found = Arc::new(StoredWorkflow::of(item)?);
        let _alone = self.learning.lock().await;
        if let Some(known) = self.find_newer(item) {
            return Ok(known);
        }
        let workflow = found.workflow();
        let engine = self.engine.workspace(item.workspace.clone());
        if found.is_deleted() {
            engine.remove_entity_workflow(&workflow.entity);
            self.known.write().expect("no holder panics").insert(item.id.clone(), found.clone());
            return Ok(found);
        }
        if let Some(table) = workflow.home.table() {
            self.check_allowed(&item.workspace, table)?;
        }
        let host = DocumentHost::new(found.checked.clone(), self.services.clone());
        let document = DocumentRef { item: item.id.clone(), version: item.version };
        let registering = engine.register_entity_document(workflow.clone(), Arc::new(host), document);
        registering.await.map_err(|error| problem_of(&error))?;
        self.known.write().expect("no holder panics").insert(item.id.clone(), found.clone());
        Ok(found)
    }

    fn find_newer(&self, item: &CatalogItem) -> Option<Arc<StoredWorkflow>> {
        let known = self.known.read().expect("no holder panics");
        known.get(&item.id).filter(|known| known.version >= item.version).cloned()
    }
}

#[async_trait]
impl CatalogWatcher for Entities {
    const KIND: CatalogKind = CatalogKind::EntityWorkflow;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        self.learn(item).await.map(drop)
    }
}

/// Reads entity workflows that another node stored a moment ago.
pub(super) struct Loader(pub(super) Weak<Entities>);

#[async_trait]
impl LoadEntityWorkflow for Loader {
    async fn load(&self, workspace: &WorkspaceId, kind: &Name) -> StoreResult<()> {
        let Some(entities) = self.0.upgrade() else { return Ok(()) };
        let id = id_of(workspace, kind.as_str());
        let Some(item) = entities.catalog().find_item(CatalogKind::EntityWorkflow, &id).await? else {
            return Ok(());
        };
        match entities.learn(&item).await {
            Err(problem) if problem.retryable => Err(StoreError::Unavailable(problem.detail)),
            // An unusable document is skipped; the uploader saw the error.
            Err(problem) => {
                tracing::error!(workflow = %item.id, %problem, "an entity workflow cannot be used here");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// The id is derived from the entity type, so there is one workflow per type.
pub(super) fn id_of(workspace: &WorkspaceId, kind: &str) -> Name {
    let digest = Sha256::digest(format!("{workspace}\n{kind}"));
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Name::new("entity workflow id", &format!("ewf_{hex}")).expect("hex digits are a plain word")
}
