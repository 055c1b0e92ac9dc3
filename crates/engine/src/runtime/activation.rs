//! One activation of a run: the state that workflow code and driver share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crash_point::CrashPoint;
use super::inner::{Inner, Phase};
use super::pending_change::PendingChange;
use super::registry::Declared;
use super::replay_state::{Durability, ReplayState, StepLookup, Stop, steps_in_outcome_order};
use super::run_slot::RunSlot;
use super::stats::Counters;
use super::waits::{
    CancelledStepGuard, DoubtGuard, EffectInFlight, Gate, InFlightGuard, TurnWait, UnrecordedStepGuard, Wait,
    WaitFor,
};
use crate::hold::Hold;
use crate::limits::MAX_STEPS_PER_RUN;
use crate::model::{
    Evidence, Failure, Generation, JournalEntry, JournalEvent, Name, Occurrence, RunFacts, RunHead, StepId,
    StepKind, StepStatus, Timestamp,
};
use crate::store::RunLog;

/// One activation of a run: from taking its lease until it ends, parks or loses the lease.
pub(crate) struct Activation {
    pub(crate) engine: Arc<Inner>,
    pub(crate) facts: Arc<RunFacts>,
    pub(crate) generation: Generation,
    /// Effect classes that the workflow declares.
    pub(crate) declared: Arc<Declared>,
    slot: Mutex<Arc<RunSlot>>,
    replay: Mutex<ReplayState>,
}

/// Guard for a computation in progress. The computation ends when the guard is dropped.
pub struct ComputationGuard<'a> {
    activation: Option<&'a Activation>,
}

impl ComputationGuard<'_> {
    /// A guard for code whose run is on a server.
    pub(crate) fn of_nothing() -> Self {
        ComputationGuard { activation: None }
    }
}

impl std::fmt::Debug for ComputationGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ComputationGuard")
    }
}

impl Drop for ComputationGuard<'_> {
    fn drop(&mut self) {
        if let Some(activation) = self.activation {
            activation.replay().computing -= 1;
        }
    }
}

impl Activation {
    /// Creates the activation of a run without records.
    pub(crate) fn fresh(engine: Arc<Inner>, slot: Arc<RunSlot>, head: RunHead) -> Self {
        Self::with_state(engine, slot, ReplayState::empty(head))
    }

    /// Creates the activation of a run that is rebuilt from its log.
    pub(crate) fn replaying(engine: Arc<Inner>, slot: Arc<RunSlot>, log: RunLog) -> Self {
        let mut replay = ReplayState::empty(log.head);
        replay.arrivals_seen = replay.head.arrivals;
        replay.arrivals_known = replay.head.arrivals;
        replay.replaying = !log.steps.is_empty();
        replay.first_wave = true;
        replay.steps = u32::try_from(log.steps.len()).unwrap_or(u32::MAX);
        replay.outcomes = steps_in_outcome_order(&log.steps);
        for step in log.steps {
            if !step.state.status().is_final() {
                replay.open.insert(step.id.clone(), step.clone());
            }
            replay.recorded.insert(step.id.clone(), step);
        }
        replay.promises = log.promises.into_iter().map(|promise| (promise.id.clone(), promise)).collect();
        replay.signals = log.signals;
        replay.attempts_before = log.attempts_before.into_iter().collect();
        replay.children = log.children.into_iter().filter_map(|(run, result)| Some((run, result?))).collect();
        Self::with_state(engine, slot, replay)
    }

    /// Creates the activation of the next generation after continue-as-new. Unread signals carry over.
    pub(crate) fn continued(&self, head: RunHead) -> Self {
        let mut replay = ReplayState::empty(head);
        let mut before = self.replay();
        replay.signals = std::mem::take(&mut before.signals);
        replay.arrivals_seen = before.arrivals_seen;
        replay.arrivals_known = before.arrivals_known;
        drop(before);
        Self::with_state(self.engine.clone(), self.slot(), replay)
    }

    fn with_state(engine: Arc<Inner>, slot: Arc<RunSlot>, replay: ReplayState) -> Self {
        let workflow = engine.registry.find(&replay.head.facts.workspace, &replay.head.facts.workflow);
        let declared = workflow.map(|workflow| workflow.declared.clone()).unwrap_or_default();
        Activation {
            engine,
            facts: replay.head.facts.clone(),
            generation: replay.head.generation,
            declared,
            slot: Mutex::new(slot),
            replay: Mutex::new(replay),
        }
    }

    pub(crate) fn replay(&self) -> MutexGuard<'_, ReplayState> {
        // When a driver panics, guards that use this lock are dropped too. They must not panic in turn.
        self.replay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn slot(&self) -> Arc<RunSlot> {
        self.slot.lock().expect("no holder panics").clone()
    }

    /// Right to send the effect of `step`. A configured watcher is called before each check.
    pub(crate) fn watched_hold(&self, step: &StepId) -> Hold {
        let hold = self.slot().hold.clone();
        match &self.engine.options.watcher {
            Some(watcher) => hold.watched(watcher.clone(), self.facts.id, step.clone()),
            None => hold,
        }
    }

