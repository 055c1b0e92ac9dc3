//! A store whose key verbs fail, lose their answers or wait, as a test has planned.

use hapax_engine::model::TallyCount;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use hapax_engine::model::*;
use hapax_engine::store::*;
use tokio::sync::Semaphore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Begin,
    Start,
    Finish,
    Find,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written.
    Away,
    /// Nothing is written, and no answer is sent.
    LostBefore,
    /// It is written, and no answer is sent.
    LostAfter,
    /// It is written when the gate opens.
    Gated,
    /// No answer is ever sent.
    Silent,
}

#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: Mutex<BTreeMap<Verb, VecDeque<Fault>>>,
    calls: Mutex<BTreeMap<Verb, usize>>,
    pub gate: Semaphore,
    has_keys: bool,
}

impl FaultyStore {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::new(inner, true))
    }

    /// A store that does not support request keys.
    pub fn without_keys(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self::new(inner, false))
    }

    fn new(inner: Arc<dyn Store>, has_keys: bool) -> Self {
        let (plan, calls) = (Mutex::default(), Mutex::default());
        FaultyStore { inner, plan, calls, gate: Semaphore::new(0), has_keys }
    }

    /// Plans the outcomes of the next calls of `verb`, one each.
    pub fn plan(&self, verb: Verb, faults: impl IntoIterator<Item = Fault>) {
        self.plan.lock().unwrap().entry(verb).or_default().extend(faults);
    }

    pub fn calls(&self, verb: Verb) -> usize {
        self.calls.lock().unwrap().get(&verb).copied().unwrap_or(0)
    }

    fn book(&self) -> &dyn RequestKeyStore {
        self.inner.request_key_store().unwrap()
    }

    async fn meet<T>(&self, verb: Verb, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        *self.calls.lock().unwrap().entry(verb).or_default() += 1;
        let fault = self.plan.lock().unwrap().get_mut(&verb).and_then(VecDeque::pop_front);
        match fault {
            None => call.await,
            Some(Fault::Away) => Err(StoreError::Unavailable("planned".into())),
            Some(Fault::LostBefore) => Err(StoreError::Unknown("planned".into())),
            Some(Fault::LostAfter) => {
                call.await?;
                Err(StoreError::Unknown("planned".into()))
            }
            Some(Fault::Gated) => {
                self.gate.acquire().await.unwrap().forget();
                call.await
            }
            Some(Fault::Silent) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl RequestKeyStore for FaultyStore {
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        self.meet(Verb::Begin, self.book().begin_request(request)).await
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        self.meet(Verb::Finish, self.book().finish_request(request)).await
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        self.meet(Verb::Start, self.book().start_keyed_run(start)).await
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        self.meet(Verb::Find, self.book().find_request(scope, key)).await
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        self.book().release_key(request).await
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        self.meet(Verb::Count, self.book().add_key_usage(uses)).await
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        self.book().find_key_usage(place).await
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        self.book().purge_requests(limit).await
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        self.book().find_oldest_request().await
    }
}

/// Everything but request keys goes to the inner store.
#[async_trait]
impl Store for FaultyStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        self.has_keys.then_some(self as &dyn RequestKeyStore)
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.inner.start_run(new).await
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.inner.claim_runs(request).await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.inner.renew_leases(request).await
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        self.inner.commit_run(advance).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.inner.command_run(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.inner.send_signal(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.inner.settle_promise(request).await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.inner.purge(request).await
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        self.inner.find_run(workspace, run).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        self.inner.find_log(workspace, run).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        self.inner.list_runs(request).await
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        self.inner.list_events(workspace, run, after).await
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        self.inner.find_key(workspace, kind, key).await
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.inner.list_keys(after).await
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        self.inner.find_promise(workspace, id).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.inner.append_journal(notes).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.inner.list_journal(request).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.inner.list_audit(request).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        self.inner.count_tallies(workspace).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.inner.list_doubts(request).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.inner.claim_outbox(request).await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.inner.finish_outbox_message(request).await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.inner.redeliver(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        self.inner.list_outbox(request).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.inner.close().await
    }
}
