//! One stretch of driving a run, as its code reaches it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::change::Change;
use super::inner::{Inner, Phase};
use super::point::Point;
use super::registry::Declared;
use super::replay_state::{Durability, Entered, ReplayState, Stop, in_order_of_outcome};
use super::run_slot::RunSlot;
use super::stats::Counters;
use super::waits::{DoubtHeld, EffectInFlight, Gate, GivenUpHere, Hidden, InFlight, ItsTurn, Wait, WaitFor};
use crate::hold::Hold;
use crate::limits::MAX_STEPS_PER_RUN;
use crate::model::{
    Evidence, Failure, Generation, JournalEntry, JournalEvent, Name, Occurrence, RunFacts, RunHead, StepId,
    StepKind, StepStatus, Timestamp,
};
use crate::store::RunLog;

/// One stretch of driving a run, from its lease to its end, its parking or its loss.
pub(crate) struct Activation {
    pub(crate) engine: Arc<Inner>,
    pub(crate) facts: Arc<RunFacts>,
    pub(crate) generation: Generation,
    /// What the workflow declares about its effects.
    pub(crate) declared: Arc<Declared>,
    active: Mutex<Arc<RunSlot>>,
    desk: Mutex<ReplayState>,
}

/// A computation of the code that is under way; over when it is dropped.
pub struct Computing<'a> {
    activation: &'a Activation,
}

impl std::fmt::Debug for Computing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Computing")
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.activation.desk().computing -= 1;
    }
}

impl Activation {
    /// For a run without any records.
    pub(crate) fn fresh(engine: Arc<Inner>, active: Arc<RunSlot>, head: RunHead) -> Self {
        Self::with_desk(engine, active, ReplayState::empty(head))
    }

    /// For a run rebuilt from its log.
    pub(crate) fn replaying(engine: Arc<Inner>, active: Arc<RunSlot>, log: RunLog) -> Self {
        let mut desk = ReplayState::empty(log.head);
        desk.arrivals_seen = desk.head.arrivals;
        desk.arrivals_known = desk.head.arrivals;
        desk.replaying = !log.steps.is_empty();
        desk.first_wave = true;
        desk.steps = u32::try_from(log.steps.len()).unwrap_or(u32::MAX);
        desk.outcomes = in_order_of_outcome(&log.steps);
        for step in log.steps {
            if !step.state.status().is_final() {
                desk.open.insert(step.id.clone(), step.clone());
            }
            desk.recorded.insert(step.id.clone(), step);
        }
        desk.promises = log.promises.into_iter().map(|promise| (promise.id.clone(), promise)).collect();
        desk.signals = log.signals;
        desk.attempts_before = log.attempts_before.into_iter().collect();
        desk.children = log.children.into_iter().filter_map(|(run, result)| Some((run, result?))).collect();
        Self::with_desk(engine, active, desk)
    }

    /// For the next generation of a run that continues as new; unread signals go with it.
    pub(crate) fn continued(&self, head: RunHead) -> Self {
        let mut desk = ReplayState::empty(head);
        let mut before = self.desk();
        desk.signals = std::mem::take(&mut before.signals);
        desk.arrivals_seen = before.arrivals_seen;
        desk.arrivals_known = before.arrivals_known;
        drop(before);
        Self::with_desk(self.engine.clone(), self.active(), desk)
    }

