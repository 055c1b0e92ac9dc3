//! Lies about entities and their operations.

use async_trait::async_trait;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    FinishOperation, FinishOperationOutcome, IdempotencyKey, Name, Operation, OperationId, OwnerId, TableRef,
    Timestamp, WorkspaceId,
};
use hapax_engine::store::*;

use super::faked_store::FakedStore;

impl FakedStore {
    fn book(&self) -> &dyn EntityStore {
        self.store.entity_store().expect("the store keeps entities")
    }

    async fn operations(&self, workspace: &WorkspaceId) -> StoreResult<Vec<Operation>> {
        let all = ListOperations {
            workspace: workspace.clone(),
            kind: None,
            entity: None,
            step: None,
            status: None,
            before: None,
            limit: 1000,
        };
        let mut operations = self.book().list_operations(all).await?;
        (self.lie.operations)(&mut operations);
        Ok(operations)
    }
}

#[async_trait]
impl EntityStore for FakedStore {
    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        let mut found = self.book().find_entity(workspace, entity, home).await?;
        (self.lie.entity)(&mut found);
        Ok(found)
    }

    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        Ok(self.operations(workspace).await?.into_iter().find(|operation| operation.id == id))
    }

    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        let mut all = self.operations(workspace).await?.into_iter();
        Ok(all.find(|operation| operation.key.as_ref() == Some(key)))
    }

    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        let mut operations = self.operations(&request.workspace).await?;
        operations.sort_by_key(|operation| std::cmp::Reverse(operation.id));
        operations.retain(|operation| {
            request.status.is_none_or(|status| operation.state.status() == status)
                && request.before.is_none_or(|before| operation.id < before)
        });
        operations.truncate(request.limit);
        Ok(operations)
    }

    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        self.book().create_entity(request).await
    }

    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        self.book().list_entities(request).await
    }

    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        self.book().begin_operation(request).await
    }

    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        self.book().finish_operation(request).await
    }

    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        self.book().heartbeat_operations(owner, held).await
    }

    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        self.book().list_stale_operations(module, unheard_since, limit).await
    }

    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        self.book().list_doubted_operations(module, after, limit).await
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        self.book().list_open_claims(workspace, limit).await
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        self.book().find_latest_operations(request).await
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        self.book().revert_strays(request).await
    }

    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        self.book().purge_operations(request).await
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.book().append_entity_journal(notes).await
    }

    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        self.book().list_entity_journal(request).await
    }

    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        self.book().list_evidence(request).await
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        self.book().check_table(table).await
    }
}
