//! One activation of a run in a worker: what the two sides have told each other.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use hapax_api::{Code, Problem, RawJson};
use hapax_engine::ctx::{DropReason, ReturnHandle};
use hapax_engine::{Failure, Hold};

use crate::items::{AttemptOutcome, EndedAttempt, Item, read_items};
use crate::limits::{HOLD_MARGIN, MAX_WAITING_BATCHES};
use crate::mailbox::{CommitGate, Envelope, WorkId};
use crate::messages::{Abort, Attempt, Drop as DropMessage, StopCode, text_of};
use crate::session::{LateAttempt, Session};

/// Why a worker no longer carries out a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// Its session is over.
    SessionOver,
    /// It forgot the function.
    Evicted,
    /// It must run the function again from the top.
    Reload,
    /// It leaves too many messages lying.
    Full,
    /// Its items make no sense, or do not fit the log.
    Violation,
}

/// Kind of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AttemptKind {
    Effect,
    Probe,
    Undo,
}

impl AttemptKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            AttemptKind::Effect => "effect",
            AttemptKind::Probe => "probe",
            AttemptKind::Undo => "undo",
        }
    }
}

/// One attempt that a worker is asked to make.
pub(crate) struct AttemptCall<'a> {
    pub(crate) op: u32,
    pub(crate) kind: AttemptKind,
    pub(crate) number: u32,
    pub(crate) key: &'a str,
    pub(crate) fence: u64,
    pub(crate) hold: Hold,
    pub(crate) timeout: Option<Duration>,
    /// True if it must not happen twice: its worker must be past its hold before anybody acts on its end.
    pub(crate) is_claimed: bool,
    /// Why the code was dropped before its end, if it was.
    pub(crate) dropped_because: Option<DropReason>,
    /// Output of the effect that is undone.
    pub(crate) undoes: Option<&'a RawJson>,
}

/// Items of one commit, in their order.
pub(crate) struct Batch {
    pub(crate) items: VecDeque<BatchItem>,
}

/// One item of a batch.
pub(crate) enum BatchItem {
    /// The end of an attempt. It counts if the engine waits for it.
    Ended {
        op: u32,
        counts: bool,
    },
    Other(Item),
}

/// State of an attempt.
enum AttemptState {
    Waiting(Option<Waker>),
    Done(AttemptOutcome),
}

struct AttemptSlot {
    number: u32,
    state: AttemptState,
}

#[derive(Default)]
struct LinkState {
    batches: VecDeque<Batch>,
    severed: Option<LinkEnd>,
    attempts: BTreeMap<(u32, AttemptKind), AttemptSlot>,
    /// Number of the last attempt of each operation that was asked for.
    asked: HashMap<(u32, AttemptKind), u32>,
    /// Operations with at least one requested attempt.
    begun: HashSet<u32>,
    /// The commit that waits for a word of this run.
    awaited_by: Option<Arc<CommitGate>>,
    /// The last commit of this run.
    last_commit: Option<Arc<CommitGate>>,
    /// True once the code was dropped and effects may be undone.
    has_stopped: bool,
    /// True once the function ended.
    has_ended: bool,
    /// Records that did not fit into `activate`.
    log: Arc<Vec<RawJson>>,
}

/// One activation of a run in the worker of a session.
pub(crate) struct RunLink {
    pub(crate) run: String,
    pub(crate) activation: String,
    pub(crate) session: Arc<Session>,
    returns: ReturnHandle,
    state: Mutex<LinkState>,
    waker: AtomicWaker,
}

