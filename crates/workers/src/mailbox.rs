//! Messages that wait for one session, and what its worker was promised. Pure: time comes in as a parameter.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hapax_engine::Hold;
use tokio::sync::Notify;

use crate::limits::MAX_ANSWER_BYTES;

/// The two kinds of request that carry messages. Each has one answer under way at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Poll,
    Commit,
}

impl Lane {
    const fn index(self) -> usize {
        match self {
            Lane::Poll => 0,
            Lane::Commit => 1,
        }
    }

    const fn other(self) -> Lane {
        match self {
            Lane::Poll => Lane::Commit,
            Lane::Commit => Lane::Poll,
        }
    }
}

/// Number of work that was handed out: an attempt, a task or an action.
pub(crate) type WorkId = u64;

/// One message.
pub(crate) struct Envelope {
    text: String,
    /// True if the worker needs a free slot for it.
    takes_slot: bool,
    /// The work it hands out.
    hands_out: Option<WorkId>,
    /// The work it takes back.
    takes_back: Option<WorkId>,
    /// The commit whose answer it belongs to, while that is awaited.
    commit: Option<Arc<CommitGate>>,
}

impl Envelope {
    pub(crate) fn new(text: String) -> Self {
        Envelope { text, takes_slot: false, hands_out: None, takes_back: None, commit: None }
    }

    pub(crate) fn taking_slot(mut self) -> Self {
        self.takes_slot = true;
        self
    }

    pub(crate) fn handing_out(mut self, work: WorkId) -> Self {
        (self.takes_slot, self.hands_out) = (true, Some(work));
        self
    }

    /// Returns whether it asks for a slot for a run that has no work yet.
    fn is_waiting(&self) -> bool {
        self.takes_slot && self.hands_out.is_none()
    }

    /// Returns whether it belongs to the answer of a commit that is still awaited.
    fn is_awaited_by_commit(&self) -> bool {
        self.commit.as_ref().is_some_and(|commit| !commit.is_answered())
    }

    fn taking_back(mut self, work: WorkId) -> Self {
        self.takes_back = Some(work);
        self
    }

    pub(crate) fn in_commit(mut self, commit: Option<Arc<CommitGate>>) -> Self {
        self.commit = commit.filter(|commit| !commit.is_answered());
        self
    }
}

/// Waits until each run of a commit has something to say.
#[derive(Debug, Default)]
pub(crate) struct CommitGate {
    left: AtomicUsize,
    answered: AtomicBool,
    changed: Notify,
}

impl CommitGate {
    pub(crate) fn of(runs: usize) -> Arc<Self> {
        Arc::new(CommitGate { left: AtomicUsize::new(runs), ..CommitGate::default() })
    }

    /// One of the runs has something to say, or will not have.
    pub(crate) fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.changed.notify_one();
        }
    }

    pub(crate) async fn all_done(&self) {
        while self.left.load(Ordering::Acquire) > 0 {
            self.changed.notified().await;
        }
    }

    /// The commit is answered. What its runs say from now on goes with any answer.
    pub(crate) fn answer(&self) {
        self.answered.store(true, Ordering::Release);
    }

    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }
}

/// Work that was handed out and that the worker may still begin.
struct OfferedWork {
    hold: Hold,
    /// True once an answer with it was given.
    is_delivered: bool,
}

/// Withdrawn work. The worker may still begin it until it has received the withdrawal.
struct WithdrawnWork {
    work: WorkId,
    hold: Hold,
    /// The lane whose answer says so.
    told_in: Option<Lane>,
}

/// Contents of one answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) hold_for: Duration,
    pub(crate) messages: Vec<String>,
}

/// Messages of one session, and the end of what its worker may do.
#[derive(Default)]
pub(crate) struct Mailbox {
    queue: VecDeque<Envelope>,
    bytes: usize,
    /// Number of messages that ask for a slot for a run without work.
    waiting: usize,
    /// Slots that the worker has free.
    free: usize,
    /// Slots taken by the last answer of each lane, which the worker may not have received.
    unacknowledged: [usize; 2],
    handed_out: HashMap<WorkId, OfferedWork>,
    taken_back: Vec<WithdrawnWork>,
    /// Until when, at most, the worker may begin effects.
    promised_until: Duration,
}

