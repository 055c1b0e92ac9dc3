//! A store that is away, waits or breaks as a test says.

use hapax_engine::model::TallyCount;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hapax_engine::model::*;
use hapax_engine::store::*;
use tokio::sync::{Notify, Semaphore};

/// Duration of a slow start: long enough for a second request to arrive.
const SLOW: Duration = Duration::from_millis(600);

/// The subject selects the behaviour of a start: `gated…` waits for the gate, `slow…` takes its
/// time, `broken…` breaks, `away-once…` is rejected the first time, `unsure…` is written but not
/// confirmed until [`PlannedStore::be_sure`]. A settlement under a key with `broken` in it breaks.
#[derive(Debug)]
pub struct PlannedStore {
    inner: Arc<dyn Store>,
    is_away: AtomicBool,
    is_full: AtomicBool,
    starts: AtomicUsize,
    has_failed: AtomicBool,
    pub(super) loses_outcomes: AtomicBool,
    logs_read: AtomicUsize,
    events_read: AtomicUsize,
    /// Notified when a gated start has begun.
    pub begun: Notify,
    /// Lets gated starts go on, one per permit.
    pub gate: Semaphore,
}

impl PlannedStore {
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(PlannedStore {
            inner,
            is_away: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            starts: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            loses_outcomes: AtomicBool::new(false),
            logs_read: AtomicUsize::new(0),
            events_read: AtomicUsize::new(0),
            begun: Notify::new(),
            gate: Semaphore::new(0),
        })
    }

    /// From now on the store cannot be reached, or can be again.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// From now on the store can be read and not written, as on a full disk, or can be written again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// From now on every start is confirmed.
    pub fn be_sure(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }

    /// How many starts came.
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// Logs of runs and rows of events that were read since the last call.
    pub fn take_reads(&self) -> (usize, usize) {
        (self.logs_read.swap(0, Ordering::SeqCst), self.events_read.swap(0, Ordering::SeqCst))
    }

    pub(super) fn behind(&self) -> StoreResult<&dyn Store> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("planned".into())),
            false => Ok(&*self.inner),
        }
    }

    fn subject_of<'a>(&self, commit: &'a RunCommit) -> Option<&'a str> {
        commit.head.facts.subject.as_ref().map(|subject| subject.as_str())
    }

    fn book(&self) -> StoreResult<&dyn RequestKeyStore> {
        Ok(self.behind()?.request_key_store().expect("it keeps keys"))
    }

    fn items(&self) -> StoreResult<&dyn Catalog> {
        Ok(self.behind()?.catalog().expect("it keeps items"))
    }
}

/// Steps and events of a huge run, beside its own.
pub const HUGE_STEPS: usize = 10_000;
pub const HUGE_EVENTS: usize = 100_000;

/// Adds steps and events to the end of a run, as if it had worked for long.
fn swell(commit: &mut RunCommit) {
    let Some(model) = commit.steps.last().cloned() else { return };
    let Some(event) = commit.events.last().cloned() else { return };
    let begins = commit.head.version.get();
    let version = |place: usize| Version::new(begins + place as u64);
    commit.steps.extend((0..HUGE_STEPS).map(|place| StepRecord {
        id: StepId::from_stored(&format!("step-{place:05}")),
        started_version: version(place * HUGE_EVENTS / HUGE_STEPS),
        changed_version: version(place * HUGE_EVENTS / HUGE_STEPS + 1),
        ..model.clone()
    }));
    let of_place = |place| RunEvent { version: version(place), kind: EventKind::Claimed, ..event.clone() };
    let mut events: Vec<RunEvent> = (0..HUGE_EVENTS).map(of_place).collect();
    commit.head.version = version(HUGE_EVENTS);
    events.push(RunEvent { version: commit.head.version, ..event.clone() });
    commit.events.retain(|own| own.version < event.version);
    commit.events.extend(events);
}

#[async_trait]
impl Catalog for PlannedStore {
    async fn put_item(&self, request: PutCatalogItem) -> StoreResult<PutOutcome> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("no space left on device".into()));
        }
        self.items()?.put_item(request).await
    }

    async fn find_item(&self, kind: CatalogKind, id: &Name) -> StoreResult<Option<CatalogItem>> {
        self.items()?.find_item(kind, id).await
    }

    async fn find_named_item(
        &self,
        workspace: &WorkspaceId,
        kind: CatalogKind,
        name: &str,
    ) -> StoreResult<Option<CatalogItem>> {
        self.items()?.find_named_item(workspace, kind, name).await
    }

    async fn list_items(&self, request: ListCatalogItems) -> StoreResult<Vec<CatalogItem>> {
        self.items()?.list_items(request).await
    }
}

