//! Registry of entity workflows, action code, and modules with their janitors.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use async_trait::async_trait;

use super::probing::ProbeSchedule;
use super::step_call::{ActionAnswer, ActionFuture, EntityHost, StepCall};
use crate::limits::CLAIM_STALE_AFTER;
use crate::model::{
    DocumentRef, EntityWorkflow, Failure, Name, Operation, StepView, UncoveredClaim, WorkspaceId,
};
use crate::runtime::Error;
use crate::store::StoreResult;

/// Registered entity workflow with its host.
pub(crate) struct Registered {
    pub(crate) workflow: EntityWorkflow,
    pub(crate) host: Arc<dyn EntityHost>,
    /// Document that the workflow was read from; `None` if it is code.
    pub(crate) document: Option<DocumentRef>,
}

impl Registered {
    /// Step of an operation as its requester sees it; `None` if the workflow no longer offers it to them.
    pub(super) fn view_of(&self, operation: &Operation) -> Option<StepView> {
        self.workflow.find_step(operation.step.as_str())?.view(operation.requester.as_ref())
    }

    /// Returns whether the operation began under this version.
    pub(super) fn is_of(&self, operation: &Operation) -> bool {
        self.document.as_ref().map(|document| document.version) == operation.document
    }
}

/// Code of an action.
#[derive(Clone)]
pub(crate) enum ActionCode {
    /// Runs on its own.
    Free(Arc<dyn Fn(StepCall) -> ActionFuture + Send + Sync>),
    /// Creates work for a store transaction. The work returns an [`super::ActionAnswer`].
    InTransaction(Arc<dyn Fn(StepCall) -> Box<dyn Any + Send + Sync> + Send + Sync>),
}

/// Options of a module's janitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Janitor {
    pub(crate) every: Duration,
    pub(crate) stale_after: Duration,
}

/// Workspace that owns the workflow (`None`: shared by all), and its entity type.
type WorkflowPlace = (Option<WorkspaceId>, Name);

#[derive(Default)]
pub(crate) struct EntityRegistry {
    workflows: RwLock<BTreeMap<WorkflowPlace, Arc<Registered>>>,
    actions: RwLock<HashMap<Name, ActionCode>>,
    janitors: RwLock<BTreeMap<Name, Janitor>>,
    loader: OnceLock<Arc<dyn LoadEntityWorkflow>>,
    elsewhere: OnceLock<Arc<dyn ActionsElsewhere>>,
    /// Schedule for probing operations in doubt.
    pub(super) probe_schedule: ProbeSchedule,
}

/// Loads entity workflows that this process does not have yet, such as those uploaded to another process.
#[async_trait]
pub trait LoadEntityWorkflow: Send + Sync {
    /// Registers the current workflow for this entity type in the workspace, if there is one.
    async fn load(&self, workspace: &WorkspaceId, kind: &Name) -> StoreResult<()>;
}

/// Actions whose code is in another process.
#[async_trait]
pub trait ActionsElsewhere: Send + Sync {
    /// Runs the action of this name. A failure with the code `unknown_action` says that nobody has offered it.
    async fn act(&self, name: &Name, call: StepCall) -> Result<ActionAnswer, Failure>;
}

impl EntityRegistry {
    pub(super) fn set_elsewhere(&self, elsewhere: Arc<dyn ActionsElsewhere>) {
        let _ = self.elsewhere.set(elsewhere);
    }

    /// Actions whose code is in other processes, if there can be any.
    pub(super) fn elsewhere(&self) -> Option<&Arc<dyn ActionsElsewhere>> {
        self.elsewhere.get()
    }

    pub(super) fn set_loader(&self, loader: Arc<dyn LoadEntityWorkflow>) {
        let _ = self.loader.set(loader);
    }

    /// Loads the current workflow.
    pub(super) async fn load(&self, workspace: &WorkspaceId, kind: &Name) -> StoreResult<()> {
        match self.loader.get() {
            Some(loader) => loader.load(workspace, kind).await,
            None => Ok(()),
        }
    }

