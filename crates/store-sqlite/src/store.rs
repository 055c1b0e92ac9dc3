//! The store itself: writes go to the writer, reads to the readers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use async_trait::async_trait;
use hapax_engine::clock::Clock;
use hapax_engine::model::{
    IdempotencyKey, JournalEntry, KeyKind, KeyRecord, NewRun, OutboxMessage, Promise, PromiseId, RunCommit,
    RunEvent, RunId, TallyCount, Timestamp, Version, WorkspaceId,
};
use hapax_engine::store::{
    Catalog, ClaimOutbox, ClaimRuns, ClaimedOutbox, ClaimedRuns, CommandRun, CommitOutcome, EntityStore,
    FamilyStore, FinishOutboxMessage, ListAudit, ListDoubts, ListJournal, ListOutbox, ListRuns, OutboxDepth,
    PromiseStore, Purge, PurgeOutcome, Redeliver, RedeliverOutcome, RenewLeases, RequestKeyStore,
    RunCommandOutcome, RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome,
    StartOutcome, Store, StoreError, StoreResult, StoredDoubt, StoredJournalEntry, StoredKey, Transact,
    TransactOutcome, WebhookStore,
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::coop::consume_budget;

use crate::append_journal::AppendJournal;
use crate::connect::open_for_reading;
use crate::find_oldest_due_at::find_oldest_due_at;
use crate::job::{Job, Task, Verb};
use crate::limits::{BREATH, LINGER};
use crate::open::{open, open_read_only};
use crate::open_error::OpenError;
use crate::options::SqliteOptions;
use crate::readers::Readers;
use crate::writer::Writer;
use crate::writer_thread::{self, Message, WriterHandle};
use crate::{journal, list_audit, list_doubts, list_journal, list_outbox, list_runs, read};

/// Keeps everything in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    readers: Arc<Readers>,
    /// `None` if the file was opened to look only.
    inbox: Option<mpsc::Sender<Message>>,
    /// `None` if other processes write to the file: only the thread may wait for them.
    writer_handle: Option<WriterHandle>,
    thread: Mutex<Option<JoinHandle<()>>>,
    under_way: AtomicUsize,
}

impl SqliteStore {
    /// Opens the file, and makes it if it is not there.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let given = path.clone();
        let opening = tokio::task::spawn_blocking(move || Self::open_now(&path, options));
        opening.await.unwrap_or_else(|panic| {
            Err(OpenError::Other { path: given, detail: format!("opening failed: {panic}") })
        })
    }

    fn open_now(path: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        let (clock, pages) = (options.clock.clone(), options.pages());
        if options.read_only {
            let (path, reader) = open_read_only(path)?;
            let readers = Readers::new(path.clone(), reader, pages);
            return Ok(SqliteStore {
                path,
                clock,
                readers,
                inbox: None,
                writer_handle: None,
                thread: Mutex::new(None),
                under_way: AtomicUsize::new(0),
            });
        }
        let opened = open(path, options.shared, clock.now())?;
        let path = opened.path.clone();
        let reader = open_for_reading(&path, pages).map_err(|error| OpenError::from_sqlite(&path, &error))?;
        let readers = Readers::new(path.clone(), reader, pages);
        let spawned = Writer::new(opened, clock.clone()).and_then(writer_thread::spawn);
        let (inbox, writer_handle, thread) = spawned.map_err(|error| OpenError::from_io(&path, &error))?;
        Ok(SqliteStore {
            path,
            clock,
            readers,
            inbox: Some(inbox),
            writer_handle: (!options.shared).then_some(writer_handle),
            thread: Mutex::new(Some(thread)),
            under_way: AtomicUsize::new(0),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    pub(crate) async fn write<V: Verb>(&self, request: V) -> StoreResult<V::Outcome> {
        let Some(inbox) = &self.inbox else {
            return Err(StoreError::Refused("the file was opened read-only".into()));
        };
        let (task, mut told) = Job::with_reply(request);
        let under_way = InFlightCount::new(&self.under_way);
        let not_written = match V::IS_BRIEF && under_way.is_alone() {
            true => {
                // A run of many steps would otherwise never let anything else onto its thread.
                consume_budget().await;
                self.write_here(inbox, task)
            }
            false => Some(task),
        };
        if let Some(task) = not_written
            && inbox.send(Message::Task(task)).await.is_err()
        {
            return Err(StoreError::Unavailable("the store is closed".into()));
        }
        let answer = match under_way.is_alone() {
            true => linger(&mut told),
            false => None,
        };
        match answer {
            Some(answer) => answer,
            None => told.await.unwrap_or_else(|_| Err(unanswered())),
        }
    }

    /// Writes on this very thread, if that is likely to be done sooner than the thread that writes would be woken; otherwise the
    /// task is given back.
    fn write_here(&self, inbox: &mpsc::Sender<Message>, task: Box<dyn Task>) -> Option<Box<dyn Task>> {
        let Some(Ok(mut writer_handle)) =
            self.writer_handle.as_ref().map(|writer_handle| writer_handle.try_lock())
        else {
            return Some(task);
        };
        let Some(writer) = writer_handle.as_mut().filter(|writer| writer.is_quick()) else {
            return Some(task);
        };
        writer.write_batch(&mut vec![task]);
        if writer.wants_checkpoint() {
            // If its queue is full, it will look all the same.
            let _ = inbox.try_send(Message::Checkpoint);
        }
        None
    }
}

fn unanswered() -> StoreError {
    StoreError::Unknown("the writer stopped before it answered".into())
}

/// One operation on its way, counted.
struct InFlightCount<'a>(&'a AtomicUsize);

impl<'a> InFlightCount<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        InFlightCount(count)
    }

    /// Is there no other work that this thread could do?
    fn is_alone(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1 && has_other_threads()
    }
}

