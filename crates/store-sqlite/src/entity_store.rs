//! The entity book of the store.

use async_trait::async_trait;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    FinishOperation, FinishOperationOutcome, IdempotencyKey, Name, Operation, OperationId, OwnerId, TableRef,
    Timestamp, WorkspaceId,
};
use hapax_engine::store::{
    CreateEntityOutcome, EntityStore, FindLatestOperations, HeldOperation, LatestOperations, ListEntities,
    ListEntityJournal, ListEvidence, ListOperations, NewEntity, OpenClaim, PurgeOperations,
    PurgeOperationsOutcome, RevertStrays, StoreResult, StoredEntityEntry, StoredJournalEntry,
    TransactOperation, TransactOperationOutcome,
};

use crate::check_table::check_table;
use crate::entity_notes::{self, AppendEntityNotes};
use crate::heartbeat_operations::HeartbeatOperations;
use crate::revert_strays::{RevertRows, list_strays};
use crate::store::SqliteStore;
use crate::{entities, list_journal, list_operations, operations};

#[async_trait]
impl EntityStore for SqliteStore {
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        self.write(request).await
    }

    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        let (workspace, entity, home) = (workspace.clone(), entity.clone(), home.clone());
        self.readers()
            .find(move |connection| entities::find_entity(connection, &workspace, &entity, &home))
            .await
    }

    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        self.readers().read(move |connection| entities::list_entities(connection, &request)).await
    }

    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        self.write(request).await
    }

    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        self.write(request).await
    }

    async fn transact_operation(&self, request: TransactOperation) -> StoreResult<TransactOperationOutcome> {
        self.write(request).await
    }

    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        self.write(HeartbeatOperations { owner, held }).await
    }

    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.readers()
            .read(move |connection| {
                list_operations::list_stale_operations(connection, &module, unheard_since, limit)
            })
            .await
    }

    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.readers()
            .read(move |connection| {
                list_operations::list_doubted_operations(connection, &module, after, limit)
            })
            .await
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        let workspace = workspace.cloned();
        self.readers()
            .read(move |connection| list_operations::list_open_claims(connection, workspace.as_ref(), limit))
            .await
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        self.readers()
            .read(move |connection| list_operations::find_latest_operations(connection, &request))
            .await
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        // To look for them may mean to walk over the whole table: nobody's writes wait for that.
        let (request, ids) = self
            .readers()
            .read(move |connection| list_strays(connection, &request).map(|ids| (request, ids)))
            .await?;
        match ids.is_empty() {
            true => Ok(Vec::new()),
            false => self.write(RevertRows { request, ids }).await,
        }
    }

    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        let workspace = workspace.clone();
        self.readers().find(move |connection| operations::find_operation(connection, &workspace, id)).await
    }

    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        let (workspace, key) = (workspace.clone(), key.clone());
        self.readers()
            .find(move |connection| operations::find_keyed_operation(connection, &workspace, &key))
            .await
    }

    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        self.readers().read(move |connection| list_operations::list_operations(connection, &request)).await
    }

    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        self.write(request).await
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.write(AppendEntityNotes(notes)).await
    }

    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        self.readers().read(move |connection| entity_notes::list_entity_journal(connection, &request)).await
    }

    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        self.readers().read(move |connection| list_journal::list_evidence(connection, &request)).await
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        let table = table.clone();
        self.readers().read(move |connection| check_table(connection, &table)).await
    }
}
