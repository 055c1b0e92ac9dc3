//! User work and its record in one commit.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hapax_engine::clock::Clock;
use hapax_engine::model::{Failure, FinishOperationOutcome, Payload};
use hapax_engine::store::{
    CommitOutcome, StoreError, StoreResult, Transact, TransactOperation, TransactOperationOutcome,
    TransactOutcome,
};
use tokio_postgres::error::SqlState;

use crate::fault::{Fault, Verdict, describe, judge};
use crate::hints::Hints;
use crate::interned_names::InternedNames;
use crate::job::{EnqueuedAt, Needs, Verb};
use crate::limits::{MAX_TRIES, RECONNECT_PAUSE};
use crate::link::Link;
use crate::pools::{HeldConnection, Pools};
use crate::rmw_lane::pause;
use crate::session::Session;
use crate::user_tables::UserTables;
use crate::user_work::PostgresWork;

/// A transaction on a connection that user code shares.
pub(crate) type SharedTransaction<'c> = deadpool_postgres::Transaction<'c>;

/// Work and its record.
pub(crate) trait Record: Send + Sync + 'static {
    /// Outcome of the work.
    type Outcome: Send + 'static;

    /// The work, as [`PostgresWork`].
    fn work(&self) -> &(dyn Any + Send + Sync);

    /// Outcome if the work failed, or if its record was rejected.
    fn failed(failure: Failure) -> Self::Outcome;

    /// Outcome if the store rejects the record. The work has written, so the error may differ from
    /// that of a plain record.
    fn refused(why: String) -> Result<Self::Outcome, Fault>;

    /// Writes the record of work with the result `output`.
    fn record(
        &self,
        works: &TransactionalSteps,
        transaction: &SharedTransaction<'_>,
        output: Payload,
    ) -> impl Future<Output = Result<Recorded<Self::Outcome>, Fault>> + Send;
}

/// Result of recording.
pub(crate) struct Recorded<T> {
    outcome: T,
    /// Must it be committed?
    stands: bool,
    /// Has any work become due that every node may claim?
    has_woken: bool,
}

/// Runs the work of steps that share a transaction with the store.
#[derive(Debug)]
pub(crate) struct TransactionalSteps {
    pub(crate) pools: Arc<Pools>,
    pub(crate) interned_names: Arc<InternedNames>,
    pub(crate) tables: Arc<UserTables>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hints: Arc<Hints>,
    /// Schema of the store's tables, as `search_path` names it.
    pub(crate) search_path: String,
}

/// Progress of a transaction; the meaning of a failure depends on it.
struct Progress(AtomicU8);

const BEGINNING: u8 = 0;
const WORKING: u8 = 1;
const RECORDING: u8 = 2;
const COMMITTING: u8 = 3;

/// An outcome, and whether the connection can be reused.
type Ended<T> = (T, bool);

impl TransactionalSteps {
    /// Retries while other transactions interfere with the record, up to a limit.
    ///
    /// A rejection costs a step one of its attempts, although its work never ran. So it waits for a
    /// server that is coming back, up to the deadline.
    pub(crate) async fn transact<R: Record>(&self, request: &R) -> StoreResult<R::Outcome> {
        let Some(work) = request.work().downcast_ref::<PostgresWork>() else {
            return Err(StoreError::Refused("work on this store is given as PostgresWork".into()));
        };
        let (entered, deadline) = (EnqueuedAt::now(), self.pools.works.deadline());
        let mut tries = 1;
        loop {
            let mut held = match self.pools.works.get().await {
                Ok(held) => held,
                Err(fault) if entered.is_over(deadline) => return Err(fault.into_store_error()),
                Err(_) => {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                }
            };
            let progress = Progress(AtomicU8::new(BEGINNING));
            let trying = tokio::time::timeout(deadline, self.attempt(&mut held, work, request, &progress));
            let fault = match trying.await.unwrap_or(Err(Fault::OutOfTime(deadline))) {
                Ok((outcome, is_sound)) => {
                    if is_sound {
                        held.give_back();
                    }
                    return Ok(outcome);
                }
                Err(fault) => fault,
            };
            // Dropping the connection also drops the transaction's writes and locks, unless it was
            // committed.
            drop(held);
            match (progress.0.load(Ordering::Relaxed), fault) {
                (WORKING, Fault::OutOfTime(_)) => {
                    let why = format!("the work did not end within {deadline:?}; nothing of it was written");
                    return Ok(R::failed(Failure::retryable(why)));
                }
                (BEGINNING, _) if !entered.is_over(deadline) => tokio::time::sleep(RECONNECT_PAUSE).await,
                (RECORDING, fault) if fault.is_collision() && tries < MAX_TRIES => {
                    pause(tries).await;
                    tries += 1;
                }
                (COMMITTING, fault) => return refused_at_commit::<R>(fault),
                (_, fault) => return Err(fault.into_store_error()),
            }
        }
    }

