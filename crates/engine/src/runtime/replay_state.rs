//! State that workflow code and driver share: step records, queued changes and waiters.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::task::{Context, Waker};

use super::pending_change::PendingChange;
use super::run_slot::Arrival;
use super::transact::PendingTransaction;
use super::waits::Wait;
use crate::model::{
    DoubtedAttempt, Failure, Name, Payload, PendingRequest, Promise, PromiseId, PromiseState, RunHead, RunId,
    RunResult, Signal, StepId, StepKind, StepRecord, StepStatus, Timestamp,
};
use crate::store::RunLog;

/// Reason why no new effect may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancel,
    Deadline,
    Pause,
    Release,
    /// A step has used up its attempts and needs a person.
    Exhausted,
}

pub(crate) struct ReplayState {
    pub(crate) head: RunHead,
    /// True until the code has used all records.
    pub(crate) replaying: bool,
    /// True for the effects that begin right after a replay. A crash may have interrupted one of them.
    pub(crate) first_wave: bool,
    /// True if no effect may ever begin.
    pub(crate) effects_blocked: bool,
    /// True once the code gave the run back. The run stops as soon as no attempt is under way.
    pub(crate) is_given_back: bool,
    /// True while the code has a turn.
    pub(crate) in_turn: bool,
    pub(crate) stop: Option<Stop>,
    /// Reason why the run pauses itself, for its history.
    pub(crate) exhausted: Option<String>,
    /// True once the code was dropped because the run must end.
    pub(crate) ending: bool,
    /// True while effects are undone. A cancellation then requests nothing more.
    pub(crate) undoing: bool,
    /// True once the run is undone because of a cancellation.
    pub(crate) ends_by_cancel: bool,
    pub(crate) shields: u32,
    /// Records that the code has not used yet.
    pub(super) recorded: HashMap<StepId, StepRecord>,
    /// Recorded outcomes that the replay still has to return to the code, in their original order.
    pub(super) outcomes: VecDeque<StepId>,
    /// Steps that wait for one of these outcomes.
    pub(super) outcome_waiters: BTreeMap<StepId, Waker>,
    /// Step that has the turn. No other step may return its outcome, or the order would differ from the
    /// record.
    pub(super) turn_of: Option<StepId>,
    pub(crate) open: HashMap<StepId, StepRecord>,
    /// Attempts at steps whose records were dropped by a retry of the run. Later attempts continue this
    /// count.
    pub(super) attempts_before: HashMap<StepId, u32>,
    pub(super) ordinals: HashMap<Name, u32>,
    pub(super) steps: u32,
    pub(crate) changes: Vec<PendingChange>,
    pub(super) queued: u64,
    /// Changes up to this count must be durable before an effect may begin. Later ones are derivable from
    /// durable data.
    pub(super) commit_required_through: u64,
    pub(crate) durable: u64,
    pub(crate) transactions: VecDeque<PendingTransaction>,
    pub(crate) waits: HashMap<StepId, Wait>,
    /// Number of doubts that wait for a person. A run that must end waits for their rulings.
    pub(crate) doubts_held: u32,
    /// Steps whose code runs now, possibly without a record.
    pub(crate) running_effects: Vec<StepId>,
    /// Steps without a record that this engine cut off when it had to reload the log.
    pub(crate) cut_off: Vec<StepId>,
    /// Number of waiting steps that a previous holder may have begun without a record and that are not
    /// counted yet.
    pub(crate) unrecorded_steps: usize,
    /// True if a previous holder may have begun an undo. No record shows the first undo before it is
    /// requested.
    pub(crate) has_unrecorded_undo: bool,
    /// Number of cancelled steps that the code waits at.
    pub(crate) cancelled_waits: usize,
    pub(crate) gated: usize,
    /// Number of those gates that ignore stop requests.
    pub(crate) gated_through: usize,
    pub(crate) in_flight: usize,
    /// Number of computations in progress. Until they end, the run receives nothing and does not park, as if
    /// they took no time.
    pub(crate) computing: usize,
    /// True while a commit releases the lease. No effect may begin that the commit does not contain.
    pub(crate) releasing_lease: bool,
    pub(super) promises: HashMap<PromiseId, Promise>,
    pub(super) signals: Vec<Signal>,
    pub(super) children: HashMap<RunId, RunResult>,
    /// Children that were refused, with the reason.
    pub(crate) refused_children: HashMap<RunId, Failure>,
    /// Number of arrivals known here. It equals the store's count exactly when none was missed.
    pub(crate) arrivals_seen: u64,
    /// All arrivals up to this count are known here. Beyond it, only some may be.
    pub(super) arrivals_known: u64,
    pub(crate) continue_with: Option<Payload>,
    pub(crate) violation: Option<String>,
    /// Ordered by place, so that the first waiter wakes first.
    pub(super) wakers: BTreeMap<u64, Waker>,
    pub(super) last_place: u64,
}

