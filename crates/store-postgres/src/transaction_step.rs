//! The typed interface to steps in the store's transaction.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hapax_engine::ctx::Ctx;
use hapax_engine::model::{Failure, RetryPolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Transaction;

use crate::user_work::PostgresWork;

/// Steps whose effect is a write in the PostgreSQL database itself: effect and record are one commit, so the effect happens
/// exactly once.
pub trait TransactionStep {
    /// Takes such a step, with the usual retries. See [`PostgresWork`] for what the work may do.
    ///
    /// ```ignore
    /// ctx.transaction("ledger", move |tx| Box::pin(async move {
    ///     Ok(tx.execute(ADD_TO_LEDGER, &[&cents]).await?)
    /// })).await?;
    /// ```
    fn transaction<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        work: impl for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<T, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send {
        self.transaction_with(name, RetryPolicy::default(), work)
    }

    /// Takes such a step, with retries of your own.
    fn transaction_with<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        policy: RetryPolicy,
        work: impl for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<T, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send;
}

impl TransactionStep for Ctx {
    fn transaction_with<T: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        name: &str,
        policy: RetryPolicy,
        work: impl for<'t> Fn(&'t mut Transaction<'_>) -> BoxFuture<'t, Result<T, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> impl Future<Output = Result<T, Failure>> + Send {
        let work = Arc::new(work);
        self.transact_step(name, policy, move || {
            let work = work.clone();
            Box::new(PostgresWork::new(move |transaction| work(transaction)))
        })
    }
}
