//! The store's other parts over the same faulty connection: request keys, webhooks, entities, standalone promises, the
//! catalog.

use async_trait::async_trait;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, BeginOutcome, BeginRequest, CatalogItem, CatalogKind, Entity,
    EntityId, EntityJournalEntry, EntityRef, EntityStorage, FinishOperation, FinishOperationOutcome,
    FinishRequest, IdempotencyKey, InboundEvent, InboundEventId, KeyedStart, KeyedStartOutcome, Name,
    Operation, OperationId, OwnerId, Promise, RequestRecord, RequestScope, RunId, TableRef, Timestamp,
    WorkspaceId,
};
use hapax_engine::store::{
    CancelFamily, CancelFamilyOutcome, Catalog, CreateEntityOutcome, CreateOutcome, CreatePromise,
    EntityStore, FamilyStore, FindLatestOperations, FinishInboundEvent, HeldOperation, KeyRef, KeyUsage,
    KeyUsageDelta, LatestOperations, ListCatalogItems, ListEarlySettlements, ListEntities, ListEntityJournal,
    ListEvidence, ListInboundEvents, ListOperations, ListPromises, ListUnprocessedEvents, NewEntity,
    NewInboundEvent, OpenClaim, PromisePage, PromiseStore, PurgeOperations, PurgeOperationsOutcome,
    PutCatalogItem, PutOutcome, PutSettleToken, ReceiveOutcome, ReleaseKey, ReleaseOutcome, RequestKeyStore,
    RevertStrays, SettleToken, StoreResult, StoredEarlySettlement, StoredEntityEntry, StoredJournalEntry,
    SweepFamily, SweepFamilyOutcome, TokenDigest, WebhookStore,
};

use super::faulty_store::{Call, FaultyStore, now};

#[async_trait]
impl RequestKeyStore for FaultyStore {
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        let shown = format!("begin request {}", request.key);
        self.send(Call::command(shown, move |store: &MemoryStore| now(store.begin_request(request.clone()))))
            .await
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        let shown = format!("finish request {}", request.key);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.finish_request(request.clone()))))
            .await
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        let shown = format!("start {} under {}", start.new.facts.id, start.request.key);
        if let Some(grant) = &start.new.grant {
            self.learn_owner(grant.owner);
        }
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.start_keyed_run(start.clone()))))
            .await
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        let (scope, key) = (scope.clone(), key.clone());
        let shown = format!("find request {key}");
        self.send(Call::read(shown, move |store: &MemoryStore| now(store.find_request(&scope, &key)))).await
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        self.send(Call::command("release key".into(), move |store: &MemoryStore| {
            now(store.release_key(request.clone()))
        }))
        .await
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        self.send(Call::command("count uses".into(), move |store: &MemoryStore| {
            now(store.add_key_usage(uses.clone()))
        }))
        .await
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        let place = place.clone();
        self.send(Call::read(
            "find uses".into(),
            move |store: &MemoryStore| now(store.find_key_usage(&place)),
        ))
        .await
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        self.send(Call::write("purge requests".into(), move |store: &MemoryStore| {
            now(store.purge_requests(limit))
        }))
        .await
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        now(self.store().find_oldest_request())
    }
}

#[async_trait]
impl WebhookStore for FaultyStore {
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome> {
        let shown = format!("receive hook {}", hook.id.event);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.receive_event(hook.clone())))).await
    }

    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool> {
        let shown = format!("finish hook {}", request.id.event);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.finish_event(request.clone()))))
            .await
    }

    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>> {
        let id = id.clone();
        self.send(Call::read("find hook".into(), move |store: &MemoryStore| {
            now(store.find_inbound_event(&id))
        }))
        .await
    }

    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>> {
        self.send(Call::read("list inbound events".into(), move |store: &MemoryStore| {
            now(store.list_inbound_events(request.clone()))
        }))
        .await
    }

    async fn list_unprocessed_events(
        &self,
        request: ListUnprocessedEvents,
    ) -> StoreResult<Vec<InboundEvent>> {
        self.send(Call::read("list unprocessed events".into(), move |store: &MemoryStore| {
            now(store.list_unprocessed_events(request.clone()))
        }))
        .await
    }

    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.send(Call::write("purge inbound events".into(), move |store: &MemoryStore| {
            now(store.purge_inbound_events(before, limit))
        }))
        .await
    }
}

