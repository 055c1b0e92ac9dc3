//! What all parts of one engine share: the store, the clock, the runs it drives, and those it keeps at hand.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::Instrument;

use super::EngineOptions;
use super::announcer::Announcer;
use super::child_pace::ChildPace;
use super::drive::Driver;
use super::entities::{EntityRegistry, HeldOperations};
use super::granted::{Source, supervise};
use super::point::Point;
use super::registry::Registry;
use super::run_slot::{NewArrival, RunMessage, RunSlot, RunSlots};
use super::stats::Counters;
use super::targets::Targets;
use super::waiters::Waiters;
use crate::clock::{Clock, Sleep};
use crate::hold::Hold;
use crate::limits::{MAX_CLOCK_SLEEP, MAX_STORE_WAIT};
use crate::model::{
    Grant, Name, OwnerId, Payload, RunHead, RunId, Subscribers, Timestamp, Version, WorkspaceId,
};
use crate::store::{RunLog, Store, StoreError, StoreResult};
use crate::timeout::answer_within;

/// How far the engine is on its way to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Draining,
    Killed,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: OwnerId,
    pub(crate) options: EngineOptions,
    pub(crate) registry: Registry,
    /// Who is told what becomes of runs.
    pub(crate) announcer: OnceLock<Arc<dyn Announcer>>,
    pub(crate) active: RunSlots,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
    pub(crate) targets: Targets,
    /// Entity workflows, actions and janitors.
    pub(crate) entities: EntityRegistry,
    /// Operations whose actions run here.
    pub(crate) held: HeldOperations,
    /// Tells those who wait for an operation that one was finished here.
    pub(crate) operated: Notify,
    /// Tells those who wait for a promise that one was settled here.
    pub(crate) settled: Notify,
    /// Wakes the deliverer: an after-effect may be due, or there is room for one.
    pub(crate) posted: Notify,
    resident: Mutex<BTreeMap<RunId, Driver>>,
    /// Wakes the scheduler: something may be due.
    pub(crate) nudge: Notify,
    /// The earliest timer known here, in milliseconds since the epoch.
    pub(crate) next_look_ms: AtomicI64,
    phase: AtomicU8,
    /// When the last pass of housekeeping ended that left nothing to delete, in milliseconds since the epoch.
    retention_kept_up_ms: AtomicI64,
    /// When children of each workspace may begin.
    pub(crate) child_pace: ChildPace,
    /// Wakes the sweeper: a family was cancelled here.
    pub(crate) swept: Notify,
    /// Tells loops and shutdown that the phase or the set of active runs has changed.
    pub(crate) changed: Notify,
}

