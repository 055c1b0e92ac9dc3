//! The entity store.

use std::time::Instant;

use async_trait::async_trait;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, Entity, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    FinishOperation, FinishOperationOutcome, IdempotencyKey, Name, Operation, OperationId, OwnerId, TableRef,
    Timestamp, WorkspaceId,
};
use hapax_engine::store::{
    CreateEntityOutcome, EntityStore, FindLatestOperations, HeldOperation, LatestOperations, ListEntities,
    ListEntityJournal, ListEvidence, ListOperations, NewEntity, OpenClaim, PurgeOperations,
    PurgeOperationsOutcome, RevertStrays, Store, StoreError, StoreResult, StoredEntityEntry,
    StoredJournalEntry, TransactOperation, TransactOperationOutcome,
};

use crate::begin_operation::BeginRequest;
use crate::entity_notes::{self, AppendEntityNotes};
use crate::entity_reads;
use crate::fault::Fault;
use crate::list_journal;
use crate::purge_operations::purge_operations;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Must run before any operation that may read a user's table.
    async fn learn_schemas(&self) -> StoreResult<()> {
        self.tables().learn_schemas(self.pools()).await.map_err(Fault::into_store_error)
    }

    /// Returns true if an outdated table description caused the failure. Then the description is
    /// dropped, and a retry succeeds or is rejected with a reason.
    fn was_outdated<T>(&self, told: &StoreResult<T>) -> bool {
        matches!(told, Err(StoreError::Broken(_))) && self.tables().forget()
    }

    async fn try_find(&self, place: (WorkspaceId, EntityRef, EntityStorage)) -> StoreResult<Option<Entity>> {
        let (interned_names, tables) = (self.interned_names(), self.tables());
        self.read(|held| entity_reads::find_entity(held, interned_names, tables, place)).await
    }

    async fn try_list(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        let (interned_names, tables) = (self.interned_names(), self.tables());
        self.read(|held| entity_reads::list_entities(held, interned_names, tables, request)).await
    }

    async fn try_begin(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        let id_fits = match request.home.table() {
            None => true,
            Some(table) => {
                self.learn_schemas().await?;
                let (tables, table, id) = (self.tables(), table.clone(), request.entity.id.clone());
                match tables.find_known(&table).and_then(|known| known.may_have(&id)) {
                    Some(fits) => fits,
                    None => self.read(|held| entity_reads::may_have(held, tables, table, id)).await?,
                }
            }
        };
        self.move_entity(BeginRequest { request, id_fits }).await
    }
}

#[async_trait]
impl EntityStore for PostgresStore {
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        self.move_entity(request).await
    }

    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        if home.table().is_some() {
            self.learn_schemas().await?;
        }
        let place = (workspace.clone(), entity.clone(), home.clone());
        let told = self.try_find(place.clone()).await;
        match self.was_outdated(&told) {
            true => self.try_find(place).await,
            false => told,
        }
    }

    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        if request.home.table().is_some() {
            self.learn_schemas().await?;
        }
        let told = self.try_list(request.clone()).await;
        match self.was_outdated(&told) {
            true => self.try_list(request).await,
            false => told,
        }
    }

    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        let told = self.try_begin(request.clone()).await;
        match self.was_outdated(&told) {
            true => self.try_begin(request).await,
            false => told,
        }
    }

    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        self.learn_schemas().await?;
        let told = self.move_entity(request.clone()).await;
        match self.was_outdated(&told) {
            true => self.move_entity(request).await,
            false => told,
        }
    }

    async fn transact_operation(&self, request: TransactOperation) -> StoreResult<TransactOperationOutcome> {
        self.learn_schemas().await?;
        let request = std::sync::Arc::new(request);
        let told = self.work(request.clone()).await;
        match self.was_outdated(&told) {
            true => self.work(request).await,
            false => told,
        }
    }

    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        entity_reads::check_heard(&held).map_err(Fault::into_store_error)?;
        let (interned_names, now) = (self.interned_names(), self.now());
        self.renew(|link| entity_reads::heartbeat_operations(link, interned_names, owner, held, now)).await
    }

    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.read(|held| entity_reads::list_stale_operations(held, module, unheard_since, limit)).await
    }

    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.read(|held| entity_reads::list_doubted_operations(held, module, after, limit)).await
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        let (interned_names, workspace) = (self.interned_names(), workspace.cloned());
        self.read(|held| entity_reads::list_open_claims(held, interned_names, workspace, limit)).await
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        let interned_names = self.interned_names();
        self.read(|held| entity_reads::find_latest_operations(held, interned_names, request)).await
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        self.learn_schemas().await?;
        let told = self.move_entity(request.clone()).await;
        match self.was_outdated(&told) {
            true => self.move_entity(request).await,
            false => told,
        }
    }

    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        let (interned_names, workspace) = (self.interned_names(), workspace.clone());
        self.read(|held| entity_reads::find_operation(held, interned_names, workspace, id)).await
    }

    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        let (interned_names, workspace, key) = (self.interned_names(), workspace.clone(), key.clone());
        self.read(|held| entity_reads::find_keyed_operation(held, interned_names, workspace, key)).await
    }

    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        let interned_names = self.interned_names();
        self.read(|held| entity_reads::list_operations(held, interned_names, request)).await
    }

    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        // After half of the deadline the rest is left for the next pass, as in purge.
        let until = Instant::now() + self.deadline() / 2;
        self.maintain(|held| purge_operations(held, request, until)).await
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.move_entity(AppendEntityNotes(notes)).await
    }

    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        let interned_names = self.interned_names();
        self.read(|held| entity_notes::list_entity_journal(held, interned_names, request)).await
    }

    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        let interned_names = self.interned_names();
        self.read(|held| list_journal::list_evidence(held, interned_names, request)).await
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        self.learn_schemas().await?;
        // Read again, because a user may have just changed it.
        self.tables().forget();
        let (tables, table) = (self.tables(), table.clone());
        self.read(|held| entity_reads::check_table(held, tables, table)).await
    }
}
