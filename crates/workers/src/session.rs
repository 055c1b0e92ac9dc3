//! One session of a worker: who it is, its mailbox, and the runs that it carries out.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use hapax_api::{OpenWorkerSession, RawJson, WorkerSession};
use hapax_engine::Hold;
use hapax_engine::clock::Clock;
use hapax_engine::model::{Timestamp, WorkflowRef, WorkspaceId};
use tokio::sync::Notify;

use crate::calls::{CallResult, Calls, LateResult};
use crate::items::{AttemptOutcome, EndedAttempt, Item, read_items};
use crate::limits::{HOLD_CHECK_EVERY, MAX_LATE_ATTEMPTS, MAX_MAILBOX_BYTES, MAX_RUNS_PER_SLOT};
use crate::link::{AttemptKind, LinkEnd, RunLink};
use crate::mailbox::{CommitGate, Envelope, Lane, Mailbox, Taken, WorkId};
use crate::mailbox_budget::MailboxBudget;

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// Nothing was received from the worker for too long.
    Silent,
    /// A newer session has its instance.
    Replaced,
    /// The worker ended it.
    Closed,
    /// The node stops.
    Stopping,
}

/// An attempt whose outcome no longer counts.
#[derive(Debug, Clone)]
pub(crate) struct LateAttempt {
    pub(crate) key: String,
    pub(crate) fence: u64,
}

/// An outcome that came too late to count. It is evidence.
#[derive(Debug, Clone)]
pub(crate) struct LateOutcome {
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    pub(crate) output: RawJson,
    /// True if this session was asked for the attempt.
    pub(crate) is_known: bool,
}

/// The answer that a lane gave last, and the request it answers.
#[derive(Default)]
pub(crate) struct LaneState {
    /// Number of the request. 0: there was none.
    pub(crate) sequence: u64,
    pub(crate) answer: Option<Bytes>,
}

struct Liveness {
    heard_at: Duration,
    heard_at_wall: Timestamp,
    end: Option<SessionEnd>,
}

#[derive(Default)]
struct LateAttempts {
    known: HashMap<(String, u32, u32), LateAttempt>,
    order: VecDeque<(String, u32, u32)>,
    told: Vec<LateOutcome>,
}

/// One session.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) workspace: WorkspaceId,
    pub(crate) facts: OpenWorkerSession,
    pub(crate) workflows: BTreeSet<WorkflowRef>,
    pub(crate) opened_at: Timestamp,
    clock: Arc<dyn Clock>,
    /// Longest hold that an answer gives.
    longest_hold: Duration,
    mailbox: Mutex<Mailbox>,
    budget: Arc<MailboxBudget>,
    /// Notified when a poll may have something to say.
    news: Notify,
    life: Mutex<Liveness>,
    links: Mutex<BTreeMap<String, Weak<RunLink>>>,
    late: Mutex<LateAttempts>,
    pub(crate) calls: Calls,
    /// State of each lane, held while a request is under way.
    pub(crate) lanes: [tokio::sync::Mutex<LaneState>; 2],
    /// Number of the newest poll. Older ones make room.
    newest_poll: AtomicU64,
    last_number: AtomicU64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.change_mailbox(Mailbox::clear);
    }
}

/// Properties of a new session.
pub(crate) struct NewSession {
    pub(crate) id: String,
    pub(crate) workspace: WorkspaceId,
    pub(crate) facts: OpenWorkerSession,
    pub(crate) workflows: BTreeSet<WorkflowRef>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) longest_hold: Duration,
    pub(crate) now: Timestamp,
    pub(crate) budget: Arc<MailboxBudget>,
}