    async fn attempt<R: Record>(
        &self,
        held: &mut HeldConnection,
        work: &PostgresWork,
        request: &R,
        progress: &Progress,
    ) -> Result<Ended<R::Outcome>, Fault> {
        let mut transaction = held.transaction().await?;
        let own = which(&transaction).await?;
        progress.0.store(WORKING, Ordering::Relaxed);
        let done = work.run(&mut transaction).await;
        progress.0.store(RECORDING, Ordering::Relaxed);
        let output = match done {
            Ok(output) => output,
            Err(failure) => return give_up::<R>(transaction, &own, failure).await,
        };
        match enter(&transaction, &self.search_path).await {
            Ok(found) if found == own => {}
            Ok(_) => return Ok((R::failed(ended_early("it succeeded".into())), false)),
            Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
                let why =
                    "the work went on after a statement of its own had failed; nothing of it was written";
                let is_sound = transaction.rollback().await.is_ok();
                return Ok((R::failed(Failure::unknown(why)), is_sound));
            }
            Err(error) => return Err(error.into()),
        }
        self.record(transaction, request, output, progress).await
    }

    async fn record<R: Record>(
        &self,
        transaction: SharedTransaction<'_>,
        request: &R,
        output: Payload,
        progress: &Progress,
    ) -> Result<Ended<R::Outcome>, Fault> {
        let Recorded { outcome, stands, has_woken } = match request.record(self, &transaction, output).await {
            Ok(recorded) => recorded,
            Err(Fault::Refused(why)) => {
                let is_sound = transaction.rollback().await.is_ok();
                return R::refused(why).map(|outcome| (outcome, is_sound));
            }
            Err(fault) => return Err(fault),
        };
        if !stands {
            let is_sound = transaction.rollback().await.is_ok();
            return Ok((outcome, is_sound));
        }
        progress.0.store(COMMITTING, Ordering::Relaxed);
        transaction.commit().await?;
        if has_woken {
            self.hints.note();
        }
        Ok((outcome, true))
    }

    /// Executes a request inside the transaction; also returns true if any work has become due that
    /// every node may claim.
    async fn write<V: Verb>(
        &self,
        transaction: &SharedTransaction<'_>,
        request: &V,
    ) -> Result<(V::Outcome, bool), Fault> {
        let mut needs = Needs::default();
        request.foresee(&mut needs);
        self.give_numbers(&needs).await?;
        let mut session =
            Session::new(Link::Shared(transaction), &self.interned_names, &self.tables, self.clock.now());
        session.prepare_for(&needs).await?;
        let outcome = request.apply(&mut session).await?;
        session.flush().await?;
        Ok((outcome, session.has_woken))
    }

    /// Outside the transaction, because a rollback must not remove a known number.
    async fn give_numbers(&self, needs: &Needs) -> Result<(), Fault> {
        if needs.names.is_empty() && needs.workspaces.is_empty() {
            return Ok(());
        }
        let held = self.pools.rmw_lane.get().await?;
        for (workspace, workflow) in &needs.names {
            self.interned_names.give_workspace(held.link(), workspace).await?;
            self.interned_names.give_workflow(held.link(), workflow).await?;
        }
        for workspace in &needs.workspaces {
            self.interned_names.give_workspace(held.link(), workspace).await?;
        }
        held.give_back();
        Ok(())
    }
}

impl Record for Transact {
    type Outcome = TransactOutcome;

    fn work(&self) -> &(dyn Any + Send + Sync) {
        &*self.work
    }

    fn failed(failure: Failure) -> TransactOutcome {
        TransactOutcome::WorkFailed(failure)
    }

    fn refused(why: String) -> Result<TransactOutcome, Fault> {
        Ok(Self::failed(Failure::permanent(why).with_code("record_refused")))
    }