impl RunLink {
    pub(crate) fn new(session: Arc<Session>, run: String, returns: ReturnHandle) -> Arc<Self> {
        let activation = session.next_activation();
        let link = Arc::new(RunLink {
            run,
            activation,
            session,
            returns,
            state: Mutex::default(),
            waker: AtomicWaker::new(),
        });
        if !link.session.add_link(&link) {
            link.sever(LinkEnd::SessionOver);
        }
        link
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message with a payload about this run. If its worker leaves too many lying, the run is given back.
    pub(crate) fn say_or_give_back(&self, text: String) {
        match self.session.has_mailbox_room() {
            true => self.say(text),
            false => self.sever(LinkEnd::Full),
        }
    }

    /// Sends a message about this run.
    fn say(&self, text: String) {
        self.post(Envelope::new(text), |session, envelope| session.post(envelope));
    }

    fn post(&self, envelope: Envelope, post: impl FnOnce(&Session, Envelope)) {
        let (awaited_by, last_commit) = {
            let mut state = self.state();
            (state.awaited_by.take(), state.last_commit.clone())
        };
        post(&self.session, envelope.in_commit(last_commit));
        if let Some(commit) = awaited_by {
            commit.done();
        }
    }

    /// Says that nothing more will follow from the last batch for now.
    pub(crate) fn be_quiet(&self) {
        let awaited_by = self.state().awaited_by.take();
        if let Some(commit) = awaited_by {
            commit.done();
        }
    }

    /// Keeps the records that did not fit into `activate`, until the worker has read them.
    pub(crate) fn keep_log(&self, log: Arc<Vec<RawJson>>) {
        self.state().log = log;
    }

    pub(crate) fn log(&self) -> Arc<Vec<RawJson>> {
        self.state().log.clone()
    }

    /// Takes in what a worker handed in. What makes no sense changes nothing, and ends the activation.
    pub(crate) fn deliver(&self, items: &[RawJson], commit: &Arc<CommitGate>) {
        let read = read_items(items);
        let mut wakers = Vec::new();
        let refused = {
            let mut state = self.state();
            if let Some(earlier) = state.awaited_by.replace(commit.clone()) {
                earlier.done();
            }
            state.last_commit = Some(commit.clone());
            match read {
                _ if state.severed.is_some() => None,
                Err(why) => Some(why),
                Ok(_) if state.batches.len() >= MAX_WAITING_BATCHES => {
                    Some(format!("{MAX_WAITING_BATCHES} batches wait to be carried out"))
                }
                Ok(items) => self.accept(&mut state, items, &mut wakers).err(),
            }
        };
        wakers.into_iter().for_each(Waker::wake);
        if let Some(why) = refused {
            let detail =
                format!("The batch of run {} was refused: {why}. Nothing of it was carried out.", self.run);
            self.violate(detail);
        }
        if self.state().severed.is_some() {
            self.be_quiet();
        }
        self.waker.wake();
    }

    /// Takes in a batch as a whole, or nothing of it.
    fn accept(&self, state: &mut LinkState, items: Vec<Item>, wakers: &mut Vec<Waker>) -> Result<(), String> {
        for item in &items {
            let Item::Ended(EndedAttempt { op, kind, attempt, .. }) = item else { continue };
            let was_asked =
                state.asked.get(&(*op, *kind)).is_some_and(|last| attempt <= last && *attempt > 0);
            if !was_asked {
                let kind = kind.as_str();
                return Err(format!("nobody asked for {kind} attempt {attempt} of operation {op}"));
            }
        }
        let mut batch = Batch { items: VecDeque::with_capacity(items.len()) };
        for item in items {
            let item = match item {
                Item::Ended(ended) => self.end_attempt(state, ended, wakers),
                other => BatchItem::Other(other),
            };
            batch.items.push_back(item);
        }
        state.batches.push_back(batch);
        Ok(())
    }

    fn end_attempt(&self, state: &mut LinkState, ended: EndedAttempt, wakers: &mut Vec<Waker>) -> BatchItem {
        let EndedAttempt { op, kind, attempt, outcome } = ended;
        if let Some(slot) = state.attempts.get_mut(&(op, kind))
            && slot.number == attempt
            && let AttemptState::Waiting(waker) = &mut slot.state
        {
            wakers.extend(waker.take());
            slot.state = AttemptState::Done(outcome);
            return BatchItem::Ended { op, counts: true };
        }
        // A late outcome of an undo is no evidence about the effect.
        if let (AttemptKind::Effect, AttemptOutcome::Output(output)) = (kind, outcome) {
            self.session.tell_late(&self.activation, op, attempt, output);
        }
        BatchItem::Ended { op, counts: false }
    }

    /// The next batch, if there is one. Registers for a wake-up otherwise.
    pub(crate) fn poll_batch(&self, cx: &Context<'_>) -> Poll<Batch> {
        self.waker.register(cx.waker());
        match self.state().batches.pop_front() {
            Some(batch) => Poll::Ready(batch),
            None => Poll::Pending,
        }
    }

    /// Registers for a wake-up when the worker hands something in, or no longer carries out the run.
    pub(crate) fn watch(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
    }

    pub(crate) fn is_severed(&self) -> bool {
        self.state().severed.is_some()
    }

    /// Returns whether an attempt of the operation was asked for.
    pub(crate) fn has_begun(&self, op: u32) -> bool {
        self.state().begun.contains(&op)
    }

    /// The code does not fit the log, or what the worker handed in makes no sense. The run pauses, and says why.
    pub(crate) fn violate(&self, why: String) {
        let problem = Problem::new(Code::InvalidRequest, why.clone());
        if self.sever_with(LinkEnd::Violation, Some(&problem)) {
            tracing::warn!(run = %self.run, worker = %self.session.name(), %why, "the code of a worker does not fit its run");
            self.returns.pause(format!("{why} Deploy code that fits the history, then resume the run"));
        }
    }

    /// Ends the link: the worker no longer carries out the run, and another one continues.
    pub(crate) fn sever(&self, why: LinkEnd) {
        if self.sever_with(why, None) {
            self.returns.give_back();
        }
    }

    /// Gives the run back as soon as no attempt is under way. Until then the worker may hand in outcomes.
    pub(crate) fn give_back(&self) {
        self.returns.give_back();
    }

    fn sever_with(&self, why: LinkEnd, problem: Option<&Problem>) -> bool {
        let wakers: Vec<Waker> = {
            let mut state = self.state();
            if state.severed.is_some() {
                return false;
            }
            state.severed = Some(why);
            state.batches.clear();
            let waiting = state.attempts.values_mut().filter_map(|slot| match &mut slot.state {
                AttemptState::Waiting(waker) => waker.take(),
                AttemptState::Done(_) => None,
            });
            waiting.collect()
        };
        wakers.into_iter().for_each(Waker::wake);
        let why = match why {
            LinkEnd::SessionOver | LinkEnd::Evicted => None,
            LinkEnd::Reload => Some("reload"),
            LinkEnd::Full => Some("evicted"),
            LinkEnd::Violation => Some("violation"),
        };
        match why {
            Some(why) => self.say_drop(why, problem),
            None => self.be_quiet(),
        }
        self.waker.wake();
        true
    }

    fn say_drop(&self, why: &'static str, problem: Option<&Problem>) {
        let (run, activation) = (&*self.run, &*self.activation);
        self.say(text_of(&DropMessage { kind: "drop", run, activation, why, problem }));
    }

    /// The function ended. Its effects may still have to be undone.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        (state.has_ended, state.has_stopped) = (true, true);
    }

