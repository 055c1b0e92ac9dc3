//! What a workflow's code and its driver share: the records, the collected changes, and who waits for what.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::task::{Context, Waker};

use super::change::Change;
use super::run_slot::NewArrival;
use super::transact::Pending;
use super::waits::Wait;
use crate::model::{
    DoubtedAttempt, Failure, Name, Payload, PendingRequest, Promise, PromiseId, PromiseState, RunHead, RunId,
    RunResult, Signal, StepId, StepKind, StepRecord, StepStatus, Timestamp,
};
use crate::store::RunLog;

/// Why no new effect may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancel,
    Deadline,
    Pause,
    Release,
    /// A step has used up its tries, and people are to look at it.
    Exhausted,
}

pub(crate) struct ReplayState {
    pub(crate) head: RunHead,
    /// True until the code has come to the end of what is recorded.
    pub(crate) replaying: bool,
    /// True for the effects that begin right where a replay ended: one of them may have been cut off by a crash.
    pub(crate) first_wave: bool,
    /// True if no effect may begin, whatever happens.
    pub(crate) is_held: bool,
    /// True while the code has a turn.
    pub(crate) in_turn: bool,
    pub(crate) stop: Option<Stop>,
    /// Why the run pauses by itself, for its history.
    pub(crate) exhausted: Option<String>,
    /// True once the code is dropped because the run is to end.
    pub(crate) ending: bool,
    /// True while effects are undone: a cancellation asks for nothing more then.
    pub(crate) undoing: bool,
    /// True once the run is undone because of a cancellation.
    pub(crate) heeds_cancel: bool,
    pub(crate) shields: u32,
    /// Records the code has not asked for yet.
    pub(super) recorded: HashMap<StepId, StepRecord>,
    /// Outcomes on record that a replay has yet to give to the code, in the order in which it was given them before.
    pub(super) outcomes: VecDeque<StepId>,
    /// Who waits for one of them.
    pub(super) asked_for: BTreeMap<StepId, Waker>,
    /// While this names a step, no other may give the code its outcome: their order would not be the recorded one.
    pub(super) turn_of: Option<StepId>,
    pub(crate) open: HashMap<StepId, StepRecord>,
    /// Attempts at steps whose records a retry of the run dropped; further ones are counted on from them.
    pub(super) attempts_before: HashMap<StepId, u32>,
    pub(super) ordinals: HashMap<Name, u32>,
    pub(super) steps: u32,
    pub(crate) changes: Vec<Change>,
    pub(super) queued: u64,
    /// Up to this count changes must be durable before an effect may begin; those collected since follow from what is durable.
    pub(super) binding: u64,
    pub(crate) durable: u64,
    pub(crate) transactions: VecDeque<Pending>,
    pub(crate) waits: HashMap<StepId, Wait>,
    /// How many doubts are held for people: a run that is to end does not end before they have ruled.
    pub(crate) doubts_held: u32,
    /// Steps whose code is entered now, of which there may be no record.
    pub(crate) entered: Vec<StepId>,
    /// Steps that this engine cut off when it had to read the log again, of which there is no record.
    pub(crate) cut_off: Vec<StepId>,
    /// How many steps wait that a vanished holder may have begun without a record, and that are not counted yet.
    pub(crate) hidden: usize,
    /// May a vanished holder have begun to undo? Nothing tells of the first undoing until it is asked for.
    pub(crate) hides_undo: bool,
    /// How many steps the code waits at that were given up: they go no further.
    pub(crate) given_up: usize,
    pub(crate) gated: usize,
    /// How many of those do not heed that the run is to stop.
    pub(crate) gated_through: usize,
    pub(crate) in_flight: usize,
    /// Computations of the code that take their time. Until they end, the run is told nothing and does not park: as if they took none.
    pub(crate) computing: usize,
    /// True while a write is under way that gives the lease back: what it does not tell of must not begin.
    pub(crate) leaving: bool,
    pub(super) promises: HashMap<PromiseId, Promise>,
    pub(super) signals: Vec<Signal>,
    pub(super) children: HashMap<RunId, RunResult>,
    /// Children that may not be started, and why.
    pub(crate) refused_children: HashMap<RunId, Failure>,
    /// How many arrivals are known here; equal to the store's count exactly when nothing was missed.
    pub(crate) arrivals_seen: u64,
    /// Up to this count every arrival is known here; beyond it only some may be.
    pub(super) arrivals_known: u64,
    pub(crate) continue_with: Option<Payload>,
    pub(crate) violation: Option<String>,
    /// By place, so that all are woken in the order in which they first waited.
    pub(super) wakers: BTreeMap<u64, Waker>,
    pub(super) last_place: u64,
}