#[async_trait]
impl FamilyStore for FaultyStore {
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome> {
        let shown = format!("cancel the family of {}", self.world().name(request.root));
        let world = self.world().clone();
        self.send(Call::command(shown, move |store: &MemoryStore| {
            let outcome = now(store.cancel_family(request.clone()));
            if matches!(outcome, Ok(CancelFamilyOutcome::Cancelled(_))) {
                world.with_families(|families| families.note_cancelled(request.root));
            }
            outcome
        }))
        .await
    }

    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweepFamilyOutcome> {
        let shown = format!("sweep the family of {}", self.world().name(request.root));
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.sweep_family(request.clone()))))
            .await
    }

    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>> {
        self.send(Call::read("list unswept families".into(), move |store: &MemoryStore| {
            now(store.list_unswept_families(limit))
        }))
        .await
    }
}

#[async_trait]
impl EntityStore for FaultyStore {
    async fn create_entity(&self, request: NewEntity) -> StoreResult<CreateEntityOutcome> {
        let shown = format!("create {}", request.entity);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.create_entity(request.clone()))))
            .await
    }

    async fn find_entity(
        &self,
        workspace: &WorkspaceId,
        entity: &EntityRef,
        home: &EntityStorage,
    ) -> StoreResult<Option<Entity>> {
        let (workspace, entity, home) = (workspace.clone(), entity.clone(), home.clone());
        let shown = format!("find {entity}");
        self.send(Call::read(shown, move |store: &MemoryStore| {
            now(store.find_entity(&workspace, &entity, &home))
        }))
        .await
    }

    async fn list_entities(&self, request: ListEntities) -> StoreResult<Vec<Entity>> {
        self.send(Call::read("list entities".into(), move |store: &MemoryStore| {
            now(store.list_entities(request.clone()))
        }))
        .await
    }

    async fn begin_operation(&self, request: BeginOperation) -> StoreResult<BeginOperationOutcome> {
        self.learn_owner(request.owner);
        let shown = format!("begin {} of {}", request.step, request.entity);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.begin_operation(request.clone()))))
            .await
    }

    async fn finish_operation(&self, request: FinishOperation) -> StoreResult<FinishOperationOutcome> {
        let shown = format!("finish {} #{} {:?}", request.operation, request.attempt, request.end);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.finish_operation(request.clone()))))
            .await
    }

    async fn heartbeat_operations(
        &self,
        owner: OwnerId,
        held: Vec<HeldOperation>,
    ) -> StoreResult<Vec<OperationId>> {
        self.learn_owner(owner);
        let shown = format!("hear of {}", held.len());
        self.send(Call::write(shown, move |store: &MemoryStore| {
            now(store.heartbeat_operations(owner, held.clone()))
        }))
        .await
    }

    async fn list_stale_operations(
        &self,
        module: &Name,
        unheard_since: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.send(Call::read("list stale operations".into(), move |store: &MemoryStore| {
            now(store.list_stale_operations(&module, unheard_since, limit))
        }))
        .await
    }

    async fn list_doubted_operations(
        &self,
        module: &Name,
        after: Option<(Timestamp, OperationId)>,
        limit: usize,
    ) -> StoreResult<Vec<Operation>> {
        let module = module.clone();
        self.send(Call::read("list doubted operations".into(), move |store: &MemoryStore| {
            now(store.list_doubted_operations(&module, after, limit))
        }))
        .await
    }

    async fn list_open_claims(
        &self,
        workspace: Option<&WorkspaceId>,
        limit: usize,
    ) -> StoreResult<Vec<OpenClaim>> {
        let workspace = workspace.cloned();
        self.send(Call::read("list open claims".into(), move |store: &MemoryStore| {
            now(store.list_open_claims(workspace.as_ref(), limit))
        }))
        .await
    }

    async fn find_latest_operations(&self, request: FindLatestOperations) -> StoreResult<LatestOperations> {
        self.send(Call::read("find latest operations".into(), move |store: &MemoryStore| {
            now(store.find_latest_operations(request.clone()))
        }))
        .await
    }

    async fn revert_strays(&self, request: RevertStrays) -> StoreResult<Vec<EntityId>> {
        self.send(Call::write("revert strays".into(), move |store: &MemoryStore| {
            now(store.revert_strays(request.clone()))
        }))
        .await
    }

    async fn find_operation(
        &self,
        workspace: &WorkspaceId,
        id: OperationId,
    ) -> StoreResult<Option<Operation>> {
        let workspace = workspace.clone();
        self.send(Call::read("find operation".into(), move |store: &MemoryStore| {
            now(store.find_operation(&workspace, id))
        }))
        .await
    }

    async fn find_keyed_operation(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Operation>> {
        let (workspace, key) = (workspace.clone(), key.clone());
        let shown = format!("find operation by key {key}");
        self.send(Call::read(shown, move |store: &MemoryStore| {
            now(store.find_keyed_operation(&workspace, &key))
        }))
        .await
    }

    async fn list_operations(&self, request: ListOperations) -> StoreResult<Vec<Operation>> {
        self.send(Call::read("list operations".into(), move |store: &MemoryStore| {
            now(store.list_operations(request.clone()))
        }))
        .await
    }

    async fn purge_operations(&self, request: PurgeOperations) -> StoreResult<PurgeOperationsOutcome> {
        self.send(Call::write("purge operations".into(), move |store: &MemoryStore| {
            now(store.purge_operations(request.clone()))
        }))
        .await
    }

    async fn append_entity_journal(&self, notes: Vec<EntityJournalEntry>) -> StoreResult<()> {
        self.send(Call::command("append entity notes".into(), move |store: &MemoryStore| {
            now(store.append_entity_journal(notes.clone()))
        }))
        .await
    }

    async fn list_entity_journal(&self, request: ListEntityJournal) -> StoreResult<Vec<StoredEntityEntry>> {
        now(self.store().list_entity_journal(request))
    }

    async fn list_evidence(&self, request: ListEvidence) -> StoreResult<Vec<StoredJournalEntry>> {
        now(self.store().list_evidence(request))
    }

    async fn check_table(&self, table: &TableRef) -> StoreResult<()> {
        now(self.store().check_table(table))
    }
}