impl Session {
    pub(crate) fn new(new: NewSession) -> Arc<Self> {
        let NewSession { id, workspace, facts, workflows, clock, longest_hold, now, budget } = new;
        let life = Liveness { heard_at: clock.monotonic(), heard_at_wall: now, end: None };
        Arc::new(Session {
            id,
            workspace,
            facts,
            workflows,
            opened_at: now,
            clock,
            longest_hold,
            mailbox: Mutex::default(),
            budget,
            news: Notify::new(),
            life: Mutex::new(life),
            links: Mutex::default(),
            late: Mutex::default(),
            calls: Calls::default(),
            lanes: Default::default(),
            newest_poll: AtomicU64::new(0),
            last_number: AtomicU64::new(0),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.facts.name
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the mailbox, and counts its bytes for the workspace.
    fn change_mailbox<T>(&self, change: impl FnOnce(&mut Mailbox) -> T) -> T {
        let mut mailbox = self.mailbox();
        let before = mailbox.bytes();
        let changed = change(&mut mailbox);
        self.budget.change(before, mailbox.bytes());
        changed
    }

    fn life(&self) -> MutexGuard<'_, Liveness> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self) -> MutexGuard<'_, BTreeMap<String, Weak<RunLink>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn next_activation(&self) -> String {
        format!("a{}", self.next_number())
    }

    pub(crate) fn next_work(&self) -> WorkId {
        self.next_number()
    }

    /// The worker was heard of. Returns why the session is over, if it is.
    pub(crate) fn hear(&self, now: Timestamp) -> Result<(), SessionEnd> {
        let mut life = self.life();
        if let Some(end) = life.end {
            return Err(end);
        }
        (life.heard_at, life.heard_at_wall) = (self.clock.monotonic(), now);
        Ok(())
    }

    pub(crate) fn is_silent_for(&self, span: Duration) -> bool {
        self.clock.monotonic().saturating_sub(self.life().heard_at) > span
    }

    /// Ends the session. Returns false if it was over before.
    pub(crate) fn end(&self, end: SessionEnd) -> bool {
        let is_first = {
            let mut life = self.life();
            let is_first = life.end.is_none();
            life.end.get_or_insert(end);
            is_first
        };
        if is_first {
            let links: Vec<_> = self.links().values().filter_map(Weak::upgrade).collect();
            links.iter().for_each(|link| link.sever(LinkEnd::SessionOver));
            self.calls.sever();
            self.change_mailbox(Mailbox::clear);
            self.news.notify_waiters();
        }
        is_first
    }

    pub(crate) fn has_ended(&self) -> Option<SessionEnd> {
        self.life().end
    }

    /// Adds an activation. Returns false if the session is over.
    pub(crate) fn add_link(&self, link: &Arc<RunLink>) -> bool {
        let life = self.life();
        if life.end.is_some() {
            return false;
        }
        self.links().insert(link.activation.clone(), Arc::downgrade(link));
        true
    }

    pub(crate) fn remove_link(&self, activation: &str) {
        self.links().remove(activation);
    }

    pub(crate) fn find_link(&self, activation: &str) -> Option<Arc<RunLink>> {
        self.links().get(activation).and_then(Weak::upgrade)
    }

    /// Gives each of its runs back as soon as no attempt of it is under way.
    pub(crate) fn give_back_runs(&self) {
        let links: Vec<_> = self.links().values().filter_map(Weak::upgrade).collect();
        links.iter().for_each(|link| link.give_back());
    }

    /// Returns whether its worker has attempts, tasks or actions under way.
    pub(crate) fn has_work(&self) -> bool {
        self.mailbox().has_work()
    }

    /// Share of its slots that are taken or asked for, in thousandths.
    pub(crate) fn load(&self) -> usize {
        self.mailbox().load() * 1_000 / (self.facts.concurrency as usize).max(1)
    }

    /// Returns whether messages with a payload may be added.
    pub(crate) fn has_mailbox_room(&self) -> bool {
        self.mailbox().bytes() < MAX_MAILBOX_BYTES && self.budget.has_room()
    }

    /// Returns whether one more run may wait for a slot.
    pub(crate) fn has_room_for_run(&self) -> bool {
        let most = (self.facts.concurrency as usize) * MAX_RUNS_PER_SLOT;
        self.has_mailbox_room() && self.under_way() < most
    }

    /// Number of its slots that are taken or asked for.
    pub(crate) fn under_way(&self) -> usize {
        self.mailbox().load()
    }

    pub(crate) fn post(&self, envelope: Envelope) {
        // A poll that is woken looks through the whole queue, so it is not woken for what it may not take.
        if self.change_mailbox(|mailbox| mailbox.push(envelope)) {
            self.news.notify_one();
        }
    }

    pub(crate) fn hand_out(&self, work: WorkId, hold: Hold, envelope: Envelope) {
        if self.change_mailbox(|mailbox| mailbox.hand_out(work, hold, envelope)) {
            self.news.notify_one();
        }
    }

    pub(crate) fn take_back(&self, work: WorkId, envelope: Envelope) {
        self.change_mailbox(|mailbox| mailbox.take_back(work, envelope));
        self.news.notify_one();
    }

    pub(crate) fn end_work(&self, work: WorkId) {
        self.mailbox().end(work);
    }

    pub(crate) fn was_delivered(&self, work: WorkId) -> bool {
        self.mailbox().was_delivered(work)
    }

    pub(crate) fn promised_until(&self) -> Duration {
        self.mailbox().promised_until()
    }

    /// A request with a new number.
    pub(crate) fn begin_request(&self, lane: Lane, free: u32) {
        self.mailbox().request(lane, free as usize);
    }

    pub(crate) fn take(&self, lane: Lane, arrived_at: Duration) -> Taken {
        let (taken, has_more) = self.change_mailbox(|mailbox| {
            let taken = mailbox.take(lane, arrived_at, self.longest_hold);
            (taken, mailbox.has_news(Lane::Poll))
        });
        if has_more {
            self.news.notify_one();
        }
        taken
    }

    /// Ends polls with lower numbers.
    pub(crate) fn begin_poll(&self, sequence: u64) {
        if self.newest_poll.fetch_max(sequence, Ordering::AcqRel) < sequence {
            self.news.notify_waiters();
        }
    }

    pub(crate) fn is_newest_poll(&self, sequence: u64) -> bool {
        self.newest_poll.load(Ordering::Acquire) == sequence
    }

    /// Waits until a poll has something to say, at most for `span`.
    pub(crate) async fn wait_for_news(&self, sequence: u64, span: Duration) {
        let span = if self.mailbox().has_uncovered() { span.min(HOLD_CHECK_EVERY) } else { span };
        let timer = self.clock.sleep(span);
        tokio::pin!(timer);
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.mailbox().has_news(Lane::Poll)
                || !self.is_newest_poll(sequence)
                || self.has_ended().is_some()
            {
                return;
            }
            tokio::select! {
                () = news => {}
                () = &mut timer => return,
            }
        }
    }

    /// Waits for what a commit asked for, at most for `span`.
    pub(crate) async fn wait_for_commit(&self, commit: &CommitGate, span: Duration) {
        tokio::select! {
            biased;
            () = commit.all_done() => {}
            () = self.clock.sleep(span) => {}
        }
        commit.answer();
    }

    /// Remembers an attempt whose outcome no longer counts, so that a late one is known for what it is.
    pub(crate) fn remember_late(&self, activation: &str, op: u32, attempt: u32, late: LateAttempt) {
        let mut known = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (activation.to_string(), op, attempt);
        if known.known.insert(place.clone(), late).is_none() {
            known.order.push_back(place);
        }
        if known.order.len() > MAX_LATE_ATTEMPTS
            && let Some(oldest) = known.order.pop_front()
        {
            known.known.remove(&oldest);
        }
    }

    /// An outcome that no longer counts came after all.
    pub(crate) fn tell_late(&self, activation: &str, op: u32, attempt: u32, output: RawJson) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let known = late.known.remove(&(activation.to_string(), op, attempt));
        if let Some(LateAttempt { key, fence }) = known {
            late.told.push(LateOutcome { key, attempt, fence, output, is_known: true });
        }
    }

    /// Items of an activation that the session no longer has: outcomes among them may be evidence.
    pub(crate) fn tell_late_items(&self, activation: &str, items: &[RawJson]) {
        for item in read_items(items).unwrap_or_default() {
            let Item::Ended(EndedAttempt { op, kind: AttemptKind::Effect, attempt, outcome }) = item else {
                continue;
            };
            if let AttemptOutcome::Output(output) = outcome {
                self.tell_late(activation, op, attempt, output);
            }
        }
    }

    /// A late outcome of an attempt of another session.
    pub(crate) fn tell_late_result(&self, late: LateResult) {
        let LateResult { key, attempt, fence, output } = late;
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.told.push(LateOutcome { key, attempt, fence, output, is_known: false });
    }

    /// A task or an action has ended.
    pub(crate) fn end_call(&self, call: &str, result: CallResult) {
        if let Some((work, tell)) = self.calls.take(call) {
            self.end_work(work);
            // Its caller may have gone.
            let _ = tell.send(result);
        }
    }

    pub(crate) fn take_late(&self) -> Vec<LateOutcome> {
        std::mem::take(&mut self.late.lock().unwrap_or_else(PoisonError::into_inner).told)
    }

    /// As people see it.
    pub(crate) fn shown(&self) -> WorkerSession {
        let OpenWorkerSession {
            name,
            instance,
            sdk,
            sdk_version,
            host,
            concurrency,
            workflows,
            tasks,
            actions,
        } = self.facts.clone();
        let heard_at = self.life().heard_at_wall.to_string();
        WorkerSession {
            session_id: self.id.clone(),
            name,
            instance,
            sdk,
            sdk_version,
            host,
            concurrency,
            workflows,
            tasks,
            actions,
            opened_at: self.opened_at.to_string(),
            heard_at,
            run_count: self.links().len(),
            under_way: self.under_way(),
        }
    }
}
