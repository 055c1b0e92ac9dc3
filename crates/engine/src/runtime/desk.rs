//! What a workflow's code and its driver share: the records, the collected changes, and who waits for what.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::active::{Active, News};
use super::change::Change;
use super::inner::{Inner, Phase};
use super::point::Point;
use super::registry::Declared;
use super::stats::Counters;
use super::transact::Pending;
use crate::limits::MAX_STEPS_PER_RUN;
use crate::model::{
    Asked, DoubtedAttempt, Generation, Name, Note, Noted, Payload, Promise, PromiseId, PromiseState,
    RunFacts, RunHead, RunId, RunResult, Signal, StepId, StepKind, StepRecord, StepState, StepStatus,
    StepTransition, Timestamp,
};
use crate::store::RunLog;

/// One stretch of driving a run, from its lease to its end, its parking or its loss.
pub(crate) struct Activation {
    pub(crate) engine: Arc<Inner>,
    pub(crate) facts: Arc<RunFacts>,
    pub(crate) generation: Generation,
    /// What the workflow declares about its effects.
    pub(crate) declared: Arc<Declared>,
    active: Mutex<Arc<Active>>,
    desk: Mutex<Desk>,
}

/// Why no new effect may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancel,
    Deadline,
    Pause,
    Release,
}

pub(crate) struct Desk {
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
    /// True while effects are undone: a cancellation asks for nothing more then.
    pub(crate) undoing: bool,
    pub(crate) shields: u32,
    /// Records the code has not asked for yet.
    recorded: HashMap<StepId, StepRecord>,
    /// Outcomes on record that a replay has yet to give to the code, in the order in which it was given them before.
    outcomes: VecDeque<StepId>,
    /// Who waits for one of them.
    asked_for: BTreeMap<StepId, Waker>,
    /// While this names a step, no other may give the code its outcome: their order would not be the recorded one.
    turn_of: Option<StepId>,
    pub(crate) open: HashMap<StepId, StepRecord>,
    ordinals: HashMap<Name, u32>,
    steps: u32,
    pub(crate) changes: Vec<Change>,
    queued: u64,
    pub(crate) durable: u64,
    pub(crate) transactions: VecDeque<Pending>,
    pub(crate) waits: HashMap<StepId, Wait>,
    /// How many doubts are held for people: a run that is to end does not end before they have ruled.
    pub(crate) doubts_held: u32,
    pub(crate) gated: usize,
    /// How many of those do not heed that the run is to stop.
    pub(crate) gated_through: usize,
    pub(crate) in_flight: usize,
    /// True while a write is under way that gives the lease back: what it does not tell of must not begin.
    pub(crate) leaving: bool,
    promises: HashMap<PromiseId, Promise>,
    signals: Vec<Signal>,
    children: HashMap<RunId, RunResult>,
    /// How many arrivals are known here; equal to the store's count exactly when nothing was missed.
    pub(crate) arrivals_seen: u64,
    /// Up to this count every arrival is known here; beyond it only some may be.
    arrivals_known: u64,
    pub(crate) continue_with: Option<Payload>,
    pub(crate) violation: Option<String>,
    /// By place, so that all are woken in the order in which they first waited.
    wakers: BTreeMap<u64, Waker>,
    last_place: u64,
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

impl Activation {
    /// For a run without any records.
    pub(crate) fn fresh(engine: Arc<Inner>, active: Arc<Active>, head: RunHead) -> Self {
        Self::with_desk(engine, active, Desk::empty(head))
    }

    /// For a run rebuilt from its log.
    pub(crate) fn replaying(engine: Arc<Inner>, active: Arc<Active>, log: RunLog) -> Self {
        let mut desk = Desk::empty(log.head);
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
        desk.children = log.children.into_iter().filter_map(|(run, result)| Some((run, result?))).collect();
        Self::with_desk(engine, active, desk)
    }

    /// For the next generation of a run that continues as new; unread signals go with it.
    pub(crate) fn continued(&self, head: RunHead) -> Self {
        let mut desk = Desk::empty(head);
        let mut before = self.desk();
        desk.signals = std::mem::take(&mut before.signals);
        desk.arrivals_seen = before.arrivals_seen;
        desk.arrivals_known = before.arrivals_known;
        drop(before);
        Self::with_desk(self.engine.clone(), self.active(), desk)
    }

