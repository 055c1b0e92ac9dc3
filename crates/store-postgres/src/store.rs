//! The store itself: writes go to the lanes, reads and maintenance have connections of their own.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hapax_engine::clock::Clock;
use hapax_engine::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, OwnerId, Promise, PromiseId,
    RunCommit, RunEvent, RunId, TallyCount, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::{
    Catalog, ClaimOutbox, ClaimRuns, ClaimedOutbox, ClaimedRuns, CommandRun, CommitOutcome, EntityStore,
    FamilyStore, FinishOutboxMessage, ListAudit, ListDoubts, ListJournal, ListOutbox, ListRuns, OutboxDepth,
    PromiseStore, Purge, PurgeOutcome, Redeliver, RedeliverOutcome, RenewLeases, RequestKeyStore,
    RunCommandOutcome, RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome,
    StartOutcome, Store, StoreError, StoreResult, StoredDoubt, StoredJournalEntry, StoredKey, Transact,
    TransactOutcome, WebhookStore,
};
use tokio::sync::{Mutex, OnceCell, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_postgres::Transaction;

use crate::advance_runs;
use crate::append_journal::AppendJournal;
use crate::batch::{HotOp, QueuedWrite, Start, size_of_write};
use crate::claim_runs::{self, WorkspaceRotation};
use crate::committer::Committer;
use crate::end_leases;
use crate::fault::Fault;
use crate::hints::Hints;
use crate::interned_names::InternedNames;
use crate::job::{EnqueuedAt, Job, Reply, Task, Verb};
use crate::limits::{MAX_OPERATION_BYTES, MAX_QUEUED, READ_CLOCK_EVERY};
use crate::open::{Opened, open};
use crate::open_error::OpenError;
use crate::options::PostgresOptions;
use crate::pools::Pools;
use crate::rmw_lane::RmwLane;
use crate::server_clock::ServerClock;
use crate::settings::{lock_timeout, search_path};
use crate::start_runs;
use crate::start_within::UserTransactions;
use crate::transact::{Record, TransactionalSteps};
use crate::user_tables::UserTables;
use crate::{
    claim_outbox, finish_outbox_message, journal, list_audit, list_doubts, list_journal, list_outbox,
    list_runs, purge, read, renew_leases,
};

/// Keeps everything in one schema of a PostgreSQL database, for any number of nodes.
#[derive(Debug)]
pub struct PostgresStore {
    place: String,
    clock: Arc<dyn Clock>,
    /// `None` if the options named a clock.
    server_clock: Option<Arc<ServerClock>>,
    pools: Arc<Pools>,
    interned_names: Arc<InternedNames>,
    tables: Arc<UserTables>,
    rotation: Arc<WorkspaceRotation>,
    hints: Arc<Hints>,
    deadline: Duration,
    /// `None` once the store is closed.
    lanes: RwLock<Option<Lanes>>,
    works: Arc<TransactionalSteps>,
    guests: UserTransactions,
    /// One permit for each piece of user work in progress.
    turns: Arc<Semaphore>,
    transactions: usize,
    /// Tasks that work until everything is written.
    workers: Mutex<JoinSet<()>>,
    /// Tasks that end with the store.
    _attendants: JoinSet<()>,
}

/// Queues for writes.
#[derive(Debug, Clone)]
struct Lanes {
    hot: mpsc::Sender<HotOp>,
    rmw_lane: mpsc::Sender<Box<dyn Task>>,
    requests: mpsc::Sender<Box<dyn Task>>,
    entities: mpsc::Sender<Box<dyn Task>>,
}

impl PostgresStore {
    /// Connects to `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, and creates missing tables.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, OpenError> {
        let Opened { address, place, clock, server_clock } = open(url, &options).await?;
        let pools = Arc::new(Pools::new(&address, &options));
        let (interned_names, tables) = (Arc::new(InternedNames::default()), Arc::new(UserTables::default()));
        let hints = Hints::new(&options.schema);
        let (hot, hot_inbox) = mpsc::channel(MAX_QUEUED);
        let (rmw_lane, rmw_inbox) = mpsc::channel(MAX_QUEUED);
        let (requests, requests_inbox) = mpsc::channel(MAX_QUEUED);
        let (entities, entities_inbox) = mpsc::channel(MAX_QUEUED);
        let (hot_inbox, entities_inbox) =
            (Arc::new(Mutex::new(hot_inbox)), Arc::new(Mutex::new(entities_inbox)));
        let (rmw_inbox, requests_inbox) =
            (Arc::new(Mutex::new(rmw_inbox)), Arc::new(Mutex::new(requests_inbox)));
        let mut workers = JoinSet::new();
        for _ in 0..options.committers {
            let committer = Committer {
                pools: pools.clone(),
                interned_names: interned_names.clone(),
                clock: clock.clone(),
                hints: hints.clone(),
                rmw_lane: rmw_lane.clone(),
            };
            workers.spawn(committer.run(hot_inbox.clone()));
            let lane = |connections| RmwLane {
                pools: pools.clone(),
                connections,
                interned_names: interned_names.clone(),
                tables: tables.clone(),
                clock: clock.clone(),
                hints: hints.clone(),
            };
            workers.spawn(lane(|pools| &pools.rmw_lane).run(rmw_inbox.clone()));
            workers.spawn(lane(|pools| &pools.requests).run(requests_inbox.clone()));
            workers.spawn(lane(|pools| &pools.entities).run(entities_inbox.clone()));
        }
        let mut attendants = JoinSet::new();
        attendants.spawn(hints.clone().tell(pools.clone()));
        attendants.spawn(hints.clone().hear(address));
        if let Some(server_clock) = server_clock.clone() {
            attendants.spawn(keep_time(server_clock, pools.clone()));
        }
        let works = Arc::new(TransactionalSteps {
            pools: pools.clone(),
            interned_names: interned_names.clone(),
            tables: tables.clone(),
            clock: clock.clone(),
            hints: hints.clone(),
            search_path: search_path(&options),
        });
        let guests = UserTransactions {
            pools: pools.clone(),
            interned_names: interned_names.clone(),
            tables: tables.clone(),
            clock: clock.clone(),
            search_path: search_path(&options),
            lock_timeout: lock_timeout(&options),
            hint: Hints::from_outside(&options.schema),
            identity: OnceCell::new(),
        };
        Ok(PostgresStore {
            place,
            clock,
            server_clock,
            pools,
            interned_names,
            tables,
            rotation: Arc::default(),
            hints,
            deadline: options.deadline,
            works,
            guests,
            turns: Arc::new(Semaphore::new(options.transactions)),
            transactions: options.transactions,
            lanes: RwLock::new(Some(Lanes { hot, rmw_lane, requests, entities })),
            workers: Mutex::new(workers),
            _attendants: attendants,
        })
    }

    /// Address of the database, without the password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Reads the server's clock now, instead of within a few seconds.
    pub async fn read_clock(&self) -> StoreResult<()> {
        let Some(clock) = self.server_clock.clone() else { return Ok(()) };
        self.maintain(|held| async move { Ok(clock.read(&held).await?) }).await
    }

    /// The clock for leases, timers and deadlines: the server's, unless the options set another.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Ends the leases of an owner whose process is dead, so that its runs can be claimed at once. Returns their
    /// number. A process that is only silent must keep its leases: it may be about to send an effect.
    pub async fn end_leases(&self, owner: OwnerId) -> StoreResult<u64> {
        let mut ended = 0;
        loop {
            let now = self.now();
            match self.maintain(|held| end_leases::end_leases(held, owner, now)).await? {
                0 => return Ok(ended),
                some => ended += some,
            }
            self.hints.note();
        }
    }

    /// Creates a run in the caller's transaction, by the rules of [`Store::start_run`], so that it
    /// exists if and only if that transaction commits. [`crate::StartWithin`] is the interface for
    /// users.
    ///
    /// Returns [`StoreError::Refused`] for a start that is offered to a driver or has a parent, and
    /// for a transaction on another database.
    pub async fn start_run_within(
        &self,
        new: NewRun,
        transaction: &mut Transaction<'_>,
    ) -> StoreResult<StartOutcome> {
        self.guests.start(&new, transaction).await
    }

    fn lanes(&self) -> StoreResult<Lanes> {
        let lanes = self.lanes.read().expect("no holder panics").clone();
        lanes.ok_or_else(|| StoreError::Unavailable("the store is closed".into()))
    }

    async fn write_hot<T>(&self, op: impl FnOnce(Reply<T>) -> HotOp) -> StoreResult<T> {
        let (reply, told) = oneshot::channel();
        self.enter(&self.lanes()?.hot, op(reply)).await?;
        hear(told).await
    }

    pub(crate) async fn consider<V: Verb>(&self, request: V) -> StoreResult<V::Outcome>
    where
        V::Outcome: Sync,
    {
        self.take_turn(&self.lanes()?.rmw_lane, request).await
    }

    /// Writes a request under its key.
    pub(crate) async fn write_request<V: Verb>(&self, request: V) -> StoreResult<V::Outcome>
    where
        V::Outcome: Sync,
    {
        self.take_turn(&self.lanes()?.requests, request).await
    }

    /// Writes a change of entities and their operations.
    pub(crate) async fn move_entity<V: Verb>(&self, request: V) -> StoreResult<V::Outcome>
    where
        V::Outcome: Sync,
    {
        self.take_turn(&self.lanes()?.entities, request).await
    }

    async fn take_turn<V: Verb>(
        &self,
        lane: &mpsc::Sender<Box<dyn Task>>,
        request: V,
    ) -> StoreResult<V::Outcome>
    where
        V::Outcome: Sync,
    {
        let (reply, told) = oneshot::channel();
        self.enter(lane, Job::boxed(request, reply, EnqueuedAt::now())).await?;
        hear(told).await
    }

    /// Waits for room in a lane, up to the deadline.
    async fn enter<T>(&self, lane: &mpsc::Sender<T>, op: T) -> StoreResult<()> {
        match tokio::time::timeout(self.deadline, lane.send(op)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(StoreError::Unavailable("the store is closed".into())),
            Err(_) => Err(StoreError::Unavailable(format!(
                "{MAX_QUEUED} writes wait already; the database is slow or asked too much"
            ))),
        }
    }

    pub(crate) async fn read<T: Send + 'static, F>(
        &self,
        read: impl FnOnce(Arc<crate::pools::HeldConnection>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.pools.reads.run(self.deadline, read).await.map_err(Fault::into_store_error)
    }

    /// Runs a write of one statement, on a connection of its own.
    pub(crate) async fn write_at_once<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Arc<crate::pools::HeldConnection>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.pools.deliveries.run(self.deadline, work).await.map_err(Fault::into_commit_error)
    }

    /// Longest time of a call.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Deletes expired data.
    pub(crate) async fn maintain<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Arc<crate::pools::HeldConnection>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.pools.maintenance.run(self.deadline, work).await.map_err(Fault::into_commit_error)
    }

    /// Sends heartbeats, on connections reserved for them.
    pub(crate) async fn renew<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Arc<crate::pools::HeldConnection>) -> F,
    ) -> StoreResult<T>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        self.pools.renewals.run(self.deadline, work).await.map_err(Fault::into_commit_error)
    }

    /// Runs user work in its turn, and records it in the same commit.
    pub(crate) async fn work<R: Record>(&self, request: R) -> StoreResult<R::Outcome> {
        let turn = match tokio::time::timeout(self.deadline, self.turns.clone().acquire_owned()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => return Err(StoreError::Unavailable("the store is closed".into())),
            Err(_) => {
                let why = format!("{} steps with work of their own are under way already", self.transactions);
                return Err(StoreError::Unavailable(why));
            }
        };
        let works = self.works.clone();
        // In a task of its own, so that the caller may stop waiting at any moment.
        let working = tokio::spawn(async move {
            let outcome = works.transact(&request).await;
            drop(turn);
            outcome
        });
        let ended = |_| Err(StoreError::Unknown("the store failed on this request".into()));
        working.await.unwrap_or_else(ended)
    }

    pub(crate) fn interned_names(&self) -> Arc<InternedNames> {
        self.interned_names.clone()
    }

    pub(crate) fn tables(&self) -> Arc<UserTables> {
        self.tables.clone()
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.pools
    }
}

