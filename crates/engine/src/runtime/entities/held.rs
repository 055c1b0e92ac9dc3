//! Operations whose actions run here: that they live is told to the store, and one that is no longer held is stopped.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Clock;
use crate::hold::Hold;
use crate::limits::{CLAIM_STALE_AFTER, HEARTBEAT_EVERY, MAX_HEARTBEATS};
use crate::model::{Operation, OperationId, WorkspaceId};
use crate::runtime::inner::{Inner, Phase};
use crate::store::HeldOperation;

/// One of them.
pub(super) struct Held {
    workspace: WorkspaceId,
    id: OperationId,
    attempt: u32,
    /// How long after its last word that reached the store this process holds it.
    holds_for: Duration,
    /// The right to send its effect, which ends that long after the last word that arrived was sent.
    pub(super) hold: Hold,
    /// What became of it is being written: that the store no longer counts it as held may be our own doing.
    is_ending: AtomicBool,
}

impl Held {
    /// From now on its end is being written. The write itself is told if somebody else was faster.
    pub(super) fn ends(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Waits until the operation is no longer held.
    pub(super) async fn lost(&self) {
        self.hold.lost().await;
    }
}

/// How long a holder may act after it was last heard of: a tenth less than a janitor waits, so that two clocks that run at different speeds agree.
fn holds_for(patience: Duration) -> Duration {
    patience - patience / 10
}

#[derive(Default)]
pub(crate) struct HeldOperations {
    held: Mutex<HashMap<(OperationId, u32), Arc<Held>>>,
    /// Those whose callers chose the id, from before they begin until they are over here.
    taken_up: Mutex<HashSet<OperationId>>,
}

/// The right to begin and carry out an operation under an id that its caller chose: a store takes a second request of the same engine for the
/// first one sent again, so here nobody else has it.
pub(super) struct TakenUp {
    inner: Arc<Inner>,
    id: OperationId,
}

impl TakenUp {
    /// `None` if somebody here is at it.
    pub(super) fn new(inner: &Arc<Inner>, id: OperationId) -> Option<Self> {
        let is_first = inner.held.taken_up.lock().expect("no holder panics").insert(id);
        is_first.then(|| TakenUp { inner: inner.clone(), id })
    }
}

impl Drop for TakenUp {
    fn drop(&mut self) {
        self.inner.held.taken_up.lock().expect("no holder panics").remove(&self.id);
    }
}

impl HeldOperations {
    /// Holds an operation whose begin was sent at `since`, by the monotonic clock.
    pub(super) fn hold(
        &self,
        clock: &Arc<dyn Clock>,
        operation: &Operation,
        patience: Duration,
        since: Duration,
    ) -> Arc<Held> {
        let holds_for = holds_for(patience);
        let held = Arc::new(Held {
            workspace: operation.workspace.clone(),
            id: operation.id,
            attempt: operation.attempt,
            holds_for,
            hold: Hold::until(clock.clone(), since + holds_for),
            is_ending: AtomicBool::new(false),
        });
        let place = (operation.id, operation.attempt);
        self.held.lock().expect("no holder panics").insert(place, held.clone());
        held
    }

    pub(super) fn let_go(&self, operation: OperationId, attempt: u32) {
        self.held.lock().expect("no holder panics").remove(&(operation, attempt));
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().expect("no holder panics").len()
    }

    pub(crate) fn give_up_all(&self) {
        self.all().iter().for_each(|held| held.hold.lose());
    }

    fn all(&self) -> Vec<Arc<Held>> {
        self.held.lock().expect("no holder panics").values().cloned().collect()
    }
}

/// Tells the store, a few times within the patience of any janitor, that what is held here lives.
pub(crate) async fn keep_hearing(inner: Arc<Inner>) {
    let mut last = inner.clock.now();
    loop {
        let patience = inner.entities.shortest_patience().unwrap_or(CLAIM_STALE_AFTER);
        let every = (patience / 5).min(HEARTBEAT_EVERY);
        let changed = inner.changed.notified();
        // Looked at before the wait as well: the engine may have stopped before anybody listened.
        if inner.phase() == Phase::Killed {
            return;
        }
        // Much changes all the time; it is not yet time to tell.
        tokio::select! {
            biased;
            () = inner.clock.sleep_until(last.plus(every)) => {}
            () = changed => continue,
        }
        // Both may have come at once, and whoever was killed is silent.
        if inner.phase() == Phase::Killed {
            return;
        }
        last = inner.clock.now();
        hear_of_all(&inner).await;
    }
}

/// Tells the store that what is held here lives, and stops what is not held any more.
pub(super) async fn hear_of_all(inner: &Inner) {
    let Some(book) = inner.store.entity_store() else { return };
    let all = inner.held.all();
    for batch in all.chunks(MAX_HEARTBEATS) {
        let held = batch.iter().map(|held| HeldOperation {
            workspace: held.workspace.clone(),
            operation: held.id,
            attempt: held.attempt,
        });
        let since = inner.clock.monotonic();
        match inner.answer(book.heartbeat_operations(inner.owner, held.collect())).await {
            Ok(lost) => {
                for held in batch {
                    match lost.contains(&held.id) {
                        true if held.is_ending.load(Ordering::Relaxed) => {}
                        true => held.hold.lose(),
                        false => held.hold.extend(since + held.holds_for),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the store does not hear that operations are alive; trying again")
            }
        }
    }
    // One the store has not heard of for long counts as gone elsewhere; here it stops before that.
    for held in all.iter().filter(|held| !held.hold.stands() && !held.hold.is_lost()) {
        tracing::warn!(operation = %held.id, "the claim could not be kept; the operation is given up here");
        held.hold.lose();
    }
}