    /// Says before the first compensation of code that was dropped that it gets no more outcomes.
    fn say_stop(&self, why: DropReason) {
        let reason = match why {
            DropReason::Cancelled => "cancel",
            DropReason::DeadlinePassed => "deadline",
        };
        let is_first = !std::mem::replace(&mut self.state().has_stopped, true);
        if is_first {
            let (run, activation) = (&*self.run, &*self.activation);
            self.say(text_of(&StopCode { kind: "stop", run, activation, reason }));
        }
    }

    /// Asks the worker for an attempt and waits for its end.
    pub(crate) async fn attempt(&self, call: AttemptCall<'_>) -> Result<AttemptOutcome, Failure> {
        let place = (call.op, call.kind);
        if !self.session.has_mailbox_room() {
            self.sever(LinkEnd::Full);
        }
        let number = {
            let mut state = self.state();
            if state.severed.is_some() {
                return Err(nothing_sent());
            }
            // Probes and compensations count for themselves.
            let number = match call.kind {
                AttemptKind::Probe => state.asked.get(&place).map_or(1, |last| last + 1),
                AttemptKind::Effect | AttemptKind::Undo => call.number,
            };
            state.asked.insert(place, number);
            state.begun.insert(call.op);
            state.attempts.insert(place, AttemptSlot { number, state: AttemptState::Waiting(None) });
            number
        };
        if let Some(why) = call.dropped_because {
            self.say_stop(why);
        }
        let work = self.session.next_work();
        let under_way = AttemptUnderWay { link: self, place, number, work, call: &call };
        let message = text_of(&Attempt {
            kind: "attempt",
            run: &self.run,
            activation: &self.activation,
            op: call.op,
            what: call.kind.as_str(),
            attempt: number,
            key: call.key,
            fence: call.fence,
            timeout: call.timeout.map(Into::into),
            id: step_of(call.key),
            output: call.undoes,
        });
        self.post(Envelope::new(message), |session, envelope| {
            session.hand_out(work, call.hold.clone(), envelope)
        });
        let ended = std::future::poll_fn(|cx| under_way.poll(cx)).await;
        if let Some(outcome) = ended {
            return Ok(outcome);
        }
        let was_delivered = self.session.was_delivered(work);
        if !was_delivered {
            return Err(nothing_sent());
        }
        if call.is_claimed {
            // The worker may begin the effect until its hold ends, even if an abort is on its way.
            let until = self.session.promised_until() + HOLD_MARGIN;
            let left = until.saturating_sub(self.session.clock().monotonic());
            self.session.clock().sleep(left).await;
        }
        Err(Failure::unknown("its worker vanished in the middle of it")
            .with_code("crashed")
            .retry_after(Duration::ZERO))
    }
}

