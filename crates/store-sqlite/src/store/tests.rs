//! Which thread writes, and which one reads.

use std::task::{Context, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::fault::Fault;
use crate::limits::{MAX_READERS, QUICK_READ};
use crate::session::Session;

/// Says which thread writes it; its rows are many enough that the log grows.
struct WritingThread;

impl Verb for WritingThread {
    type Outcome = ThreadId;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ThreadId, Fault> {
        let sql = "INSERT INTO hapax_run_results VALUES (1, randomblob(16), 4, hex(zeroblob(40000)))";
        session.connection().execute(sql, [])?;
        Ok(std::thread::current().id())
    }
}

/// The same, as work of a user's would be.
struct LongWrite;

impl Verb for LongWrite {
    type Outcome = ThreadId;
    const IS_BRIEF: bool = false;

    fn apply(&self, _: &mut Session<'_, '_>) -> Result<ThreadId, Fault> {
        Ok(std::thread::current().id())
    }
}

struct Opened {
    store: SqliteStore,
    folder: TempDir,
}

impl Opened {
    async fn new(options: SqliteOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(folder.path().join("test.db"), options).await.unwrap();
        Opened { store, folder }
    }

    /// Writes, after a transaction that took this long. Was it written by the thread that asks?
    async fn write<V: Verb<Outcome = ThreadId>>(&self, request: V, took: Duration) -> bool {
        if let Some(writer_handle) = &self.store.writer_handle {
            writer_handle.lock().unwrap().as_mut().unwrap().took = took;
        }
        // Nothing awaits between here and the write, so it is the same thread that asks.
        let asking = std::thread::current().id();
        self.store.write(request).await.unwrap() == asking
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.folder.path().join("test.db-wal")).unwrap().len()
    }
}

const QUICKLY: Duration = Duration::ZERO;
const SLOWLY: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_alone_writes_itself_unless_that_would_keep_its_thread() {
    let opened = Opened::new(SqliteOptions::default()).await;
    assert!(opened.write(WritingThread, QUICKLY).await);
    assert!(!opened.write(WritingThread, SLOWLY).await, "the disk is slow");
    assert!(!opened.write(LongWrite, QUICKLY).await, "nobody knows how long work of users takes");
    let other = InFlightCount::new(&opened.store.under_way);
    assert!(!opened.write(WritingThread, QUICKLY).await, "another one is on its way: they share a commit");
    drop(other);
    assert!(opened.write(WritingThread, QUICKLY).await);
}

#[tokio::test]
async fn a_runtime_of_one_thread_is_never_kept() {
    let opened = Opened::new(SqliteOptions::default()).await;
    assert!(!opened.write(WritingThread, QUICKLY).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_another_process_may_write_its_turn_is_not_waited_for_by_callers() {
    let opened = Opened::new(SqliteOptions::default().shared(true)).await;
    for _ in 0..3 {
        assert!(!opened.write(WritingThread, QUICKLY).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_somebody_writes_the_next_one_is_sent_to_the_thread() {
    let opened = Opened::new(SqliteOptions::default()).await;
    assert!(opened.write(WritingThread, QUICKLY).await);
    let writer_handle = opened.store.writer_handle.clone().unwrap();
    let (asking, answered) = (std::thread::current().id(), opened.store.write(WritingThread));
    tokio::pin!(answered);
    {
        let _held = writer_handle.lock().unwrap();
        let first = answered.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "whoever writes is not waited for on this thread");
    }
    assert_ne!(answered.await.unwrap(), asking);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_emptied_also_if_callers_alone_write() {
    let opened = Opened::new(SqliteOptions::default()).await;
    assert!(opened.write(WritingThread, QUICKLY).await);
    let inbox = opened.store.inbox.as_ref().unwrap();
    let mut longest = 0;
    for _ in 0..1_000 {
        let (task, mut told) = Job::with_reply(WritingThread);
        let mut not_written = Some(task);
        while let Some(task) = not_written.take() {
            if let Some(writer) = opened.store.writer_handle.as_ref().unwrap().lock().unwrap().as_mut() {
                writer.took = QUICKLY;
            }
            // The thread may hold the writer, to copy the log.
            not_written = opened.store.write_here(inbox, task);
        }
        told.try_recv().unwrap().unwrap();
        longest = longest.max(opened.log_bytes());
    }
    let written = 1_000 * 80_000;
    assert!(longest < written / 2, "{longest} bytes of log after {written} bytes of rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_is_not_written_by_callers_either() {
    let opened = Opened::new(SqliteOptions::default()).await;
    assert!(opened.write(WritingThread, QUICKLY).await);
    opened.store.close().await.unwrap();
    assert!(matches!(opened.store.write(WritingThread).await, Err(StoreError::Unavailable(_))));
}

/// Which thread finds something.
async fn finder(opened: &Opened) -> ThreadId {
    opened.store.readers.find(|_| Ok(std::thread::current().id())).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_by_its_key_is_read_by_whoever_asks_while_reads_are_quick() {
    let opened = Opened::new(SqliteOptions::default()).await;
    let here = std::thread::current().id();
    assert_ne!(finder(&opened).await, here, "nothing is known about the disk");
    // A slow moment of the machine is not what this is about.
    while finder(&opened).await != here {}
    let slow = opened.store.readers.read(|_| {
        std::thread::sleep(QUICK_READ);
        Ok(())
    });
    slow.await.unwrap();
    assert_ne!(finder(&opened).await, here, "the last read was slow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_panics_fails_alone() {
    let opened = Opened::new(SqliteOptions::default()).await;
    while finder(&opened).await != std::thread::current().id() {}
    let failed = opened.store.readers.find::<()>(|_| panic!("a fault of the store")).await;
    assert!(matches!(failed, Err(StoreError::Broken(_))), "{failed:?}");
    for _ in 0..2 * MAX_READERS {
        finder(&opened).await;
    }
}

#[tokio::test]
async fn on_a_runtime_of_one_thread_nothing_is_read_by_whoever_asks() {
    let opened = Opened::new(SqliteOptions::default()).await;
    for _ in 0..3 {
        assert_ne!(finder(&opened).await, std::thread::current().id());
    }
}

#[test]
fn whoever_lingers_for_a_writer_that_is_gone_hears_that_nobody_knows() {
    let (sender, mut told) = oneshot::channel::<StoreResult<()>>();
    drop(sender);
    assert!(matches!(linger(&mut told), Some(Err(StoreError::Unknown(_)))));
}