    /// Continues a parked run under a new lease.
    pub(crate) fn regrant(&self, slot: Arc<RunSlot>, head: RunHead) {
        *self.slot.lock().expect("no holder panics") = slot;
        let mut replay = self.replay();
        replay.head = head;
        replay.first_wave = false;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.store.now()
    }

    /// Calls the watcher. Never returns if the watcher killed the engine, because nothing runs after a crash.
    pub(crate) async fn reached(&self, point: impl FnOnce() -> CrashPoint) {
        self.engine.reached(point);
        if self.engine.phase() == Phase::Killed {
            std::future::pending::<()>().await;
        }
    }

    /// Looks up the record of a step and checks that the code requests the kind of step that was recorded.
    pub(crate) fn look_up_step(&self, id: &StepId, kind: StepKind) -> StepLookup {
        let mut replay = self.replay();
        let Some(record) = replay.recorded.remove(id) else {
            replay.steps += 1;
            if replay.steps > MAX_STEPS_PER_RUN {
                replay.violation.get_or_insert(format!(
                    "the run has more than {MAX_STEPS_PER_RUN} steps; use continue_as_new to begin a new history"
                ));
            }
            return StepLookup::NotRecorded;
        };
        let fits = match record.state.status().is_final() {
            true => kind.takes_outcome_of(record.kind),
            false => kind == record.kind,
        };
        if !fits {
            replay.violation.get_or_insert(format!(
                "the history has a {} step at {:?}, but the code asks for a {} step there",
                record.kind.as_str(),
                id.as_str(),
                kind.as_str()
            ));
            return StepLookup::NotRecorded;
        }
        if record.state.status() == StepStatus::Failed {
            // An operator may have undone the failed step. The code never asks for that undo record itself.
            replay.recorded.remove(&id.undo());
        }
        match record.state.status() {
            StepStatus::Cancelled => StepLookup::Cancelled,
            status if status.is_final() => {
                let (run, status) = (self.facts.id, status.as_str());
                tracing::debug!(%run, step = %id, status, "step already done, advancing");
                StepLookup::Done(record)
            }
            _ => StepLookup::Open(record),
        }
    }

    /// Waits until a recorded outcome may be returned to the code.
    ///
    /// A replay returns outcomes one at a time, in the recorded order. It returns the next outcome only when
    /// the code can go no further with the earlier ones. Concurrent branches therefore request their steps in
    /// the recorded order and find their own records.
    pub(crate) fn wait_for_turn<'a>(&'a self, id: &'a StepId) -> TurnWait<'a> {
        TurnWait { activation: self, id, place: 0 }
    }

    /// Returns the id for the next use of `name`.
    pub(crate) fn next_id(&self, name: &Name) -> StepId {
        let mut replay = self.replay();
        match replay.ordinals.get_mut(name) {
            Some(ordinal) => {
                *ordinal += 1;
                StepId::new(name, *ordinal)
            }
            None => {
                replay.ordinals.insert(name.clone(), 1);
                StepId::new(name, 1)
            }
        }
    }

