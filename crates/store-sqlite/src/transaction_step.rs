//! The typed face of steps in the store's transaction.

use std::future::Future;
use std::sync::Arc;

use hapax_engine::ctx::Ctx;
use hapax_engine::model::{Failure, RetryPolicy};
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::user_work::SqliteWork;

/// Steps whose effect is a write in the SQLite file itself: effect and record are one commit, so the effect happens
/// exactly once.
pub trait TransactionStep {
    /// Takes such a step, with the usual retries. See [`SqliteWork`] for what the work may do.
    fn transaction<T: Serialize + DeserializeOwned + Send>(
        &self,
        name: &str,
        work: impl Fn(&Connection) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send {
        self.transaction_with(name, RetryPolicy::default(), work)
    }

    /// Takes such a step, with retries of your own.
    fn transaction_with<T: Serialize + DeserializeOwned + Send>(
        &self,
        name: &str,
        policy: RetryPolicy,
        work: impl Fn(&Connection) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send;
}

impl TransactionStep for Ctx {
    fn transaction_with<T: Serialize + DeserializeOwned + Send>(
        &self,
        name: &str,
        policy: RetryPolicy,
        work: impl Fn(&Connection) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send {
        let work = Arc::new(work);
        self.transact_step(name, policy, move || {
            let work = work.clone();
            Box::new(SqliteWork::new(move |connection| work(connection)))
        })
    }
}
