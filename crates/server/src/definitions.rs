//! Documents that can be run: kept in the catalog, checked when they come in, known to the engine on every node.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use async_trait::async_trait;
use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_documents::{Checked, HostServices};
use hapax_engine::model::{
    CatalogKind, Item, JournalEntry, JournalEvent, Name, Payload, Timestamp, WorkflowRef, WorkflowSelector,
    WorkspaceId,
};
use hapax_engine::store::{Catalog, ListCatalogItems, PutCatalogItem, PutOutcome, Store};
use hapax_engine::{Ctx, Engine, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::catalog_watcher::{CatalogWatcher, Looked, learn_changes};
use crate::errors::{of_store, problem_of};
use crate::identity::Acting;
use crate::limits::{MAX_DEFINITIONS, MAX_DEFINITIONS_PER_WORKSPACE};
use crate::uploaded::{Uploaded, with_secrets};

/// What is kept of a definition, beside its name and its times.
#[derive(Serialize, Deserialize)]
struct Kept {
    digest: String,
    document: Box<RawValue>,
}

/// One definition, ready to be run.
#[derive(Debug)]
pub struct Definition {
    id: Name,
    workspace: WorkspaceId,
    checked: Arc<Checked>,
    document: api::RawJson,
    digest: String,
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

    /// The document.
    pub(crate) fn document(&self) -> &hapax_documents::Document {
        self.checked.document()
    }

    /// As it is shown.
    pub fn shown(&self) -> api::Definition {
        api::Definition {
            id: self.id.to_string(),
            name: self.name().to_owned(),
            version: self.version(),
            description: self.checked.document().description.clone(),
            idempotency: self.key_rule(),
            document: self.document.clone(),
            digest: self.digest.clone(),
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
    hands: Arc<HostServices>,
    known: RwLock<HashMap<Name, Arc<Definition>>>,
    looked: Looked,
}

impl Definitions {
    /// The definitions in `store`.
    pub fn new(engine: Engine, store: Arc<dyn Store>, hands: Arc<HostServices>) -> Arc<Self> {
        let (known, looked) = (RwLock::default(), Looked::default());
        Arc::new(Definitions { engine, store, hands, known, looked })
    }

    fn catalog(&self) -> &dyn Catalog {
        self.store.catalog().expect("looked at when the server was made")
    }

    /// Checks a document and keeps it; tells whether it is new. The same again is found, something else under its name and version is refused.
    pub async fn upload(
        &self,
        identity: &Acting,
        uploaded: Uploaded,
    ) -> Result<(api::Definition, bool), Problem> {
        let checked = uploaded.check(self.hands.of(&identity.workspace))?;
        let document = uploaded.document(&checked)?;
        let (name, version) = (&checked.document().name, checked.document().version);
        let digest = digest_of(&checked);
        let id = definition_id(&identity.workspace, name, version);
        let kept = Kept { digest: digest.clone(), document };
        let body = Payload::of(&kept).map_err(|invalid| crate::errors::of_invalid(&invalid))?;
        if self.find_known(&id).is_none() {
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
        match self.catalog().put_item(request).await.map_err(|error| of_store(&error))? {
            PutOutcome::Put(item) => Ok((self.learn(&item)?.shown(), true)),
            PutOutcome::Exists(item) | PutOutcome::NameTaken(item) => {
                let found = self.learn(&item)?;
                match found.digest == digest {
                    true => Ok((found.shown(), false)),
                    false => Err(Problem::new(
                        Code::DefinitionExists,
                        format!("{} version {} holds other content and never changes; upload this under a new version.", found.name(), found.version()),
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
        let here = known.values().filter(|one| one.workspace == *workspace).count();
        let shares =
            [(here, MAX_DEFINITIONS_PER_WORKSPACE, "workspace"), (known.len(), MAX_DEFINITIONS, "server")];
        match shares.iter().find(|(held, most, _)| held >= most) {
            Some((_, most, of)) => {
                let detail = format!("This {of} holds at most {most} definitions.");
                Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "definitions"))
            }
            None => Ok(()),
        }
    }

    /// One definition of a workspace.
    pub async fn get(&self, workspace: &WorkspaceId, id: &str) -> Result<Arc<Definition>, Problem> {
        let absent = || {
            Problem::new(
                Code::DefinitionNotFound,
                "There is no such definition in this workspace; list them with GET /api/v1/workflow-definitions.",
            )
        };
        let id = Name::new("definition id", id).map_err(|_| absent())?;
        let found = match self.find_known(&id) {
            Some(found) => found,
            None => {
                let item = self.catalog().find_item(CatalogKind::Definition, &id).await;
                self.learn(&item.map_err(|error| of_store(&error))?.ok_or_else(absent)?)?
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
        // Another node may have taken it in a moment ago.
        match selector.version {
            Some(version) => {
                let id = definition_id(workspace, selector.name.as_str(), version);
                let item = self.catalog().find_item(CatalogKind::Definition, &id).await;
                let item = item.map_err(|error| of_store(&error))?;
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
        versions.max_by_key(|one| one.version()).cloned()
    }

    /// Definitions of a workspace after `after`, in the order of their ids.
    pub async fn list(
        &self,
        workspace: &WorkspaceId,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<api::DefinitionSummary>, Problem> {
        let request = ListCatalogItems {
            workspace: Some(workspace.clone()),
            kind: CatalogKind::Definition,
            changed_since: None,
            after,
            limit,
        };
        let items = self.catalog().list_items(request).await.map_err(|error| of_store(&error))?;
        items.iter().map(|item| Ok(self.learn(item)?.summary())).collect()
    }

    /// The id of the definition behind a workflow, if it is one.
    pub fn id_of(&self, workspace: &WorkspaceId, workflow: &WorkflowRef) -> Option<String> {
        self.find_document(workspace, workflow).map(|found| found.id.to_string())
    }

    /// The definition behind a workflow, also if another node was given it a moment ago.
    pub(crate) async fn get_document(
        &self,
        workspace: &WorkspaceId,
        workflow: &WorkflowRef,
    ) -> Result<Arc<Definition>, Problem> {
        let id = definition_id(workspace, workflow.name.as_str(), workflow.version);
        self.get(workspace, id.as_str()).await
    }

    /// The document of a definition that is known here.
    pub(crate) fn find_document(
        &self,
        workspace: &WorkspaceId,
        workflow: &WorkflowRef,
    ) -> Option<Arc<Definition>> {
        self.find_known(&definition_id(workspace, workflow.name.as_str(), workflow.version))
    }

    /// How many are known here.
    pub fn count(&self) -> usize {
        self.known.read().expect("no holder panics").len()
    }

    fn find_known(&self, id: &Name) -> Option<Arc<Definition>> {
        self.known.read().expect("no holder panics").get(id).cloned()
    }

    /// Takes an item in and tells the engine of it.
    fn learn(&self, item: &Item) -> Result<Arc<Definition>, Problem> {
        if let Some(known) = self.find_known(&item.id) {
            return Ok(known);
        }
        let broken = |cause: &dyn std::fmt::Display| {
            tracing::error!(definition = %item.id, %cause, "a stored definition cannot be read");
            Problem::new(
                Code::StoreBroken,
                "A stored definition cannot be read. Report `traceId` to the operator.",
            )
        };
        let kept: Kept = item.body.to().map_err(|error| broken(&error))?;
        let known = hapax_documents::Known::default();
        let checked = hapax_documents::check(kept.document.get(), hapax_documents::Format::Json, &known);
        let checked = checked.map_err(|problems| broken(&format!("{} problems", problems.len())))?;
        let definition = Arc::new(Definition {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            checked: Arc::new(checked),
            document: api::RawJson::from_text(kept.document.get().to_owned())
                .map_err(|error| broken(&error))?,
            digest: kept.digest,
            created_at: item.created_at,
        });
        let (checked, hands) = (definition.checked.clone(), self.hands.clone());
        let code =
            move |ctx: Ctx, input: Value| hapax_documents::run(ctx, checked.clone(), input, hands.clone());
        let options = hapax_documents::options(&definition.checked);
        match self.engine.workspace(item.workspace.clone()).register_own(definition.name(), options, code) {
            // Somebody learnt it at the same time.
            Ok(()) | Err(Error::AlreadyRegistered(_)) => {}
            Err(error) => return Err(problem_of(&error)),
        }
        let mut known = self.known.write().expect("no holder panics");
        Ok(known.entry(item.id.clone()).or_insert(definition).clone())
    }

    /// Takes in what other nodes were given a moment ago.
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

    fn looked(&self) -> &Looked {
        &self.looked
    }

    async fn take(&self, item: &Item) -> Result<(), Problem> {
        self.learn(item).map(drop)
    }
}

impl std::fmt::Debug for Definitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definitions").field("known", &self.count()).finish_non_exhaustive()
    }
}

/// The id follows from what it names, so that a run tells which definition it runs.
fn definition_id(workspace: &WorkspaceId, name: &str, version: u32) -> Name {
    let digest = Sha256::digest(format!("{workspace}\n{name}\n{version}"));
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Name::new("definition id", &format!("def_{hex}")).expect("hex digits are a plain word")
}

fn digest_of(checked: &Checked) -> String {
    Sha256::digest(checked.canonical()).iter().map(|byte| format!("{byte:02x}")).collect()
}