impl Mailbox {
    /// A request with a new number: the worker has received the last answer of the lane.
    pub(crate) fn request(&mut self, lane: Lane, free: usize) {
        self.unacknowledged[lane.index()] = 0;
        self.free = free.saturating_sub(self.unacknowledged[lane.other().index()]);
        self.taken_back.retain(|taken| taken.told_in != Some(lane));
    }

    /// Adds a message. Returns whether a poll may take it: if not, a commit that is awaited will.
    pub(crate) fn push(&mut self, envelope: Envelope) -> bool {
        self.bytes += envelope.text.len();
        self.waiting += usize::from(envelope.is_waiting());
        let is_for_polls = !envelope.is_awaited_by_commit();
        self.queue.push_back(envelope);
        is_for_polls
    }

    /// Hands out work under `hold`. Returns whether a poll may take it.
    pub(crate) fn hand_out(&mut self, work: WorkId, hold: Hold, envelope: Envelope) -> bool {
        self.handed_out.insert(work, OfferedWork { hold, is_delivered: false });
        self.push(envelope.handing_out(work))
    }

    /// The worker has ended the work.
    pub(crate) fn end(&mut self, work: WorkId) {
        self.handed_out.remove(&work);
    }

    /// Takes work back, and tells the worker so. Work that it was never given is just removed.
    pub(crate) fn take_back(&mut self, work: WorkId, message: Envelope) {
        let Some(OfferedWork { hold, is_delivered }) = self.handed_out.remove(&work) else { return };
        match is_delivered {
            true => {
                self.taken_back.push(WithdrawnWork { work, hold, told_in: None });
                self.push(message.taking_back(work));
            }
            false => {
                if let Some(place) = self.queue.iter().position(|envelope| envelope.hands_out == Some(work)) {
                    let removed = self.queue.remove(place);
                    self.bytes -= removed.map_or(0, |envelope| envelope.text.len());
                }
            }
        }
    }

    /// Returns whether the worker may have begun the work.
    pub(crate) fn was_delivered(&self, work: WorkId) -> bool {
        self.handed_out.get(&work).is_none_or(|handed_out| handed_out.is_delivered)
    }

    pub(crate) fn promised_until(&self) -> Duration {
        self.promised_until
    }

    /// Returns whether work waits for its lease to cover what was promised.
    pub(crate) fn has_uncovered(&self) -> bool {
        self.queue.iter().any(|envelope| !self.is_covered(envelope))
    }

