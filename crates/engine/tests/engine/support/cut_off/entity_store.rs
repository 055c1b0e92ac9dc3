//! Entity store that counts calls and can hold back the replies to the ends of operations.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    FinishOperation, FinishOperationOutcome, IdempotencyKey, Name, Operation, OperationId, OwnerId, Payload,
    TableRef, Timestamp, WorkspaceId,
};
use hapax_engine::store::*;
use tokio::sync::watch;

use super::CutOff;

/// Counters and switches of the entity store.
#[derive(Debug, Default)]
pub struct Operations {
    heard: AtomicUsize,
    looked: AtomicUsize,
    ended: watch::Sender<usize>,
    held: watch::Sender<bool>,
    looks_held: watch::Sender<bool>,
}

impl Operations {
    /// Number of heartbeats.
    pub fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    /// Number of searches for stale operations.
    pub fn looked(&self) -> usize {
        self.looked.load(Ordering::SeqCst)
    }

    /// Ends take effect at once, and are answered when they are no longer held.
    pub fn hold_ends(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Searches are answered when they are no longer held.
    pub fn hold_looks(&self, held: bool) {
        self.looks_held.send_replace(held);
    }

    /// Waits until an end has taken effect, answered or not.
    pub async fn ended(&self) {
        self.ended.subscribe().wait_for(|ended| *ended > 0).await.unwrap();
    }

    async fn answer_an_end(&self) {
        self.ended.send_modify(|ended| *ended += 1);
        self.held.subscribe().wait_for(|held| !held).await.unwrap();
    }
}

impl CutOff {
    fn book(&self) -> StoreResult<&dyn EntityStore> {
        Ok(self.reach()?.entity_store().expect("the store has entities"))
    }
}

#[async_trait]
impl EntityStore for CutOff {
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        self.book()?.create_entity(request).await
    }
    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        self.book()?.find_entity(workspace, entity, home).await
    }
    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        self.book()?.list_entities(request).await
    }
    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        self.book()?.begin_operation(request).await
    }
    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        let answer = self.book()?.finish_operation(request).await;
        self.operations.answer_an_end().await;
        answer
    }
    /// The work is its own output.
    async fn transact_operation(&self, request: TransactOperation) -> StoreResult<TransactOperationOutcome> {
        let output = *request.work.downcast::<Payload>().expect("the work is a payload");
        let answer = match (request.finish)(output) {
            Ok(request) => TransactOperationOutcome::Worked(self.book()?.finish_operation(request).await?),
            Err(failure) => TransactOperationOutcome::WorkFailed(failure),
        };
        self.operations.answer_an_end().await;
        Ok(answer)
    }
    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        let answer = self.book()?.heartbeat_operations(owner, held).await;
        self.operations.heard.fetch_add(1, Ordering::SeqCst);
        answer
    }
    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        self.operations.looked.fetch_add(1, Ordering::SeqCst);
        self.operations.looks_held.subscribe().wait_for(|held| !held).await.unwrap();
        self.book()?.list_stale_operations(module, unheard_since, limit).await
    }
    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        self.book()?.list_doubted_operations(module, after, limit).await
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        self.book()?.list_open_claims(workspace, limit).await
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        self.book()?.find_latest_operations(request).await
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        self.book()?.revert_strays(request).await
    }
    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        self.book()?.find_operation(workspace, id).await
    }
    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        self.book()?.find_keyed_operation(workspace, key).await
    }
    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        self.book()?.list_operations(request).await
    }
    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        self.book()?.purge_operations(request).await
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.book()?.append_entity_journal(notes).await
    }
    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        self.book()?.list_entity_journal(request).await
    }
    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        self.book()?.list_evidence(request).await
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        self.book()?.check_table(table).await
    }
}