impl PlannedStore {
    /// Does to a start what its subject says.
    async fn meet_start(&self, new: &NewRun) -> StoreResult<StartPlan> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        let subject = new.facts.subject.as_ref().map(ToString::to_string).unwrap_or_default();
        match subject.split(':').next().unwrap_or_default() {
            "gated" => {
                self.begun.notify_one();
                self.gate.acquire().await.expect("never closed").forget();
            }
            "slow" => tokio::time::sleep(SLOW).await,
            "broken" => return Err(StoreError::Broken("planned".into())),
            "away-once" if !self.has_failed.swap(true, Ordering::SeqCst) => {
                return Err(StoreError::Unavailable("planned".into()));
            }
            "unsure" if !self.has_failed.load(Ordering::SeqCst) => return Ok(StartPlan::LosesItsAnswer),
            _ => {}
        }
        Ok(StartPlan::Goes)
    }
}

/// Planned outcome of a start.
enum StartPlan {
    Goes,
    /// It is written without a lease, because one that nobody knows of would keep the run waiting until it ran out, and
    /// its answer is lost.
    LosesItsAnswer,
}

#[async_trait]
impl RequestKeyStore for PlannedStore {
    async fn begin_request(&self, request: BeginRequest) -> StoreResult<BeginOutcome> {
        self.book()?.begin_request(request).await
    }

    async fn finish_request(&self, request: FinishRequest) -> StoreResult<bool> {
        self.book()?.finish_request(request).await
    }

    async fn start_keyed_run(&self, start: KeyedStart) -> StoreResult<KeyedStartOutcome> {
        self.behind()?;
        match self.meet_start(&start.new).await? {
            StartPlan::LosesItsAnswer => {
                let new = NewRun { grant: None, ..start.new.clone() };
                let _written = self.book()?.start_keyed_run(KeyedStart { new, ..start }).await?;
                Err(StoreError::Unknown("planned".into()))
            }
            StartPlan::Goes => self.book()?.start_keyed_run(start).await,
        }
    }

    async fn find_request(
        &self,
        scope: &RequestScope,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<RequestRecord>> {
        self.book()?.find_request(scope, key).await
    }

    async fn release_key(&self, request: ReleaseKey) -> StoreResult<ReleaseOutcome> {
        self.book()?.release_key(request).await
    }

    async fn add_key_usage(&self, uses: Vec<KeyUsageDelta>) -> StoreResult<()> {
        self.book()?.add_key_usage(uses).await
    }

    async fn find_key_usage(&self, place: &KeyRef) -> StoreResult<KeyUsage> {
        self.book()?.find_key_usage(place).await
    }

    async fn purge_requests(&self, limit: usize) -> StoreResult<usize> {
        self.book()?.purge_requests(limit).await
    }

    async fn find_oldest_request(&self) -> StoreResult<Option<Timestamp>> {
        self.book()?.find_oldest_request().await
    }
}

#[async_trait]
impl Store for PlannedStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn hints(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.inner.hints()
    }

    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        Some(self)
    }

    fn catalog(&self) -> Option<&dyn Catalog> {
        Some(self)
    }

    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        self.inner.promise_store()
    }

    fn family_store(&self) -> Option<&dyn hapax_engine::store::FamilyStore> {
        self.inner.family_store()
    }

    fn entity_store(&self) -> Option<&dyn hapax_engine::store::EntityStore> {
        self.inner.entity_store()
    }

    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        Some(self)
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        let store = self.behind()?;
        match self.meet_start(&new).await? {
            StartPlan::LosesItsAnswer => {
                let _written = store.start_run(NewRun { grant: None, ..new }).await?;
                Err(StoreError::Unknown("planned".into()))
            }
            StartPlan::Goes => store.start_run(new).await,
        }
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.behind()?.claim_runs(request).await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.behind()?.renew_leases(request).await
    }

    async fn commit_run(&self, mut advance: RunCommit) -> StoreResult<CommitOutcome> {
        if advance.result.is_some() && self.subject_of(&advance) == Some("huge") {
            swell(&mut advance);
        }
        self.behind()?.commit_run(advance).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.behind()?.command_run(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.behind()?.send_signal(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        let store = self.behind()?;
        match &request.promise {
            PromiseRef::Key(key) if key.as_str().contains("broken") => {
                Err(StoreError::Broken("planned".into()))
            }
            _ => store.settle_promise(request).await,
        }
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.behind()?.purge(request).await
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        self.behind()?.find_run(workspace, run).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        self.logs_read.fetch_add(1, Ordering::SeqCst);
        self.behind()?.find_log(workspace, run).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        self.behind()?.list_runs(request).await
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        let events = self.behind()?.list_events(workspace, run, after).await?;
        self.events_read.fetch_add(events.len(), Ordering::SeqCst);
        Ok(events)
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        self.behind()?.find_key(workspace, kind, key).await
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.behind()?.list_keys(after).await
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        self.behind()?.find_promise(workspace, id).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.behind()?.append_journal(notes).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.behind()?.list_journal(request).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.behind()?.list_audit(request).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        self.behind()?.count_tallies(workspace).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.behind()?.list_doubts(request).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.behind()?.claim_outbox(request).await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.behind()?.finish_outbox_message(request).await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.behind()?.redeliver(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        self.behind()?.list_outbox(request).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.inner.close().await
    }
}
