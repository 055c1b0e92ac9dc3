//! Registry of workflow code by name and version.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::input_check::InputCheck;
use crate::ctx::Ctx;
use crate::model::{
    EffectClass, Failure, IgnorePaths, KeyOnFailure, KeyRetention, Name, Payload, ServedWorkflows,
    WorkflowRef, WorkflowSelector, WorkspaceId,
};

/// Type-erased future of a workflow.
pub(crate) type WorkflowFuture = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

type Handler = Arc<dyn Fn(Ctx, Payload) -> WorkflowFuture + Send + Sync>;

/// Requirement for an idempotency key on starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyRequirement {
    /// The key is optional.
    #[default]
    Optional,
    /// The key is required. A start without one is refused.
    Required,
}

/// Declaration of one effect of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredEffect {
    pub(crate) class: EffectClass,
    pub(crate) non_idempotent: bool,
}

pub(crate) type Declared = HashMap<String, DeclaredEffect>;

/// Options of a workflow, for [`Engine::register_with`](super::Engine::register_with).
#[derive(Debug, Clone, Default)]
pub struct WorkflowOptions {
    declared: Declared,
    version: Option<u32>,
    key_requirement: KeyRequirement,
    retention: KeyRetention,
    ignore: IgnorePaths,
    input_check: Option<InputCheck>,
    pauses_on_violation: bool,
}

impl WorkflowOptions {
    /// Sets the version of the code; the default is 1. A run stays on the version it started with.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version.max(1));
        self
    }

    /// Requires an idempotency key for every start.
    #[must_use]
    pub fn require_key(mut self) -> Self {
        self.key_requirement = KeyRequirement::Required;
        self
    }

    /// Sets how long keys are kept after the end of their run. By default they never expire.
    #[must_use]
    pub fn keep_keys_for(mut self, span: Duration) -> Self {
        self.retention.keep_for = Some(span);
        self
    }

    /// Releases the key of a run that fails or is cancelled.
    #[must_use]
    pub fn release_key_on_failure(mut self) -> Self {
        self.retention.on_failure = KeyOnFailure::Release;
        self
    }

    /// Declares the effect class of step `name`. Code that uses another class is refused.
    #[must_use]
    pub fn effect(mut self, name: &str, class: EffectClass) -> Self {
        self.declared.insert(name.to_string(), DeclaredEffect { class, non_idempotent: false });
        self
    }

    /// Declares that step `name` is not idempotent: each execution has a new effect. Registration fails
    /// unless the class protects it.
    #[must_use]
    pub fn non_idempotent_effect(mut self, name: &str, class: EffectClass) -> Self {
        self.declared.insert(name.to_string(), DeclaredEffect { class, non_idempotent: true });
        self
    }

    /// Excludes input fields from the comparison of two starts with the same key.
    #[must_use]
    pub fn ignore_in_fingerprint(mut self, ignore: IgnorePaths) -> Self {
        self.ignore = ignore;
        self
    }

    /// Pauses a run whose code does not fit its history, instead of failing it. People resume it after a deployment.
    #[must_use]
    pub fn pause_on_violation(mut self) -> Self {
        self.pauses_on_violation = true;
        self
    }

    /// The first option about starts that is set. The side that decides about starts must know them.
    pub(crate) fn decided_at_start(&self) -> Option<&'static str> {
        let is_set = [
            ("require_key", self.key_requirement != KeyRequirement::Optional),
            ("keep_keys_for or release_key_on_failure", self.retention != KeyRetention::default()),
            ("ignore_in_fingerprint", self.ignore != IgnorePaths::default()),
            ("check_input", self.input_check.is_some()),
        ];
        is_set.into_iter().find(|(_, is_set)| *is_set).map(|(option, _)| option)
    }

    /// Checks the input of every new run, child runs included. A start with a wrong input is refused, and nothing is stored.
    #[must_use]
    pub fn check_input(mut self, check: InputCheck) -> Self {
        self.input_check = Some(check);
        self
    }
}

/// The code of a workflow.
pub(crate) struct Workflow {
    pub(crate) reference: WorkflowRef,
    pub(crate) key_requirement: KeyRequirement,
    pub(crate) retention: KeyRetention,
    pub(crate) ignore: IgnorePaths,
    input_check: Option<InputCheck>,
    pub(crate) declared: Arc<Declared>,
    pub(crate) pauses_on_violation: bool,
    handler: Handler,
}

