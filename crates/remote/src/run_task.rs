//! The task of one run: gives it messages, polls its code, and hands in what it did.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use hapax_engine::model::ProbeAnswer;
use hapax_engine::remote::{AttemptOutcome, Item, RemoteActivation, RemoteRun, RunMessage};
use tokio::sync::mpsc;

use crate::outbox::Late;
use crate::session::Session;
use crate::wire::{read_records, write_item};

/// Input of a run.
pub(crate) enum RunInput {
    Message(RunMessage),
    /// Others need its place.
    Evict,
}

/// A run that this process keeps.
pub(crate) struct LiveRun {
    pub(crate) inbox: mpsc::UnboundedSender<RunInput>,
    pub(crate) place: Arc<RunPlace>,
}

/// Whether the cache may drop a run, and the time of its last message.
#[derive(Default)]
pub(crate) struct RunPlace {
    pub(crate) is_idle: AtomicBool,
    pub(crate) told_at: AtomicU64,
}

/// One run, from its activation until the server drops it.
struct RunTask {
    session: Arc<Session>,
    run: String,
    activation: String,
    remote: RemoteRun,
    inbox: mpsc::UnboundedReceiver<RunInput>,
    place: Arc<RunPlace>,
    /// Attempts under way that count in the session.
    running: usize,
}

/// Reads the rest of the log if there is more, and runs the code.
pub(crate) async fn run(
    session: Arc<Session>,
    id: String,
    mut activation: RemoteActivation,
    has_more_log: bool,
    inbox: mpsc::UnboundedReceiver<RunInput>,
    place: Arc<RunPlace>,
) {
    let run = activation.run.to_string();
    if has_more_log {
        let read = async {
            while let Some((page, has_more)) = session.read_log(&run, &id, activation.log.len()).await {
                match read_records(&page) {
                    Ok(records) => activation.log.extend(records),
                    Err(why) => {
                        tracing::error!(%run, %why, "the log of a run cannot be read");
                        return false;
                    }
                }
                if !has_more {
                    return true;
                }
            }
            false
        };
        if !read.await {
            session.hand_in(&run, &id, vec![write_item(&Item::Evicted)], Vec::new());
            session.forget(&id);
            return;
        }
    }
    let Some(workflow) = session.worker.find_workflow(&activation.workflow) else {
        tracing::error!(%run, workflow = %activation.workflow, "a run of a workflow that this program does not have");
        session.hand_in(&run, &id, vec![write_item(&Item::Evicted)], Vec::new());
        session.forget(&id);
        return;
    };
    let remote = RemoteRun::new(&workflow, activation, session.hold.hold(), session.worker.clock());
    let mut task = RunTask { session, run, activation: id, remote, inbox, place, running: 0 };
    poll_fn(|cx| task.poll(cx)).await;
}

impl RunTask {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut has_more = false;
            match self.inbox.poll_recv(cx) {
                Poll::Ready(Some(RunInput::Message(message))) => {
                    self.remote.deliver(message);
                    has_more = true;
                }
                Poll::Ready(Some(RunInput::Evict)) => {
                    if self.remote.is_idle() {
                        self.remote.evict();
                    }
                    has_more = true;
                }
                // The session is over.
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            if has_more {
                continue;
            }
            // An attempt may begin in this turn. A program that shuts down meanwhile must wait for it.
            self.count_running(self.running + 1);
            let turn = self.remote.poll(cx);
            // The outcome of an attempt is there before the attempt is over.
            self.hand_in(&turn.items);
            self.count_running(turn.running);
            if turn.is_forgotten {
                self.session.forget(&self.activation);
                return Poll::Ready(());
            }
            self.place.is_idle.store(self.remote.is_idle(), Ordering::Relaxed);
            return Poll::Pending;
        }
    }

    fn count_running(&mut self, now: usize) {
        self.session.worker.count_running(self.running, now);
        self.running = now;
    }

    fn hand_in(&self, items: &[Item]) {
        if items.is_empty() {
            return;
        }
        for item in items {
            match item {
                Item::Violation(why) => {
                    tracing::error!(run = %self.run, %why, "the code does not fit the history of the run");
                }
                Item::Outcome { op, attempt, outcome: AttemptOutcome::Failed(failure), .. } => {
                    tracing::info!(run = %self.run, op, attempt, %failure, "attempt failed");
                }
                _ => {}
            }
        }
        let late = items.iter().filter_map(late_of).collect();
        let items = items.iter().map(write_item).collect();
        self.session.hand_in(&self.run, &self.activation, items, late);
    }
}

impl Drop for RunTask {
    fn drop(&mut self) {
        self.session.worker.count_running(self.running, 0);
    }
}

/// Evidence from an outcome.
fn late_of(item: &Item) -> Option<Late> {
    let Item::Outcome { attempt, outcome, evidence: Some(evidence), .. } = item else { return None };
    let output = match outcome {
        AttemptOutcome::Output(output) | AttemptOutcome::Answered(ProbeAnswer::Happened(output)) => output,
        AttemptOutcome::Failed(_) | AttemptOutcome::Answered(_) => return None,
    };
    Some(Late {
        key: evidence.key.to_string(),
        attempt: *attempt,
        fence: evidence.fence.get(),
        output: serde_json::from_str(output.as_str()).ok()?,
    })
}
