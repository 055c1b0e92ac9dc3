//! The code of workflows, by name and version.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use crate::ctx::Ctx;
use crate::model::{
    EffectClass, Failure, IgnorePaths, KeyOnFailure, KeyRetention, Name, Payload, Serves, WorkflowRef,
    WorkflowSelector, WorkspaceId,
};

/// A workflow's future, once its types are erased.
pub(crate) type WorkflowFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

type Handler = Arc<dyn Fn(Ctx, Payload) -> WorkflowFuture + Send + Sync>;

/// Whether a start must carry a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyNeed {
    /// It may.
    #[default]
    Optional,
    /// It must; a start without one is refused.
    Required,
}

/// What a workflow declares about one of its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredEffect {
    pub(crate) class: EffectClass,
    pub(crate) non_idempotent: bool,
}

pub(crate) type Declared = HashMap<String, DeclaredEffect>;

/// What a workflow declares about its runs.
#[derive(Debug, Clone, Default)]
pub struct WorkflowOptions {
    declared: Declared,
    version: Option<u32>,
    key_need: KeyNeed,
    retention: KeyRetention,
    ignore: IgnorePaths,
}

impl WorkflowOptions {
    /// The version of the code; 1 unless said otherwise. Runs stay with the version they began with.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version.max(1));
        self
    }

    /// Starts without an idempotency key are refused.
    #[must_use]
    pub fn require_key(mut self) -> Self {
        self.key_need = KeyNeed::Required;
        self
    }

    /// Keys live this long after the end of their run; for ever unless said.
    #[must_use]
    pub fn keep_keys_for(mut self, span: Duration) -> Self {
        self.retention.keep_for = Some(span);
        self
    }

    /// A run that fails or is cancelled frees its key.
    #[must_use]
    pub fn release_key_on_failure(mut self) -> Self {
        self.retention.on_failure = KeyOnFailure::Release;
        self
    }

    /// The step `name` has an effect of this class; code that takes it in another way is refused.
    #[must_use]
    pub fn effect(mut self, name: &str, class: EffectClass) -> Self {
        self.declared.insert(name.to_string(), DeclaredEffect { class, non_idempotent: false });
        self
    }

    /// The step `name` has an effect that happens anew each time it is run. Unless the class keeps it from that, the
    /// workflow is refused when it is registered.
    #[must_use]
    pub fn non_idempotent_effect(mut self, name: &str, class: EffectClass) -> Self {
        self.declared.insert(name.to_string(), DeclaredEffect { class, non_idempotent: true });
        self
    }

    /// Fields of the input that do not count for sameness under a key.
    #[must_use]
    pub fn ignore_in_fingerprint(mut self, ignore: IgnorePaths) -> Self {
        self.ignore = ignore;
        self
    }
}

pub(crate) struct Workflow {
    pub(crate) reference: WorkflowRef,
    pub(crate) key_need: KeyNeed,
    pub(crate) retention: KeyRetention,
    pub(crate) ignore: IgnorePaths,
    pub(crate) declared: Arc<Declared>,
    handler: Handler,
}

impl Workflow {
    pub(crate) fn begin(&self, ctx: Ctx, input: Payload) -> WorkflowFuture {
        (self.handler)(ctx, input)
    }
}

/// All registered workflows; read on every start, written rarely. One that a workspace registered for itself goes before one
/// of the same name that all have.
#[derive(Default)]
pub(crate) struct Registry {
    state: RwLock<RegistryState>,
}

/// Workflows of one name (and version), by whose they are.
#[derive(Default)]
struct Owned {
    of_all: Option<Arc<Workflow>>,
    of_one: HashMap<WorkspaceId, Arc<Workflow>>,
}

impl Owned {
    fn of(&self, workspace: &WorkspaceId) -> Option<&Arc<Workflow>> {
        self.of_one.get(workspace).or(self.of_all.as_ref())
    }

    fn place(&mut self, owner: Option<&WorkspaceId>, workflow: Arc<Workflow>) {
        match owner {
            Some(workspace) => {
                self.of_one.insert(workspace.clone(), workflow);
            }
            None => self.of_all = Some(workflow),
        }
    }

