//! Workflow definitions: stored in the catalog, checked at upload, known to the engine on every
//! node.

mod change;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_documents::{Checked, HostServices};
use hapax_engine::model::{
    CatalogItem, CatalogKind, JournalEntry, JournalEvent, Name, Payload, Timestamp, Version, WorkflowRef,
    WorkflowSelector, WorkspaceId,
};
use hapax_engine::store::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome, Store};
use hapax_engine::{Ctx, Engine, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::catalog_watcher::{CatalogWatcher, LastFullRead, learn_changes};
use crate::errors::{problem_of, problem_of_store};
use crate::identity::Acting;
use crate::limits::{MAX_DEFINITIONS, MAX_DEFINITIONS_PER_WORKSPACE};
use crate::uploaded::{Uploaded, with_secrets};
use crate::worker_names::is_offered_by_workers;

pub(crate) use change::{check_reason, with_reason};

/// Stored part of a definition, without its name and its times.
#[derive(Clone, Serialize, Deserialize)]
struct DefinitionBody {
    digest: String,
    document: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Lifecycle::is_active")]
    lifecycle: Lifecycle,
}

/// Lifecycle of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Lifecycle {
    /// It starts runs.
    #[default]
    Active,
    /// It starts no new runs.
    Archived,
    /// It is not listed or counted. Its document stays, because a run that began on another node at
    /// the same moment, or a failed run that is retried, still needs it.
    Deleted,
}

impl Lifecycle {
    fn is_active(&self) -> bool {
        *self == Lifecycle::Active
    }
}

/// One definition, ready to run.
#[derive(Debug)]
pub struct Definition {
    id: Name,
    workspace: WorkspaceId,
    checked: Arc<Checked>,
    document: api::RawJson,
    digest: String,
    lifecycle: Lifecycle,
    revision: Version,
    created_at: Timestamp,
}

impl Definition {
    /// Its id.
    pub fn id(&self) -> &Name {
        &self.id
    }

    /// The name of its workflow.
    pub fn name(&self) -> &str {
        &self.checked.document().name
    }

    /// Its version.
    pub fn version(&self) -> u32 {
        self.checked.document().version
    }

    /// The workflow it defines, with its version.
    pub(crate) fn selector(&self) -> WorkflowSelector {
        let name = Name::new("workflow name", self.name()).expect("a checked document has a valid name");
        WorkflowSelector { name, version: Some(self.version()) }
    }

    /// Rises with each change of its status.
    pub(crate) fn revision(&self) -> Version {
        self.revision
    }

    /// Returns true if it was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.lifecycle == Lifecycle::Deleted
    }

    fn status(&self) -> api::DefinitionStatus {
        match self.lifecycle {
            Lifecycle::Active => api::DefinitionStatus::Active,
            Lifecycle::Archived | Lifecycle::Deleted => api::DefinitionStatus::Archived,
        }
    }

    /// The document.
    pub(crate) fn document(&self) -> &hapax_documents::Document {
        self.checked.document()
    }

    /// The wire form.
    pub fn shown(&self) -> api::Definition {
        api::Definition {
            id: self.id.to_string(),
            name: self.name().to_owned(),
            version: self.version(),
            description: self.checked.document().description.clone(),
            idempotency: self.key_rule(),
            document: self.document.clone(),
            digest: self.digest.clone(),
            status: self.status(),
            revision: self.revision.get(),
            created_at: self.created_at.to_string(),
        }
    }

    fn summary(&self) -> api::DefinitionSummary {
        api::DefinitionSummary {
            id: self.id.to_string(),
            name: self.name().to_owned(),
            version: self.version(),
            description: self.checked.document().description.clone(),
            idempotency: self.key_rule(),
            status: self.status(),
            revision: self.revision.get(),
            created_at: self.created_at.to_string(),
        }
    }

    fn key_rule(&self) -> api::KeyRule {
        match self.checked.document().key_required {
            true => api::KeyRule::Required,
            false => api::KeyRule::Optional,
        }
    }
}

/// All definitions that this node knows.
pub struct Definitions {
    engine: Engine,
    store: Arc<dyn Store>,
    services: Arc<HostServices>,
    limits: DefinitionLimits,
    known: RwLock<HashMap<Name, Arc<Definition>>>,
    /// Names of sensitive fields by workspace, of all documents that ever were there: their runs stay.
    sensitive: RwLock<HashMap<WorkspaceId, Arc<BTreeSet<String>>>>,
    last_read: LastFullRead,
}

