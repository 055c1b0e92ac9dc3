//! Entities and their operations.

use async_trait::async_trait;

use super::MemoryStore;
use super::state::State;
use crate::limits::{MAX_HEARTBEATS, MAX_PAGE, MAX_STALE_CLAIMS};
use crate::model::{
    BeginFacts, BeginOperation, BeginOperationOutcome, CatalogKind, Entity, EntityId, EntityJournalEntry,
    EntityRef, EntityStorage, FinishFacts, FinishOperation, FinishOperationOutcome, IdempotencyKey, Name,
    Operation, OperationId, OperationState, OwnerId, TableRef, Timestamp, Version, WorkspaceId,
    decide_begin_operation, decide_finish_operation,
};
use crate::store::{
    CreateEntityOutcome, EntityStore, FindLatestOperations, HeldOperation, LatestOperations, ListEntities,
    ListEntityJournal, ListEvidence, ListOperations, NewEntity, OpenClaim, PurgeOperations,
    PurgeOperationsOutcome, RevertStrays, Store, StoreError, StoreResult, StoredEntityEntry,
    StoredJournalEntry,
};

impl MemoryStore {
    /// Creates an empty table that stands in for a table of the user, if it does not exist.
    pub fn create_table(&self, table: &str) {
        self.state().tables.entry(table.into()).or_default();
    }

    /// Writes a row of such a table, as the user's own code would. Creates the table if it does not exist.
    pub fn put_row(&self, table: &str, row: Entity) {
        self.state().tables.entry(table.into()).or_default().insert(row.entity.id.clone(), row);
    }
}

impl State {
    fn table(&mut self, table: &TableRef) -> StoreResult<&mut std::collections::BTreeMap<EntityId, Entity>> {
        let gone =
            || StoreError::Refused(format!("there is no table {}: create it, or mend its name", table.table));
        self.tables.get_mut(&table.table).ok_or_else(gone)
    }

    fn find_entity(
        &mut self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        Ok(match home {
            EntityStorage::BuiltIn => self.entities.get(&(workspace.clone(), entity.clone())).cloned(),
            EntityStorage::UserTable(table) => {
                let row = self.table(table)?.get(&entity.id).cloned();
                row.map(|row| Entity { entity: entity.clone(), ..row })
            }
        })
    }

    fn put_entity(
        &mut self,
        workspace: &WorkspaceId,
        home: &EntityStorage,
        entity: Entity,
    ) -> StoreResult<()> {
        match home {
            EntityStorage::BuiltIn => {
                drop(self.entities.insert((workspace.clone(), entity.entity.clone()), entity))
            }
            EntityStorage::UserTable(table) => {
                drop(self.table(table)?.insert(entity.entity.id.clone(), entity))
            }
        }
        Ok(())
    }

    fn put_operation(&mut self, operation: Operation) {
        let place = (operation.workspace.clone(), operation.entity.clone());
        match operation.holds_entity() {
            true => drop(self.holders.insert(place, operation.id)),
            false if self.holders.get(&place) == Some(&operation.id) => drop(self.holders.remove(&place)),
            false => {}
        }
        let workspace = operation.workspace.clone();
        if let Some(key) = &operation.key {
            self.keyed_operations.insert((workspace.clone(), key.clone()), operation.id);
        }
        self.operations.insert((workspace, operation.id), operation);
    }

    fn append_entity_journal(&mut self, notes: Vec<EntityJournalEntry>) {
        self.append_journal(
            notes.iter().filter_map(EntityJournalEntry::to_journal_entry).collect::<Vec<_>>(),
        );
        let shown = notes.into_iter().filter(|note| !note.is_for_audit_only());
        self.entity_notes.extend(shown.map(|note| EntityJournalEntry { evidence: None, ..note }));
    }

    fn operation(&self, workspace: &WorkspaceId, id: OperationId) -> Option<Operation> {
        self.operations.get(&(workspace.clone(), id)).cloned()
    }

    fn begin_operation(
        &mut self,
        request: BeginOperation,
        now: Timestamp,
    ) -> StoreResult<BeginOperationOutcome> {
        let workspace = &request.workspace;
        let keyed =
            request.key.as_ref().and_then(|key| self.keyed_operations.get(&(workspace.clone(), key.clone())));
        let known = self.operation(workspace, keyed.copied().unwrap_or(request.id));
        let entity = self.find_entity(workspace, &request.entity, &request.home)?;
        let place = (workspace.clone(), request.entity.clone());
        let holder = self.holders.get(&place).and_then(|holder| self.operation(workspace, *holder));
        let of_step = |other: &&Operation| {
            other.workspace == *workspace && other.entity == request.entity && other.step == request.step
        };
        let last = match entity.as_ref().is_some_and(|entity| request.asks_for_last(entity)) {
            true => self.operations.values().filter(of_step).max_by_key(|other| other.begin_order()).cloned(),
            false => None,
        };
        let item =
            request.document.as_ref().map(|document| (CatalogKind::EntityWorkflow, document.item.clone()));
        let document = item.and_then(|item| self.items.get(&item)).map(|item| item.version);
        let mut facts = BeginFacts { known, entity, holder, last, document, last_try: 0 };
        if let Some(effect) = facts.continued_effect(&request) {
            facts.last_try = self.last_try(workspace, &effect);
        }
        let begun = decide_begin_operation(&request, facts, now);
        if let BeginOperationOutcome::Begun { operation, entity, notes, evidence } = &begun {
            if operation.claim.is_some() {
                self.put_entity(workspace, &request.home, entity.clone())?;
            }
            self.put_operation((**operation).clone());
            self.append_entity_journal(notes.clone());
            self.append_journal(evidence.clone());
        }
        Ok(begun)
    }