    fn placed(&self, owner: Option<&WorkspaceId>) -> Option<&Arc<Workflow>> {
        owner.map_or(self.of_all.as_ref(), |workspace| self.of_one.get(workspace))
    }
}

#[derive(Default)]
struct RegistryState {
    workflows: HashMap<WorkflowRef, Owned>,
    newest: HashMap<String, Owned>,
    serves: Arc<Serves>,
}

impl Registry {
    /// Registers for all workspaces, or for one.
    pub(crate) fn register<F, Fut, I, O, E>(
        &self,
        owner: Option<&WorkspaceId>,
        name: &str,
        options: WorkflowOptions,
        function: F,
    ) -> Result<(), Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        let name = Name::new("workflow name", name)?;
        let unprotected = options
            .declared
            .iter()
            .filter(|(_, declared)| declared.non_idempotent && declared.class == EffectClass::Idempotent);
        if let Some(effect) = unprotected.map(|(effect, _)| effect).min() {
            return Err(Error::UnprotectedEffect { workflow: name.to_string(), effect: effect.clone() });
        }
        let reference = WorkflowRef { name, version: options.version.unwrap_or(1) };
        let handler: Handler = Arc::new(move |ctx, input: Payload| match input.to::<I>() {
            Ok(input) => {
                let running = function(ctx, input);
                Box::pin(async move {
                    let output = running.await.map_err(Into::into)?;
                    Payload::of(&output)
                        .map_err(|invalid| Failure::permanent(invalid).with_code("output_refused"))
                })
            }
            Err(error) => {
                let failure = Failure::permanent(format!("the input does not fit the workflow: {error}"));
                Box::pin(async move { Err(failure.with_code("input_mismatch")) })
            }
        });
        let workflow = Arc::new(Workflow {
            reference: reference.clone(),
            key_need: options.key_need,
            retention: options.retention,
            ignore: options.ignore,
            declared: Arc::new(options.declared),
            handler,
        });
        let mut state = self.state.write().expect("registering never panics");
        let same = state.workflows.entry(reference.clone()).or_default();
        if same.placed(owner).is_some() {
            return Err(Error::AlreadyRegistered(reference.to_string()));
        }
        same.place(owner, workflow.clone());
        let newest = state.newest.entry(reference.name.to_string()).or_default();
        if newest.placed(owner).is_none_or(|newest| newest.reference.version < reference.version) {
            newest.place(owner, workflow);
        }
        Arc::make_mut(&mut state.serves).insert(owner, reference);
        Ok(())
    }

    /// Returns the workflow that a new run begins with: the version that `selector` names, or the newest.
    pub(crate) fn select(
        &self,
        workspace: &WorkspaceId,
        selector: &WorkflowSelector,
    ) -> Result<Arc<Workflow>, Error> {
        match selector.version {
            Some(version) => self.version(workspace, selector.name.as_str(), version),
            None => self.newest(workspace, selector.name.as_str()),
        }
    }

    /// The newest version of `name`: the one that new runs begin with.
    fn newest(&self, workspace: &WorkspaceId, name: &str) -> Result<Arc<Workflow>, Error> {
        let state = self.state.read().expect("registering never panics");
        let found = state.newest.get(name).and_then(|owned| owned.of(workspace));
        found.cloned().ok_or_else(|| unknown(name))
    }

    /// This version of `name`.
    fn version(&self, workspace: &WorkspaceId, name: &str, version: u32) -> Result<Arc<Workflow>, Error> {
        let reference = WorkflowRef { name: Name::new("workflow name", name)?, version };
        self.find(workspace, &reference).ok_or_else(|| unknown(name))
    }

    pub(crate) fn find(&self, workspace: &WorkspaceId, reference: &WorkflowRef) -> Option<Arc<Workflow>> {
        let state = self.state.read().expect("registering never panics");
        state.workflows.get(reference).and_then(|owned| owned.of(workspace)).cloned()
    }

    pub(crate) fn serves(&self) -> Arc<Serves> {
        self.state.read().expect("registering never panics").serves.clone()
    }
}

fn unknown(name: &str) -> Error {
    Error::UnknownWorkflow(name.chars().take(crate::limits::MAX_NAME_CHARS).collect())
}
