//! Entities: what callers do with business objects, their workflows, and the operations that move them.

mod acting;
mod effects;
mod held;
mod janitor;
mod probing;
mod registry;
mod step_call;
mod transition;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use serde::Serialize;

pub use acting::CHANGED_MEANWHILE;
pub(crate) use held::{HeldOperations, keep_hearing};
pub use janitor::{Freed, Module};
pub(crate) use registry::EntityRegistry;
pub use registry::LoadEntityWorkflow;
pub use step_call::{Answer, CodeOnly, EntityHost, StepCall};
pub use transition::{Outcome, Transition};

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

/// An entity with what may be done with it.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityView {
    /// The entity.
    pub entity: Entity,
    /// The operation that holds it, if one does.
    pub holder: Option<Operation>,
    /// What may be done, and why the rest may not.
    pub allowed: Vec<AllowedAction>,
}

impl Engine {
    /// Registers an entity workflow that all workspaces have, in place of an earlier one of the same name. One that breaks a rule is refused with all that is wrong with it.
    pub async fn register_entity_workflow(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
    ) -> Result<(), Error> {
        self.put_entity_workflow(None, workflow, host, None).await
    }

    /// The same, for this workspace alone; it goes before one that all have.
    pub async fn register_own_entity_workflow(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
    ) -> Result<(), Error> {
        self.put_entity_workflow(Some(self.workspace.clone()), workflow, host, None).await
    }

    /// The same, of one that is an item of the catalog: its steps begin only while that has this version.
    pub async fn register_entity_document(
        &self,
        workflow: EntityWorkflow,
        host: Arc<dyn EntityHost>,
        document: DocumentRef,
    ) -> Result<(), Error> {
        self.put_entity_workflow(Some(self.workspace.clone()), workflow, host, Some(document)).await
    }

