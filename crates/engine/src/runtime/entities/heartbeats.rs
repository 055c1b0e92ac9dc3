//! Sends heartbeats for operations whose actions run here, and stops those whose claim is lost.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Clock;
use crate::hold::Hold;
use crate::limits::{CLAIM_STALE_AFTER, HEARTBEAT_EVERY, MAX_HEARTBEATS};
use crate::model::{Operation, OperationId, WorkspaceId};
use crate::runtime::background::LoopReporter;
use crate::runtime::inner::{Inner, Phase};
use crate::store::HeldOperation;

/// Operation whose action runs here.
pub(super) struct ActiveOperation {
    workspace: WorkspaceId,
    id: OperationId,
    attempt: u32,
    /// How long this process holds the claim after a heartbeat that reached the store.
    hold_for: Duration,
    /// Right to send the effect. It ends `hold_for` after the last successful heartbeat was sent.
    pub(super) hold: Hold,
    /// Set while the result is being recorded. The store may then report the operation as not held because of
    /// that write.
    is_ending: AtomicBool,
}

impl ActiveOperation {
    /// Records that the result is being written. That write itself shows whether another writer was faster.
    pub(super) fn set_ending(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Waits until the claim is lost.
    pub(super) async fn lost(&self) {
        self.hold.lost().await;
    }
}

/// How long a holder may act after its last heartbeat: a tenth less than the janitor waits, to allow
/// for clocks of different speed.
fn hold_for(patience: Duration) -> Duration {
    patience - patience / 10
}

#[derive(Default)]
pub(crate) struct ActiveOperations {
    operations: Mutex<HashMap<(OperationId, u32), Arc<ActiveOperation>>>,
    /// Ids chosen by callers, from before their operation begins until it ends here.
    reserved_ids: Mutex<HashSet<OperationId>>,
}

/// Exclusive right, within this process, to an operation id that a caller chose. The store treats a second
/// request of the same engine as a repetition of the first, so the process must allow only one.
pub(super) struct OperationIdGuard {
    inner: Arc<Inner>,
    id: OperationId,
}

impl OperationIdGuard {
    /// Reserves the id; `None` if it is already in use here.
    pub(super) fn new(inner: &Arc<Inner>, id: OperationId) -> Option<Self> {
        let is_first = inner.active_operations.reserved_ids.lock().expect("no holder panics").insert(id);
        is_first.then(|| OperationIdGuard { inner: inner.clone(), id })
    }
}

impl Drop for OperationIdGuard {
    fn drop(&mut self) {
        self.inner.active_operations.reserved_ids.lock().expect("no holder panics").remove(&self.id);
    }
}

impl ActiveOperations {
    /// Registers an operation whose begin request was sent at `since`, by the monotonic clock.
    pub(super) fn start(
        &self,
        clock: &Arc<dyn Clock>,
        operation: &Operation,
        patience: Duration,
        since: Duration,
    ) -> Arc<ActiveOperation> {
        let hold_for = hold_for(patience);
        let active = Arc::new(ActiveOperation {
            workspace: operation.workspace.clone(),
            id: operation.id,
            attempt: operation.attempt,
            hold_for,
            hold: Hold::until(clock.clone(), since + hold_for),
            is_ending: AtomicBool::new(false),
        });
        let place = (operation.id, operation.attempt);
        self.operations.lock().expect("no holder panics").insert(place, active.clone());
        active
    }

    pub(super) fn finish(&self, operation: OperationId, attempt: u32) {
        self.operations.lock().expect("no holder panics").remove(&(operation, attempt));
    }

    pub(crate) fn len(&self) -> usize {
        self.operations.lock().expect("no holder panics").len()
    }

    pub(crate) fn lose_all(&self) {
        self.all().iter().for_each(|active| active.hold.lose());
    }

    fn all(&self) -> Vec<Arc<ActiveOperation>> {
        self.operations.lock().expect("no holder panics").values().cloned().collect()
    }
}

/// Sends heartbeats for the active operations, several times within the shortest janitor timeout.
pub(crate) async fn send_heartbeats(inner: Arc<Inner>, reporter: LoopReporter) {
    let mut last = inner.clock.now();
    loop {
        let patience = inner.entities.shortest_patience().unwrap_or(CLAIM_STALE_AFTER);
        let every = (patience / 5).min(HEARTBEAT_EVERY);
        let changed = inner.changed.notified();
        // Checked before the wait too: the engine may have stopped before this task subscribed.
        if inner.phase() == Phase::Killed {
            return;
        }
        // `changed` fires often. The next heartbeat is not due yet.
        tokio::select! {
            biased;
            () = inner.clock.sleep_until(last.plus(every)) => {}
            () = changed => continue,
        }
        // Both may be ready at once, and a killed engine must stay silent.
        if inner.phase() == Phase::Killed {
            return;
        }
        last = inner.clock.now();
        heartbeat_all(&inner).await;
        reporter.pass();
    }
}

/// Sends one heartbeat for all active operations and stops operations that are no longer held.
pub(super) async fn heartbeat_all(inner: &Inner) {
    let Some(store) = inner.store.entity_store() else { return };
    let all = inner.active_operations.all();
    for batch in all.chunks(MAX_HEARTBEATS) {
        let active = batch.iter().map(|active| HeldOperation {
            workspace: active.workspace.clone(),
            operation: active.id,
            attempt: active.attempt,
        });
        let since = inner.clock.monotonic();
        match inner.call_store(store.heartbeat_operations(inner.owner, active.collect())).await {
            Ok(lost) => {
                for active in batch {
                    match lost.contains(&active.id) {
                        true if active.is_ending.load(Ordering::Relaxed) => {}
                        true => active.hold.lose(),
                        false => active.hold.extend(since + active.hold_for),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the store does not hear that operations are alive; trying again")
            }
        }
    }
    // An operation without recent heartbeats counts as abandoned elsewhere. It stops here before that.
    for active in all.iter().filter(|active| !active.hold.stands() && !active.hold.is_lost()) {
        tracing::warn!(operation = %active.id, "the claim could not be kept; the operation is given up here");
        active.hold.lose();
    }
}