    fn with_desk(engine: Arc<Inner>, active: Arc<RunSlot>, desk: ReplayState) -> Self {
        let workflow = engine.registry.find(&desk.head.facts.workspace, &desk.head.facts.workflow);
        let declared = workflow.map(|workflow| workflow.declared.clone()).unwrap_or_default();
        Activation {
            engine,
            facts: desk.head.facts.clone(),
            generation: desk.head.generation,
            declared,
            active: Mutex::new(active),
            desk: Mutex::new(desk),
        }
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, ReplayState> {
        // A driver that panicked is dropped, and with it guards that look here: they must not panic in turn.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn active(&self) -> Arc<RunSlot> {
        self.active.lock().expect("no holder panics").clone()
    }

    /// The right to send what `step` sends; whoever watches is told before each check.
    pub(crate) fn watched_hold(&self, step: &StepId) -> Hold {
        let hold = self.active().hold.clone();
        match &self.engine.options.watcher {
            Some(watcher) => hold.watched(watcher.clone(), self.facts.id, step.clone()),
            None => hold,
        }
    }

    /// A parked run goes on under a new lease.
    pub(crate) fn regrant(&self, active: Arc<RunSlot>, head: RunHead) {
        *self.active.lock().expect("no holder panics") = active;
        let mut desk = self.desk();
        desk.head = head;
        desk.first_wave = false;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.store.now()
    }

    /// Tells the watcher; goes no further if it killed the engine, as nothing goes on after a crash.
    pub(crate) async fn reached(&self, point: impl FnOnce() -> Point) {
        self.engine.reached(point);
        if self.engine.phase() == Phase::Killed {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the records about a step, and checks that the code asks for what was recorded.
    pub(crate) fn enter(&self, id: &StepId, kind: StepKind) -> Entered {
        let mut desk = self.desk();
        let Some(record) = desk.recorded.remove(id) else {
            desk.steps += 1;
            if desk.steps > MAX_STEPS_PER_RUN {
                desk.violation.get_or_insert(format!(
                    "the run has more than {MAX_STEPS_PER_RUN} steps; use continue_as_new to begin a new history"
                ));
            }
            return Entered::Fresh;
        };
        let fits = match record.state.status().is_final() {
            true => kind.takes_outcome_of(record.kind),
            false => kind == record.kind,
        };
        if !fits {
            desk.violation.get_or_insert(format!(
                "the history has a {} step at {:?}, but the code asks for a {} step there",
                record.kind.as_str(),
                id.as_str(),
                kind.as_str()
            ));
            return Entered::Fresh;
        }
        if record.state.status() == StepStatus::Failed {
            // People may have had it undone, which belongs to it: the code does not ask for that by itself.
            desk.recorded.remove(&id.undo());
        }
        match record.state.status() {
            StepStatus::Cancelled => Entered::GivenUp,
            status if status.is_final() => {
                let (run, status) = (self.facts.id, status.as_str());
                tracing::debug!(%run, step = %id, status, "step already done, advancing");
                Entered::Done(record)
            }
            _ => Entered::Open(record),
        }
    }

    /// Waits until a recorded outcome is to be given to the code. Outcomes come one by one, each after the code has gone as
    /// far as it can with those before, in the order in which they came when they were recorded: so code that does
    /// things side by side asks for its next steps in the order it did then, and finds the records that are its own.
    pub(crate) fn its_turn<'a>(&'a self, id: &'a StepId) -> ItsTurn<'a> {
        ItsTurn { activation: self, id, place: 0 }
    }

    /// The id of the next use of `name`.
    pub(crate) fn next_id(&self, name: &Name) -> StepId {
        let mut desk = self.desk();
        match desk.ordinals.get_mut(name) {
            Some(ordinal) => {
                *ordinal += 1;
                StepId::new(name, *ordinal)
            }
            None => {
                desk.ordinals.insert(name.clone(), 1);
                StepId::new(name, 1)
            }
        }
    }

    /// Waits until an effect may begin: the replay is over, nothing stops the run, and all that happened so far
    /// is durable or follows from what is.
    pub(crate) fn gate(&self) -> Gate<'_> {
        let need = self.desk().binding;
        Gate { activation: self, need, heeds_stops: true, counted: false, place: 0 }
    }

    /// Where the code stays at a step that was given up, until it is dropped.
    pub(crate) async fn stay_given_up<T>(&self) -> T {
        self.desk().given_up += 1;
        let _given_up = GivenUpHere(self);
        std::future::pending().await
    }

    /// Counts an effect as begun until the guard is dropped.
    pub(crate) fn begin_effect(&self, step: &StepId) -> EffectInFlight<'_> {
        self.desk().entered.push(step.clone());
        Counters::add(&self.engine.counters.effects);
        EffectInFlight { _staying: self.stay(), activation: self, step: step.clone() }
    }

    /// Counts a step as one that may have been begun without a record, until the guard is dropped.
    pub(crate) fn hide(&self) -> Hidden<'_> {
        self.desk().hidden += 1;
        Hidden(self)
    }