    async fn record(
        &self,
        works: &TransactionalSteps,
        transaction: &SharedTransaction<'_>,
        output: Payload,
    ) -> Result<Recorded<TransactOutcome>, Fault> {
        let advance = match (self.record)(output.clone()) {
            Ok(advance) => advance,
            Err(illegal) => {
                return Ok(none::<Self>(Failure::permanent(illegal).with_code("illegal_change")));
            }
        };
        let (outcome, has_woken) = works.write(transaction, &advance).await?;
        let (outcome, stands) = match outcome {
            CommitOutcome::Committed { woken, .. } => {
                (TransactOutcome::Done { output, commit: Box::new(advance), woken }, true)
            }
            CommitOutcome::Stale(head) => (TransactOutcome::Stale(Box::new(head)), false),
            CommitOutcome::ChildrenRefused(refused) => {
                (TransactOutcome::WorkFailed(refused.failure()), false)
            }
            CommitOutcome::LeaseLost => (TransactOutcome::LeaseLost, false),
        };
        Ok(Recorded { outcome, stands, has_woken })
    }
}

impl Record for Arc<TransactOperation> {
    type Outcome = TransactOperationOutcome;

    fn work(&self) -> &(dyn Any + Send + Sync) {
        &*self.work
    }

    fn failed(failure: Failure) -> TransactOperationOutcome {
        TransactOperationOutcome::WorkFailed(failure)
    }

    fn refused(why: String) -> Result<TransactOperationOutcome, Fault> {
        Err(Fault::Refused(why))
    }

    async fn record(
        &self,
        works: &TransactionalSteps,
        transaction: &SharedTransaction<'_>,
        output: Payload,
    ) -> Result<Recorded<TransactOperationOutcome>, Fault> {
        let finish = match (self.finish)(output) {
            Ok(finish) => finish,
            Err(failure) => return Ok(none::<Self>(failure)),
        };
        let (finished, has_woken) = works.write(transaction, &finish).await?;
        let stands = matches!(finished, FinishOperationOutcome::Finished { .. });
        Ok(Recorded { outcome: TransactOperationOutcome::Worked(finished), stands, has_woken })
    }
}

/// Nothing to commit.
fn none<R: Record>(failure: Failure) -> Recorded<R::Outcome> {
    Recorded { outcome: R::failed(failure), stands: false, has_woken: false }
}

/// Rolls back the writes of failed work.
async fn give_up<R: Record>(
    transaction: SharedTransaction<'_>,
    own: &str,
    failure: Failure,
) -> Result<Ended<R::Outcome>, Fault> {
    match which(&transaction).await {
        // The transaction is not over: a failed statement has only aborted it.
        Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {}
        Err(_) => return Ok((R::failed(failure), false)),
        Ok(found) if found == *own => {}
        Ok(_) => return Ok((R::failed(ended_early(failure.to_string())), false)),
    }
    let is_sound = transaction.rollback().await.is_ok();
    Ok((R::failed(failure), is_sound))
}

async fn which(transaction: &SharedTransaction<'_>) -> Result<String, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(include_str!("../sql/find_transaction.sql")).await?;
    Ok(transaction.query_one(&statement, &[]).await?.get(0))
}

/// Makes the store's tables visible and hides the user's; returns the transaction's id.
async fn enter(
    transaction: &SharedTransaction<'_>,
    search_path: &str,
) -> Result<String, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(include_str!("../sql/enter_schema.sql")).await?;
    Ok(transaction.query_one(&statement, &[&search_path]).await?.get(0))
}

/// Must not be retried: the work's writes may already be committed.
fn ended_early(how: String) -> Failure {
    let why = format!(
        "the work ended its own transaction ({how}), so its writes may be there without a record: leave out \
         COMMIT and ROLLBACK, look at the data, then retry the run"
    );
    Failure::permanent(why).with_code("transaction_ended")
}

/// A deferred constraint of the user is about the work; a lost response says nothing about it.
fn refused_at_commit<R: Record>(fault: Fault) -> StoreResult<R::Outcome> {
    match fault {
        Fault::Sql(error) if judge(&error) != Verdict::Lost => {
            Ok(R::failed(Failure::unknown(describe(&error))))
        }
        fault => Err(fault.into_commit_error()),
    }
}
