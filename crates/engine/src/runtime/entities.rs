//! Operations on entities: business objects whose status is moved by entity workflows.

mod effects;
mod execution;
mod heartbeats;
mod janitor;
mod probing;
mod registry;
mod step_call;
mod transition;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;

pub use execution::CONCURRENCY_ERROR;
pub(crate) use heartbeats::{ActiveOperations, send_heartbeats};
pub use janitor::{JanitorReport, Module};
pub(crate) use registry::EntityRegistry;
pub use registry::{ActionsElsewhere, LoadEntityWorkflow};
pub use step_call::{ActionAnswer, CodeOnlyHost, EntityHost, StepCall};
pub use transition::{Transition, TransitionOutcome};

use registry::{ActionCode, Registered};

use super::{Engine, Error};
use crate::limits::MAX_PAGE;
use crate::model::{
    Actor, AllowedAction, DocumentRef, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    EntityWorkflow, Failure, FinishOperationOutcome, HumanText, IdempotencyKey, JournalEvent, Name,
    Operation, OperationEnd, OperationId, OperationState, Payload, Resolution, Ruling, RulingError,
    allowed_actions, check_entity_workflow, check_ruling,
};
use crate::runtime::doubts::{decided_in, fresh_request};
use crate::store::{
    CreateEntityOutcome, FindLatestOperations, LatestOperations, ListEntities, ListEntityJournal,
    ListOperations, NewEntity, StoredEntityEntry,
};

/// Entity with the actions that are allowed on it.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityView {
    /// The entity.
    pub entity: Entity,
    /// Operation that holds the entity, if any.
    pub holder: Option<Operation>,
    /// Actions with whether they are allowed, and why not.
    pub allowed: Vec<AllowedAction>,
}

impl Engine {
    /// Registers an entity workflow for all workspaces and replaces an earlier one of the same name. An
    /// invalid workflow is refused with a list of all its problems.
    pub async fn register_entity_workflow(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
    ) -> Result<(), Error> {
        self.put_entity_workflow(None, workflow, host, None).await
    }

    /// Registers an entity workflow for this workspace only. It takes precedence over a shared one.
    pub async fn register_entity_workflow_for_workspace(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
    ) -> Result<(), Error> {
        self.put_entity_workflow(Some(self.workspace.clone()), workflow, host, None).await
    }

    /// Registers an entity workflow from the catalog for this workspace. Its steps begin only while the
    /// catalog item has this version.
    pub async fn register_entity_document(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
        document: DocumentRef,
    ) -> Result<(), Error> {
        self.put_entity_workflow(Some(self.workspace.clone()), workflow, host, Some(document)).await
    }

    /// Sets who runs actions that are not registered in this process. Only the first call takes effect.
    pub fn set_actions_elsewhere(&self, elsewhere: Arc<dyn ActionsElsewhere>) {
        self.inner.entities.set_elsewhere(elsewhere);
    }

    /// Sets the loader for entity workflows that this engine does not have, or not in the latest version.
    /// Only the first call takes effect.
    pub fn set_entity_workflow_loader(&self, loader: Arc<dyn LoadEntityWorkflow>) {
        self.inner.entities.set_loader(loader);
    }

    async fn put_entity_workflow(
        &self,
        workspace: Option<crate::model::WorkspaceId>,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
        document: Option<DocumentRef>,
    ) -> Result<(), Error> {
        let mut problems = check_entity_workflow(&workflow);
        problems.retain(|problem| !problem.rule.only_warns());
        if !problems.is_empty() {
            return Err(Error::EntityWorkflowRefused { workflow: workflow.name.to_string(), problems });
        }
        if let EntityStorage::UserTable(table) = &workflow.home {
            table.check()?;
            self.inner.call_store(self.entity_store()?.check_table(table)).await?;
        }
        self.inner.entities.put(workspace, Registered { workflow, host, document })
    }