impl Drop for InFlightCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Do others go on with what this thread leaves? A runtime with one thread has everything else to do.
pub(crate) fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

/// Looks for the answer for a moment. To put the task to sleep and wake it again takes about as long as a commit, so
/// when nothing else is going on a run that goes step by step is twice as fast without.
fn linger<T>(told: &mut oneshot::Receiver<StoreResult<T>>) -> Option<StoreResult<T>> {
    let lingering = Instant::now();
    while lingering.elapsed() < LINGER {
        match told.try_recv() {
            Ok(answer) => return Some(answer),
            // Not to be awaited any more: there will be no answer.
            Err(TryRecvError::Closed) => return Some(Err(unanswered())),
            Err(TryRecvError::Empty) => breathe(),
        }
    }
    None
}

/// Leaves the core to its other hardware thread for about a microsecond: that may be the one that writes.
pub(crate) fn breathe() {
    for _ in 0..BREATH {
        std::hint::spin_loop();
    }
}

impl Drop for SqliteStore {
    /// Writes what waits and lets go of the file, as [`Store::close`] does, only without being awaited.
    fn drop(&mut self) {
        self.inbox = None;
        let thread = self.thread.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(thread) = thread {
            // The callers have already seen a panic of the writer.
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
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

    async fn start_run(&self, new: NewRun) -> StoreResult<StartOutcome> {
        self.write(new).await
    }

    async fn claim_runs(&self, request: ClaimRuns) -> StoreResult<ClaimedRuns> {
        self.write(request).await
    }

    async fn renew_leases(&self, request: RenewLeases) -> StoreResult<Vec<RunId>> {
        self.write(request).await
    }

    async fn commit_run(&self, advance: RunCommit) -> StoreResult<CommitOutcome> {
        self.write(advance).await
    }

    async fn transact(&self, request: Transact) -> StoreResult<TransactOutcome> {
        self.write(request).await
    }

    async fn command_run(&self, request: CommandRun) -> StoreResult<RunCommandOutcome> {
        self.write(request).await
    }

    async fn send_signal(&self, request: SendSignal) -> StoreResult<SignalOutcome> {
        self.write(request).await
    }

    async fn settle_promise(&self, request: SettlePromise) -> StoreResult<SettleOutcome> {
        self.write(request).await
    }

    async fn purge(&self, request: Purge) -> StoreResult<PurgeOutcome> {
        self.write(request).await
    }

    async fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunView>> {
        let workspace = workspace.clone();
        self.readers.find(move |connection| read::find_run(connection, &workspace, run)).await
    }

    async fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> StoreResult<Option<RunLog>> {
        let workspace = workspace.clone();
        self.readers.read(move |connection| read::find_log(connection, &workspace, run)).await
    }

    async fn list_runs(&self, request: ListRuns) -> StoreResult<RunPage> {
        request.check()?;
        self.readers.read(move |connection| list_runs::list_runs(connection, &request)).await
    }

    async fn list_events(
        &self,
        workspace: &WorkspaceId,
        run: RunId,
        after: Version,
    ) -> StoreResult<Vec<RunEvent>> {
        let workspace = workspace.clone();
        self.readers.read(move |connection| read::list_events(connection, &workspace, run, after)).await
    }

    async fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<KeyRecord>> {
        let (workspace, key) = (workspace.clone(), key.clone());
        self.readers.find(move |connection| read::find_key(connection, &workspace, kind, &key)).await
    }

    async fn list_keys(&self, after: Option<StoredKey>) -> StoreResult<Vec<(StoredKey, KeyRecord)>> {
        self.readers.read(move |connection| read::list_keys(connection, after.as_ref())).await
    }

    async fn find_promise(&self, workspace: &WorkspaceId, id: &PromiseId) -> StoreResult<Option<Promise>> {
        let (workspace, id, now) = (workspace.clone(), id.clone(), self.now());
        self.readers.find(move |connection| read::find_promise(connection, &workspace, &id, now)).await
    }

    async fn append_journal(&self, notes: Vec<JournalEntry>) -> StoreResult<()> {
        self.write(AppendJournal(notes)).await
    }

    async fn list_journal(&self, request: ListJournal) -> StoreResult<Vec<StoredJournalEntry>> {
        self.readers.read(move |connection| list_journal::list_journal(connection, &request)).await
    }

    async fn list_audit(&self, request: ListAudit) -> StoreResult<Vec<StoredJournalEntry>> {
        self.readers.read(move |connection| list_audit::list_audit(connection, &request)).await
    }

    async fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> StoreResult<Vec<TallyCount>> {
        let workspace = workspace.cloned();
        self.readers.read(move |connection| journal::count_tallies(connection, workspace.as_ref())).await
    }

    async fn count_open_runs(&self, workspace: &WorkspaceId, up_to: usize) -> StoreResult<usize> {
        let workspace = workspace.clone();
        self.readers.read(move |connection| list_runs::count_open_runs(connection, &workspace, up_to)).await
    }

    async fn list_doubts(&self, request: ListDoubts) -> StoreResult<Vec<StoredDoubt>> {
        self.readers.read(move |connection| list_doubts::list_doubts(connection, &request)).await
    }

    async fn claim_outbox(&self, request: ClaimOutbox) -> StoreResult<ClaimedOutbox> {
        self.write(request).await
    }

    async fn finish_outbox_message(&self, request: FinishOutboxMessage) -> StoreResult<bool> {
        self.write(request).await
    }

    async fn redeliver(&self, request: Redeliver) -> StoreResult<RedeliverOutcome> {
        self.write(request).await
    }

    async fn list_outbox(&self, request: ListOutbox) -> StoreResult<Vec<OutboxMessage>> {
        self.readers.read(move |connection| list_outbox::list_outbox(connection, &request)).await
    }

    async fn measure_outbox(&self) -> StoreResult<OutboxDepth> {
        self.readers.read(list_outbox::measure_outbox).await
    }

    async fn find_oldest_due_at(&self) -> StoreResult<Option<Timestamp>> {
        let now = self.now();
        self.readers.read(move |connection| find_oldest_due_at(connection, now)).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.readers.close().await;
        let Some(inbox) = &self.inbox else { return Ok(()) };
        let (closed, told) = oneshot::channel();
        // A writer that is gone has nothing left to write.
        if inbox.send(Message::Close(closed)).await.is_ok() && told.await.is_err() {
            return Err(StoreError::Unknown("the writer stopped before everything was written".into()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
