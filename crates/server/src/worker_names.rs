//! Names that workers offer, kept in the catalog: a run of a workflow is accepted even if no worker is connected now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::model::{CatalogItem, CatalogKind, Name, Payload, WorkflowRef, WorkspaceId};
use hapax_engine::store::{PutCatalogItem, PutOutcome, Store};
use hapax_workers::{KnownName, WorkerCaller, Workers};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::catalog_watcher::{CatalogWatcher, LastFullRead};
use crate::definitions::definition_id;
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::limits::MAX_WORKER_NAMES_PER_WORKSPACE;

/// Beginning of the ids of these items. Other settings have other ids.
const ID_PREFIX: &str = "wkn_";

/// A name as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum StoredName {
    Workflow { name: String, version: u32 },
    Task { name: String },
    Action { name: String },
}

impl From<&KnownName> for StoredName {
    fn from(known: &KnownName) -> Self {
        match known {
            KnownName::Workflow(WorkflowRef { name, version }) => {
                StoredName::Workflow { name: name.to_string(), version: *version }
            }
            KnownName::Task(name) => StoredName::Task { name: name.clone() },
            KnownName::Action(name) => StoredName::Action { name: name.clone() },
        }
    }
}

impl StoredName {
    fn shown(&self) -> String {
        match self {
            StoredName::Workflow { name, version } => format!("worker workflow {name}@{version}"),
            StoredName::Task { name } => format!("worker task {name}"),
            StoredName::Action { name } => format!("worker action {name}"),
        }
    }

    /// Id of the item that keeps it.
    fn id(&self, workspace: &WorkspaceId) -> Name {
        let digest = Sha256::digest(format!("{workspace}\n{}", self.shown()));
        let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Name::new("setting id", &format!("{ID_PREFIX}{hex}")).expect("hex digits are a plain word")
    }
}

/// Returns whether workers of the workspace have ever offered this version of a workflow, on any node.
pub(crate) async fn is_offered_by_workers(
    store: &dyn Store,
    workspace: &WorkspaceId,
    name: &str,
    version: u32,
) -> Result<bool, Problem> {
    let id = StoredName::Workflow { name: name.to_owned(), version }.id(workspace);
    let catalog = store.catalog().expect("looked at when the server was made");
    let found =
        catalog.find_item(CatalogKind::Setting, &id).await.map_err(|error| problem_of_store(&error))?;
    Ok(found.is_some())
}

/// Names that workers of any node have offered, ever.
pub(crate) struct WorkerNames {
    workers: Arc<Workers>,
    store: Arc<dyn Store>,
    known: RwLock<BTreeMap<WorkspaceId, BTreeSet<StoredName>>>,
    last_read: LastFullRead,
}

impl WorkerNames {
    pub(crate) fn new(workers: Arc<Workers>, store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(WorkerNames { workers, store, known: RwLock::default(), last_read: LastFullRead::default() })
    }

    /// Keeps the names that a session offers.
    pub(crate) async fn keep(
        &self,
        caller: WorkerCaller<'_>,
        asked: &api::OpenWorkerSession,
    ) -> Result<(), Problem> {
        let workspace = caller.workspace;
        let names = Workers::names_of(caller, asked)?;
        let new: Vec<StoredName> = {
            let known = self.known.read().expect("no holder panics");
            let known = known.get(workspace);
            let kept = names.iter().map(StoredName::from);
            let new: Vec<StoredName> =
                kept.filter(|name| known.is_none_or(|known| !known.contains(name))).collect();
            let held = known.map_or(0, BTreeSet::len);
            if held + new.len() > MAX_WORKER_NAMES_PER_WORKSPACE && !new.is_empty() {
                let detail = format!(
                    "The workers of this workspace have offered {held} names, and {MAX_WORKER_NAMES_PER_WORKSPACE} is the limit. \
                     Use the names of before."
                );
                return Err(Problem::new(Code::QuotaExceeded, detail)
                    .with("quota", "worker_names")
                    .with("limit", MAX_WORKER_NAMES_PER_WORKSPACE));
            }
            new
        };
        for name in &new {
            self.check_no_document(workspace, name).await?;
        }
        for name in new {
            let request = PutCatalogItem {
                workspace: workspace.clone(),
                kind: CatalogKind::Setting,
                id: name.id(workspace),
                name: name.shown(),
                body: Payload::of(&name).map_err(|invalid| problem_of_invalid(&invalid))?,
                expected: None,
                note: None,
            };
            let catalog = self.store.catalog().expect("looked at when the server was made");
            match catalog.put_item(request).await.map_err(|error| problem_of_store(&error))? {
                PutOutcome::Put(_) | PutOutcome::Exists(_) | PutOutcome::NameTaken(_) => {}
                PutOutcome::Stale(_) | PutOutcome::Missing => {
                    unreachable!("nothing was expected to be there")
                }
            }
            self.learn(workspace, name);
        }
        Ok(())
    }