/// Limits on the number of definitions.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionLimits {
    /// Of one workspace.
    pub per_workspace: usize,
    /// Of the installation.
    pub in_all: usize,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        DefinitionLimits { per_workspace: MAX_DEFINITIONS_PER_WORKSPACE, in_all: MAX_DEFINITIONS }
    }
}

impl Definitions {
    /// The definitions in `store`.
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        services: Arc<HostServices>,
        limits: DefinitionLimits,
    ) -> Arc<Self> {
        let (known, sensitive, last_read) = (RwLock::default(), RwLock::default(), LastFullRead::default());
        Arc::new(Definitions { engine, store, services, limits, known, sensitive, last_read })
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    /// Checks a document and stores it; says if it is new. The same document is found; a different
    /// one under the same name and version is rejected.
    pub async fn upload(
        &self,
        identity: &Acting,
        uploaded: Uploaded,
    ) -> Result<(api::Definition, bool), Problem> {
        let checked = uploaded.check(self.services.of(&identity.workspace))?;
        let document = uploaded.document(&checked)?;
        let (name, version) = (&checked.document().name, checked.document().version);
        let digest = digest_of(&checked);
        let id = definition_id(&identity.workspace, name, version);
        if is_offered_by_workers(&*self.store, &identity.workspace, name, version).await? {
            let detail = format!(
                "Workers of this workspace have offered {name}@{version}, and runs of it may be open. Upload the document under \
                 another version."
            );
            return Err(Problem::new(Code::WorkflowTaken, detail));
        }
        let kept = DefinitionBody { digest: digest.clone(), document, lifecycle: Lifecycle::Active };
        let body = Payload::of(&kept).map_err(|invalid| crate::errors::problem_of_invalid(&invalid))?;
        if self.find_known(&id).is_none_or(|found| found.is_deleted()) {
            self.check_quota(&identity.workspace)?;
        }
        let change = with_secrets("created", checked.canonical());
        let what = JournalEvent::SetUp { kind: "definition".into(), id: id.to_string(), change };
        let note = JournalEntry::on_workspace(
            identity.workspace.clone(),
            identity.actor(None),
            self.store.now(),
            what,
        );
        let request = PutCatalogItem {
            workspace: identity.workspace.clone(),
            kind: CatalogKind::Definition,
            id,
            name: format!("{name}@{version}"),
            body,
            expected: None,
            note: Some(note),
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => Ok((self.learn(&item)?.shown(), true)),
            PutOutcome::Exists(item) | PutOutcome::NameTaken(item) => {
                let found = self.learn(&item)?;
                match found.digest == digest {
                    true if found.is_deleted() => {
                        Ok((self.revive(identity, &found).await?.shown(), true))
                    }
                    true => Ok((found.shown(), false)),
                    false => Err(Problem::new(
                        Code::DefinitionExists,
                        format!("{} version {} has different content, and a version never changes, even after it is deleted; upload this under a new version.", found.name(), found.version()),
                    )
                    .with("definitionId", found.id.to_string())
                    .with("storedDigest", found.digest.clone())),
                }
            }
            PutOutcome::Stale(_) | PutOutcome::Missing => unreachable!("nothing was expected to be there"),
        }
    }

    fn check_quota(&self, workspace: &WorkspaceId) -> Result<(), Problem> {
        let known = self.known.read().expect("no holder panics");
        let living = || known.values().filter(|one| !one.is_deleted());
        let here = living().filter(|one| one.workspace == *workspace).count();
        let DefinitionLimits { per_workspace, in_all } = self.limits;
        let shares = [
            (here, per_workspace, "workspace", "max-definitions-per-workspace"),
            (living().count(), in_all, "server", "max-definitions"),
        ];
        match shares.iter().find(|(held, most, ..)| held >= most) {
            Some((_, most, of, setting)) => {
                let detail = format!(
                    "This {of} holds {most} definitions, and each version counts. Delete some that no run needs with DELETE \
                     /api/v1/workflow-definitions/{{id}}, or ask the operator to raise `{setting}`."
                );
                let problem = Problem::new(Code::DefinitionLimitReached, detail);
                Err(problem.with("quota", "definitions").with("limit", *most))
            }
            None => Ok(()),
        }
    }

    /// One definition of a workspace, unless it is deleted.
    pub async fn get(&self, workspace: &WorkspaceId, id: &str) -> Result<Arc<Definition>, Problem> {
        let found = self.get_even_deleted(workspace, id).await?;
        Some(found).filter(|found| !found.is_deleted()).ok_or_else(absent)
    }

    /// One definition of a workspace, even if it is deleted: for runs that began with it.
    pub(crate) async fn get_even_deleted(
        &self,
        workspace: &WorkspaceId,
        id: &str,
    ) -> Result<Arc<Definition>, Problem> {
        let id = Name::new("definition id", id).map_err(|_| absent())?;
        let found = match self.find_known(&id) {
            Some(found) => found,
            None => {
                let item = self.catalog().find_item(CatalogKind::Definition, &id).await;
                self.learn(&item.map_err(|error| problem_of_store(&error))?.ok_or_else(absent)?)?
            }
        };
        Some(found).filter(|found| found.workspace == *workspace).ok_or_else(absent)
    }

    /// Finds the definition that `selector` names: this version, or the latest one that this node knows. Returns `None` if the workspace has
    /// no definition of that name.
    pub(crate) async fn find_selected(
        &self,
        workspace: &WorkspaceId,
        selector: &WorkflowSelector,
    ) -> Result<Option<Arc<Definition>>, Problem> {
        if let Some(found) = self.find_selected_here(workspace, selector) {
            return Ok(Some(found));
        }
        // Another node may have stored it a moment ago.
        match selector.version {
            Some(version) => {
                let id = definition_id(workspace, selector.name.as_str(), version);
                let item = self.catalog().find_item(CatalogKind::Definition, &id).await;
                let item = item.map_err(|error| problem_of_store(&error))?;
                item.as_ref().map(|item| self.learn(item)).transpose()
            }
            None => {
                learn_changes(self).await?;
                Ok(self.find_selected_here(workspace, selector))
            }
        }
    }

    fn find_selected_here(
        &self,
        workspace: &WorkspaceId,
        selector: &WorkflowSelector,
    ) -> Option<Arc<Definition>> {
        let name = selector.name.as_str();
        if let Some(version) = selector.version {
            return self.find_known(&definition_id(workspace, name, version));
        }
        let known = self.known.read().expect("no holder panics");
        let versions = known.values().filter(|one| one.workspace == *workspace && one.name() == name);
        // An archived version is found only if there is no other: it finds runs that were started
        // earlier.
        let shown = versions.filter(|one| !one.is_deleted());
        shown.max_by_key(|one| (one.lifecycle.is_active(), one.version())).cloned()
    }

    /// Definitions of a workspace after `after`, in the order of their ids.
    pub async fn list(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<(Vec<api::DefinitionSummary>, Option<Name>), Problem> {
        let request = ListCatalogItems {
            workspace: Some(workspace.clone()),
            kind: CatalogKind::Definition,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
        let next = items.last().filter(|_| items.len() == limit).map(|last| last.id.clone());
        let found = items.iter().map(|item| self.learn(item)).collect::<Result<Vec<_>, _>>()?;
        let shown = found.iter().filter(|one| !one.is_deleted()).map(|one| one.summary());
        Ok((shown.collect(), next))
    }

    /// The id of the definition behind a workflow, if it is one.
    pub fn id_of(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Option<String> {
        self.find_document(workspace, workflow).map(|found| found.id.to_string())
    }

    /// The definition behind a workflow, even if another node stored it a moment ago.
    pub(crate) async fn get_document(
        &self,
        workspace: &WorkspaceId,
        workflow: &WorkflowRef,
    ) -> Result<Arc<Definition>, Problem> {
        let id = definition_id(workspace, workflow.name.as_str(), workflow.version);
        self.get_even_deleted(workspace, id.as_str()).await
    }

    /// The document of a definition that this node knows.
    pub(crate) fn find_document(
        &self,
        workspace: &WorkspaceId,
        workflow: &WorkflowRef,
    ) -> Option<Arc<Definition>> {
        self.find_known(&definition_id(workspace, workflow.name.as_str(), workflow.version))
    }

    /// Names of fields that documents of the workspace mark as sensitive; `None` if there is none.
    pub(crate) fn sensitive_names(&self, workspace: &WorkspaceId) -> Option<Arc<BTreeSet<String>>> {
        self.sensitive.read().expect("no holder panics").get(workspace).cloned()
    }

    fn learn_sensitive(&self, definition: &Definition) {
        let names = definition.document().sensitive_names();
        if names.is_empty() {
            return;
        }
        let mut sensitive = self.sensitive.write().expect("no holder panics");
        let all = sensitive.entry(definition.workspace.clone()).or_default();
        Arc::make_mut(all).extend(names);
    }

    /// Number of definitions known here, without deleted ones.
    pub fn count(&self) -> usize {
        self.known.read().expect("no holder panics").values().filter(|one| !one.is_deleted()).count()
    }

    fn find_known(&self, id: &Name) -> Option<Arc<Definition>> {
        self.known.read().expect("no holder panics").get(id).cloned()
    }

    /// Caches an item and registers it with the engine.
    fn learn(&self, item: &CatalogItem) -> Result<Arc<Definition>, Problem> {
        let known = self.find_known(&item.id);
        if let Some(known) = known.filter(|known| known.revision >= item.version) {
            return Ok(known);
        }
        let broken = |cause: &dyn std::fmt::Display| {
            tracing::error!(definition = %item.id, %cause, "a stored definition cannot be read");
            Problem::new(
                Code::StoreBroken,
                "A stored definition cannot be read. Report `traceId` to the operator.",
            )
        };
        let kept: DefinitionBody = item.body.to().map_err(|error| broken(&error))?;
        let known = hapax_documents::DeclaredNames::default();
        let checked = hapax_documents::check(kept.document.get(), hapax_documents::Format::Json, &known);
        let checked = checked.map_err(|problems| broken(&format!("{} problems", problems.len())))?;
        let definition = Arc::new(Definition {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            checked: Arc::new(checked),
            document: api::RawJson::from_text(kept.document.get().to_owned())
                .map_err(|error| broken(&error))?,
            digest: kept.digest,
            lifecycle: kept.lifecycle,
            revision: item.version,
            created_at: item.created_at,
        });
        let (checked, services) = (definition.checked.clone(), self.services.clone());
        let code =
            move |ctx: Ctx, input: Value| hapax_documents::run(ctx, checked.clone(), input, services.clone());
        let options = hapax_documents::options(&definition.checked);
        let engine = self.engine.workspace(item.workspace.clone());
        match engine.register_for_workspace(definition.name(), options, code) {
            // It was known, or another task registered it at the same time.
            Ok(()) | Err(Error::AlreadyRegistered(_)) => {}
            Err(error) => return Err(problem_of(&error)),
        }
        let mut known = self.known.write().expect("no holder panics");
        if let Some(newer) = known.get(&item.id).filter(|known| known.revision >= definition.revision) {
            return Ok(newer.clone());
        }
        // Holds the lock, so that the later of two changes wins.
        let workflow = WorkflowRef { name: definition.selector().name, version: definition.version() };
        engine.set_archived(&workflow, !definition.lifecycle.is_active());
        known.insert(item.id.clone(), definition.clone());
        drop(known);
        self.learn_sensitive(&definition);
        Ok(definition)
    }

    /// Reads definitions that other nodes stored a moment ago.
    pub(crate) async fn learn_recent(&self) {
        if let Err(problem) = learn_changes(self).await {
            tracing::warn!(%problem, "looking for new definitions failed");
        }
    }
}

#[async_trait]
impl CatalogWatcher for Definitions {
    const KIND: CatalogKind = CatalogKind::Definition;

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn last_read(&self) -> &LastFullRead {
        &self.last_read
    }

    async fn take(&self, item: &CatalogItem) -> Result<(), Problem> {
        self.learn(item).map(drop)
    }
}

impl std::fmt::Debug for Definitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definitions").field("known", &self.count()).finish_non_exhaustive()
    }
}

fn absent() -> Problem {
    let detail =
        "There is no such definition in this workspace; list them with GET /api/v1/workflow-definitions.";
    Problem::new(Code::DefinitionNotFound, detail)
}

/// The id is derived from the name and version, so a run says which definition it runs.
/// Id of the item that keeps this version of a definition.
pub(crate) fn definition_id(workspace: &WorkspaceId, name: &str, version: u32) -> Name {
    let digest = Sha256::digest(format!("{workspace}\n{name}\n{version}"));
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Name::new("definition id", &format!("def_{hex}")).expect("hex digits are a plain word")
}

fn digest_of(checked: &Checked) -> String {
    Sha256::digest(checked.canonical()).iter().map(|byte| format!("{byte:02x}")).collect()
}