/// How a collected change bears on the effects after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// They must not begin before it is durable: only its record tells of it.
    MustCommit,
    /// It follows from what is durable: a replay without its record tells the code the same, and nothing else before it. It is written
    /// with what comes after it.
    Derivable,
}

/// What the records say of a step that the code asks for.
pub(crate) enum Entered {
    /// It has an outcome.
    Done(StepRecord),
    /// It has begun.
    Open(StepRecord),
    /// It was given up, because another branch came first: this one goes no further than it went.
    GivenUp,
    /// Nothing is known of it.
    Fresh,
}

impl ReplayState {
    pub(super) fn empty(head: RunHead) -> Self {
        ReplayState {
            head,
            replaying: false,
            first_wave: false,
            is_held: false,
            in_turn: false,
            stop: None,
            exhausted: None,
            ending: false,
            undoing: false,
            heeds_cancel: false,
            shields: 0,
            recorded: HashMap::new(),
            outcomes: VecDeque::new(),
            asked_for: BTreeMap::new(),
            turn_of: None,
            open: HashMap::new(),
            attempts_before: HashMap::new(),
            ordinals: HashMap::new(),
            steps: 0,
            changes: Vec::new(),
            queued: 0,
            binding: 0,
            durable: 0,
            transactions: VecDeque::new(),
            waits: HashMap::new(),
            doubts_held: 0,
            entered: Vec::new(),
            cut_off: Vec::new(),
            hidden: 0,
            hides_undo: false,
            given_up: 0,
            gated: 0,
            gated_through: 0,
            in_flight: 0,
            computing: 0,
            leaving: false,
            promises: HashMap::new(),
            signals: Vec::new(),
            children: HashMap::new(),
            refused_children: HashMap::new(),
            arrivals_seen: 0,
            arrivals_known: 0,
            continue_with: None,
            violation: None,
            wakers: BTreeMap::new(),
            last_place: 0,
        }
    }

    /// Gives the turn to the next outcome on record, if the code has asked for it.
    pub(crate) fn release_next(&mut self) -> bool {
        while let Some(next) = self.outcomes.front() {
            if self.recorded.contains_key(next) {
                return false;
            }
            let waker = self.asked_for.remove(next);
            self.turn_of = self.outcomes.pop_front();
            // Nobody waits for one whose branch was dropped.
            if let Some(waker) = waker {
                waker.wake();
                return true;
            }
        }
        false
    }

    /// Does anything that the context gave to the code keep it waiting?
    ///
    /// A step that was given up keeps the code waiting only in a run that is to end: it was given up because of that, and nothing
    /// else is left to wait for. In any other run another branch came first, and the code is about to drop it.
    pub(crate) fn is_awaited(&self) -> bool {
        let waits_at_given_up = self.given_up > 0 && self.is_to_end();
        self.gated > 0 || !self.waits.is_empty() || !self.asked_for.is_empty() || waits_at_given_up
    }

    /// From now on only `step` may give the code its outcome.
    pub(crate) fn give_turn_to(&mut self, step: StepId) {
        self.turn_of = Some(step);
    }

    /// The turn is over; true if it was anybody's.
    pub(crate) fn end_turn(&mut self) -> bool {
        self.turn_of.take().is_some()
    }

    pub(super) fn is_others_turn(&self, step: &StepId) -> bool {
        self.turn_of.as_ref().is_some_and(|turn_of| turn_of != step)
    }

