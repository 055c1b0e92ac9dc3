//! Runs that are active on this engine, each at most once, with an inbox for messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::hold::Hold;
use crate::model::{
    Fence, Promise, PromiseId, RunHead, RunId, RunResult, Settlement, Signal, StepId, WorkspaceId,
};

/// Message for an active run.
#[derive(Debug)]
pub(crate) enum RunMessage {
    /// An arrival for the run, already durable in the store.
    Arrived(Arrival),
    /// An operator's command changed the run; this is its new state.
    Steered(Box<RunHead>),
    /// The engine is shutting down: finish effects in flight and release the lease.
    Release,
    /// The lease had expired locally, but was renewed. Paused work may continue.
    Renewed,
    /// The lease is lost. Stop at once.
    LeaseLost,
}

/// Content of an arrival.
#[derive(Debug, Clone)]
pub(crate) enum Arrival {
    Signal(Signal),
    Settled(PromiseId, Settlement),
    /// A promise was opened with a difference: already settled, without its key, or with a deadline of its
    /// own.
    Opened(Box<Promise>),
    /// A child that this step started has ended.
    ChildEnded(RunId, StepId, RunResult),
}

/// One active run.
#[derive(Debug)]
pub(crate) struct RunSlot {
    pub(crate) workspace: WorkspaceId,
    pub(crate) run: RunId,
    pub(crate) fence: Fence,
    messages: Mutex<Vec<RunMessage>>,
    waker: AtomicWaker,
    /// Right to start and send effects of the run.
    pub(crate) hold: Hold,
    /// Start of the write in flight, by the monotonic clock; zero if there is none.
    writing_since_ms: AtomicU64,
}

impl RunSlot {
    pub(crate) fn new(workspace: WorkspaceId, run: RunId, fence: Fence, hold: Hold) -> Self {
        RunSlot {
            workspace,
            run,
            fence,
            messages: Mutex::default(),
            waker: AtomicWaker::new(),
            hold,
            writing_since_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn send(&self, message: RunMessage) {
        if matches!(message, RunMessage::LeaseLost) {
            // A step's code may be running. It must not send anything before the driver reads this message.
            self.hold.lose();
        }
        self.messages.lock().expect("no holder panics").push(message);
        self.waker.wake();
    }

    pub(crate) fn take_messages(&self) -> Vec<RunMessage> {
        std::mem::take(&mut *self.messages.lock().expect("no holder panics"))
    }

    pub(crate) fn listen(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    /// Records that a write was sent.
    pub(crate) fn write_sent(&self, at: Duration) {
        self.writing_since_ms.store(millis(at).max(1), Ordering::Relaxed);
    }

    /// Records that the store has answered.
    pub(crate) fn write_answered(&self) {
        self.writing_since_ms.store(0, Ordering::Relaxed);
    }

    /// Returns whether a write has been unanswered since before `then`.
    pub(crate) fn is_unanswered_since(&self, then: Duration) -> bool {
        let since = self.writing_since_ms.load(Ordering::Relaxed);
        since > 0 && since < millis(then)
    }

    /// Deadline for starting effects: the earlier end of both leases.
    pub(crate) fn deadline(&self) -> Duration {
        self.hold.deadline()
    }

    /// Returns whether the lease is lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// All active runs. A run is in here at most once, which serialises overlapping calls in one process (S3.3).
#[derive(Default)]
pub(crate) struct RunSlots {
    runs: Mutex<HashMap<RunId, Arc<RunSlot>>>,
}

impl RunSlots {
    /// Inserts `slot`. Returns false if the run is already active here under the same grant or a newer one.
    #[must_use]
    pub(crate) fn insert(&self, slot: Arc<RunSlot>) -> bool {
        let mut runs = self.runs.lock().expect("no holder panics");
        if runs.get(&slot.run).is_some_and(|held| held.fence >= slot.fence) {
            return false;
        }
        let replaced = runs.insert(slot.run, slot);
        drop(runs);
        if let Some(old) = replaced {
            // The lease expired and was granted to this engine again, so the old driver must stop.
            old.send(RunMessage::LeaseLost);
        }
        true
    }

    /// Removes `slot`, unless a newer grant has replaced it.
    pub(crate) fn remove(&self, slot: &RunSlot) {
        // This activation is over, so it may send nothing more.
        slot.hold.lose();
        let mut runs = self.runs.lock().expect("no holder panics");
        if runs.get(&slot.run).is_some_and(|held| held.fence == slot.fence) {
            runs.remove(&slot.run);
        }
    }

    pub(crate) fn find(&self, run: RunId) -> Option<Arc<RunSlot>> {
        self.runs.lock().expect("no holder panics").get(&run).cloned()
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs.lock().expect("no holder panics").contains_key(&run)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.lock().expect("no holder panics").len()
    }

    /// All slots in the order of their run ids, so that nothing depends on hash order.
    pub(crate) fn all(&self) -> Vec<Arc<RunSlot>> {
        let mut all: Vec<_> = self.runs.lock().expect("no holder panics").values().cloned().collect();
        all.sort_unstable_by_key(|slot| slot.run);
        all
    }
}
