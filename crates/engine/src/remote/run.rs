//! One activation of a run, driven by messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use super::items::{Item, RemoteActivation, RunMessage};
use super::machine::{Collected, Machine, WorkerCtx};
use super::undoing::RunningCompensations;
use super::workflow::RemoteWorkflow;
use crate::clock::Clock;
use crate::ctx::Ctx;
use crate::hold::Hold;
use crate::limits::MAX_POLLS_IN_A_ROW;
use crate::model::{Failure, Payload};
use crate::runtime::{UserCode, drive::panic_text};

/// Items of a run since the last turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// Items to commit, in their order.
    pub items: Vec<Item>,
    /// Operations with an attempt that began.
    pub begun: Vec<u32>,
    /// Operations with an attempt that was stopped.
    pub aborted: Vec<u32>,
    /// Number of attempts under way.
    pub running: usize,
    /// True if the function was dropped. Nothing more comes from this run.
    pub is_forgotten: bool,
}

/// One activation of a run.
///
/// Give it each message with [`RemoteRun::deliver`], and poll it after each, and whenever its waker is called: the
/// attempts of its steps run in it.
pub struct RemoteRun {
    machine: Arc<Machine>,
    code: Option<UserCode>,
    undoing: RunningCompensations,
    waker: Arc<TurnWaker>,
    turn_waker: Waker,
    /// True until the code has gone as far as it can with what it was given.
    is_mid_turn: bool,
    is_forgotten: bool,
}

/// Knows whether the code wants to be polled.
#[derive(Default)]
struct TurnWaker {
    is_wanted: AtomicBool,
    task: AtomicWaker,
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_wanted.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl RemoteRun {
    /// Calls the function of a workflow, from the top, when it is polled for the first time. `hold` is the right to
    /// send its effects, and belongs to this activation alone.
    pub fn new(
        workflow: &RemoteWorkflow,
        activation: RemoteActivation,
        hold: Hold,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let input = activation.input.clone();
        let workflow = workflow.0.clone();
        let machine = Arc::new(Machine::new(activation, workflow.declared.clone(), hold, clock));
        let ctx = Ctx::in_worker(WorkerCtx { machine: machine.clone(), scope: None });
        // The user's function is called inside the future, so a panic in it is caught like any other.
        let code = UserCode::new(Box::pin(async move { workflow.begin(ctx, input).await }));
        let waker = Arc::new(TurnWaker::default());
        let turn_waker = Waker::from(waker.clone());
        machine.state().in_turn = true;
        RemoteRun {
            machine,
            code: Some(code),
            undoing: RunningCompensations::default(),
            waker,
            turn_waker,
            is_mid_turn: true,
            is_forgotten: false,
        }
    }

    /// Takes a message. Poll the run after it.
    pub fn deliver(&mut self, message: RunMessage) {
        if let Some(op) = self.undoing.stop(&message) {
            // Nothing else can run for an operation that is undone.
            tracing::debug!(run = %self.machine.facts.run, op, "a compensation was stopped");
            return;
        }
        let is_drop = matches!(message, RunMessage::Drop);
        let is_renewal = matches!(message, RunMessage::HoldRenewed);
        if let Some((order, undo)) = self.machine.deliver(message) {
            self.undoing.begin(&self.machine, order, &undo);
        }
        if is_drop {
            self.forget();
        }
        if is_renewal || self.undoing.len() > 0 {
            self.waker.is_wanted.store(true, Ordering::Release);
        }
    }

    /// Forgets the function, because others need its place.
    pub fn evict(&mut self) {
        self.machine.evict();
        self.forget();
    }

    fn forget(&mut self) {
        self.is_forgotten = true;
        self.machine.hold.lose();
        self.undoing.clear();
        self.code = None;
    }

    /// True if it only waits for the server.
    pub fn is_idle(&self) -> bool {
        !self.is_mid_turn && self.undoing.len() == 0 && self.machine.is_idle()
    }

    /// Lets the code go as far as it can, and returns what it did.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Turn {
        self.waker.task.register(cx.waker());
        let mut polls = 0;
        loop {
            let is_wanted = self.waker.is_wanted.swap(false, Ordering::AcqRel);
            if is_wanted {
                self.undoing.poll(&self.machine, &mut Context::from_waker(&self.turn_waker));
            }
            if self.is_mid_turn || is_wanted {
                polls += 1;
                self.poll_code();
                if self.waker.is_wanted.load(Ordering::Acquire) {
                    if polls < MAX_POLLS_IN_A_ROW {
                        continue;
                    }
                    // Others want to go on as well.
                    cx.waker().wake_by_ref();
                    return Turn::default();
                }
                self.end_turn();
            }
            match self.code.is_some() && self.machine.give_next() {
                true => self.is_mid_turn = true,
                false if self.waker.is_wanted.load(Ordering::Acquire) => {}
                false => break,
            }
        }
        self.machine.check_that_all_is_asked();
        let Collected { items, begun, aborted, running } = self.machine.collect();
        let running = running + self.undoing.len();
        Turn { items, begun, aborted, running, is_forgotten: self.is_forgotten }
    }

    fn poll_code(&mut self) {
        let Some(code) = &mut self.code else { return };
        let cx = &mut Context::from_waker(&self.turn_waker);
        let outcome: Result<Payload, Failure> = match catch_unwind(AssertUnwindSafe(|| code.poll(cx))) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => {
                let failure = Failure::unknown(format!("the workflow panicked: {}", panic_text(&*panic)));
                Err(failure.with_code("panicked"))
            }
        };
        self.machine.end(outcome);
        self.code = None;
    }

    fn end_turn(&mut self) {
        self.is_mid_turn = false;
        // An attempt that ended may have let the code go on by itself.
        if std::mem::take(&mut self.machine.state().in_turn) {
            self.machine.end_turn();
        }
    }
}

impl Drop for RemoteRun {
    fn drop(&mut self) {
        // Futures dropped now are not abandoned: another worker continues the run.
        self.machine.state().forgotten = true;
        self.forget();
    }
}

impl std::fmt::Debug for RemoteRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteRun").field("run", &self.machine.facts.run).finish_non_exhaustive()
    }
}