    fn with_desk(engine: Arc<Inner>, active: Arc<Active>, desk: Desk) -> Self {
        let workflow = engine.registry.find(&desk.head.facts.workflow);
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

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().expect("the desk is never held across user code")
    }

    pub(crate) fn active(&self) -> Arc<Active> {
        self.active.lock().expect("no holder panics").clone()
    }

    /// A parked run goes on under a new lease.
    pub(crate) fn regrant(&self, active: Arc<Active>, head: RunHead) {
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
            status if status.is_final() => Entered::Done(record),
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
    /// is durable.
    pub(crate) fn gate(&self) -> Gate<'_> {
        let need = self.desk().queued;
        Gate { activation: self, need, heeds_stops: true, counted: false, place: 0 }
    }

    /// Counts an effect as begun until the guard is dropped.
    pub(crate) fn begin_effect(&self) -> InFlight<'_> {
        self.desk().in_flight += 1;
        Counters::add(&self.engine.counters.effects);
        InFlight { activation: self }
    }

    /// Waits until all that happened so far is durable, whether or not the run is to stop meanwhile.
    pub(crate) fn durable(&self) -> Gate<'_> {
        Gate { heeds_stops: false, ..self.gate() }
    }

    /// Keeps the run from parking or stopping until the guard is dropped.
    pub(crate) fn stay(&self) -> InFlight<'_> {
        self.desk().in_flight += 1;
        InFlight { activation: self }
    }

    /// An entry of the journal about `step`, by this engine.
    pub(crate) fn note(&self, step: &StepId, what: Noted) -> Change {
        let fence = self.desk().head.fence;
        Change::Note(Box::new(Note {
            workspace: self.facts.workspace.clone(),
            run: self.facts.id,
            generation: self.generation,
            step: Some(step.clone()),
            at: self.now(),
            fence,
            owner: Some(self.engine.owner),
            by: None,
            what,
        }))
    }

    /// Collects changes; the driver writes them.
    pub(crate) fn queue(&self, changes: impl IntoIterator<Item = Change>) {
        let mut desk = self.desk();
        for change in changes {
            desk.changes.push(change);
            desk.queued += 1;
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
    }

    /// Waits, durably, until `check` finds what it looks for; `until` is the timer the run must be woken by.
    pub(crate) fn wait_for<R, C>(&self, id: StepId, until: Option<Timestamp>, check: C) -> WaitFor<'_, C>
    where
        C: FnMut(&mut Desk, Timestamp) -> Option<R> + Unpin,
    {
        WaitFor { activation: self, id, wait: Wait { until, heeds_stops: true }, check, place: 0 }
    }

    /// The same, also for a run that is to stop: for what must be known before it may.
    pub(crate) fn wait_through<R, C>(&self, id: StepId, until: Option<Timestamp>, check: C) -> WaitFor<'_, C>
    where
        C: FnMut(&mut Desk, Timestamp) -> Option<R> + Unpin,
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

impl Desk {
    fn empty(head: RunHead) -> Self {
        Desk {
            head,
            replaying: false,
            first_wave: false,
            is_held: false,
            in_turn: false,
            stop: None,
            undoing: false,
            shields: 0,
            recorded: HashMap::new(),
            outcomes: VecDeque::new(),
            asked_for: BTreeMap::new(),
            turn_of: None,
            open: HashMap::new(),
            ordinals: HashMap::new(),
            steps: 0,
            changes: Vec::new(),
            queued: 0,
            durable: 0,
            transactions: VecDeque::new(),
            waits: HashMap::new(),
            doubts_held: 0,
            gated: 0,
            gated_through: 0,
            in_flight: 0,
            leaving: false,
            promises: HashMap::new(),
            signals: Vec::new(),
            children: HashMap::new(),
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
    pub(crate) fn is_awaited(&self) -> bool {
        self.gated > 0 || !self.waits.is_empty() || !self.asked_for.is_empty()
    }

    /// From now on only `step` may give the code its outcome.
    pub(crate) fn give_turn_to(&mut self, step: StepId) {
        self.turn_of = Some(step);
    }

    /// The turn is over; true if it was anybody's.
    pub(crate) fn end_turn(&mut self) -> bool {
        self.turn_of.take().is_some()
    }

    fn is_others_turn(&self, step: &StepId) -> bool {
        self.turn_of.as_ref().is_some_and(|turn_of| turn_of != step)
    }

    /// Ends the replay: everything that was recorded must have been asked for by now, because what an effect
    /// depends on was durable before it began.
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

    /// The run as it is now. A pause that has given way to a cancellation is not carried out: it would count as done
    /// all that was asked.
    pub(crate) fn take_over(&mut self, head: RunHead) {
        self.head = head;
        self.stop = self.stop.filter(|stop| *stop != Stop::Pause || self.head.asked == Asked::Pause);
    }

    /// What people ask of the run now.
    pub(crate) fn asked_to_stop(&self) -> Option<Stop> {
        match self.head.asked {
            Asked::Nothing => None,
            Asked::Pause => Some(Stop::Pause),
            Asked::Cancel if self.undoing => None,
            Asked::Cancel => Some(Stop::Cancel),
        }
    }

    /// Keeps the waker of whoever waits at `place`, one for each however often it looks.
    fn await_change(&mut self, place: &mut u64, cx: &Context<'_>) {
        if *place == 0 {
            self.last_place += 1;
            *place = self.last_place;
        }
        self.wakers.insert(*place, cx.waker().clone());
    }

    /// Notes an arrival, once; it may be known already from the log. One that may not be noted is not lost: the run
    /// will park having seen fewer arrivals than there are, and be driven on with all of them.
    pub(crate) fn note(&mut self, news: News) {
        let is_new = match news {
            // Signals are taken in the order they came in, so one is known only after all that came before it.
            News::Signal(signal) if signal.seq == self.arrivals_known + 1 => {
                self.arrivals_known = signal.seq;
                self.signals.push(signal);
                true
            }
            News::Signal(_) => false,
            News::Settled(id, settlement) => match self.promises.get_mut(&id) {
                Some(promise) if promise.state == PromiseState::Pending => {
                    promise.state = PromiseState::Settled { at: Timestamp::EPOCH, settlement };
                    true
                }
                _ => false,
            },
            // Counted only while a step waits for it: its end may have been read from the log, long ago even.
            News::ChildEnded(run, step, result) => {
                let is_awaited = self.open.get(&step).is_some_and(|record| record.child == Some(run));
                self.children.insert(run, result).is_none() && is_awaited
            }
        };
        if is_new {
            self.arrivals_seen += 1;
        }
    }

    /// Notes the last of `arrivals`, all others of which are known.
    pub(crate) fn note_last(&mut self, news: News, arrivals: u64) {
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
            Change::OpenPromise(promise) => Some(promise.clone()),
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
        let is_open_doubt =
            |promise: &Promise| promise.id.is_of_doubt() && promise.state == PromiseState::Pending;
        let is_claimed = |record: &StepRecord| {
            record.kind == StepKind::Claimed && record.state.status() == StepStatus::Running
        };
        self.promises.values().any(is_open_doubt) || self.open.values().any(is_claimed)
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

    pub(crate) fn child_result(&self, run: RunId) -> Option<RunResult> {
        self.children.get(&run).cloned()
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

impl Change {
    /// A step that ends in the same write in which it began, or ends what was marked before.
    pub(crate) fn finished(
        id: &StepId,
        kind: StepKind,
        transition: StepTransition,
        state: StepState,
        attempts: u32,
        started_at: Timestamp,
    ) -> Change {
        Change::Step { id: id.clone(), kind, transition, state, attempts, started_at, child: None }
    }
}

/// See [`Activation::gate`]. Answers whether the effect is among the first after a replay.
pub(crate) struct Gate<'a> {
    activation: &'a Activation,
    need: u64,
    heeds_stops: bool,
    counted: bool,
    place: u64,
}

impl Future for Gate<'_> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let activation = self.activation;
        let mut desk = activation.desk();
        let blocked = desk.replaying
            || desk.is_held
            || desk.leaving
            || desk.durable < self.need
            || desk.violation.is_some();
        let stopped = self.heeds_stops && desk.is_stopped();
        if !blocked && !stopped && activation.engine.may_start_effects(&activation.active()) {
            if self.counted {
                self.uncount(&mut desk);
                return Poll::Ready(desk.first_wave);
            }
            // Not in the turn in which it is asked for: see `WaitFor`.
            cx.waker().wake_by_ref();
        }
        if !self.counted {
            desk.gated += 1;
            desk.gated_through += usize::from(!self.heeds_stops);
            self.counted = true;
        }
        desk.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl Gate<'_> {
    fn uncount(&mut self, desk: &mut Desk) {
        desk.gated -= 1;
        desk.gated_through -= usize::from(!self.heeds_stops);
        self.counted = false;
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.counted {
            let activation = self.activation;
            self.uncount(&mut activation.desk());
        }
    }
}

/// See [`Activation::its_turn`].
pub(crate) struct ItsTurn<'a> {
    activation: &'a Activation,
    id: &'a StepId,
    place: u64,
}

impl Future for ItsTurn<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut desk = self.activation.desk();
        let is_its_own = desk.turn_of.as_ref() == Some(self.id);
        if is_its_own {
            desk.turn_of = None;
        }
        if is_its_own || (!desk.replaying && desk.turn_of.is_none()) {
            return Poll::Ready(());
        }
        match desk.replaying {
            true => drop(desk.asked_for.insert(self.id.clone(), cx.waker().clone())),
            false => desk.await_change(&mut self.place, cx),
        }
        Poll::Pending
    }
}

/// The steps that came to an outcome the code was told of, first to last.
fn in_order_of_outcome(steps: &[StepRecord]) -> VecDeque<StepId> {
    let is_told = |step: &&StepRecord| match step.kind {
        // Known in the very turn in which the code asks.
        StepKind::Value | StepKind::Select | StepKind::AfterEffect => false,
        _ => step.state.status().is_final() && step.state.status() != StepStatus::Cancelled,
    };
    let mut told: Vec<&StepRecord> = steps.iter().filter(is_told).collect();
    told.sort_by_key(|step| step.changed_version);
    told.into_iter().map(|step| step.id.clone()).collect()
}

/// See [`Activation::begin_effect`].
pub(crate) struct InFlight<'a> {
    activation: &'a Activation,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.activation.desk().in_flight -= 1;
    }
}

