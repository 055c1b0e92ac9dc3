//! User code in a transaction of the store's.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hapax_engine::model::{Failure, Payload};
use serde::Serialize;
use tokio_postgres::Transaction;

type Work = dyn for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<Payload, Failure>> + Send + Sync;

/// Work in the store's own transaction: the value of [`hapax_engine::store::Transact::work`] for
/// this store.
///
/// It has a connection to itself, with the `search_path` of the role, the database or the URL.
/// Everything it leaves on the connection (settings, temporary tables, advisory locks) is cleared
/// afterwards. Keep it short and do only SQL in it: it holds locks, and work that exceeds the
/// store's deadline is cut off and rolled back. It must not end the transaction; if it does, the
/// step fails permanently. It may be called more than once, but takes effect once.
pub struct PostgresWork(Box<Work>);

impl PostgresWork {
    /// Work that returns a value, or fails and leaves nothing behind.
    pub fn new<T: Serialize + 'static>(
        work: impl for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<T, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        PostgresWork(Box::new(move |transaction| {
            let working = work(transaction);
            Box::pin(async move {
                let output = working.await?;
                Payload::of(&output).map_err(|error| Failure::permanent(error).with_code("output_refused"))
            })
        }))
    }

    /// Runs the work. A panic is a failure like any other: its writes are rolled back.
    pub(crate) async fn run(&self, transaction: &mut Transaction<'_>) -> Result<Payload, Failure> {
        let working = async { (self.0)(transaction).await };
        let done = AssertUnwindSafe(working).catch_unwind().await;
        done.unwrap_or_else(|_| Err(Failure::retryable("the work panicked; nothing of it was written")))
    }
}

impl fmt::Debug for PostgresWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresWork")
    }
}