    /// Removes this workspace's workflow for an entity type. Returns whether there was one.
    pub fn remove_entity_workflow(&self, kind: &Name) -> bool {
        self.inner.entities.remove(Some(self.workspace.clone()), kind)
    }

    /// Finds the workflow for an entity type.
    pub fn find_entity_workflow(&self, kind: &Name) -> Option<EntityWorkflow> {
        Some(self.inner.entities.find(&self.workspace, kind)?.workflow.clone())
    }

    /// Registers the code of an action. After a crash it may run again for the same operation, under the same
    /// key.
    pub fn register_action<F, Fut>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(StepCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ActionAnswer, Failure>> + Send + 'static,
    {
        let code = ActionCode::Free(Arc::new(move |call| Box::pin(code(call))));
        self.inner.entities.add_action(Name::new("action", name)?, code)
    }

    /// Registers the code of an action that commits together with the new status. `make` creates the work in
    /// the form that the store requires. The store crates offer typed versions.
    pub fn register_transaction_action(
        &self,
        name: &str,
        make: impl Fn(StepCall) -> Box<dyn Any + Send + Sync> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let code = ActionCode::InTransaction(Arc::new(make));
        self.inner.entities.add_action(Name::new("action", name)?, code)
    }

    /// Returns whether an action of this name is registered.
    pub fn has_action(&self, name: &Name) -> bool {
        self.inner.entities.find_action(name).is_some()
    }

    /// Creates an entity in the store's own table. An existing entity stays unchanged and is returned.
    pub async fn create_entity<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        status: &str,
        data: &T,
    ) -> Result<CreateEntityOutcome, Error> {
        self.create_entity_payload(kind, id, status, Payload::of(data)?).await
    }

    /// Like [`Engine::create_entity`], with data that is already a [`Payload`].
    pub async fn create_entity_payload(
        &self,
        kind: &str,
        id: &str,
        status: &str,
        data: Payload,
    ) -> Result<CreateEntityOutcome, Error> {
        let kind = Name::new("entity type", kind)?;
        let entity = EntityRef { kind: kind.clone(), id: EntityId::new(id)? };
        entity.id.check_addressable()?;
        let status = Name::new("status", status)?;
        let registered = self.entity_workflow(&kind).await?;
        let workflow = &registered.workflow;
        if workflow.home.table().is_some() {
            return Err(Error::EntityInOwnTable(entity));
        }
        workflow.check_beginning(&status).map_err(Error::InvalidInitialStatus)?;
        if data.to::<serde_json::Map<String, serde_json::Value>>().is_err() {
            return Err(
                crate::model::Invalid::Payload("the data of an entity must be a JSON object".into()).into()
            );
        }
        let workspace = self.workspace.clone();
        let request = NewEntity { workspace, entity, status, data };
        Ok(self.inner.call_store(self.entity_store()?.create_entity(request)).await?)
    }

    /// Returns an entity and the actions that `requester` may take.
    pub async fn get_entity(
        &self,
        kind: &str,
        id: &str,
        requester: Option<&str>,
    ) -> Result<EntityView, Error> {
        let (entity, registered) = self.find_ref_and_workflow(kind, id).await?;
        let requester = requester.map(|text| Name::new("requester", text)).transpose()?;
        let (inner, store) = (&self.inner, self.entity_store()?);
        let home = &registered.workflow.home;
        let found = inner.call_store(store.find_entity(&self.workspace, &entity, home)).await?;
        let found = found.ok_or_else(|| Error::NoSuchEntity(entity.clone()))?;
        // Reads only the latest operation of each step and the holder, however many operations there were.
        let steps = registered.workflow.steps.iter().map(|step| step.key.clone()).collect();
        let request = FindLatestOperations { workspace: self.workspace.clone(), entity, steps };
        let LatestOperations { holder, last } =
            inner.call_store(store.find_latest_operations(request)).await?;
        let allowed =
            allowed_actions(&registered.workflow, requester.as_ref(), &found, holder.as_ref(), &last);
        Ok(EntityView { entity: found, holder, allowed })
    }