    /// Waits until an effect may begin: the replay is over, no stop is requested, and every earlier change is
    /// durable or derivable from durable data.
    pub(crate) fn gate(&self) -> Gate<'_> {
        let need = self.replay().commit_required_through;
        Gate { activation: self, need, obeys_stop: true, counted: false, place: 0 }
    }

    /// Waits at a cancelled step until the code is dropped.
    pub(crate) async fn wait_as_cancelled<T>(&self) -> T {
        self.replay().cancelled_waits += 1;
        let _guard = CancelledStepGuard(self);
        std::future::pending().await
    }

    /// Counts an effect as in flight until the guard is dropped.
    pub(crate) fn begin_effect(&self, step: &StepId) -> EffectInFlight<'_> {
        self.replay().running_effects.push(step.clone());
        Counters::add(&self.engine.counters.effects);
        EffectInFlight { _in_flight: self.block_parking(), activation: self, step: step.clone() }
    }

    /// Counts a step that a previous holder may have begun without a record, until the guard is dropped.
    pub(crate) fn count_unrecorded(&self) -> UnrecordedStepGuard<'_> {
        self.replay().unrecorded_steps += 1;
        UnrecordedStepGuard(self)
    }

    /// Like [`Activation::gate`], but ignores stop requests.
    pub(crate) fn gate_ignoring_stops(&self) -> Gate<'_> {
        Gate { obeys_stop: false, ..self.gate() }
    }

    /// Returns whether the start of an effect may be recorded now, before the gate.
    pub(crate) fn may_record_start(&self, obeys_stop: bool) -> bool {
        let replay = self.replay();
        let stopped = obeys_stop && replay.is_stopped();
        !replay.replaying
            && !replay.effects_blocked
            && !replay.releasing_lease
            && replay.violation.is_none()
            && !stopped
    }

    /// Pauses the run because `step` has used up its attempts.
    pub(crate) fn pause_exhausted(&self, step: &StepId, failure: &Failure) {
        tracing::warn!(run = %self.facts.id, %step, %failure, "the step has used up its retries; the run pauses");
        let mut replay = self.replay();
        if matches!(replay.stop, None | Some(Stop::Release)) {
            replay.stop = Some(Stop::Exhausted);
            replay.exhausted = Some(format!(
                "step {step} has used up its retries ({failure}); resume the run to try it again, or cancel it"
            ));
        }
    }

    /// Keeps the run from parking or stopping until the guard is dropped.
    pub(crate) fn block_parking(&self) -> InFlightGuard<'_> {
        self.replay().in_flight += 1;
        InFlightGuard { activation: self }
    }

    /// Freezes the run until the guard is dropped: the code receives no outcome, and the run neither parks
    /// nor stops.
    pub(crate) fn begin_computation(&self) -> ComputationGuard<'_> {
        self.replay().computing += 1;
        ComputationGuard { activation: Some(self) }
    }

    /// Builds a journal entry of this engine about `step`.
    pub(crate) fn journal_entry(&self, step: &StepId, what: JournalEvent) -> PendingChange {
        let fence = self.replay().head.fence;
        PendingChange::JournalEntry(Box::new(JournalEntry {
            workspace: self.facts.workspace.clone(),
            run: self.facts.id,
            generation: self.generation,
            step: Some(step.clone()),
            at: self.now(),
            fence,
            owner: Some(self.engine.owner),
            by: None,
            what,
            evidence: None,
        }))
    }

    /// Builds a journal entry for an attempt that was cut off because its worker vanished. No other record
    /// mentions it.
    pub(crate) fn cut_off_entry(&self, step: &StepId, kind: StepKind, attempt: u32) -> PendingChange {
        let occurrence = Occurrence::MayHaveHappened;
        let mut entry = self.journal_entry(step, JournalEvent::Attempted { attempt, occurrence });
        if let PendingChange::JournalEntry(entry) = &mut entry {
            entry.evidence =
                Evidence::for_step(self.facts.id, self.generation, step, kind, attempt, occurrence);
        }
        entry
    }

    /// Queues changes. The driver commits them before another effect may begin.
    pub(crate) fn queue(&self, changes: impl IntoIterator<Item = PendingChange>) {
        self.queue_with(Durability::MustCommit, changes);
    }

    /// Queues changes with the given durability.
    pub(crate) fn queue_with(
        &self,
        durability: Durability,
        changes: impl IntoIterator<Item = PendingChange>,
    ) {
        let mut replay = self.replay();
        for change in changes {
            replay.changes.push(change);
            replay.queued += 1;
            if durability == Durability::MustCommit {
                replay.require_commit();
            }
        }
    }

    /// Returns the steps that the code waits at.
    pub(crate) fn waiting_steps(&self) -> BTreeSet<StepId> {
        self.replay().waits.keys().cloned().collect()
    }

    /// Drops the changes queued since `queued` was the count. A replay writes nothing, so all of them are
    /// still queued.
    pub(crate) fn drop_changes_since(&self, queued: u64) {
        let mut replay = self.replay();
        while replay.queued > queued && replay.changes.pop().is_some() {
            replay.queued -= 1;
        }
        replay.commit_required_through = replay.commit_required_through.min(replay.queued);
    }

    /// Waits durably until `check` returns a value. The run wakes at `until` at the latest.
    pub(crate) fn wait_for<R, C>(&self, id: StepId, until: Option<Timestamp>, check: C) -> WaitFor<'_, C>
    where
        C: FnMut(&mut ReplayState, Timestamp) -> Option<R> + Unpin,
    {
        WaitFor { activation: self, id, wait: Wait { until, obeys_stop: true }, check, place: 0 }
    }

    /// Like [`Activation::wait_for`], but also continues in a run that must stop. For facts that must be
    /// known first.
    pub(crate) fn wait_ignoring_stops<R, C>(
        &self,
        id: StepId,
        until: Option<Timestamp>,
        check: C,
    ) -> WaitFor<'_, C>
    where
        C: FnMut(&mut ReplayState, Timestamp) -> Option<R> + Unpin,
    {
        WaitFor { activation: self, id, wait: Wait { until, obeys_stop: false }, check, place: 0 }
    }

    /// Keeps a run that must end from ending until the guard is dropped.
    pub(crate) fn hold_for_doubt(&self) -> DoubtGuard<'_> {
        self.replay().doubts_held += 1;
        DoubtGuard(self)
    }

    /// Wakes every waiter so that it checks its condition again.
    pub(crate) fn wake_all(&self) {
        let mut replay = self.replay();
        let wakers = std::mem::take(&mut replay.wakers);
        let outcome_waiters = std::mem::take(&mut replay.outcome_waiters);
        drop(replay);
        for waker in wakers.into_values().chain(outcome_waiters.into_values()) {
            waker.wake();
        }
    }
}