    /// Forgets all messages. What was handed out before counts as it did.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        (self.bytes, self.waiting) = (0, 0);
    }

    /// Returns whether work was handed out that has not ended.
    pub(crate) fn has_work(&self) -> bool {
        !self.handed_out.is_empty()
    }

    /// Number of slots that are taken or asked for.
    pub(crate) fn load(&self) -> usize {
        self.handed_out.len() + self.waiting
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether an answer of the lane would take messages along.
    pub(crate) fn has_news(&self, lane: Lane) -> bool {
        self.queue.iter().any(|envelope| self.may_take(envelope, lane, self.free))
    }

    fn may_take(&self, envelope: &Envelope, lane: Lane, free: usize) -> bool {
        let is_awaited_elsewhere = lane == Lane::Poll && envelope.is_awaited_by_commit();
        !is_awaited_elsewhere && (free > 0 || !envelope.takes_slot) && self.is_covered(envelope)
    }

    /// Returns whether the lease behind the work lasts as long as what the worker was promised. If not, it is handed out
    /// once the lease was renewed, or the promise has passed.
    fn is_covered(&self, envelope: &Envelope) -> bool {
        let work = envelope.hands_out.and_then(|work| self.handed_out.get(&work));
        work.is_none_or(|work| work.is_delivered || work.hold.deadline() >= self.promised_until)
    }

    /// Takes messages for an answer to a request that arrived at `arrived_at`. No hold lasts longer than `longest`.
    pub(crate) fn take(&mut self, lane: Lane, arrived_at: Duration, longest: Duration) -> Taken {
        let (mut messages, mut bytes, mut free) = (Vec::new(), 0, self.free);
        let mut kept = VecDeque::new();
        while let Some(envelope) = self.queue.pop_front() {
            let fits = messages.is_empty() || bytes + envelope.text.len() <= MAX_ANSWER_BYTES;
            if !fits {
                kept.push_back(envelope);
                kept.append(&mut self.queue);
                break;
            }
            if !self.may_take(&envelope, lane, free) {
                kept.push_back(envelope);
                continue;
            }
            bytes += envelope.text.len();
            free -= usize::from(envelope.takes_slot);
            self.waiting -= usize::from(envelope.is_waiting());
            if let Some(work) = envelope.hands_out.and_then(|work| self.handed_out.get_mut(&work)) {
                work.is_delivered = true;
            }
            if let Some(work) = envelope.takes_back
                && let Some(taken) = self.taken_back.iter_mut().find(|taken| taken.work == work)
            {
                taken.told_in = Some(lane);
            }
            messages.push(envelope.text);
        }
        self.queue = kept;
        self.bytes -= bytes;
        self.unacknowledged[lane.index()] += self.free - free;
        self.free = free;
        let until = self.hold_until(arrived_at + longest);
        self.promised_until = self.promised_until.max(until);
        Taken { hold_for: until.saturating_sub(arrived_at), messages }
    }

    /// End of the hold: the earliest lease end among the work that the worker has.
    fn hold_until(&self, longest: Duration) -> Duration {
        let handed_out = self.handed_out.values().map(|work| &work.hold);
        let taken_back = self.taken_back.iter().map(|taken| &taken.hold);
        handed_out.chain(taken_back).map(Hold::deadline).fold(longest, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use hapax_engine::clock::SystemClock;

    use super::*;

    const LONG: Duration = Duration::from_secs(15);

    fn told(mailbox: &mut Mailbox, lane: Lane, free: usize) -> Vec<String> {
        mailbox.request(lane, free);
        mailbox.take(lane, Duration::ZERO, LONG).messages
    }

    fn hand_out(mailbox: &mut Mailbox, work: WorkId) {
        mailbox.hand_out(work, Hold::unlimited(), Envelope::new(format!("begin {work}")));
    }

    #[test]
    fn a_worker_gets_no_more_work_than_it_has_slots_and_all_other_messages() {
        let mut mailbox = Mailbox::default();
        (1..=3).for_each(|work| hand_out(&mut mailbox, work));
        mailbox.push(Envelope::new("resolved".into()));
        assert_eq!(told(&mut mailbox, Lane::Poll, 2), ["begin 1", "begin 2", "resolved"]);
        assert!(told(&mut mailbox, Lane::Poll, 0).is_empty());
        assert_eq!(told(&mut mailbox, Lane::Poll, 1), ["begin 3"]);
    }

    #[test]
    fn slots_that_an_answer_under_way_takes_are_not_free() {
        let mut mailbox = Mailbox::default();
        (1..=4).for_each(|work| hand_out(&mut mailbox, work));
        assert_eq!(told(&mut mailbox, Lane::Poll, 2).len(), 2);
        assert!(told(&mut mailbox, Lane::Commit, 2).is_empty(), "the worker does not know of them yet");
        assert_eq!(told(&mut mailbox, Lane::Poll, 1), ["begin 3"]);
    }

    #[test]
    fn the_load_counts_work_and_runs_that_wait_for_a_slot() {
        let mut mailbox = Mailbox::default();
        hand_out(&mut mailbox, 1);
        mailbox.push(Envelope::new("run 1".into()).taking_slot());
        mailbox.push(Envelope::new("run 2".into()).taking_slot());
        mailbox.push(Envelope::new("resolved".into()));
        assert_eq!(mailbox.load(), 3);
        assert_eq!(told(&mut mailbox, Lane::Poll, 2), ["begin 1", "run 1", "resolved"]);
        assert_eq!(mailbox.load(), 2, "the work, and the run that waits still");
        mailbox.clear();
        assert_eq!(mailbox.load(), 1, "what was handed out counts until it ends");
        mailbox.end(1);
        assert_eq!(mailbox.load(), 0);
    }

    #[test]
    fn work_that_was_never_given_is_taken_back_without_a_word() {
        let mut mailbox = Mailbox::default();
        hand_out(&mut mailbox, 1);
        assert!(!mailbox.was_delivered(1));
        mailbox.take_back(1, Envelope::new("abort 1".into()));
        assert!(told(&mut mailbox, Lane::Poll, 9).is_empty());
        assert_eq!(mailbox.bytes(), 0);
        hand_out(&mut mailbox, 2);
        assert_eq!(told(&mut mailbox, Lane::Poll, 9), ["begin 2"]);
        assert!(mailbox.was_delivered(2));
        mailbox.take_back(2, Envelope::new("abort 2".into()));
        assert_eq!(told(&mut mailbox, Lane::Poll, 9), ["abort 2"]);
    }

    #[test]
    fn what_a_commit_waits_for_goes_with_its_answer() {
        let mut mailbox = Mailbox::default();
        let commit = CommitGate::of(1);
        let of_commit = Envelope::new("of the commit".into()).in_commit(Some(commit.clone()));
        assert!(!mailbox.push(of_commit), "no poll may take it");
        assert!(mailbox.push(Envelope::new("other".into())));
        assert_eq!(told(&mut mailbox, Lane::Poll, 1), ["other"]);
        assert_eq!(told(&mut mailbox, Lane::Commit, 1), ["of the commit"]);
        commit.answer();
        assert!(mailbox.push(Envelope::new("later".into()).in_commit(Some(commit))));
        assert_eq!(told(&mut mailbox, Lane::Poll, 1), ["later"]);
    }

    #[test]
    fn a_hold_covers_no_work_beyond_its_lease_until_the_worker_knows_that_it_was_taken_back() {
        let mut mailbox = Mailbox::default();
        let lease = Hold::until(Arc::new(SystemClock::new()), Duration::from_secs(5));
        mailbox.hand_out(1, lease, Envelope::new("begin 1".into()));
        mailbox.request(Lane::Poll, 1);
        assert_eq!(mailbox.take(Lane::Poll, Duration::from_secs(1), LONG).hold_for, Duration::from_secs(4));
        mailbox.take_back(1, Envelope::new("abort 1".into()));
        mailbox.request(Lane::Commit, 1);
        let taken = mailbox.take(Lane::Commit, Duration::from_secs(2), LONG);
        assert_eq!(
            (taken.hold_for, taken.messages.len()),
            (Duration::from_secs(3), 1),
            "it may read this late"
        );
        mailbox.request(Lane::Poll, 1);
        let hold_for = mailbox.take(Lane::Poll, Duration::from_secs(6), LONG).hold_for;
        assert_eq!(hold_for, Duration::ZERO, "the other answer may not have arrived");
        mailbox.request(Lane::Commit, 1);
        assert_eq!(mailbox.take(Lane::Commit, Duration::from_secs(7), LONG).hold_for, LONG);
        assert_eq!(mailbox.promised_until(), Duration::from_secs(22));
    }

    #[test]
    fn work_under_a_short_lease_waits_until_what_was_promised_has_passed() {
        let mut mailbox = Mailbox::default();
        mailbox.request(Lane::Poll, 1);
        assert_eq!(mailbox.take(Lane::Poll, Duration::ZERO, LONG).hold_for, LONG);
        let lease = Hold::until(Arc::new(SystemClock::new()), Duration::from_secs(5));
        mailbox.hand_out(1, lease, Envelope::new("begin 1".into()));
        mailbox.request(Lane::Poll, 1);
        let taken = mailbox.take(Lane::Poll, Duration::from_secs(1), LONG);
        assert_eq!((taken.hold_for, taken.messages.len()), (Duration::from_secs(4), 0));
        mailbox.take_back(1, Envelope::new("abort 1".into()));
        let renewed = Hold::until(Arc::new(SystemClock::new()), Duration::from_secs(20));
        mailbox.hand_out(2, renewed, Envelope::new("begin 2".into()));
        mailbox.request(Lane::Poll, 1);
        let taken = mailbox.take(Lane::Poll, Duration::from_secs(16), LONG);
        assert_eq!(taken.hold_for, Duration::from_secs(4), "{taken:?}");
        assert!(taken.messages.contains(&"begin 2".to_string()), "{taken:?}");
    }

    #[test]
    fn an_answer_has_a_size() {
        let mut mailbox = Mailbox::default();
        let large = "x".repeat(MAX_ANSWER_BYTES);
        mailbox.push(Envelope::new(large.clone()));
        mailbox.push(Envelope::new(large));
        mailbox.push(Envelope::new("small".into()));
        assert_eq!(told(&mut mailbox, Lane::Poll, 0).len(), 1, "one is always sent");
        assert_eq!(told(&mut mailbox, Lane::Poll, 0).len(), 1, "and the order is kept");
        assert_eq!(told(&mut mailbox, Lane::Poll, 0), ["small"]);
    }
}