    /// Ends the replay: everything that was recorded must have been asked for by now, because what an effect
    /// depends on was durable before it began, or follows from what was.
    pub(crate) fn end_replay(&mut self) {
        self.replaying = false;
        self.turn_of = None;
        let untaken = self.recorded.values().filter(|record| record.kind != StepKind::Undo);
        if let Some(record) = untaken.min_by_key(|record| record.started_version) {
            let asked = match self.asked_for.keys().next().or(self.waits.keys().min()) {
                Some(id) => format!("waits at {:?}", id.as_str()),
                None if self.gated > 0 => "goes on with other steps".to_string(),
                None => "ends".to_string(),
            };
            self.violation.get_or_insert(format!(
                "the history has a {} step at {:?}, but the code {asked} without asking for it",
                record.kind.as_str(),
                record.id.as_str(),
            ));
        }
    }

    /// Was anything recorded that the code has not asked for?
    pub(crate) fn has_untaken(&self) -> bool {
        self.recorded.values().any(|record| record.kind != StepKind::Undo)
    }

    /// May no new effect begin?
    pub(crate) fn is_stopped(&self) -> bool {
        self.shields == 0 && (self.stop.is_some() || self.asked_to_stop().is_some())
    }

    /// Is the run to end, whenever nothing keeps it from it?
    pub(crate) fn is_to_end(&self) -> bool {
        matches!(self.stop.or(self.asked_to_stop()), Some(Stop::Cancel | Stop::Deadline))
            || self.asked_to_stop() == Some(Stop::Cancel)
    }

    /// The run as it is now. A pause that was taken back, or has given way to a cancellation, is not carried out: it would count as
    /// done all that was asked.
    pub(crate) fn take_over(&mut self, head: RunHead) {
        self.head = head;
        let asked = self.head.asked;
        self.stop = self.stop.filter(|stop| match stop {
            Stop::Pause => asked == PendingRequest::Pause,
            Stop::Exhausted => asked != PendingRequest::Cancel,
            Stop::Cancel | Stop::Deadline | Stop::Release => true,
        });
    }

    /// What people ask of the run now.
    pub(crate) fn asked_to_stop(&self) -> Option<Stop> {
        match self.head.asked {
            PendingRequest::Nothing => None,
            PendingRequest::Pause => Some(Stop::Pause),
            PendingRequest::Cancel if self.undoing => None,
            PendingRequest::Cancel => Some(Stop::Cancel),
        }
    }

    /// Keeps the waker of whoever waits at `place`, one for each however often it looks.
    pub(crate) fn await_change(&mut self, place: &mut u64, cx: &Context<'_>) {
        if *place == 0 {
            self.last_place += 1;
            *place = self.last_place;
        }
        self.wakers.insert(*place, cx.waker().clone());
    }

    /// Notes an arrival, once; it may be known already from the log. One that may not be noted is not lost: the run
    /// will park having seen fewer arrivals than there are, and be driven on with all of them.
    pub(crate) fn note(&mut self, news: NewArrival) {
        let is_new = match news {
            // Signals are taken in the order they came in, so one is known only after all that came before it.
            NewArrival::Signal(signal) if signal.seq == self.arrivals_known + 1 => {
                self.arrivals_known = signal.seq;
                self.signals.push(signal);
                true
            }
            NewArrival::Signal(_) => false,
            NewArrival::Opened(promise) => match self.promises.get_mut(&promise.id) {
                Some(known) if known.state == PromiseState::Pending => {
                    *known = *promise;
                    true
                }
                Some(_) => false,
                None => {
                    self.promises.insert(promise.id.clone(), *promise);
                    true
                }
            },
            NewArrival::Settled(id, settlement) => match self.promises.get_mut(&id) {
                Some(promise) if promise.state == PromiseState::Pending => {
                    promise.state = PromiseState::Settled { at: Timestamp::EPOCH, settlement };
                    true
                }
                _ => false,
            },
            // Counted only while a step waits for it: its end may have been read from the log, long ago even.
            NewArrival::ChildEnded(run, step, result) => {
                let is_awaited = self.open.get(&step).is_some_and(|record| record.child == Some(run));
                self.children.insert(run, result).is_none() && is_awaited
            }
        };
        if is_new {
            self.arrivals_seen += 1;
        }
    }

    /// Notes the last of `arrivals`, all others of which are known.
    pub(crate) fn note_last(&mut self, news: NewArrival, arrivals: u64) {
        self.arrivals_known = arrivals - 1;
        self.note(news);
        if self.arrivals_seen == arrivals {
            self.arrivals_known = arrivals;
        }
    }