impl Workflow {
    /// Checks the name and the options.
    pub(crate) fn new<F, Fut, I, O, E>(
        name: &str,
        options: WorkflowOptions,
        function: F,
    ) -> Result<Self, Error>
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
        // A start without an input has an empty object over HTTP.
        let nothing =
            |input: &Payload| (input.as_str() == "{}").then(|| Payload::null().to::<I>().ok()).flatten();
        let read = move |input: Payload| input.to::<I>().or_else(|error| nothing(&input).ok_or(error));
        let handler: Handler = Arc::new(move |ctx, input: Payload| match read(input) {
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
        Ok(Workflow {
            reference,
            key_requirement: options.key_requirement,
            retention: options.retention,
            ignore: options.ignore,
            input_check: options.input_check,
            declared: Arc::new(options.declared),
            pauses_on_violation: options.pauses_on_violation,
            handler,
        })
    }

    pub(crate) fn begin(&self, ctx: Ctx, input: Payload) -> WorkflowFuture {
        (self.handler)(ctx, input)
    }

    /// Checks the input of a new run.
    pub(crate) fn check_input(&self, input: &Payload) -> Result<(), Error> {
        let Some(check) = &self.input_check else { return Ok(()) };
        check.check(input).map_err(|problems| {
            let workflow = format!("{}@{}", self.reference.name, self.reference.version);
            Error::InputRefused { workflow, problems }
        })
    }
}

/// All registered workflows: read on every start, rarely written. A workflow of one workspace takes
/// precedence over a shared one of the same name.
#[derive(Default)]
pub(crate) struct Registry {
    state: RwLock<RegistryState>,
}

/// Workflows of one name and version, by owner.
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
    /// Workflows that start no new runs, by the workspace that registered them.
    archived: HashSet<(WorkspaceId, WorkflowRef)>,
    serves: Arc<ServedWorkflows>,
}

impl Registry {
    /// Registers a workflow for all workspaces, or for one.
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
        let workflow = Arc::new(Workflow::new(name, options, function)?);
        let reference = workflow.reference.clone();
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

    /// Says whether this process drives runs of a workflow that a workspace registered for itself. New runs are accepted
    /// either way, and wait.
    pub(crate) fn set_served(&self, workspace: &WorkspaceId, reference: &WorkflowRef, is_served: bool) {
        let mut state = self.state.write().expect("registering never panics");
        let is_registered =
            state.workflows.get(reference).is_some_and(|owned| owned.of_one.contains_key(workspace));
        let serves = Arc::make_mut(&mut state.serves);
        match is_served && is_registered {
            true => serves.insert(Some(workspace), reference.clone()),
            false => serves.remove(workspace, reference),
        }
    }

    /// Sets whether a workflow that a workspace registered for itself starts new runs. Existing runs continue either way.
    pub(crate) fn set_archived(&self, workspace: &WorkspaceId, reference: &WorkflowRef, is_archived: bool) {
        let mut state = self.state.write().expect("registering never panics");
        let place = (workspace.clone(), reference.clone());
        match is_archived {
            true => state.archived.insert(place),
            false => state.archived.remove(&place),
        };
        let RegistryState { workflows, newest, archived, .. } = &mut *state;
        let own = workflows.iter().filter(|(of, _)| of.name == reference.name);
        let own = own.filter(|(of, _)| !archived.contains(&(workspace.clone(), (*of).clone())));
        let latest = own.filter_map(|(_, owned)| owned.of_one.get(workspace));
        let latest = latest.max_by_key(|workflow| workflow.reference.version).cloned();
        let owned = newest.entry(reference.name.to_string()).or_default();
        match latest {
            Some(latest) => owned.of_one.insert(workspace.clone(), latest),
            None => owned.of_one.remove(workspace),
        };
    }

    pub(crate) fn is_archived(&self, workspace: &WorkspaceId, reference: &WorkflowRef) -> bool {
        let state = self.state.read().expect("registering never panics");
        // Most installations archive nothing.
        !state.archived.is_empty() && state.archived.contains(&(workspace.clone(), reference.clone()))
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

    /// Returns the latest version of `name`, which new runs use.
    fn newest(&self, workspace: &WorkspaceId, name: &str) -> Result<Arc<Workflow>, Error> {
        let state = self.state.read().expect("registering never panics");
        let found = state.newest.get(name).and_then(|owned| owned.of(workspace));
        found.cloned().ok_or_else(|| unknown(name))
    }

    /// Returns this version of `name`.
    fn version(&self, workspace: &WorkspaceId, name: &str, version: u32) -> Result<Arc<Workflow>, Error> {
        let reference = WorkflowRef { name: Name::new("workflow name", name)?, version };
        self.find(workspace, &reference).ok_or_else(|| unknown(&format!("{name}@{version}")))
    }

    pub(crate) fn find(&self, workspace: &WorkspaceId, reference: &WorkflowRef) -> Option<Arc<Workflow>> {
        let state = self.state.read().expect("registering never panics");
        state.workflows.get(reference).and_then(|owned| owned.of(workspace)).cloned()
    }

    pub(crate) fn serves(&self) -> Arc<ServedWorkflows> {
        self.state.read().expect("registering never panics").serves.clone()
    }
}

fn unknown(name: &str) -> Error {
    Error::UnknownWorkflow(name.chars().take(crate::limits::MAX_NAME_CHARS).collect())
}
