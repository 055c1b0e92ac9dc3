//! User code in the writer's transaction: its writes and the record of its step are one commit.

use std::future::Future;
use std::sync::Arc;

use hapax_engine::Ctx;
use hapax_engine::model::{Failure, Payload, RetryPolicy};
use hapax_engine::store::{AdvanceOutcome, RecordOutput, Transact, TransactOutcome};
use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;

type Work = Arc<dyn Fn(&Connection) -> Result<Payload, Failure> + Send + Sync>;

/// The form in which this store takes the work of a transaction.
struct SqliteWork(Work);

/// Steps that write to your own tables in the store's file.
pub trait SqliteTransactions {
    /// Takes a step whose writes through the connection commit together with its record: exactly once, crash or not.
    ///
    /// The work runs on the thread that writes, inside its transaction: keep it short, and neither commit nor roll
    /// back in it. If it fails, its writes are taken back and it is tried again like any step.
    fn transaction<T, W, E>(&self, name: &str, work: W) -> impl Future<Output = Result<T, Failure>> + Send
    where
        W: Fn(&Connection) -> Result<T, E> + Send + Sync + 'static,
        E: Into<Failure> + 'static,
        T: Serialize + DeserializeOwned + Send + 'static;
}

impl SqliteTransactions for Ctx {
    async fn transaction<T, W, E>(&self, name: &str, work: W) -> Result<T, Failure>
    where
        W: Fn(&Connection) -> Result<T, E> + Send + Sync + 'static,
        E: Into<Failure> + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let work: Work = Arc::new(move |connection| {
            let output = work(connection).map_err(Into::into)?;
            Payload::of(&output).map_err(|invalid| Failure::permanent(invalid).with_code("output_refused"))
        });
        self.transact_step(name, RetryPolicy::default(), || Box::new(SqliteWork(work.clone()))).await
    }
}

/// A transaction on its way through the writer.
pub(crate) struct Transaction {
    work: Work,
    record: RecordOutput,
}

impl Transaction {
    /// The work, if it is in the form this store takes.
    pub(crate) fn new(request: Transact) -> Option<Self> {
        let work = request.work.downcast::<SqliteWork>().ok()?;
        Some(Transaction { work: work.0, record: request.record })
    }
}

impl Verb for Transaction {
    type Outcome = TransactOutcome;

    fn apply(&self, session: &mut Session<'_>) -> Result<TransactOutcome, Fault> {
        let connection = session.connection();
        connection.execute_batch("SAVEPOINT work")?;
        let worked = (self.work)(connection);
        if connection.is_autocommit() {
            return Err(Fault::Broken(
                "the work of a transaction ended it; it must neither commit nor roll back".into(),
            ));
        }
        let outcome = match worked {
            Err(failure) => TransactOutcome::WorkFailed(failure),
            Ok(output) => self.record(session, output)?,
        };
        match outcome {
            TransactOutcome::Done { .. } => connection.execute_batch("RELEASE work")?,
            TransactOutcome::WorkFailed(_) | TransactOutcome::Stale(_) | TransactOutcome::LeaseLost => {
                connection.execute_batch("ROLLBACK TO work; RELEASE work")?;
            }
        }
        Ok(outcome)
    }
}

impl Transaction {
    fn record(&self, session: &mut Session<'_>, output: Payload) -> Result<TransactOutcome, Fault> {
        let advance = (self.record)(output.clone()).map_err(|illegal| Fault::Broken(illegal.to_string()))?;
        Ok(match advance.apply(session)? {
            AdvanceOutcome::Advanced { woken } => {
                TransactOutcome::Done { output, advance: Box::new(advance), woken }
            }
            AdvanceOutcome::Stale(head) => TransactOutcome::Stale(Box::new(head)),
            AdvanceOutcome::LeaseLost => TransactOutcome::LeaseLost,
        })
    }
}