#[async_trait]
impl PromiseStore for FaultyStore {
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome> {
        let shown = format!("create promise {}", request.promise.id);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.create_promise(request.clone()))))
            .await
    }

    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>> {
        let (workspace, key) = (workspace.clone(), key.clone());
        let shown = format!("find promise by key {key}");
        self.send(Call::read(shown, move |store: &MemoryStore| {
            now(store.find_promise_by_key(&workspace, &key))
        }))
        .await
    }

    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage> {
        now(self.store().list_promises(request))
    }

    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>> {
        now(self.store().list_early_settlements(request))
    }

    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool> {
        self.send(Call::write("put settle token".into(), move |store: &MemoryStore| {
            now(store.put_settle_token(request.clone()))
        }))
        .await
    }

    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>> {
        now(self.store().find_settle_token(digest))
    }

    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.send(Call::write("purge promises".into(), move |store: &MemoryStore| {
            now(store.purge_promises(over_before, limit))
        }))
        .await
    }
}

#[async_trait]
impl Catalog for FaultyStore {
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome> {
        let shown = format!("put item {} over {:?}", request.name, request.expected);
        self.send(Call::write(shown, move |store: &MemoryStore| now(store.put_item(request.clone())))).await
    }

    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>> {
        let id = id.clone();
        let shown = format!("find item {id}");
        self.send(Call::read(shown, move |store: &MemoryStore| now(store.find_item(kind, &id)))).await
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>> {
        let (workspace, name) = (workspace.clone(), name.to_string());
        let shown = format!("find item {name}");
        self.send(Call::read(shown, move |store: &MemoryStore| {
            now(store.find_named_item(&workspace, kind, &name))
        }))
        .await
    }

    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>> {
        self.send(Call::read("list items".into(), move |store: &MemoryStore| {
            now(store.list_items(request.clone()))
        }))
        .await
    }
}
