//! What is registered about entities: workflows, the code of actions, and modules with their janitors.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use async_trait::async_trait;

use super::probing::Questions;
use super::step_call::{Acting, EntityHost, StepCall};
use crate::limits::CLAIM_STALE_AFTER;
use crate::model::{DocumentRef, EntityWorkflow, Name, Operation, StepView, UncoveredClaim, WorkspaceId};
use crate::runtime::Error;
use crate::store::StoreResult;

/// An entity workflow, and what stands behind it.
pub(crate) struct Registered {
    pub(crate) workflow: EntityWorkflow,
    pub(crate) host: Arc<dyn EntityHost>,
    /// The document it was read from. `None` if it is code.
    pub(crate) document: Option<DocumentRef>,
}

impl Registered {
    /// The step of an operation, as whoever asked for that sees it; `None` if the workflow no longer has it for them.
    pub(super) fn view_of(&self, operation: &Operation) -> Option<StepView> {
        self.workflow.find_step(operation.step.as_str())?.view(operation.requester.as_ref())
    }

    /// Is it what the operation began under?
    pub(super) fn is_of(&self, operation: &Operation) -> bool {
        self.document.as_ref().map(|document| document.version) == operation.document
    }
}

/// The code of an action.
#[derive(Clone)]
pub(crate) enum ActionCode {
    /// It runs by itself.
    Free(Arc<dyn Fn(StepCall) -> Acting + Send + Sync>),
    /// It makes work for a transaction of the store's; what that gives is an [`super::Answer`].
    InTransaction(Arc<dyn Fn(StepCall) -> Box<dyn Any + Send + Sync> + Send + Sync>),
}

/// How a module's janitor works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Janitor {
    pub(crate) every: Duration,
    pub(crate) stale_after: Duration,
}

/// A workspace that has a workflow to itself (`None`: all have it), and what kind of thing it moves.
type Place = (Option<WorkspaceId>, Name);

#[derive(Default)]
pub(crate) struct EntityRegistry {
    workflows: RwLock<BTreeMap<Place, Arc<Registered>>>,
    actions: RwLock<HashMap<Name, ActionCode>>,
    janitors: RwLock<BTreeMap<Name, Janitor>>,
    loader: OnceLock<Arc<dyn LoadEntityWorkflow>>,
    /// About operations in doubt.
    pub(super) questions: Questions,
}

/// Brings entity workflows that this process has not seen yet, such as those another process was given.
#[async_trait]
pub trait LoadEntityWorkflow: Send + Sync {
    /// Registers the workflow that moves things of this kind in the workspace, as it is now, if there is one.
    async fn load(&self, workspace: &WorkspaceId, kind: &Name) -> StoreResult<()>;
}

impl EntityRegistry {
    pub(super) fn load_with(&self, loader: Arc<dyn LoadEntityWorkflow>) {
        let _ = self.loader.set(loader);
    }

    /// Asks for the workflow as it is now.
    pub(super) async fn load(&self, workspace: &WorkspaceId, kind: &Name) -> StoreResult<()> {
        match self.loader.get() {
            Some(loader) => loader.load(workspace, kind).await,
            None => Ok(()),
        }
    }

    /// Registers a workflow; one that moves the same kind of thing is replaced if it has the same name.
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

    /// The workflow that moves things of this kind in the workspace; its own goes before one that all have.
    pub(super) fn find(&self, workspace: &WorkspaceId, kind: &Name) -> Option<Arc<Registered>> {
        let workflows = self.workflows.read().expect("no holder panics");
        let own = workflows.get(&(Some(workspace.clone()), kind.clone()));
        own.or_else(|| workflows.get(&(None, kind.clone()))).cloned()
    }

    /// Every workflow of a module, with the workspace that has it to itself.
    pub(super) fn of_module(&self, module: &Name) -> Vec<(Option<WorkspaceId>, Arc<Registered>)> {
        let workflows = self.workflows.read().expect("no holder panics");
        let of_module = workflows.iter().filter(|(_, registered)| registered.workflow.module == *module);
        of_module.map(|((workspace, _), registered)| (workspace.clone(), registered.clone())).collect()
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

    /// How long nothing may be heard of the holder of a claim before the janitor of its module counts it as gone.
    pub(super) fn patience_of(&self, module: &Name) -> Duration {
        self.find_janitor(module).map_or(CLAIM_STALE_AFTER, |janitor| janitor.stale_after)
    }

    /// The modules whose janitors run here.
    pub(super) fn modules(&self) -> BTreeSet<Name> {
        self.janitors.read().expect("no holder panics").keys().cloned().collect()
    }

    /// The least time after which a janitor counts a holder as gone.
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
