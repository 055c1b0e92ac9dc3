//! One session with the server: its two lanes, and the runs and calls that came with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_api::client::ClientError;
use hapax_api::{CommitWorkerSession, OpenedWorkerSession, PollWorkerSession, RawJson, WorkerMessages};
use hapax_engine::Hold;
use hapax_engine::hold::HoldSource;
use hapax_engine::remote::RunMessage;
use tokio::sync::{Notify, mpsc};

use crate::errors::{RecoveryAction, remedy_of};
use crate::limits::{AFTER_REFUSAL, YIELDS_BEFORE_COMMIT};
use crate::outbox::{Batch, CommitLimits, Late, Outbox};
use crate::requests::send_until_answered;
use crate::run_task::{self, LiveRun, RunInput, RunPlace};
use crate::wire::{Message, read_message};
use crate::worker::Worker;

/// Why the lanes of a session ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// It is over. Another one is opened.
    Over,
    /// No other session would do better.
    Final(Box<ClientError>),
}

/// One session.
pub(crate) struct Session {
    pub(crate) worker: Arc<Worker>,
    pub(crate) hold: HoldSource,
    id: String,
    poll_for: Duration,
    limits: CommitLimits,
    outbox: Mutex<Outbox>,
    outbox_filled: Notify,
    runs: Mutex<HashMap<String, LiveRun>>,
    /// Rights of tasks and actions under way, by call.
    calls: Mutex<HashMap<String, Hold>>,
    told: AtomicU64,
    /// Number of the last poll or commit.
    requests: AtomicU64,
    /// True while a commit has no answer.
    is_committing: AtomicBool,
}

impl Session {
    pub(crate) fn new(worker: Arc<Worker>, opened: OpenedWorkerSession) -> Arc<Self> {
        let hold = HoldSource::new(worker.clock());
        let OpenedWorkerSession { session_id: id, poll_for, limits, lease_for: _ } = opened;
        let mut outbox = Outbox::default();
        worker.take_late().iter().for_each(|late| outbox.push_result(late.result()));
        Arc::new(Session {
            worker,
            hold,
            id,
            poll_for: poll_for.0,
            limits: CommitLimits::from(&limits),
            outbox: Mutex::new(outbox),
            outbox_filled: Notify::new(),
            runs: Mutex::default(),
            calls: Mutex::default(),
            told: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            is_committing: AtomicBool::new(false),
        })
    }

    fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<String, LiveRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, HashMap<String, Hold>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the session is over. Dropping the future stops it.
    pub(crate) async fn work(self: &Arc<Self>) -> SessionEnd {
        let end = tokio::select! {
            end = self.poll() => end,
            end = self.commit() => end,
        };
        self.sever();
        end
    }

    async fn poll(self: &Arc<Self>) -> SessionEnd {
        loop {
            let asked = PollWorkerSession { sequence: self.next_request(), free: self.worker.free() };
            let send = || self.worker.client.poll_worker_session(&self.id, &asked);
            match self.send(self.poll_for, send).await {
                Ok(messages) => self.take(messages),
                Err(error) => match remedy_of(&error) {
                    RecoveryAction::GiveUp => return SessionEnd::Final(Box::new(error)),
                    RecoveryAction::NewSession => {
                        tracing::info!(session = %self.id, "the session is over; a new one is opened");
                        return SessionEnd::Over;
                    }
                    RecoveryAction::SendAgain | RecoveryAction::Refused => {
                        tracing::error!(%error, "a poll was refused; a new session is opened");
                        tokio::time::sleep(AFTER_REFUSAL).await;
                        return SessionEnd::Over;
                    }
                },
            }
        }
    }

    async fn commit(self: &Arc<Self>) -> SessionEnd {
        loop {
            if self.outbox().is_empty() {
                self.outbox_filled.notified().await;
                continue;
            }
            // Runs that are awake already share the commit. Nobody waits for any that is not.
            for _ in 0..YIELDS_BEFORE_COMMIT {
                tokio::task::yield_now().await;
            }
            self.is_committing.store(true, Ordering::Release);
            let Batch { runs, results, late } = self.outbox().take(&self.limits);
            let (sequence, free) = (self.next_request(), self.worker.free());
            let asked = CommitWorkerSession { sequence, free, runs, results };
            let unsent = Unsent { session: self, late };
            let send = || self.worker.client.commit_worker_session(&self.id, &asked);
            let answer = self.send(Duration::ZERO, send).await;
            self.is_committing.store(false, Ordering::Release);
            self.worker.changed.notify_waiters();
            match answer {
                Ok(messages) => {
                    unsent.forget();
                    self.take(messages);
                }
                Err(error) => match remedy_of(&error) {
                    RecoveryAction::GiveUp => return SessionEnd::Final(Box::new(error)),
                    RecoveryAction::NewSession => return SessionEnd::Over,
                    RecoveryAction::SendAgain | RecoveryAction::Refused => {
                        tracing::error!(%error, "a commit was refused; its runs are given back");
                        for run in &asked.runs {
                            self.tell(&run.activation, RunInput::Message(RunMessage::Drop));
                        }
                    }
                },
            }
        }
    }