    /// Registers a workflow. It replaces a workflow of the same name for the same entity type.
    pub(super) fn put(&self, workspace: Option<WorkspaceId>, registered: Registered) -> Result<(), Error> {
        let mut workflows = self.workflows.write().expect("no holder panics");
        let place = (workspace, registered.workflow.entity.clone());
        if let Some(other) = workflows.get(&place)
            && other.workflow.name != registered.workflow.name
        {
            let taken =
                format!("for entities of type {}, as {},", registered.workflow.entity, other.workflow.name);
            return Err(Error::AlreadyRegistered(taken));
        }
        workflows.insert(place, Arc::new(registered));
        Ok(())
    }

    pub(super) fn remove(&self, workspace: Option<WorkspaceId>, kind: &Name) -> bool {
        self.workflows.write().expect("no holder panics").remove(&(workspace, kind.clone())).is_some()
    }

    /// Finds the workflow for an entity type. One of the workspace takes precedence over a shared one.
    pub(super) fn find(&self, workspace: &WorkspaceId, kind: &Name) -> Option<Arc<Registered>> {
        let workflows = self.workflows.read().expect("no holder panics");
        let own = workflows.get(&(Some(workspace.clone()), kind.clone()));
        own.or_else(|| workflows.get(&(None, kind.clone()))).cloned()
    }

    /// Lists the workflows of a module, each with the workspace that owns it.
    pub(super) fn list_of_module(&self, module: &Name) -> Vec<(Option<WorkspaceId>, Arc<Registered>)> {
        let workflows = self.workflows.read().expect("no holder panics");
        let list_of_module = workflows.iter().filter(|(_, registered)| registered.workflow.module == *module);
        list_of_module.map(|((workspace, _), registered)| (workspace.clone(), registered.clone())).collect()
    }

    pub(super) fn add_action(&self, name: Name, code: ActionCode) -> Result<(), Error> {
        let mut actions = self.actions.write().expect("no holder panics");
        match actions.contains_key(&name) {
            true => Err(Error::AlreadyRegistered(format!("action {name}"))),
            false => {
                actions.insert(name, code);
                Ok(())
            }
        }
    }

    pub(super) fn find_action(&self, name: &Name) -> Option<ActionCode> {
        self.actions.read().expect("no holder panics").get(name).cloned()
    }

    pub(super) fn add_janitor(&self, module: Name, janitor: Janitor) -> Result<(), Error> {
        let mut janitors = self.janitors.write().expect("no holder panics");
        match janitors.contains_key(&module) {
            true => Err(Error::AlreadyRegistered(format!("the janitor of module {module}"))),
            false => {
                janitors.insert(module, janitor);
                Ok(())
            }
        }
    }

    pub(super) fn find_janitor(&self, module: &Name) -> Option<Janitor> {
        self.janitors.read().expect("no holder panics").get(module).copied()
    }

    /// Time without a heartbeat after which the module's janitor treats a holder as gone.
    pub(super) fn patience_of(&self, module: &Name) -> Duration {
        self.find_janitor(module).map_or(CLAIM_STALE_AFTER, |janitor| janitor.stale_after)
    }

    /// Modules whose janitors run here.
    pub(super) fn modules(&self) -> BTreeSet<Name> {
        self.janitors.read().expect("no holder panics").keys().cloned().collect()
    }

    /// Shortest time after which any janitor treats a holder as gone.
    pub(super) fn shortest_patience(&self) -> Option<Duration> {
        self.janitors.read().expect("no holder panics").values().map(|janitor| janitor.stale_after).min()
    }

    /// Transient statuses that no janitor covers, over all workflows.
    pub(super) fn list_uncovered(&self) -> Vec<UncoveredClaim> {
        let modules = self.modules();
        let workflows = self.workflows.read().expect("no holder panics");
        workflows.values().filter_map(|registered| registered.workflow.find_uncovered(&modules)).collect()
    }
}
