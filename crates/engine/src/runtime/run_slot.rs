//! The runs this engine drives now, each once, with a mailbox for what comes in meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::hold::Hold;
use crate::model::{
    Fence, Promise, PromiseId, RunHead, RunId, RunResult, Settlement, Signal, StepId, WorkspaceId,
};

/// Something that concerns a run while it is driven.
#[derive(Debug)]
pub(crate) enum RunMessage {
    /// It arrived for the run; the store has it already.
    Arrived(NewArrival),
    /// People steered the run; this is how it stands now.
    Steered(Box<RunHead>),
    /// The engine stops: finish what is in flight and let go.
    Release,
    /// The lease had to be taken for lost, but is held again: what waited for it may go on.
    Renewed,
    /// The lease is gone: stop at once.
    LeaseLost,
}

/// What an arrival brought.
#[derive(Debug, Clone)]
pub(crate) enum NewArrival {
    Signal(Signal),
    Settled(PromiseId, Settlement),
    /// A promise was not merely opened: it was settled already, or lost its key, or has a deadline of its own.
    Opened(Box<Promise>),
    /// A child that was started by this step.
    ChildEnded(RunId, StepId, RunResult),
}

/// One run being driven.
#[derive(Debug)]
pub(crate) struct RunSlot {
    pub(crate) workspace: WorkspaceId,
    pub(crate) run: RunId,
    pub(crate) fence: Fence,
    mail: Mutex<Vec<RunMessage>>,
    waker: AtomicWaker,
    /// The right to start and send effects of the run.
    pub(crate) hold: Hold,
    /// Since when, by that clock, a write is on its way; zero if none is.
    writing_since_ms: AtomicU64,
}

impl RunSlot {
    pub(crate) fn new(workspace: WorkspaceId, run: RunId, fence: Fence, hold: Hold) -> Self {
        RunSlot {
            workspace,
            run,
            fence,
            mail: Mutex::default(),
            waker: AtomicWaker::new(),
            hold,
            writing_since_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn post(&self, mail: RunMessage) {
        if matches!(mail, RunMessage::LeaseLost) {
            // Code of a step may be running: it must not send anything before the driver has read this.
            self.hold.lose();
        }
        self.mail.lock().expect("no holder panics").push(mail);
        self.waker.wake();
    }

    pub(crate) fn take_mail(&self) -> Vec<RunMessage> {
        std::mem::take(&mut *self.mail.lock().expect("no holder panics"))
    }

    pub(crate) fn listen(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    /// A write is sent.
    pub(crate) fn write_sent(&self, at: Duration) {
        self.writing_since_ms.store(millis(at).max(1), Ordering::Relaxed);
    }

    /// The store has answered.
    pub(crate) fn write_answered(&self) {
        self.writing_since_ms.store(0, Ordering::Relaxed);
    }

    /// Has the store left a write without any answer since before `then`?
    pub(crate) fn is_unanswered_since(&self, then: Duration) -> bool {
        let since = self.writing_since_ms.load(Ordering::Relaxed);
        since > 0 && since < millis(then)
    }

    /// From then on nothing may be started, by whichever lease ends first.
    pub(crate) fn deadline(&self) -> Duration {
        self.hold.deadline()
    }

    /// Has its driver been told that the lease is gone?
    pub(crate) fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// All of them. A run is in here at most once: this is what serialises overlapping calls in one process (S3.3).
#[derive(Default)]
pub(crate) struct RunSlots {
    runs: Mutex<HashMap<RunId, Arc<RunSlot>>>,
}

impl RunSlots {
    /// Inserts `active`; false if the run is driven here already, under the same grant or a newer one.
    #[must_use]
    pub(crate) fn insert(&self, active: Arc<RunSlot>) -> bool {
        let mut runs = self.runs.lock().expect("no holder panics");
        if runs.get(&active.run).is_some_and(|held| held.fence >= active.fence) {
            return false;
        }
        let replaced = runs.insert(active.run, active);
        drop(runs);
        if let Some(old) = replaced {
            // Its lease ended and was granted to us anew: the old driver must stop.
            old.post(RunMessage::LeaseLost);
        }
        true
    }

    /// Removes `active`, unless a newer grant has taken its place.
    pub(crate) fn remove(&self, active: &RunSlot) {
        // This stretch of driving is over, so nothing may be sent in its name any more.
        active.hold.lose();
        let mut runs = self.runs.lock().expect("no holder panics");
        if runs.get(&active.run).is_some_and(|held| held.fence == active.fence) {
            runs.remove(&active.run);
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

    /// All of them, in the order of their ids, so that nothing depends on how a map hashes.
    pub(crate) fn all(&self) -> Vec<Arc<RunSlot>> {
        let mut all: Vec<_> = self.runs.lock().expect("no holder panics").values().cloned().collect();
        all.sort_unstable_by_key(|active| active.run);
        all
    }
}