/// Waits for the outcome of an operation that a lane has accepted.
async fn hear<T>(told: oneshot::Receiver<StoreResult<T>>) -> StoreResult<T> {
    told.await.unwrap_or_else(|_| Err(StoreError::Unknown("the store ended before it answered".into())))
}

/// Reads the server's clock at intervals, until the task is dropped.
async fn keep_time(clock: Arc<ServerClock>, pools: Arc<Pools>) {
    loop {
        tokio::time::sleep(READ_CLOCK_EVERY).await;
        let clock = clock.clone();
        let read = pools.maintenance.run(pools.maintenance.deadline(), |held| async move {
            clock.read(&held).await?;
            Ok(())
        });
        if let Err(fault) = read.await {
            tracing::debug!(?fault, "the server's clock could not be read; the last reading stays in use");
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn request_key_store(&self) -> Option<&dyn RequestKeyStore> {
        Some(self)
    }

    fn catalog(&self) -> Option<&dyn Catalog> {
        Some(self)
    }

    fn promise_store(&self) -> Option<&dyn PromiseStore> {
        Some(self)
    }

    fn webhook_store(&self) -> Option<&dyn WebhookStore> {
        Some(self)
    }

    fn family_store(&self) -> Option<&dyn FamilyStore> {
        Some(self)
    }

    fn entity_store(&self) -> Option<&dyn EntityStore> {
        Some(self)
    }

    fn clock_jumps(&self) -> u64 {
        self.clock.jumps()
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        Some(self.hints.listen())
    }

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        match start_runs::is_plain(&new) {
            true => {
                self.write_hot(|reply| HotOp::Start(Start { new, reply, entered: EnqueuedAt::now() })).await
            }
            false => self.consider(new).await,
        }
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        let (interned_names, rotation, now) =
            (self.interned_names.clone(), self.rotation.clone(), self.now());
        let claimed = self
            .pools
            .maintenance
            .run(self.deadline, |held| claim_runs::claim_runs(held, interned_names, rotation, request, now));
        claimed.await.map_err(Fault::into_commit_error)
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        renew_leases::check(&request).map_err(Fault::into_store_error)?;
        let (interned_names, now) = (self.interned_names.clone(), self.now());
        // A response after the next renewal is due would be useless.
        let deadline = self.deadline.min(request.lease_for / 3).max(Duration::from_millis(100));
        let renewed = self
            .pools
            .renewals
            .run(deadline, |held| renew_leases::renew_leases(held, interned_names, request, now));
        renewed.await.map_err(Fault::into_commit_error)
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        if size_of_write(&advance) > MAX_OPERATION_BYTES {
            return Err(StoreError::Refused(format!("a write of more than {MAX_OPERATION_BYTES} bytes")));
        }
        match advance_runs::is_plain(&advance) {
            true => {
                let advance = Box::new(advance);
                self.write_hot(|reply| {
                    HotOp::RunCommit(QueuedWrite { advance, reply, entered: EnqueuedAt::now() })
                })
                .await
            }
            false => self.consider(advance).await,
        }
    }

    async fn transact(&self, request: Transact) -> StoreResult<TransactOutcome> {
        self.work(request).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.consider(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.consider(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.consider(request).await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        let now = self.now();
        // After half of the deadline the rest is left for the next pass, so that a slow pass still
        // returns.
        let until = Instant::now() + self.deadline / 2;
        let purged =
            self.pools.maintenance.run(self.deadline, |held| purge::purge(held, request, now, until));
        purged.await.map_err(Fault::into_commit_error)
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        let workspace = workspace.clone();
        self.read(|held| read::find_run(held, workspace, run)).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        let workspace = workspace.clone();
        self.read(|held| read::find_log(held, workspace, run)).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        request.check()?;
        let interned_names = self.interned_names.clone();
        self.read(|held| list_runs::list_runs(held, interned_names, request)).await
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        let workspace = workspace.clone();
        self.read(|held| read::list_events(held, workspace, run, after)).await
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        let (workspace, key) = (workspace.clone(), key.clone());
        self.read(|held| read::find_key(held, workspace, kind, key)).await
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.read(|held| read::list_keys(held, after)).await
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        let (workspace, id, now) = (workspace.clone(), id.clone(), self.now());
        self.read(|held| read::find_promise(held, workspace, id, now)).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.consider(AppendJournal(notes)).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        let interned_names = self.interned_names.clone();
        self.read(|held| list_journal::list_journal(held, interned_names, request)).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        let interned_names = self.interned_names.clone();
        self.read(|held| list_audit::list_audit(held, interned_names, request)).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        let (interned_names, workspace) = (self.interned_names.clone(), workspace.cloned());
        self.read(|held| journal::count_tallies(held, interned_names, workspace)).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        let interned_names = self.interned_names.clone();
        self.read(|held| list_doubts::list_doubts(held, interned_names, request)).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        let now = self.now();
        let claimed =
            self.pools.deliveries.run(self.deadline, |held| claim_outbox::claim_outbox(held, request, now));
        claimed.await.map_err(Fault::into_commit_error)
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        let interned_names = self.interned_names.clone();
        let finished = self.pools.deliveries.run(self.deadline, |held| {
            finish_outbox_message::finish_outbox_message(held, interned_names, request)
        });
        finished.await.map_err(Fault::into_commit_error)
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.consider(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        let interned_names = self.interned_names.clone();
        self.read(|held| list_outbox::list_outbox(held, interned_names, request)).await
    }

    async fn measure_outbox(&self) -> StoreResult<OutboxDepth> {
        self.read(list_outbox::measure_outbox).await
    }

    async fn find_oldest_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let now = self.now();
        self.read(|held| claim_runs::find_oldest_due_at(held, now)).await
    }

    async fn close(&self) -> StoreResult<()> {
        drop(self.lanes.write().expect("no holder panics").take());
        if let Ok(all) = self.turns.acquire_many(self.transactions as u32).await {
            self.turns.close();
            drop(all);
        }
        let mut workers = self.workers.lock().await;
        while let Some(ended) = workers.join_next().await {
            if ended.is_err() {
                return Err(StoreError::Unknown("a lane ended before everything was written".into()));
            }
        }
        self.pools.close();
        Ok(())
    }
}