    fn finish_operation(
        &mut self,
        request: FinishOperation,
        now: Timestamp,
    ) -> StoreResult<FinishOperationOutcome> {
        let operation = self.operation(&request.workspace, request.operation);
        let entity = match &operation {
            Some(operation) => self.find_entity(&request.workspace, &operation.entity, &operation.home)?,
            None => None,
        };
        let last_try = match &operation {
            Some(operation) if request.asks_for_last_try() => {
                self.last_try(&request.workspace, &operation.effect_key())
            }
            _ => 0,
        };
        let finished = decide_finish_operation(&request, FinishFacts { operation, entity, last_try }, now)
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        if let FinishOperationOutcome::Finished { operation, entity, evidence } = &finished {
            if let Some(entity) = entity {
                self.put_entity(&request.workspace, &operation.home, entity.clone())?;
            }
            self.put_operation((**operation).clone());
            for post in request.posts {
                if !self.posts().contains_key(&(post.workspace.clone(), post.id.clone())) {
                    self.put_post(post);
                }
            }
            self.append_entity_journal(request.notes);
            self.append_journal(evidence.clone());
        }
        Ok(finished)
    }
}

#[async_trait]
impl EntityStore for MemoryStore {
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        let (now, mut state) = (self.now(), self.state());
        let place = (request.workspace, request.entity.clone());
        if let Some(entity) = state.entities.get(&place) {
            return Ok(CreateEntityOutcome::Exists(entity.clone()));
        }
        let NewEntity { entity, status, data, .. } = NewEntity { workspace: place.0.clone(), ..request };
        let entity = Entity { entity, status, version: Version::new(1), data, updated_at: now };
        state.entities.insert(place, entity.clone());
        Ok(CreateEntityOutcome::Created(entity))
    }

    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        self.state().find_entity(workspace, entity, home)
    }

    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        let mut state = self.state();
        let all: Vec<Entity> = match &request.home {
            EntityStorage::BuiltIn => {
                let own = state.entities.iter().filter(|((workspace, _), _)| *workspace == request.workspace);
                own.map(|(_, entity)| entity.clone())
                    .filter(|entity| entity.entity.kind == request.kind)
                    .collect()
            }
            EntityStorage::UserTable(table) => {
                let rows = state.table(table)?.values().cloned();
                let named = |row: Entity| {
                    let entity = EntityRef { kind: request.kind.clone(), id: row.entity.id.clone() };
                    Entity { entity, ..row }
                };
                rows.map(named).collect()
            }
        };
        let matching = all
            .into_iter()
            .filter(|entity| request.status.as_ref().is_none_or(|status| entity.status == *status))
            .filter(|entity| request.after.as_ref().is_none_or(|after| entity.entity.id > *after));
        Ok(matching.take(request.limit.clamp(1, MAX_PAGE)).collect())
    }

    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        self.state().begin_operation(request, self.now())
    }

    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        self.state().finish_operation(request, self.now())
    }

    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        if held.len() > MAX_HEARTBEATS {
            return Err(StoreError::Refused(format!(
                "at most {MAX_HEARTBEATS} operations are heard of at once"
            )));
        }
        let (now, mut state) = (self.now(), self.state());
        let mut lost = Vec::new();
        for HeldOperation { workspace, operation: id, attempt } in held {
            match state.operations.get_mut(&(workspace, id)) {
                Some(Operation {
                    state: OperationState::Pending { heard_at },
                    owner: holder,
                    attempt: of,
                    run,
                    ..
                }) if (*holder == owner || run.is_some()) && *of == attempt => {
                    *heard_at = now;
                }
                _ => lost.push(id),
            }
        }
        Ok(lost)
    }

    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let state = self.state();
        let is_stale = |operation: &&Operation| {
            let unheard =
                matches!(operation.state, OperationState::Pending { heard_at } if heard_at < unheard_since);
            unheard && operation.module == *module
        };
        let mut stale: Vec<Operation> = state.operations.values().filter(is_stale).cloned().collect();
        stale.sort_by_key(|operation| (operation.state.at(), operation.id));
        stale.truncate(limit.clamp(1, MAX_STALE_CLAIMS));
        Ok(stale)
    }

    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let state = self.state();
        let place = |operation: &Operation| (operation.state.at(), operation.id);
        let is_asked_for = |operation: &&Operation| {
            matches!(operation.state, OperationState::InDoubt { .. })
                && operation.module == *module
                && after.is_none_or(|after| place(operation) > after)
        };
        let mut doubted: Vec<Operation> = state.operations.values().filter(is_asked_for).cloned().collect();
        doubted.sort_by_key(place);
        doubted.truncate(limit.clamp(1, MAX_STALE_CLAIMS));
        Ok(doubted)
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        let state = self.state();
        let pending = state.operations.values().filter(|one| {
            matches!(one.state, OperationState::Pending { .. })
                && workspace.is_none_or(|wanted| *wanted == one.workspace)
        });
        let open: std::collections::BTreeSet<OpenClaim> = pending
            .filter_map(|operation| {
                let claim_into = operation.claim.as_ref()?.into.clone();
                let (module, workflow) = (operation.module.clone(), operation.workflow.clone());
                Some(OpenClaim { module, workflow, claim_into })
            })
            .collect();
        Ok(open.into_iter().take(limit.clamp(1, MAX_PAGE)).collect())
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        let state = self.state();
        let FindLatestOperations { workspace, entity, steps } = request;
        let holder = state.holders.get(&(workspace.clone(), entity.clone()));
        let holder = holder.and_then(|holder| state.operation(&workspace, *holder));
        let of_step = |step: &Name| {
            let of_step = state.operations.values().filter(|operation| {
                operation.workspace == workspace && operation.entity == entity && operation.step == *step
            });
            of_step.max_by_key(|operation| operation.begin_order()).cloned()
        };
        let last = steps.iter().take(MAX_PAGE).filter_map(of_step).collect();
        Ok(LatestOperations { holder, last })
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        let (now, mut state) = (self.now(), self.state());
        let RevertStrays { workspace, kind, table, claim, before, limit } = request;
        let held: std::collections::BTreeSet<EntityRef> =
            state.holders.keys().map(|(_, entity)| entity.clone()).collect();
        let is_held = |id: &EntityId| held.contains(&EntityRef { kind: kind.clone(), id: id.clone() });
        let mut reverted = Vec::new();
        for (id, row) in state.table(&table)? {
            if reverted.len() < limit.clamp(1, MAX_STALE_CLAIMS)
                && row.status == claim.into
                && row.updated_at < before
                && !is_held(id)
            {
                row.status = claim.revert_to.clone();
                row.version = row.version.next();
                row.updated_at = now;
                reverted.push(id.clone());
            }
        }
        let note = |id: &EntityId| EntityJournalEntry {
            workspace: workspace.clone(),
            entity: EntityRef { kind: kind.clone(), id: id.clone() },
            operation: None,
            at: now,
            by: None,
            what: crate::model::JournalEvent::StrayReverted { status: claim.revert_to.to_string() },
            evidence: None,
        };
        state.append_entity_journal(reverted.iter().map(note).collect());
        Ok(reverted)
    }

    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        Ok(self.state().operation(workspace, id))
    }

    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        let state = self.state();
        let id = state.keyed_operations.get(&(workspace.clone(), key.clone()));
        Ok(id.and_then(|id| state.operation(workspace, *id)))
    }

    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        let state = self.state();
        let matching = state
            .operations
            .values()
            .rev()
            .filter(|operation| operation.workspace == request.workspace)
            .filter(|operation| request.kind.as_ref().is_none_or(|kind| operation.entity.kind == *kind))
            .filter(|operation| request.entity.as_ref().is_none_or(|id| operation.entity.id == *id))
            .filter(|operation| request.step.as_ref().is_none_or(|step| operation.step == *step))
            .filter(|operation| request.status.is_none_or(|status| operation.state.status() == status))
            .filter(|operation| request.before.is_none_or(|before| operation.id < before));
        Ok(matching.take(request.limit.clamp(1, MAX_PAGE)).cloned().collect())
    }

    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        Ok(self.state().purge_operations(&request))
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.state().append_entity_journal(notes);
        Ok(())
    }

    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        let state = self.state();
        let placed = state
            .entity_notes
            .iter()
            .zip(1..)
            .map(|(note, place)| StoredEntityEntry { place, note: note.clone() });
        let matching = placed
            .filter(|placed| {
                placed.note.workspace == request.workspace && placed.note.entity == request.entity
            })
            .filter(|placed| request.operation.is_none() || placed.note.operation == request.operation)
            .filter(|placed| placed.place > request.after);
        Ok(matching.take(request.limit.clamp(1, MAX_PAGE)).collect())
    }

    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        Ok(self.state().list_evidence(&request))
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        self.state().table(table).map(drop)
    }
}