    /// Lists entities of one type in the order of their ids, after `after`.
    pub async fn list_entities(
        &self,
        kind: &str,
        status: Option<&str>,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        let kind = Name::new("entity type", kind)?;
        let home = self.entity_workflow(&kind).await?.workflow.home.clone();
        let status = status.map(|text| Name::new("status", text)).transpose()?;
        let request = ListEntities { workspace: self.workspace.clone(), kind, home, status, after, limit };
        Ok(self.inner.call_store(self.entity_store()?.list_entities(request)).await?)
    }

    /// Returns one operation.
    pub async fn get_operation(&self, id: OperationId) -> Result<Operation, Error> {
        let found = self.inner.call_store(self.entity_store()?.find_operation(&self.workspace, id)).await?;
        found.ok_or(Error::NoSuchOperation(id))
    }

    /// Finds the operation with an idempotency key.
    pub async fn find_keyed_operation(&self, key: &IdempotencyKey) -> Result<Option<Operation>, Error> {
        Ok(self.inner.call_store(self.entity_store()?.find_keyed_operation(&self.workspace, key)).await?)
    }

    /// Lists operations of this workspace, newest first. The workspace in the request is ignored.
    pub async fn list_operations(&self, request: ListOperations) -> Result<Vec<Operation>, Error> {
        let request = ListOperations { workspace: self.workspace.clone(), ..request };
        Ok(self.inner.call_store(self.entity_store()?.list_operations(request)).await?)
    }

    /// Adds a person's comment on an entity, in whatever state it is.
    pub async fn remark_on_entity(
        &self,
        kind: &str,
        id: &str,
        by: Actor,
        text: &str,
    ) -> Result<EntityJournalEntry, Error> {
        HumanText::Actor.check(&by.name)?;
        HumanText::Remark.check(text)?;
        let (entity, registered) = self.find_ref_and_workflow(kind, id).await?;
        let (inner, store) = (&self.inner, self.entity_store()?);
        let home = &registered.workflow.home;
        let found = inner.call_store(store.find_entity(&self.workspace, &entity, home)).await?;
        found.ok_or_else(|| Error::NoSuchEntity(entity.clone()))?;
        let what = JournalEvent::Remarked { text: text.into() };
        let note = EntityJournalEntry {
            workspace: self.workspace.clone(),
            entity,
            operation: None,
            at: inner.store.now(),
            by: Some(by),
            what,
            evidence: None,
        };
        inner.call_store(store.append_entity_journal(vec![note.clone()])).await?;
        Ok(note)
    }

