//! A lane of operations that read before they write: a batch of them runs in one transaction, which
//! commits for all.
//!
//! There are three: one for runs and catalog items, one for requests under their keys, and one for
//! entities, so that none waits for another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use hapax_engine::clock::Clock;
use hapax_engine::store::StoreError;
use tokio::sync::{Mutex, mpsc};

use crate::fault::Fault;
use crate::hints::Hints;
use crate::interned_names::InternedNames;
use crate::job::{EnqueuedAt, Needs, Task};
use crate::limits::{FIRST_PAUSE, MAX_CONSIDERED, MAX_TRIES};
use crate::pools::{Connections, HeldConnection, Pools};
use crate::session::Session;
use crate::user_tables::UserTables;

/// Queue of the lane; its workers take turns in emptying it.
pub(crate) type Inbox = Arc<Mutex<mpsc::Receiver<Box<dyn Task>>>>;

/// One worker of the lane.
pub(crate) struct RmwLane {
    pub(crate) pools: Arc<Pools>,
    /// Connections of the lane.
    pub(crate) connections: fn(&Pools) -> &Connections,
    pub(crate) interned_names: Arc<InternedNames>,
    pub(crate) tables: Arc<UserTables>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hints: Arc<Hints>,
}

/// Why a transaction did not commit.
struct LaneFault {
    fault: Fault,
    /// Had the commit been sent?
    is_committing: bool,
}

impl RmwLane {
    /// Works until all senders are gone and everything is written.
    pub(crate) async fn run(self, inbox: Inbox) {
        let mut batch = Vec::with_capacity(MAX_CONSIDERED);
        while inbox.lock().await.recv_many(&mut batch, MAX_CONSIDERED).await > 0 {
            let written = AssertUnwindSafe(self.write_batch(&mut batch)).catch_unwind().await;
            if written.is_err() {
                // The callers get an unknown outcome, and the connection is dropped. The next batch
                // is not affected.
                tracing::error!("a batch of operations failed by a fault of the store");
                batch.clear();
            }
        }
    }

    /// Commits all together, or each alone if one of them fails.
    async fn write_batch(&self, batch: &mut Vec<Box<dyn Task>>) {
        let patience = (self.connections)(&self.pools).deadline();
        batch
            .extract_if(.., |task| task.entered().is_over(patience))
            .for_each(|task| task.fail(EnqueuedAt::too_long(patience)));
        if batch.len() > 1 {
            match self.commit(batch).await {
                Ok(()) => return batch.drain(..).for_each(Task::acknowledge),
                Err(trouble) if trouble.fault.is_of_operation() => {}
                Err(trouble) => {
                    let error = trouble.into_store_error();
                    return batch.drain(..).for_each(|task| task.fail(error.clone()));
                }
            }
        }
        for task in batch.drain(..) {
            match task.entered().is_over(patience) {
                true => task.fail(EnqueuedAt::too_long(patience)),
                false => self.write_alone(task).await,
            }
        }
    }

    /// Retries while other transactions interfere, up to a limit.
    async fn write_alone(&self, mut task: Box<dyn Task>) {
        let mut tries = 1;
        loop {
            match self.commit(std::slice::from_mut(&mut task)).await {
                Ok(()) => return task.acknowledge(),
                Err(trouble) if trouble.fault.is_collision() && tries < MAX_TRIES => {
                    pause(tries).await;
                    tries += 1;
                }
                Err(trouble) => return task.fail(trouble.into_store_error()),
            }
        }
    }

    /// Runs one transaction. Without `Ok`, it was rolled back, or its outcome is unknown (as the
    /// error says).
    async fn commit(&self, batch: &mut [Box<dyn Task>]) -> Result<(), LaneFault> {
        let connections = (self.connections)(&self.pools);
        let held = connections.get().await.map_err(|fault| LaneFault { fault, is_committing: false })?;
        let is_committing = AtomicBool::new(false);
        let work = self.transact(&held, batch, &is_committing);
        let deadline = connections.deadline();
        let done = tokio::time::timeout(deadline, work).await.unwrap_or(Err(Fault::OutOfTime(deadline)));
        match done {
            Ok(has_woken) => {
                held.give_back();
                if has_woken {
                    self.hints.note();
                }
                Ok(())
            }
            Err(fault) => {
                if fault.leaves_connection_sound() {
                    roll_back(held).await;
                }
                Err(LaneFault { fault, is_committing: is_committing.load(Ordering::Relaxed) })
            }
        }
    }

    async fn transact(
        &self,
        held: &HeldConnection,
        batch: &mut [Box<dyn Task>],
        is_committing: &AtomicBool,
    ) -> Result<bool, Fault> {
        let mut needs = Needs::default();
        batch.iter().for_each(|task| task.foresee(&mut needs));
        for (workspace, workflow) in &needs.names {
            self.interned_names.give_workspace(held.link(), workspace).await?;
            self.interned_names.give_workflow(held.link(), workflow).await?;
        }
        for workspace in &needs.workspaces {
            self.interned_names.give_workspace(held.link(), workspace).await?;
        }
        // Read after the batch was taken, so no operation is judged by an earlier instant than its
        // sending.
        let mut session = Session::new(held.link(), &self.interned_names, &self.tables, self.clock.now());
        session.prepare_for(&needs).await?;
        for task in batch {
            task.apply(&mut session).await?;
        }
        session.commit(is_committing).await?;
        Ok(session.has_woken)
    }
}

impl LaneFault {
    fn into_store_error(self) -> StoreError {
        match self.is_committing {
            true => self.fault.into_commit_error(),
            false => self.fault.into_store_error(),
        }
    }
}

/// Rolls back; if that fails, drops the connection.
async fn roll_back(held: HeldConnection) {
    let rolled_back = tokio::time::timeout(std::time::Duration::from_secs(1), held.batch_execute("ROLLBACK"));
    if matches!(rolled_back.await, Ok(Ok(()))) {
        held.give_back();
    }
}

/// Grows with each try, and differs between two rivals.
pub(crate) async fn pause(tries: u32) {
    let longest = FIRST_PAUSE * 2u32.saturating_pow(tries - 1).min(64);
    tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
}