    /// Brings what has arrived up to date from the log.
    pub(crate) fn refresh(&mut self, log: RunLog) {
        self.arrivals_seen = log.head.arrivals;
        self.arrivals_known = log.head.arrivals;
        let unwritten = self.changes.iter().filter_map(|change| match change {
            Change::OpenPromise(promise) => Some((**promise).clone()),
            _ => None,
        });
        let promises = unwritten.chain(log.promises);
        self.promises = promises.map(|promise| (promise.id.clone(), promise)).collect();
        // Signals given to a step whose record is not yet written are still unconsumed in the store.
        let given: Vec<u64> = self
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::ConsumeSignal(seq) => Some(*seq),
                _ => None,
            })
            .collect();
        self.signals = log.signals.into_iter().filter(|signal| !given.contains(&signal.seq)).collect();
        self.children = log.children.into_iter().filter_map(|(run, result)| Some((run, result?))).collect();
    }

    pub(crate) fn is_settled(&self, id: &PromiseId) -> bool {
        self.promises.get(id).is_some_and(|promise| matches!(promise.state, PromiseState::Settled { .. }))
    }

    /// Has an effect been claimed of which nobody has said whether it happened?
    pub(crate) fn has_doubt(&self) -> bool {
        // What is collected counts as much as what is on record: an outcome that is yet to be written is an outcome.
        let is_closed = |id: &PromiseId| {
            let closes = |change: &Change| matches!(change, Change::TimeOutPromise(closed) if closed == id);
            self.changes.iter().any(closes)
        };
        let is_open_doubt = |promise: &Promise| {
            promise.id.is_doubt_promise() && promise.state == PromiseState::Pending && !is_closed(&promise.id)
        };
        let collected = |id: &StepId| {
            self.changes.iter().rev().find_map(|change| match change {
                Change::Step { id: changed, state, .. } if changed == id => Some(state.status()),
                _ => None,
            })
        };
        let is_claimed = |record: &StepRecord| {
            let status = collected(&record.id).unwrap_or(record.state.status());
            record.kind == StepKind::Claimed && status == StepStatus::Running
        };
        self.promises.values().any(is_open_doubt) || self.open.values().any(is_claimed)
    }

    /// May a vanished holder have begun a step of which there is no record?
    pub(crate) fn is_hiding(&self) -> bool {
        self.hidden > 0 || self.hides_undo
    }

    /// The code asks for a step of which there is no record: may somebody have begun it?
    pub(crate) fn take_hidden(&mut self, step: &StepId, kind: StepKind) -> bool {
        let is_hidden_undo = kind == StepKind::Undo && std::mem::take(&mut self.hides_undo);
        is_hidden_undo || self.is_first_after_crash() || self.cut_off.contains(step)
    }

    /// Has the holder before this one vanished, and nothing come to its end since?
    pub(crate) fn is_first_after_crash(&self) -> bool {
        self.first_wave && self.head.stalls > 0
    }

    /// Attempts at a step before a retry of the run dropped its record.
    pub(crate) fn attempts_before(&self, step: &StepId) -> u32 {
        self.attempts_before.get(step).copied().unwrap_or(0)
    }

    /// The last promise by which the doubt about an attempt is to be settled.
    pub(crate) fn last_doubt(&self, doubt: &DoubtedAttempt) -> Option<&Promise> {
        doubt.last_of(self.promises.values())
    }

    pub(crate) fn find_promise(&self, id: &PromiseId) -> Option<&Promise> {
        self.promises.get(id)
    }

    pub(crate) fn keep_promise(&mut self, promise: Promise) {
        self.promises.insert(promise.id.clone(), promise);
    }

    /// Takes the first unread signal of this name.
    pub(crate) fn take_signal(&mut self, name: &Name) -> Option<Signal> {
        let place = self.signals.iter().position(|signal| signal.name == *name)?;
        Some(self.signals.remove(place))
    }

    /// How a child ended, or why it was not started.
    pub(crate) fn child_result(&self, run: RunId) -> Option<Result<RunResult, Failure>> {
        let refused = self.refused_children.get(&run).cloned().map(Err);
        refused.or_else(|| self.children.get(&run).cloned().map(Ok))
    }

    /// How the end of a wait bears on the effects after it, if it ended by something that is durable and stays as it is.
    ///
    /// If this is all that the code waits for, then nothing but the end of this wait can be told to it next, in a replay as now. What it has
    /// done before either follows as well, or keeps the next effect waiting until it is durable.
    pub(crate) fn bearing_of_end(&self, step: &StepId) -> Durability {
        let waits_for_it_alone = self.waits.len() == 1
            && self.waits.contains_key(step)
            && self.gated == 0
            && self.in_flight == 0
            && self.transactions.is_empty()
            && self.asked_for.is_empty()
            && self.turn_of.is_none();
        match waits_for_it_alone {
            true => Durability::Derivable,
            false => Durability::MustCommit,
        }
    }

    /// Everything collected so far must be durable before an effect may begin.
    pub(crate) fn bind(&mut self) {
        self.binding = self.queued;
    }

    /// Is something collected, and not yet written, that effects wait for?
    pub(crate) fn has_binding_changes(&self) -> bool {
        self.binding > self.durable
    }

    /// How many changes have been collected so far, written or not.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// The earliest timer anything waits for.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.timers().min()
    }

    /// The earliest of them that is still to come.
    pub(crate) fn next_timer_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.timers().filter(|at| *at > now).min()
    }

    /// A run that is to end but is held by doubts: when one of them is to be looked at again.
    pub(crate) fn next_look_at_doubts(&self) -> Option<Timestamp> {
        self.waits.values().filter(|wait| !wait.heeds_stops).filter_map(|wait| wait.until).min()
    }

    /// A run that is to stop, if only when its shields are gone, no longer waits for its deadline.
    fn timers(&self) -> impl Iterator<Item = Timestamp> {
        let deadline = self.head.facts.deadline_at.filter(|_| !self.undoing && self.stop.is_none());
        self.waits.values().filter_map(|wait| wait.until).chain(deadline)
    }
}