    /// Rejects a workflow that a document defines, even if this node has not read the document yet.
    async fn check_no_document(&self, workspace: &WorkspaceId, name: &StoredName) -> Result<(), Problem> {
        let StoredName::Workflow { name, version } = name else { return Ok(()) };
        let catalog = self.store.catalog().expect("looked at when the server was made");
        let id = definition_id(workspace, name, *version);
        let found = catalog
            .find_item(CatalogKind::Definition, &id)
            .await
            .map_err(|error| problem_of_store(&error))?;
        match found {
            None => Ok(()),
            Some(_) => {
                let detail = format!("{name}@{version} is or was defined by a document of this workspace.");
                Err(Problem::new(Code::WorkflowTaken, detail))
            }
        }
    }

    fn learn(&self, workspace: &WorkspaceId, name: StoredName) {
        let mut known = self.known.write().expect("no holder panics");
        known.entry(workspace.clone()).or_default().insert(name);
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Versions of workflows that workers of the workspace offer, or offered before, by name and version.
    pub(crate) fn workflows(&self, workspace: &WorkspaceId) -> BTreeSet<(String, u32)> {
        let known = self.known.read().expect("no holder panics");
        let of_workspace = known.get(workspace).into_iter().flatten();
        let workflow = |stored: &StoredName| match stored {
            StoredName::Workflow { name, version } => Some((name.clone(), *version)),
            StoredName::Task { .. } | StoredName::Action { .. } => None,
        };
        of_workspace.filter_map(workflow).collect()
    }

    /// Tasks that workers of the workspace offer, or offered before.
    pub(crate) fn tasks(&self, workspace: &WorkspaceId) -> BTreeSet<String> {
        self.names(workspace, |kept| match kept {
            StoredName::Task { name } => Some(name.clone()),
            StoredName::Workflow { .. } | StoredName::Action { .. } => None,
        })
    }

    /// Actions that workers of the workspace offer, or offered before.
    pub(crate) fn actions(&self, workspace: &WorkspaceId) -> BTreeSet<String> {
        self.names(workspace, |kept| match kept {
            StoredName::Action { name } => Some(name.clone()),
            StoredName::Workflow { .. } | StoredName::Task { .. } => None,
        })
    }

    fn names(
        &self,
        workspace: &WorkspaceId,
        pick: impl Fn(&StoredName) -> Option<String>,
    ) -> BTreeSet<String> {
        let known = self.known.read().expect("no holder panics");
        known.get(workspace).into_iter().flatten().filter_map(pick).collect()
    }
}

#[async_trait]
impl CatalogWatcher for WorkerNames {
    const KIND: CatalogKind = CatalogKind::Setting;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        if !item.id.as_str().starts_with(ID_PREFIX) {
            return Ok(());
        }
        let name: StoredName = item.body.to().map_err(|error| {
            Problem::new(Code::StoreBroken, format!("A name of a worker cannot be read: {error}"))
        })?;
        if let StoredName::Workflow { name, version } = &name {
            let name = Name::new("workflow name", name).map_err(|invalid| problem_of_invalid(&invalid))?;
            self.workers.learn(&item.workspace, &WorkflowRef { name, version: *version })?;
        }
        self.learn(&item.workspace, name);
        Ok(())
    }
}

impl std::fmt::Debug for WorkerNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerNames").finish_non_exhaustive()
    }
}