/// Durability that a queued change needs before later effects may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The change must be durable first, because only its record shows it.
    MustCommit,
    /// The change is derivable from durable data: a replay without its record gives the code the same
    /// outcome, and no other outcome before it. It is committed together with later changes.
    Derivable,
}

/// Result of looking up a step that the code requests.
pub(crate) enum StepLookup {
    /// The step has an outcome.
    Done(StepRecord),
    /// The step has begun.
    Open(StepRecord),
    /// The step was cancelled because another branch won. This branch goes no further.
    Cancelled,
    /// The step has no record.
    NotRecorded,
}

impl ReplayState {
    pub(super) fn empty(head: RunHead) -> Self {
        ReplayState {
            head,
            replaying: false,
            first_wave: false,
            effects_blocked: false,
            is_given_back: false,
            in_turn: false,
            stop: None,
            exhausted: None,
            ending: false,
            undoing: false,
            ends_by_cancel: false,
            shields: 0,
            recorded: HashMap::new(),
            outcomes: VecDeque::new(),
            outcome_waiters: BTreeMap::new(),
            turn_of: None,
            open: HashMap::new(),
            attempts_before: HashMap::new(),
            ordinals: HashMap::new(),
            steps: 0,
            changes: Vec::new(),
            queued: 0,
            commit_required_through: 0,
            durable: 0,
            transactions: VecDeque::new(),
            waits: HashMap::new(),
            doubts_held: 0,
            running_effects: Vec::new(),
            cut_off: Vec::new(),
            unrecorded_steps: 0,
            has_unrecorded_undo: false,
            cancelled_waits: 0,
            gated: 0,
            gated_through: 0,
            in_flight: 0,
            computing: 0,
            releasing_lease: false,
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

    /// Records that the code has not asked for.
    pub(crate) fn recorded_steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.recorded.values()
    }

    /// Gives the turn to the next recorded outcome, if the code has requested it.
    pub(crate) fn release_next(&mut self) -> bool {
        while let Some(next) = self.outcomes.front() {
            if self.recorded.contains_key(next) {
                return false;
            }
            let waker = self.outcome_waiters.remove(next);
            self.turn_of = self.outcomes.pop_front();
            // The branch that waited for this outcome was dropped.
            if let Some(waker) = waker {
                waker.wake();
                return true;
            }
        }
        false
    }

    /// Returns whether the code waits for something from the context.
    ///
    /// A cancelled step keeps the code waiting only in a run that must end: it was cancelled for that reason,
    /// and nothing else is left to wait for. In any other run another branch won, and the code is about to
    /// drop this one.
    pub(crate) fn is_awaited(&self) -> bool {
        let waits_as_cancelled = self.cancelled_waits > 0 && self.must_end();
        self.gated > 0 || !self.waits.is_empty() || !self.outcome_waiters.is_empty() || waits_as_cancelled
    }

    /// From now on only `step` may return its outcome to the code.
    pub(crate) fn give_turn_to(&mut self, step: StepId) {
        self.turn_of = Some(step);
    }

    /// Ends the turn. Returns whether a step had it.
    pub(crate) fn end_turn(&mut self) -> bool {
        self.turn_of.take().is_some()
    }

    pub(super) fn is_others_turn(&self, step: &StepId) -> bool {
        self.turn_of.as_ref().is_some_and(|turn_of| turn_of != step)
    }

    /// Ends the replay. The code must have requested every record by now, because everything an effect
    /// depends on was durable before it began, or derivable from durable data.
    pub(crate) fn end_replay(&mut self) {
        self.replaying = false;
        self.turn_of = None;
        let untaken = self.recorded.values().filter(|record| record.kind != StepKind::Undo);
        if let Some(record) = untaken.min_by_key(|record| record.started_version) {
            let asked = match self.outcome_waiters.keys().next().or(self.waits.keys().min()) {
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

    /// Returns whether some records were never requested by the code.
    pub(crate) fn has_unused_records(&self) -> bool {
        self.recorded.values().any(|record| record.kind != StepKind::Undo)
    }

    /// Returns whether new effects are blocked by a stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.shields == 0 && (self.stop.is_some() || self.requested_stop().is_some())
    }

    /// Returns whether the run must end as soon as nothing keeps it from ending.
    pub(crate) fn must_end(&self) -> bool {
        matches!(self.stop.or(self.requested_stop()), Some(Stop::Cancel | Stop::Deadline))
            || self.requested_stop() == Some(Stop::Cancel)
    }

    /// Adopts the current head of the run. A pause that was withdrawn or replaced by a cancellation is
    /// dropped, because carrying it out would acknowledge both requests.
    pub(crate) fn adopt_head(&mut self, head: RunHead) {
        self.head = head;
        let asked = self.head.asked;
        self.stop = self.stop.filter(|stop| match stop {
            Stop::Pause => asked == PendingRequest::Pause,
            Stop::Exhausted => asked != PendingRequest::Cancel,
            Stop::Cancel | Stop::Deadline | Stop::Release => true,
        });
    }

    /// Stop that an operator requests now.
    pub(crate) fn requested_stop(&self) -> Option<Stop> {
        match self.head.asked {
            PendingRequest::Nothing => None,
            PendingRequest::Pause => Some(Stop::Pause),
            PendingRequest::Cancel if self.undoing => None,
            PendingRequest::Cancel => Some(Stop::Cancel),
        }
    }

    /// Stores the waker of the waiter at `place`, once per waiter.
    pub(crate) fn await_change(&mut self, place: &mut u64, cx: &Context<'_>) {
        if *place == 0 {
            self.last_place += 1;
            *place = self.last_place;
        }
        self.wakers.insert(*place, cx.waker().clone());
    }

    /// Records an arrival once; it may already be known from the log. An arrival that cannot be recorded now
    /// is not lost: the run parks with a lower count than the store has and is woken with all of them.
    pub(crate) fn record_arrival(&mut self, arrival: Arrival) {
        let is_new = match arrival {
            // Signals are consumed in order, so a signal is known only after all earlier arrivals.
            Arrival::Signal(signal) if signal.seq == self.arrivals_known + 1 => {
                self.arrivals_known = signal.seq;
                self.signals.push(signal);
                true
            }
            Arrival::Signal(_) => false,
            Arrival::Opened(promise) => match self.promises.get_mut(&promise.id) {
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
            Arrival::Settled(id, settlement) => match self.promises.get_mut(&id) {
                Some(promise) if promise.state == PromiseState::Pending => {
                    promise.state = PromiseState::Settled { at: Timestamp::EPOCH, settlement };
                    true
                }
                _ => false,
            },
            // Counted only while a step waits for the child. Its end may have been read from the log long
            // ago.
            Arrival::ChildEnded(run, step, result) => {
                let is_awaited = self.open.get(&step).is_some_and(|record| record.child == Some(run));
                self.children.insert(run, result).is_none() && is_awaited
            }
        };
        if is_new {
            self.arrivals_seen += 1;
        }
    }

    /// Records the last of `arrivals`. All earlier ones are known.
    pub(crate) fn record_last_arrival(&mut self, arrival: Arrival, arrivals: u64) {
        self.arrivals_known = arrivals - 1;
        self.record_arrival(arrival);
        if self.arrivals_seen == arrivals {
            self.arrivals_known = arrivals;
        }
    }

    /// Updates the arrivals from the log.
    pub(crate) fn refresh(&mut self, log: RunLog) {
        self.arrivals_seen = log.head.arrivals;
        self.arrivals_known = log.head.arrivals;
        let unwritten = self.changes.iter().filter_map(|change| match change {
            PendingChange::OpenPromise(promise) => Some((**promise).clone()),
            _ => None,
        });
        let promises = unwritten.chain(log.promises);
        self.promises = promises.map(|promise| (promise.id.clone(), promise)).collect();
        // Signals given to a step without a committed record are still unconsumed in the store.
        let given: Vec<u64> = self
            .changes
            .iter()
            .filter_map(|change| match change {
                PendingChange::ConsumeSignal(seq) => Some(*seq),
                _ => None,
            })
            .collect();
        self.signals = log.signals.into_iter().filter(|signal| !given.contains(&signal.seq)).collect();
        self.children = log.children.into_iter().filter_map(|(run, result)| Some((run, result?))).collect();
    }

    pub(crate) fn is_settled(&self, id: &PromiseId) -> bool {
        self.promises.get(id).is_some_and(|promise| matches!(promise.state, PromiseState::Settled { .. }))
    }

    /// Returns whether the outcome of a claimed effect is unknown.
    pub(crate) fn has_doubt(&self) -> bool {
        // Queued changes count as much as committed ones: an outcome that is not written yet is still an
        // outcome.
        let is_closed = |id: &PromiseId| {
            let closes = |change: &PendingChange| matches!(change, PendingChange::TimeOutPromise(closed) if closed == id);
            self.changes.iter().any(closes)
        };
        let is_open_doubt = |promise: &Promise| {
            promise.id.is_doubt_promise() && promise.state == PromiseState::Pending && !is_closed(&promise.id)
        };
        let collected = |id: &StepId| {
            self.changes.iter().rev().find_map(|change| match change {
                PendingChange::Step { id: changed, state, .. } if changed == id => Some(state.status()),
                _ => None,
            })
        };
        let is_claimed = |record: &StepRecord| {
            let status = collected(&record.id).unwrap_or(record.state.status());
            record.kind == StepKind::Claimed && status == StepStatus::Running
        };
        self.promises.values().any(is_open_doubt) || self.open.values().any(is_claimed)
    }

    /// Returns whether a previous holder may have begun a step without a record.
    pub(crate) fn has_unrecorded_steps(&self) -> bool {
        self.unrecorded_steps > 0 || self.has_unrecorded_undo
    }

    /// Returns whether another worker may have begun this step, which has no record.
    pub(crate) fn take_unrecorded(&mut self, step: &StepId, kind: StepKind) -> bool {
        let is_hidden_undo = kind == StepKind::Undo && std::mem::take(&mut self.has_unrecorded_undo);
        is_hidden_undo || self.is_first_after_crash() || self.cut_off.contains(step)
    }

    /// Returns whether the previous holder vanished and no step has finished since.
    pub(crate) fn is_first_after_crash(&self) -> bool {
        self.first_wave && self.head.stalls > 0
    }

    /// Attempts at a step before a retry of the run dropped its record.
    pub(crate) fn attempts_before(&self, step: &StepId) -> u32 {
        self.attempts_before.get(step).copied().unwrap_or(0)
    }

    /// Latest promise that settles the doubt about an attempt.
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

    /// Result of a child, or the reason why it was refused.
    pub(crate) fn child_result(&self, run: RunId) -> Option<Result<RunResult, Failure>> {
        let refused = self.refused_children.get(&run).cloned().map(Err);
        refused.or_else(|| self.children.get(&run).cloned().map(Ok))
    }

    /// Durability of the end of a wait that a durable and final event ended.
    ///
    /// If the code waits for nothing else, the end of this wait is the next outcome it receives, now and in a
    /// replay. Earlier changes are either derivable too, or keep the next effect waiting until they are
    /// durable.
    pub(crate) fn durability_of_wait_end(&self, step: &StepId) -> Durability {
        let waits_for_it_alone = self.waits.len() == 1
            && self.waits.contains_key(step)
            && self.gated == 0
            && self.in_flight == 0
            && self.transactions.is_empty()
            && self.outcome_waiters.is_empty()
            && self.turn_of.is_none();
        match waits_for_it_alone {
            true => Durability::Derivable,
            false => Durability::MustCommit,
        }
    }

    /// Requires that every change queued so far is durable before an effect may begin.
    pub(crate) fn require_commit(&mut self) {
        self.commit_required_through = self.queued;
    }

    /// Returns whether effects wait for a queued change to be committed.
    pub(crate) fn has_must_commit_changes(&self) -> bool {
        self.commit_required_through > self.durable
    }

    /// Number of changes queued so far, committed or not.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Earliest timer that the code waits for.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.timers().min()
    }

    /// Earliest timer after `now`.
    pub(crate) fn next_timer_after(&self, now: Timestamp) -> Option<Timestamp> {
        self.timers().filter(|at| *at > now).min()
    }

    /// Next check of the doubts that keep a run from ending.
    pub(crate) fn next_doubt_check_at(&self) -> Option<Timestamp> {
        self.waits.values().filter(|wait| !wait.obeys_stop).filter_map(|wait| wait.until).min()
    }

    /// A run that must stop no longer waits for its deadline, even if a shield still delays the stop.
    fn timers(&self) -> impl Iterator<Item = Timestamp> {
        let deadline = self.head.facts.deadline_at.filter(|_| !self.undoing && self.stop.is_none());
        self.waits.values().filter_map(|wait| wait.until).chain(deadline)
    }
}

/// Steps with an outcome that the code received, first to last.
pub(super) fn steps_in_outcome_order(steps: &[StepRecord]) -> VecDeque<StepId> {
    let is_told = |step: &&StepRecord| match step.kind {
        // The code gets their outcome in the same turn as its request.
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
        let mut replay = ReplayState::empty(leased());
        let wait = Wait { until: None, obeys_stop: true };
        replay.waits = names.iter().map(|name| (step(name), wait)).collect();
        replay
    }

    /// Any other activity of the run might come first in a replay.
    #[test]
    fn the_end_of_a_wait_follows_from_what_is_durable_only_if_nothing_else_goes_on() {
        assert_eq!(waiting_at(&["answer"]).durability_of_wait_end(&step("answer")), Durability::Derivable);
        assert_eq!(
            waiting_at(&["answer", "sleep"]).durability_of_wait_end(&step("answer")),
            Durability::MustCommit
        );
        assert_eq!(waiting_at(&["sleep"]).durability_of_wait_end(&step("answer")), Durability::MustCommit);
        let also: [fn(&mut ReplayState); 5] = [
            |replay| replay.gated = 1,
            |replay| replay.in_flight = 1,
            |replay| replay.give_turn_to(step("transfer")),
            |replay| drop(replay.outcome_waiters.insert(step("charge"), Waker::noop().clone())),
            |replay| {
                let (reply, work) = (oneshot::channel().0, Box::new(()));
                let (attempts, started_at) = (1, Timestamp::EPOCH);
                let pending =
                    PendingTransaction { step: step("transfer"), work, attempts, started_at, reply };
                replay.transactions.push_back(pending);
            },
        ];
        for (nth, also) in also.iter().enumerate() {
            let mut replay = waiting_at(&["answer"]);
            also(&mut replay);
            assert_eq!(replay.durability_of_wait_end(&step("answer")), Durability::MustCommit, "case {nth}");
        }
    }
}