/// The steps that came to an outcome the code was told of, first to last.
pub(super) fn in_order_of_outcome(steps: &[StepRecord]) -> VecDeque<StepId> {
    let is_told = |step: &&StepRecord| match step.kind {
        // Known in the very turn in which the code asks.
        StepKind::Value | StepKind::Select | StepKind::AfterEffect => false,
        _ => step.state.status().is_final() && step.state.status() != StepStatus::Cancelled,
    };
    let mut told: Vec<&StepRecord> = steps.iter().filter(is_told).collect();
    told.sort_by_key(|step| step.changed_version);
    told.into_iter().map(|step| step.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::model::tests::leased;

    fn step(name: &str) -> StepId {
        StepId::from_stored(name)
    }

    fn waiting_at(names: &[&str]) -> ReplayState {
        let mut desk = ReplayState::empty(leased());
        let wait = Wait { until: None, heeds_stops: true };
        desk.waits = names.iter().map(|name| (step(name), wait)).collect();
        desk
    }

    /// Whatever else goes on in the run might come first in a replay.
    #[test]
    fn the_end_of_a_wait_follows_from_what_is_durable_only_if_nothing_else_goes_on() {
        assert_eq!(waiting_at(&["answer"]).bearing_of_end(&step("answer")), Durability::Derivable);
        assert_eq!(waiting_at(&["answer", "sleep"]).bearing_of_end(&step("answer")), Durability::MustCommit);
        assert_eq!(waiting_at(&["sleep"]).bearing_of_end(&step("answer")), Durability::MustCommit);
        let also: [fn(&mut ReplayState); 5] = [
            |desk| desk.gated = 1,
            |desk| desk.in_flight = 1,
            |desk| desk.give_turn_to(step("transfer")),
            |desk| drop(desk.asked_for.insert(step("charge"), Waker::noop().clone())),
            |desk| {
                let (reply, work) = (oneshot::channel().0, Box::new(()));
                let (attempts, started_at) = (1, Timestamp::EPOCH);
                let pending = Pending { step: step("transfer"), work, attempts, started_at, reply };
                desk.transactions.push_back(pending);
            },
        ];
        for (nth, also) in also.iter().enumerate() {
            let mut desk = waiting_at(&["answer"]);
            also(&mut desk);
            assert_eq!(desk.bearing_of_end(&step("answer")), Durability::MustCommit, "case {nth}");
        }
    }
}