    /// Lists journal entries about an entity, or about one of its operations, oldest first.
    pub async fn list_entity_journal(
        &self,
        kind: &str,
        id: &str,
        operation: Option<OperationId>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredEntityEntry>, Error> {
        let kind = Name::new("entity type", kind)?;
        let entity = EntityRef { kind, id: EntityId::new(id)? };
        let request =
            ListEntityJournal { workspace: self.workspace.clone(), entity, operation, after, limit };
        Ok(self.inner.call_store(self.entity_store()?.list_entity_journal(request)).await?)
    }

    /// Resolves an operation in doubt, as the person saw it at attempt `seen`: it happened, with a result, or
    /// it did not, and the step can be taken again.
    ///
    /// A ruling also works if the workflow no longer has the step. No after-effect is sent then.
    pub async fn resolve_operation(
        &self,
        id: OperationId,
        seen: u32,
        ruling: Ruling,
    ) -> Result<Operation, Error> {
        self.resolve_operation_once(id, seen, ruling, &fresh_request()).await
    }

    /// Like [`Engine::resolve_operation`], for a request that may be repeated after a crash. The repeated
    /// request finds its own ruling and succeeds.
    pub async fn resolve_operation_once(
        &self,
        id: OperationId,
        seen: u32,
        ruling: Ruling,
        request: &str,
    ) -> Result<Operation, Error> {
        check_ruling(&ruling)?;
        let operation = self.get_operation(id).await?;
        if !matches!(operation.state, OperationState::InDoubt { .. }) || operation.attempt != seen {
            return self.operation_ruled_before(operation, request).await;
        }
        let end = match &ruling.resolution {
            Resolution::Happened { output } => {
                OperationEnd::Done { result: Payload::of(output)?, data: None }
            }
            Resolution::DidNotHappen => OperationEnd::DidNotHappen,
            Resolution::Compensate { .. } | Resolution::Abandon => {
                return Err(RulingError::NotForOperations.into());
            }
        };
        let registered = self.inner.entities.find(&self.workspace, &operation.entity.kind);
        let view = registered.and_then(|registered| registered.view_of(&operation));
        let what = JournalEvent::Resolved {
            resolution: ruling.resolution.clone(),
            seconded_by: ruling.seconded_by.clone(),
            reason: ruling.reason.clone(),
            request: Some(request.into()),
        };
        let note = EntityJournalEntry {
            workspace: self.workspace.clone(),
            entity: operation.entity.clone(),
            operation: Some(id),
            at: self.inner.store.now(),
            by: Some(ruling.by.clone()),
            what,
            evidence: None,
        };
        match execution::finish(self, janitor::ruling_request(&operation, view.as_ref(), end, note)).await? {
            FinishOperationOutcome::Finished { operation, .. } => {
                self.inner.outbox_ready.notify_one();
                self.inner.operation_finished.notify_waiters();
                Ok(*operation)
            }
            // The operation has this end. Its notes show whether this ruling or an equal one of another
            // person caused it.
            FinishOperationOutcome::Again(operation) | FinishOperationOutcome::Lost(Some(operation)) => {
                let answer = self.operation_ruled_before(*operation, request).await;
                if answer.is_ok() {
                    self.inner.outbox_ready.notify_one();
                    self.inner.operation_finished.notify_waiters();
                }
                answer
            }
            FinishOperationOutcome::Lost(None) => Err(Error::OperationNotInDoubt(id)),
            FinishOperationOutcome::Stale(_) => Err(Error::EntityBusy(operation.entity)),
        }
    }

    /// Result of a ruling on an operation that is not in doubt, or has changed: the operation if `request`
    /// made the earlier ruling, otherwise an error.
    async fn operation_ruled_before(&self, operation: Operation, request: &str) -> Result<Operation, Error> {
        let id = operation.id;
        let (kind, entity) = (operation.entity.kind.as_str(), operation.entity.id.as_str());
        let (mut after, mut last) = (0, None);
        loop {
            let notes = self.list_entity_journal(kind, entity, Some(id), after, MAX_PAGE).await?;
            for StoredEntityEntry { note, .. } in &notes {
                if let Some((decided, by_request)) = decided_in(&note.what, note.by.as_ref(), note.at) {
                    if by_request == Some(request) {
                        return Ok(operation);
                    }
                    last = Some(decided);
                }
            }
            match notes.last() {
                Some(placed) if notes.len() == MAX_PAGE => after = placed.place,
                _ => break,
            }
        }
        let is_in_doubt = matches!(operation.state, OperationState::InDoubt { .. });
        match last.filter(|_| !is_in_doubt) {
            Some(decided) => Err(Error::OperationResolved { operation: id, decided: Box::new(decided) }),
            None => Err(Error::OperationNotInDoubt(id)),
        }
    }

    async fn find_ref_and_workflow(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<(EntityRef, Arc<Registered>), Error> {
        let kind = Name::new("entity type", kind)?;
        let registered = self.entity_workflow(&kind).await?;
        Ok((EntityRef { kind, id: EntityId::new(id)? }, registered))
    }
}