    /// Sends a request, and counts the hold of its answer from when it left for the first time: the answer to a later try
    /// may be that to the first.
    async fn send<Fut>(
        &self,
        wait: Duration,
        send: impl FnMut() -> Fut,
    ) -> Result<WorkerMessages, ClientError>
    where
        Fut: Future<Output = Result<WorkerMessages, ClientError>>,
    {
        let sent_at = self.hold.monotonic();
        let answer = send_until_answered(wait, send).await?;
        let had_passed = self.hold.extend(sent_at + answer.hold_for.0);
        if had_passed {
            for run in self.runs().values() {
                // A run that ended takes nothing more.
                let _ = run.inbox.send(RunInput::Message(RunMessage::HoldRenewed));
            }
            self.worker.hold_renewed.notify_waiters();
        }
        Ok(answer)
    }

    /// True if nothing waits to be sent.
    pub(crate) fn is_handed_in(&self) -> bool {
        self.outbox().is_empty() && !self.is_committing.load(Ordering::Acquire)
    }

    fn take(self: &Arc<Self>, answer: WorkerMessages) {
        for message in answer.messages {
            match read_message(message.text()) {
                Ok(message) => self.take_message(message),
                Err(why) => tracing::error!(%why, "a message of the server cannot be read"),
            }
        }
    }

    fn take_message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Activate { id, activation, has_more_log } => {
                let (inbox, told) = mpsc::unbounded_channel();
                let place = Arc::<RunPlace>::default();
                place.told_at.store(self.told.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                self.runs().insert(id.clone(), LiveRun { inbox, place: place.clone() });
                self.make_room();
                tokio::spawn(run_task::run(self.clone(), id, *activation, has_more_log, told, place));
            }
            Message::Run { id, message, why } => {
                if let Some(why) = why {
                    match why.starts_with("violation") {
                        true => tracing::error!(activation = %id, %why, "the server drops a run"),
                        false => tracing::debug!(activation = %id, %why, "run dropped"),
                    }
                }
                self.tell(&id, RunInput::Message(message));
            }
            Message::Call(call) => self.worker.begin_call(self, *call),
            Message::AbortCall(call) => {
                if let Some(hold) = self.calls().remove(&call) {
                    hold.lose();
                }
            }
            Message::Unknown(kind) => tracing::debug!(%kind, "a message of a newer server is ignored"),
        }
    }

    fn tell(&self, activation: &str, told: RunInput) {
        let runs = self.runs();
        let Some(run) = runs.get(activation) else { return };
        run.place.is_idle.store(false, Ordering::Relaxed);
        run.place.told_at.store(self.told.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let _ = run.inbox.send(told);
    }

    /// Forgets runs that wait, those that have waited longest first, if there are too many. A sixteenth of them at once,
    /// so that not each new run looks through all.
    fn make_room(&self) {
        let most = self.worker.max_resident();
        let runs = self.runs();
        if runs.len() <= most {
            return;
        }
        let idle = runs.values().filter(|run| run.place.is_idle.load(Ordering::Relaxed));
        let mut idle: Vec<_> = idle.map(|run| (run.place.told_at.load(Ordering::Relaxed), run)).collect();
        idle.sort_unstable_by_key(|(told_at, _)| *told_at);
        let surplus = runs.len() - most + most / 16;
        for (_, run) in idle.into_iter().take(surplus) {
            run.place.is_idle.store(false, Ordering::Relaxed);
            let _ = run.inbox.send(RunInput::Evict);
        }
    }

    pub(crate) fn hand_in(&self, run: &str, activation: &str, items: Vec<RawJson>, late: Vec<Late>) {
        self.outbox().push(run, activation, items, late);
        self.outbox_filled.notify_one();
    }

    pub(crate) fn hand_in_result(&self, result: RawJson) {
        self.outbox().push_result(result);
        self.outbox_filled.notify_one();
    }

    pub(crate) fn forget(&self, activation: &str) {
        self.runs().remove(activation);
    }

    /// Next page of a log. `None` if it cannot be read.
    pub(crate) async fn read_log(
        &self,
        run: &str,
        activation: &str,
        after: usize,
    ) -> Option<(Vec<RawJson>, bool)> {
        let send = || self.worker.client.read_worker_log(&self.id, run, activation, after);
        match send_until_answered(Duration::ZERO, send).await {
            Ok(page) => Some((page.log, page.log_more)),
            Err(error) => {
                tracing::warn!(run, %error, "the log of a run cannot be read");
                None
            }
        }
    }

    /// Ends the session on the server. Its work is free at once.
    pub(crate) async fn close(&self) {
        if let Err(error) = self.worker.client.close_worker_session(&self.id).await {
            tracing::warn!(%error, "the session could not be ended; its work is free when its lease is over");
        }
    }

    /// Drops all runs: others go on with them. The evidence about their effects is kept for the next session.
    pub(crate) fn sever(&self) {
        self.hold.end();
        let late = self.outbox().take_late();
        self.worker.keep_late(late);
        // Their inboxes end.
        self.runs().clear();
        for (_, hold) in self.calls().drain() {
            hold.lose();
        }
    }
}

/// Outcomes of a commit that has no answer yet.
struct Unsent<'a> {
    session: &'a Session,
    late: Vec<Late>,
}

impl Unsent<'_> {
    fn forget(mut self) {
        self.late.clear();
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.session.worker.keep_late(std::mem::take(&mut self.late));
    }
}