/// Id of the step that an effect key is about. The key of a compensation names the step that it undoes.
fn step_of(key: &str) -> &str {
    let step = key.split_once(':').map_or(key, |(_, step)| step);
    step.split('~').next().unwrap_or(step)
}

fn nothing_sent() -> Failure {
    Failure::retryable("its worker was gone before it began, so nothing was sent")
        .with_code("no_worker")
        .retry_after(Duration::ZERO)
}

/// An attempt that the worker makes. If the engine no longer waits for it, the worker gets an `abort`.
struct AttemptUnderWay<'a> {
    link: &'a RunLink,
    place: (u32, AttemptKind),
    number: u32,
    work: WorkId,
    call: &'a AttemptCall<'a>,
}

impl AttemptUnderWay<'_> {
    /// The outcome, or `None` if none will come.
    fn poll(&self, cx: &Context<'_>) -> Poll<Option<AttemptOutcome>> {
        let mut state = self.link.state();
        let is_severed = state.severed.is_some();
        let slot = state.attempts.get_mut(&self.place).filter(|slot| slot.number == self.number);
        match slot.map(|slot| &mut slot.state) {
            Some(AttemptState::Done(outcome)) => {
                let outcome = outcome.clone();
                state.attempts.remove(&self.place);
                drop(state);
                self.link.session.end_work(self.work);
                Poll::Ready(Some(outcome))
            }
            None => Poll::Ready(None),
            Some(AttemptState::Waiting(_)) if is_severed => Poll::Ready(None),
            Some(AttemptState::Waiting(waker)) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for AttemptUnderWay<'_> {
    fn drop(&mut self) {
        let (op, kind) = self.place;
        let is_over = {
            let mut state = self.link.state();
            match state.attempts.get(&self.place) {
                Some(slot) if slot.number == self.number => {
                    state.attempts.remove(&self.place);
                    false
                }
                _ => true,
            }
        };
        if is_over {
            return;
        }
        let link = self.link;
        if kind == AttemptKind::Effect {
            let late = LateAttempt { key: self.call.key.to_string(), fence: self.call.fence };
            link.session.remember_late(&link.activation, op, self.number, late);
        }
        let (run, activation) = (&*link.run, &*link.activation);
        let abort = Abort { kind: "abort", run, activation, op, attempt: self.number, why: "not_awaited" };
        link.session.take_back(self.work, Envelope::new(text_of(&abort)));
    }
}

impl Drop for RunLink {
    fn drop(&mut self) {
        self.session.remove_link(&self.activation);
        let (is_severed, has_ended) = {
            let state = self.state();
            // A run that was cancelled ends once its effects are undone.
            let is_undone = state.has_stopped && state.attempts.is_empty();
            (state.severed.is_some(), state.has_ended || is_undone)
        };
        match is_severed {
            true => self.be_quiet(),
            false if has_ended => self.say_drop("closed", None),
            false => self.say_drop("released", None),
        }
    }
}
