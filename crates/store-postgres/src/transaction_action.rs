//! The typed interface to actions in the store's transaction.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hapax_engine::model::Failure;
use hapax_engine::runtime::{ActionAnswer, Engine, Error, StepCall};
use tokio_postgres::Transaction;

use crate::user_work::PostgresWork;

/// Actions of entity workflows that write to the same PostgreSQL database: the writes, the new
/// status and the record are one commit, so they happen exactly once.
pub trait TransactionAction {
    /// Registers such an action. See [`PostgresWork`] for what the work may do.
    ///
    /// ```ignore
    /// engine.register_action_in_transaction("ApplyPayment", |tx, call| Box::pin(async move {
    ///     tx.execute(INSERT_PAYMENT, &[&call.entity.entity.id.as_str()]).await?;
    ///     ActionAnswer::done("applied")
    /// }))?;
    /// ```
    fn register_action_in_transaction(
        &self,
        name: &str,
        work: impl for<'t> Fn(&'t mut Transaction<'_>, StepCall) -> BoxFuture<'t, Result<ActionAnswer, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), Error>;
}

impl TransactionAction for Engine {
    fn register_action_in_transaction(
        &self,
        name: &str,
        work: impl for<'t> Fn(&'t mut Transaction<'_>, StepCall) -> BoxFuture<'t, Result<ActionAnswer, Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Result<(), Error> {
        let work = Arc::new(work);
        self.register_transaction_action(name, move |call| {
            let work = work.clone();
            Box::new(PostgresWork::new(move |transaction| work(transaction, call.clone())))
        })
    }
}
