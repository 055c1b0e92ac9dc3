//! A few connections that only read, each used by one thread at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hapax_engine::store::{StoreError, StoreResult};
use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio::task::coop::consume_budget;

use crate::connect::{Pages, open_for_reading};
use crate::fault::{Fault, rolled_back};
use crate::limits::{MAX_READERS, QUICK_READ};
use crate::store::has_other_threads;

#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    pages: Pages,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    /// Did the last read take so long that none should be made on a thread of the runtime?
    is_slow: AtomicBool,
}

impl Readers {
    /// With `first` to begin with; more are opened as they are needed. One is always open, so that the index of the
    /// log outlives a writer that is closed and opened again.
    pub(crate) fn new(path: PathBuf, first: Connection, pages: Pages) -> Arc<Self> {
        Arc::new(Readers {
            path,
            pages,
            idle: Mutex::new(vec![first]),
            permits: Arc::new(Semaphore::new(MAX_READERS)),
            // Nothing is known about the disk yet.
            is_slow: AtomicBool::new(true),
        })
    }

    /// Runs `read` over one snapshot of the file, off the async threads.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreResult<T> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Unavailable("the store is closed".into()))?;
        let readers = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            readers.read_now(read)
        });
        reading.await.unwrap_or_else(|_| Err(failed()))
    }

    /// Runs `read` over one snapshot on the caller's own thread, if it finds what it looks for by a key, reads have been quick, and a connection is
    /// free: to hand it to another thread and be woken takes longer than to read. As [`Readers::read`] otherwise.
    pub(crate) async fn find<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> StoreResult<T> {
        // Otherwise a task with nothing but lookups would never yield its thread.
        consume_budget().await;
        let is_quick = !self.is_slow.load(Ordering::Relaxed) && has_other_threads();
        let permit = is_quick.then(|| self.permits.clone().try_acquire_owned().ok()).flatten();
        let Some((_permit, connection)) = permit.and_then(|permit| Some((permit, self.take()?))) else {
            return self.read(read).await;
        };
        catch_unwind(AssertUnwindSafe(|| self.read_with(connection, read))).unwrap_or_else(|_| Err(failed()))
    }

    fn read_now<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Fault>) -> StoreResult<T> {
        let connection = match self.take() {
            Some(connection) => connection,
            None => open_for_reading(&self.path, self.pages).map_err(|error| rolled_back(&error))?,
        };
        self.read_with(connection, read)
    }

    fn read_with<T>(
        &self,
        mut connection: Connection,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> StoreResult<T> {
        let began = Instant::now();
        let answer = in_snapshot(&mut connection, read).map_err(Fault::into_store_error);
        self.is_slow.store(began.elapsed() >= QUICK_READ, Ordering::Relaxed);
        // A connection that failed is not used again.
        if !matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Broken(_))) {
            self.give_back(connection);
        }
        answer
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop()
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(connection);
    }

    /// Waits for reads under way, lets in no others, and closes the connections.
    pub(crate) async fn close(&self) {
        if let Ok(all) = self.permits.acquire_many(MAX_READERS as u32).await {
            all.forget();
        }
        self.permits.close();
        while let Some(connection) = self.take() {
            drop(connection);
        }
    }
}

fn failed() -> StoreError {
    StoreError::Broken("the store failed on this read".into())
}

fn in_snapshot<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let snapshot = connection.transaction()?;
    let answer = read(&snapshot)?;
    snapshot.commit()?;
    Ok(answer)
}
