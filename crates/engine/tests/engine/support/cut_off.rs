//! Store that one node can be cut off from, or whose commits can be held back.

mod entity_store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, Promise, PromiseId, RunCommit,
    RunEvent, RunId, TallyCount, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::*;
use tokio::sync::watch;

use entity_store::Operations;

#[derive(Debug)]
pub struct CutOff {
    store: Arc<dyn Store>,
    cut: AtomicBool,
    held: watch::Sender<bool>,
    answer_after_ms: AtomicU64,
    answer_renewals_after_ms: AtomicU64,
    lose_start_after_ms: AtomicU64,
    lose_leases: AtomicBool,
    panics_left: AtomicU32,
    /// Calls about entity operations.
    pub operations: Operations,
}

impl CutOff {
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        let (cut, held) = (AtomicBool::new(false), watch::Sender::new(false));
        Arc::new(CutOff {
            store,
            cut,
            held,
            answer_after_ms: AtomicU64::new(0),
            answer_renewals_after_ms: AtomicU64::new(0),
            lose_start_after_ms: AtomicU64::new(0),
            lose_leases: AtomicBool::new(false),
            panics_left: AtomicU32::new(0),
            operations: Operations::default(),
        })
    }

    pub fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// Holds commits back, or lets them continue.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Commits take effect at once and are answered this much later.
    pub fn answer_after(&self, span: Duration) {
        self.answer_after_ms.store(span.as_millis() as u64, Ordering::SeqCst);
    }

    /// Renewals take effect at once and are answered this much later.
    pub fn answer_renewals_after(&self, span: Duration) {
        self.answer_renewals_after_ms.store(span.as_millis() as u64, Ordering::SeqCst);
    }

    /// Renewals and claims never arrive and are never answered.
    pub fn lose_leases(&self) {
        self.lose_leases.store(true, Ordering::SeqCst);
    }

    /// The next start takes effect, and after this long the caller learns that its answer was lost.
    pub fn lose_next_start(&self, after: Duration) {
        self.lose_start_after_ms.store(after.as_millis() as u64, Ordering::SeqCst);
    }

    /// The next claims, renewals and deletions panic, this many in all.
    pub fn panic(&self, times: u32) {
        self.panics_left.store(times, Ordering::SeqCst);
    }

    fn maybe_panic(&self) {
        let had =
            self.panics_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(had.is_err(), "a fault that was asked for");
    }

    fn reach(&self) -> StoreResult<&dyn Store> {
        match self.cut.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("cut off".into())),
            false => Ok(&*self.store),
        }
    }
}

#[async_trait]
impl Store for CutOff {
    fn now(&self) -> Timestamp {
        self.store.now()
    }
    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        let answer = self.reach()?.start_run(new).await;
        match self.lose_start_after_ms.swap(0, Ordering::SeqCst) {
            0 => answer,
            ms => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Err(StoreError::Unknown("the answer was lost".into()))
            }
        }
    }
    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.maybe_panic();
        if self.lose_leases.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        self.reach()?.claim_runs(request).await
    }
    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.maybe_panic();
        if self.lose_leases.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let answer = self.reach()?.renew_leases(request).await;
        later(&self.answer_renewals_after_ms).await;
        answer
    }
    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        let mut held = self.held.subscribe();
        let _ = held.wait_for(|held| !held).await;
        let answer = self.reach()?.commit_run(advance).await;
        later(&self.answer_after_ms).await;
        answer
    }
    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.reach()?.command_run(request).await
    }
    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.reach()?.send_signal(request).await
    }
    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.reach()?.settle_promise(request).await
    }
    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.maybe_panic();
        self.reach()?.purge(request).await
    }
    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        self.reach()?.find_run(workspace, run).await
    }
    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        self.reach()?.find_log(workspace, run).await
    }
    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        self.reach()?.list_runs(request).await
    }
    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        self.reach()?.list_events(workspace, run, after).await
    }
    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        self.reach()?.find_key(workspace, kind, key).await
    }
    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.reach()?.list_keys(after).await
    }
    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        self.reach()?.find_promise(workspace, id).await
    }
    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.reach()?.append_journal(notes).await
    }
    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.reach()?.list_journal(request).await
    }
    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.reach()?.list_audit(request).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        self.reach()?.count_tallies(workspace).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.reach()?.list_doubts(request).await
    }
    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.reach()?.claim_outbox(request).await
    }
    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.reach()?.finish_outbox_message(request).await
    }
    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.reach()?.redeliver(request).await
    }
    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        self.reach()?.list_outbox(request).await
    }
    fn family_store(&self) -> Option<&dyn hapax_engine::store::FamilyStore> {
        self.reach().ok()?.family_store()
    }

    fn entity_store(&self) -> Option<&dyn EntityStore> {
        Some(self)
    }
    async fn close(&self) -> StoreResult<()> {
        self.reach()?.close().await
    }
}

async fn later(after_ms: &AtomicU64) {
    match after_ms.load(Ordering::SeqCst) {
        0 => {}
        ms => tokio::time::sleep(Duration::from_millis(ms)).await,
    }
}