/// See [`Activation::hold_doubt`].
pub(crate) struct DoubtHeld<'a>(&'a Activation);

impl Drop for DoubtHeld<'_> {
    fn drop(&mut self) {
        self.0.desk().doubts_held -= 1;
    }
}

/// What a step waits by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    until: Option<Timestamp>,
    heeds_stops: bool,
}

/// See [`Activation::wait_for`].
pub(crate) struct WaitFor<'a, C> {
    activation: &'a Activation,
    id: StepId,
    wait: Wait,
    check: C,
    place: u64,
}

impl<R, C> Future for WaitFor<'_, C>
where
    C: FnMut(&mut Desk, Timestamp) -> Option<R> + Unpin,
{
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let activation = self.activation;
        let now = activation.now();
        let mut desk = activation.desk();
        // A stopped run takes no further turn: what it waits for may be there, but it must not act on it. Nor does one
        // that replays, until every branch of it has asked for what it has on record.
        let stopped = self.wait.heeds_stops && desk.is_stopped();
        let held = stopped || desk.replaying || desk.is_others_turn(&self.id);
        // Not in the turn in which it is asked for, even if it is there already: a replay could not tell that from what
        // came in the next turn, after other branches had theirs.
        let is_first_look = self.place == 0;
        if is_first_look {
            cx.waker().wake_by_ref();
        }
        if !held
            && !is_first_look
            && let Some(found) = (self.check)(&mut desk, now)
        {
            desk.waits.remove(&self.id);
            return Poll::Ready(found);
        }
        desk.waits.insert(self.id.clone(), self.wait);
        desk.await_change(&mut self.place, cx);
        Poll::Pending
    }
}

impl<C> Drop for WaitFor<'_, C> {
    fn drop(&mut self) {
        self.activation.desk().waits.remove(&self.id);
    }
}
