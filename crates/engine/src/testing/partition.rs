//! Store that one engine can be cut off from. Its calls wait until the connection is back, like calls of a
//! stopped process.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::memory::MemoryStore;
use crate::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, Promise, PromiseId, RunCommit,
    RunEvent, RunId, TallyCount, Timestamp, Version, WorkspaceId,
};
use crate::store::*;

#[derive(Debug)]
pub(super) struct Partition {
    store: Arc<MemoryStore>,
    cut: watch::Sender<bool>,
}

impl Partition {
    pub(super) fn new(store: Arc<MemoryStore>) -> Self {
        Partition { store, cut: watch::Sender::new(false) }
    }

    pub(super) fn cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }

    async fn line(&self) -> &MemoryStore {
        // `self` owns the sender, so the wait ends when the connection is back.
        let _ = self.cut.subscribe().wait_for(|cut| !*cut).await;
        &self.store
    }
}

#[async_trait]
impl Store for Partition {
    fn now(&self) -> Timestamp {
        self.store.now()
    }

    fn family_store(&self) -> Option<&dyn FamilyStore> {
        self.store.family_store()
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.line().await.start_run(new).await
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.line().await.claim_runs(request).await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.line().await.renew_leases(request).await
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        self.line().await.commit_run(advance).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.line().await.command_run(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.line().await.send_signal(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.line().await.settle_promise(request).await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.line().await.purge(request).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        self.line().await.list_runs(request).await
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.line().await.list_keys(after).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.line().await.append_journal(notes).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.line().await.list_journal(request).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.line().await.list_audit(request).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        self.line().await.count_tallies(workspace).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.line().await.list_doubts(request).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.line().await.claim_outbox(request).await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.line().await.finish_outbox_message(request).await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.line().await.redeliver(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        self.line().await.list_outbox(request).await
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        self.line().await.find_run(workspace, run).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        self.line().await.find_log(workspace, run).await
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        self.line().await.find_promise(workspace, id).await
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        self.line().await.list_events(workspace, run, after).await
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        self.line().await.find_key(workspace, kind, key).await
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
