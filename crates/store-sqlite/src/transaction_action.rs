//! The typed face of actions in the store's transaction.

use std::sync::Arc;

use hapax_engine::model::Failure;
use hapax_engine::runtime::{ActionAnswer, Engine, Error, StepCall};
use rusqlite::Connection;

use crate::user_work::SqliteWork;

/// Actions of entity workflows whose writes go into the SQLite file itself: they, the new status and the record are one commit, so they
/// happen exactly once.
pub trait TransactionAction {
    /// Registers such an action. See [`SqliteWork`] for what the work may do.
    fn register_action_in_transaction(
        &self,
        name: &str,
        work: impl Fn(&Connection, &StepCall) -> Result<ActionAnswer, Failure> + Send + Sync + 'static,
    ) -> Result<(), Error>;
}

impl TransactionAction for Engine {
    fn register_action_in_transaction(
        &self,
        name: &str,
        work: impl Fn(&Connection, &StepCall) -> Result<ActionAnswer, Failure> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let work = Arc::new(work);
        self.register_transaction_action(name, move |call| {
            let work = work.clone();
            Box::new(SqliteWork::new(move |connection| work(connection, &call)))
        })
    }
}