    /// Has entity workflows that are not known here, or not in their newest version, brought by `loader`. Only the first one counts.
    pub fn load_entity_workflows_with(&self, loader: Arc<dyn LoadEntityWorkflow>) {
        self.inner.entities.load_with(loader);
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
            self.inner.answer(self.entity_store()?.check_table(table)).await?;
        }
        self.inner.entities.put(workspace, Registered { workflow, host, document })
    }

    /// Takes the workflow of this workspace for things of this kind away; answers whether it was there.
    pub fn remove_own_entity_workflow(&self, kind: &Name) -> bool {
        self.inner.entities.remove(Some(self.workspace.clone()), kind)
    }

    /// The workflow that moves things of this kind here.
    pub fn find_entity_workflow(&self, kind: &Name) -> Option<EntityWorkflow> {
        Some(self.inner.entities.find(&self.workspace, kind)?.workflow.clone())
    }

    /// Registers the code of an action. It may be entered again, under the same key, for an operation that was given back after a crash.
    pub fn register_action<F, Fut>(&self, name: &str, code: F) -> Result<(), Error>
    where
        F: Fn(StepCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Answer, Failure>> + Send + 'static,
    {
        let code = ActionCode::Free(Arc::new(move |call| Box::pin(code(call))));
        self.inner.entities.add_action(Name::new("action", name)?, code)
    }

    /// Registers the code of an action whose writes share the commit of the new status: `make` makes the work in the form the store asks for. The crates of
    /// stores have typed faces of this.
    pub fn register_transaction_action(
        &self,
        name: &str,
        make: impl Fn(StepCall) -> Box<dyn Any + Send + Sync> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let code = ActionCode::InTransaction(Arc::new(make));
        self.inner.entities.add_action(Name::new("action", name)?, code)
    }

    /// Is there an action of this name?
    pub fn has_action(&self, name: &Name) -> bool {
        self.inner.entities.find_action(name).is_some()
    }

    /// Makes an entity in the store's own table. One that is there stays as it is, and is the answer.
    pub async fn create_entity<T: Serialize + ?Sized>(
        &self,
        kind: &str,
        id: &str,
        status: &str,
        data: &T,
    ) -> Result<CreateEntityOutcome, Error> {
        self.create_entity_payload(kind, id, status, Payload::of(data)?).await
    }

    /// The same, if what is known of it is a payload already.
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
            return Err(Error::EntityElsewhere(entity));
        }
        workflow.check_beginning(&status).map_err(Error::EntityBeginning)?;
        if data.to::<serde_json::Map<String, serde_json::Value>>().is_err() {
            return Err(
                crate::model::Invalid::Payload("what is known of an entity is a JSON object".into()).into()
            );
        }
        let workspace = self.workspace.clone();
        let request = NewEntity { workspace, entity, status, data };
        Ok(self.inner.answer(self.entity_store()?.create_entity(request)).await?)
    }

    /// An entity, and what `requester` may do with it.
    pub async fn get_entity(
        &self,
        kind: &str,
        id: &str,
        requester: Option<&str>,
    ) -> Result<EntityView, Error> {
        let (entity, registered) = self.named(kind, id).await?;
        let requester = requester.map(|text| Name::new("requester", text)).transpose()?;
        let (inner, book) = (&self.inner, self.entity_store()?);
        let home = &registered.workflow.home;
        let found = inner.answer(book.find_entity(&self.workspace, &entity, home)).await?;
        let found = found.ok_or_else(|| Error::NoSuchEntity(entity.clone()))?;
        // The newest of each step and the holder: however many operations there were.
        let steps = registered.workflow.steps.iter().map(|step| step.key.clone()).collect();
        let request = FindLatestOperations { workspace: self.workspace.clone(), entity, steps };
        let LatestOperations { holder, last } = inner.answer(book.find_latest_operations(request)).await?;
        let allowed =
            allowed_actions(&registered.workflow, requester.as_ref(), &found, holder.as_ref(), &last);
        Ok(EntityView { entity: found, holder, allowed })
    }

    /// Entities of one kind in the order of their ids, after `after`.
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
        Ok(self.inner.answer(self.entity_store()?.list_entities(request)).await?)
    }

    /// One operation.
    pub async fn get_operation(&self, id: OperationId) -> Result<Operation, Error> {
        let found = self.inner.answer(self.entity_store()?.find_operation(&self.workspace, id)).await?;
        found.ok_or(Error::NoSuchOperation(id))
    }

    /// The operation under a key.
    pub async fn find_keyed_operation(&self, key: &IdempotencyKey) -> Result<Option<Operation>, Error> {
        Ok(self.inner.answer(self.entity_store()?.find_keyed_operation(&self.workspace, key)).await?)
    }

    /// Operations of this workspace, newest first; the workspace in the request is replaced by this one.
    pub async fn list_operations(&self, request: ListOperations) -> Result<Vec<Operation>, Error> {
        let request = ListOperations { workspace: self.workspace.clone(), ..request };
        Ok(self.inner.answer(self.entity_store()?.list_operations(request)).await?)
    }

    /// Writes down what a person has to say about an entity, whatever is going on with it.
    pub async fn remark_on_entity(
        &self,
        kind: &str,
        id: &str,
        by: Actor,
        text: &str,
    ) -> Result<EntityJournalEntry, Error> {
        HumanText::Actor.check(&by.name)?;
        HumanText::Remark.check(text)?;
        let (entity, registered) = self.named(kind, id).await?;
        let (inner, book) = (&self.inner, self.entity_store()?);
        let home = &registered.workflow.home;
        let found = inner.answer(book.find_entity(&self.workspace, &entity, home)).await?;
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
        inner.answer(book.append_entity_journal(vec![note.clone()])).await?;
        Ok(note)
    }

    /// What was noted about an entity, or about one of its operations, oldest first.
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
        Ok(self.inner.answer(self.entity_store()?.list_entity_journal(request)).await?)
    }

    /// Decides about an operation in doubt, as it was seen at its attempt `seen`: that it happened, with what result, or that it did not, so that the
    /// step can be taken again. It can be decided, too, if the workflow no longer has the step: then nobody is told by an after-effect.
    pub async fn resolve_operation(
        &self,
        id: OperationId,
        seen: u32,
        ruling: Ruling,
    ) -> Result<Operation, Error> {
        self.resolve_operation_once(id, seen, ruling, &fresh_request()).await
    }

    /// The same for a request that may be sent again after a crash: the second time it finds its own ruling, and is told that it counts.
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
        match acting::finish(self, janitor::decided(&operation, view.as_ref(), end, note)).await? {
            FinishOperationOutcome::Finished { operation, .. } => {
                self.inner.posted.notify_one();
                self.inner.operated.notify_waiters();
                Ok(*operation)
            }
            // It ended so. Whether by this ruling or by an equal one of somebody else, its notes tell.
            FinishOperationOutcome::Again(operation) | FinishOperationOutcome::Lost(Some(operation)) => {
                let answer = self.operation_ruled_before(*operation, request).await;
                if answer.is_ok() {
                    self.inner.posted.notify_one();
                    self.inner.operated.notify_waiters();
                }
                answer
            }
            FinishOperationOutcome::Lost(None) => Err(Error::OperationNotInDoubt(id)),
            FinishOperationOutcome::Stale(_) => Err(Error::EntityBusy(operation.entity)),
        }
    }

    /// What is said to a ruling on an operation that is not in doubt, or not as it was seen: the operation, if the ruling is that of `request`.
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

    async fn named(&self, kind: &str, id: &str) -> Result<(EntityRef, Arc<Registered>), Error> {
        let kind = Name::new("entity type", kind)?;
        let registered = self.entity_workflow(&kind).await?;
        Ok((EntityRef { kind, id: EntityId::new(id)? }, registered))
    }
}