    /// Waits for the same, whether or not the run is to stop meanwhile.
    pub(crate) fn durable(&self) -> Gate<'_> {
        Gate { heeds_stops: false, ..self.gate() }
    }

    /// May what an effect is about to begin be put on record at once, before the gate?
    pub(crate) fn may_mark(&self, heeds_stops: bool) -> bool {
        let desk = self.desk();
        let stopped = heeds_stops && desk.is_stopped();
        !desk.replaying && !desk.is_held && !desk.leaving && desk.violation.is_none() && !stopped
    }

    /// The run pauses, because `step` has used up its tries.
    pub(crate) fn pause_exhausted(&self, step: &StepId, failure: &Failure) {
        tracing::warn!(run = %self.facts.id, %step, %failure, "the step has used up its retries; the run pauses");
        let mut desk = self.desk();
        if matches!(desk.stop, None | Some(Stop::Release)) {
            desk.stop = Some(Stop::Exhausted);
            desk.exhausted = Some(format!(
                "step {step} has used up its retries ({failure}); resume the run to try it again, or cancel it"
            ));
        }
    }

    /// Keeps the run from parking or stopping until the guard is dropped.
    pub(crate) fn stay(&self) -> InFlight<'_> {
        self.desk().in_flight += 1;
        InFlight { activation: self }
    }

    /// Keeps the run as it is until the guard is dropped: nothing is released to its code, and it neither parks nor stops.
    pub(crate) fn compute(&self) -> Computing<'_> {
        self.desk().computing += 1;
        Computing { activation: self }
    }

    /// An entry of the journal about `step`, by this engine.
    pub(crate) fn note(&self, step: &StepId, what: JournalEvent) -> Change {
        let fence = self.desk().head.fence;
        Change::Note(Box::new(JournalEntry {
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

    /// An entry of the journal that an attempt was cut off: its worker vanished, and nothing else tells of it.
    pub(crate) fn note_cut_off(&self, step: &StepId, kind: StepKind, attempt: u32) -> Change {
        let occurrence = Occurrence::MayHaveHappened;
        let mut note = self.note(step, JournalEvent::Attempted { attempt, occurrence });
        if let Change::Note(note) = &mut note {
            note.evidence =
                Evidence::of_step(self.facts.id, self.generation, step, kind, attempt, occurrence);
        }
        note
    }

    /// Collects changes; the driver writes them before it lets another effect begin.
    pub(crate) fn queue(&self, changes: impl IntoIterator<Item = Change>) {
        self.queue_as(Durability::MustCommit, changes);
    }

    /// Collects changes that bear on later effects in this way.
    pub(crate) fn queue_as(&self, bearing: Durability, changes: impl IntoIterator<Item = Change>) {
        let mut desk = self.desk();
        for change in changes {
            desk.changes.push(change);
            desk.queued += 1;
            if bearing == Durability::MustCommit {
                desk.bind();
            }
        }
    }

    /// The steps that something waits at.
    pub(crate) fn waiting(&self) -> BTreeSet<StepId> {
        self.desk().waits.keys().cloned().collect()
    }

    /// Forgets what was collected since `queued` was the count. In a replay nothing is written, so all of it is here.
    pub(crate) fn forget_since(&self, queued: u64) {
        let mut desk = self.desk();
        while desk.queued > queued && desk.changes.pop().is_some() {
            desk.queued -= 1;
        }
        desk.binding = desk.binding.min(desk.queued);
    }

    /// Waits, durably, until `check` finds what it looks for; `until` is the timer the run must be woken by.
    pub(crate) fn wait_for<R, C>(&self, id: StepId, until: Option<Timestamp>, check: C) -> WaitFor<'_, C>
    where
        C: FnMut(&mut ReplayState, Timestamp) -> Option<R> + Unpin,
    {
        WaitFor { activation: self, id, wait: Wait { until, heeds_stops: true }, check, place: 0 }
    }

    /// The same, also for a run that is to stop: for what must be known before it may.
    pub(crate) fn wait_through<R, C>(&self, id: StepId, until: Option<Timestamp>, check: C) -> WaitFor<'_, C>
    where
        C: FnMut(&mut ReplayState, Timestamp) -> Option<R> + Unpin,
    {
        WaitFor { activation: self, id, wait: Wait { until, heeds_stops: false }, check, place: 0 }
    }

    /// Keeps a run that is to end from ending until the guard is dropped.
    pub(crate) fn hold_doubt(&self) -> DoubtHeld<'_> {
        self.desk().doubts_held += 1;
        DoubtHeld(self)
    }

    /// Lets everything that waits look again.
    pub(crate) fn wake_all(&self) {
        let mut desk = self.desk();
        let wakers = std::mem::take(&mut desk.wakers);
        let asked_for = std::mem::take(&mut desk.asked_for);
        drop(desk);
        for waker in wakers.into_values().chain(asked_for.into_values()) {
            waker.wake();
        }
    }
}