impl Inner {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: EngineOptions) -> Self {
        let kept_up_ms = store.now().as_millis();
        Inner {
            store,
            clock,
            owner: OwnerId::fresh(),
            options,
            registry: Registry::default(),
            announcer: OnceLock::new(),
            active: RunSlots::default(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            targets: Targets::default(),
            entities: EntityRegistry::default(),
            held: HeldOperations::default(),
            operated: Notify::new(),
            settled: Notify::new(),
            posted: Notify::new(),
            resident: Mutex::default(),
            nudge: Notify::new(),
            next_look_ms: AtomicI64::new(i64::MAX),
            phase: AtomicU8::new(Phase::Running as u8),
            retention_kept_up_ms: AtomicI64::new(kept_up_ms),
            child_pace: ChildPace::default(),
            swept: Notify::new(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Killed,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
        self.nudge.notify_one();
    }

    /// How long ago everything was deleted whose retention had ended.
    pub(crate) fn retention_behind(&self) -> Duration {
        let kept_up = Timestamp::from_millis(self.retention_kept_up_ms.load(Ordering::Relaxed));
        self.store.now().since(kept_up)
    }

    pub(crate) fn set_retention_kept_up(&self, at: Timestamp) {
        self.retention_kept_up_ms.store(at.as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn kill(&self) {
        self.set_phase(Phase::Killed);
        let resident = std::mem::take(&mut *self.resident.lock().expect("no holder panics"));
        drop(resident);
        self.held.give_up_all();
        self.active.all().iter().for_each(|active| active.post(RunMessage::LeaseLost));
    }

    /// Who is told what becomes of the runs of a workspace.
    pub(crate) fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers {
        self.announcer.get().map_or_else(Subscribers::default, |announcer| announcer.subscribers(workspace))
    }

    /// Is this a target of announcements alone?
    pub(crate) fn is_reserved(&self, target: &Name) -> bool {
        self.announcer.get().is_some_and(|announcer| announcer.is_reserved(target))
    }

    pub(crate) fn reached(&self, point: impl FnOnce() -> Point) {
        if let Some(watcher) = &self.options.watcher {
            watcher.reached(&point());
        }
    }

    /// How many more runs may be driven.
    pub(crate) fn room(&self) -> usize {
        match self.phase() {
            Phase::Running => self.options.max_active.saturating_sub(self.active.len()),
            Phase::Draining | Phase::Killed => 0,
        }
    }

    /// The offer to drive a run at once, if there is room.
    pub(crate) fn offer(&self) -> Option<Grant> {
        (self.room() > 0).then(|| self.grant())
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { owner: self.owner, lease_for: self.options.lease_for, serves: self.registry.serves() }
    }

    /// Deadline, by the monotonic clock, of a lease that was asked for at `since`.
    pub(crate) fn lease_deadline(&self, since: Duration) -> Duration {
        since + self.options.lease_for - self.options.lease_for / 10
    }

    /// May effects still be begun under this lease?
    pub(crate) fn may_start_effects(&self, active: &RunSlot) -> bool {
        active.hold.stands() && self.phase() != Phase::Killed
    }

    /// Waits until the store's clock shows `at`, whatever ours shows.
    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        let wait = at.since(self.store.now());
        // Those who wait for longer look again: the store's clock may be set meanwhile.
        self.clock.sleep(wait.min(MAX_CLOCK_SLEEP))
    }

    /// Awaits an answer of the store, but not for ever: one that never comes is like one that was lost.
    pub(crate) async fn answer<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        self.answer_within(MAX_STORE_WAIT, call).await
    }

    pub(crate) async fn answer_within<T>(
        &self,
        patience: Duration,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let answer = answer_within(&*self.clock, patience, call).await;
        answer.unwrap_or_else(|| {
            Err(StoreError::Unknown(format!("the store has not answered for {patience:?}")))
        })
    }

    /// Drives a run that we created and that is granted to us. It may be older than its confirmation, and may have been
    /// driven since: only one to which nothing has happened yet has no records.
    pub(crate) fn drive_new(self: &Arc<Self>, head: RunHead, input: Payload, since: Duration) {
        let source = match head.version == Version::new(1) {
            true => Source::Fresh(input),
            false => Source::Log,
        };
        self.adopt(head, source, since);
    }

    /// Until when, by the monotonic clock, the lease lasts that the store has on record, less a margin.
    fn granted_deadline(&self, head: &RunHead) -> Duration {
        let left = head.state.lease().map_or(Duration::ZERO, |lease| lease.until.since(self.store.now()));
        self.clock.monotonic() + left.saturating_sub(self.options.lease_for / 10)
    }

    /// Drives a run whose lease was granted to us.
    pub(crate) fn drive_on(self: &Arc<Self>, head: RunHead, news: Option<NewArrival>, since: Duration) {
        let resident = self.resident.lock().expect("no holder panics").remove(&head.id());
        let fits = |driver: &Driver| driver.activation.desk().head.version.next() == head.version;
        let source = match resident.filter(fits) {
            Some(driver) => Source::Resident(Box::new(driver), news),
            None => Source::Log,
        };
        self.adopt(head, source, since);
    }

    /// Brings an arrival to the run: by driving it if it was granted, or by its mailbox if it is driven here.
    pub(crate) fn deliver(
        self: &Arc<Self>,
        run: RunId,
        granted: Option<RunHead>,
        news: NewArrival,
        since: Duration,
    ) {
        match granted {
            Some(head) => self.drive_on(head, Some(news), since),
            None => match self.active.find(run) {
                Some(active) => active.post(RunMessage::Arrived(news)),
                None => self.nudge.notify_one(),
            },
        }
    }

    fn adopt(self: &Arc<Self>, head: RunHead, source: Source, since: Duration) {
        let hold =
            Hold::until(self.clock.clone(), self.lease_deadline(since).min(self.granted_deadline(&head)));
        if !hold.stands() {
            // A start that is sent again finds the lease of its first try, which may have ended. Whoever claims the run next drives it.
            self.nudge.notify_one();
            return;
        }
        let active = Arc::new(RunSlot::new(head.facts.workspace.clone(), head.id(), head.fence, hold));
        if self.active.insert(active.clone()) {
            // One stretch of driving; not part of the request that happened to start it, which may be long over when it ends.
            let facts = &head.facts;
            let span = tracing::debug_span!(
                parent: None, "drive", run = %facts.id, workflow = %facts.workflow, workspace = %facts.workspace, fence = %head.fence
            );
            tokio::spawn(supervise(self.clone(), active, head, source).instrument(span));
        }
    }

    /// Runs became due: look for them now.
    pub(crate) fn wake(&self, runs: &[RunId]) {
        if !runs.is_empty() {
            self.nudge.notify_one();
        }
    }

    /// Makes sure the scheduler looks by `at`.
    pub(crate) fn look_by(&self, at: Timestamp) {
        if self.next_look_ms.fetch_min(at.as_millis(), Ordering::AcqRel) > at.as_millis() {
            self.nudge.notify_one();
        }
    }

    /// A run has ended: tell those who wait for it.
    pub(crate) fn ended(&self, head: &RunHead, result: &crate::model::RunResult) {
        Counters::add(&self.counters.closed);
        self.waiters.tell(head.id(), result);
        if let Some(parent) = &head.facts.parent
            && let Some(active) = self.active.find(parent.run)
        {
            let news = NewArrival::ChildEnded(head.id(), parent.step.clone(), result.clone());
            active.post(RunMessage::Arrived(news));
        }
    }

    /// Keeps a parked run in memory, in place of the oldest if there are too many.
    pub(crate) fn keep(&self, driver: Driver) {
        let mut resident = self.resident.lock().expect("no holder panics");
        if self.options.max_resident == 0 || self.phase() != Phase::Running {
            drop(resident);
            return;
        }
        let evicted = match resident.len() >= self.options.max_resident {
            true => resident.pop_first(),
            false => None,
        };
        let replaced = resident.insert(driver.activation.facts.id, driver);
        // Dropping a driver drops what users gave to it, which must not happen under the lock.
        drop(resident);
        drop((evicted, replaced));
    }

    pub(crate) async fn load(&self, active: &RunSlot) -> StoreResult<Option<RunLog>> {
        let mut wait = Duration::from_millis(5);
        loop {
            match self.answer(self.store.find_log(&active.workspace, active.run)).await {
                Err(error) if error.is_retryable() && self.clock.monotonic() + wait < active.deadline() => {
                    self.clock.sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                answer => return answer,
            }
        }
    }
}
