//! State shared by all parts of one engine: store, clock, active runs and resident runs.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tracing::Instrument;

use super::EngineOptions;
use super::announcer::Announcer;
use super::background::BackgroundLoops;
use super::child_rate_limit::ChildRateLimiter;
use super::crash_point::CrashPoint;
use super::drive::Driver;
use super::entities::{ActiveOperations, EntityRegistry};
use super::registry::Registry;
use super::run_slot::{Arrival, RunMessage, RunSlot, RunSlots};
use super::stats::Counters;
use super::supervisor::{DriveSource, supervise};
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

/// Lifecycle phase of the engine.
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
    /// Source of the subscribers to run events.
    pub(crate) announcer: OnceLock<Arc<dyn Announcer>>,
    pub(crate) slots: RunSlots,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
    pub(crate) targets: Targets,
    /// Entity workflows, actions and janitors.
    pub(crate) entities: EntityRegistry,
    /// Operations whose actions run in this process.
    pub(crate) active_operations: ActiveOperations,
    /// Notified when an operation finishes in this process.
    pub(crate) operation_finished: Notify,
    /// Notified when a promise is settled in this process.
    pub(crate) promise_settled: Notify,
    /// Wakes the outbox: a message may be due, or a target has room for one.
    pub(crate) outbox_ready: Notify,
    resident: Mutex<BTreeMap<RunId, Driver>>,
    /// Wakes the scheduler: a run may be due.
    pub(crate) scheduler_wakeup: Notify,
    /// Earliest timer known here, in milliseconds since the epoch.
    pub(crate) next_look_ms: AtomicI64,
    phase: AtomicU8,
    /// End of the last maintenance pass that left nothing to delete, in milliseconds since the epoch.
    retention_current_ms: AtomicI64,
    /// Rate limit for child runs, per workspace.
    pub(crate) child_rate: ChildRateLimiter,
    /// Wakes the sweeper: a family was cancelled here.
    pub(crate) family_cancelled: Notify,
    /// Loops that run as long as the engine.
    pub(crate) loops: BackgroundLoops,
    /// Notified when the phase or the set of active runs changes.
    pub(crate) changed: Notify,
}

impl Inner {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: EngineOptions) -> Self {
        let kept_up_ms = store.now().as_millis();
        let loops = BackgroundLoops::new(clock.clone());
        Inner {
            store,
            clock,
            owner: OwnerId::fresh(),
            options,
            registry: Registry::default(),
            announcer: OnceLock::new(),
            slots: RunSlots::default(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            targets: Targets::default(),
            entities: EntityRegistry::default(),
            active_operations: ActiveOperations::default(),
            operation_finished: Notify::new(),
            promise_settled: Notify::new(),
            outbox_ready: Notify::new(),
            resident: Mutex::default(),
            scheduler_wakeup: Notify::new(),
            next_look_ms: AtomicI64::new(i64::MAX),
            phase: AtomicU8::new(Phase::Running as u8),
            retention_current_ms: AtomicI64::new(kept_up_ms),
            child_rate: ChildRateLimiter::default(),
            family_cancelled: Notify::new(),
            loops,
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
        self.scheduler_wakeup.notify_one();
    }

    /// Time since retention last deleted everything that had expired.
    pub(crate) fn retention_lag(&self) -> Duration {
        let kept_up = Timestamp::from_millis(self.retention_current_ms.load(Ordering::Relaxed));
        self.store.now().since(kept_up)
    }

    pub(crate) fn set_retention_current(&self, at: Timestamp) {
        self.retention_current_ms.store(at.as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn kill(&self) {
        self.set_phase(Phase::Killed);
        let resident = std::mem::take(&mut *self.resident.lock().expect("no holder panics"));
        drop(resident);
        self.active_operations.lose_all();
        self.slots.all().iter().for_each(|slot| slot.send(RunMessage::LeaseLost));
    }

    /// Subscribers to run events of a workspace.
    pub(crate) fn subscribers(&self, workspace: &WorkspaceId) -> Subscribers {
        self.announcer.get().map_or_else(Subscribers::default, |announcer| announcer.subscribers(workspace))
    }

    /// Returns whether only the engine may send to this target.
    pub(crate) fn is_reserved(&self, target: &Name) -> bool {
        self.announcer.get().is_some_and(|announcer| announcer.is_reserved(target))
    }

    pub(crate) fn reached(&self, point: impl FnOnce() -> CrashPoint) {
        if let Some(watcher) = &self.options.watcher {
            watcher.reached(&point());
        }
    }

    /// Number of further runs that may be executed.
    pub(crate) fn room(&self) -> usize {
        match self.phase() {
            Phase::Running => self.options.max_active.saturating_sub(self.slots.len()),
            Phase::Draining | Phase::Killed => 0,
        }
    }

    /// Offers to execute a run at once, if there is room.
    pub(crate) fn offer(&self) -> Option<Grant> {
        (self.room() > 0).then(|| self.grant())
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { owner: self.owner, lease_for: self.options.lease_for, serves: self.registry.serves() }
    }

    /// Deadline, by the monotonic clock, of a lease that was requested at `since`.
    pub(crate) fn lease_deadline(&self, since: Duration) -> Duration {
        since + self.options.lease_for - self.options.lease_for / 10
    }

    /// Returns whether effects may still begin under this lease.
    pub(crate) fn may_start_effects(&self, slot: &RunSlot) -> bool {
        slot.hold.stands() && self.phase() != Phase::Killed
    }

    /// Waits until the store's clock shows `at`, whatever the local clock shows.
    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        let wait = at.since(self.store.now());
        // Longer sleeps are split, because the store's clock may be changed in between.
        self.clock.sleep(wait.min(MAX_CLOCK_SLEEP))
    }

    /// Calls the store with a time limit. A reply that never comes counts as lost.
    pub(crate) async fn call_store<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        self.call_store_within(MAX_STORE_WAIT, call).await
    }

    pub(crate) async fn call_store_within<T>(
        &self,
        patience: Duration,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let reply = answer_within(&*self.clock, patience, call).await;
        reply.unwrap_or_else(|| {
            Err(StoreError::Unknown(format!("the store has not answered for {patience:?}")))
        })
    }

    /// Executes a run that this engine created and was granted. The confirmation may be late, and the run may
    /// have progressed since. Only a run at its first version has no records.
    pub(crate) fn drive_new(self: &Arc<Self>, head: RunHead, input: Payload, since: Duration) {
        let source = match head.version == Version::new(1) {
            true => DriveSource::Fresh(input),
            false => DriveSource::Log,
        };
        self.spawn_driver(head, source, since);
    }

    /// Deadline, by the monotonic clock, of the lease in the store, minus a margin.
    fn granted_deadline(&self, head: &RunHead) -> Duration {
        let left = head.state.lease().map_or(Duration::ZERO, |lease| lease.until.since(self.store.now()));
        self.clock.monotonic() + left.saturating_sub(self.options.lease_for / 10)
    }

    /// Executes a run whose lease was granted to this engine.
    pub(crate) fn drive_on(self: &Arc<Self>, head: RunHead, arrival: Option<Arrival>, since: Duration) {
        let resident = self.resident.lock().expect("no holder panics").remove(&head.id());
        let fits = |driver: &Driver| driver.activation.replay().head.version.next() == head.version;
        let source = match resident.filter(fits) {
            Some(driver) => DriveSource::Resident(Box::new(driver), arrival),
            None => DriveSource::Log,
        };
        self.spawn_driver(head, source, since);
    }

    /// Delivers an arrival to a run: starts its driver if the run was granted, or sends a message if it is
    /// active here.
    pub(crate) fn deliver_arrival(
        self: &Arc<Self>,
        run: RunId,
        granted: Option<RunHead>,
        arrival: Arrival,
        since: Duration,
    ) {
        match granted {
            Some(head) => self.drive_on(head, Some(arrival), since),
            None => match self.slots.find(run) {
                Some(slot) => slot.send(RunMessage::Arrived(arrival)),
                None => self.scheduler_wakeup.notify_one(),
            },
        }
    }

    fn spawn_driver(self: &Arc<Self>, head: RunHead, source: DriveSource, since: Duration) {
        let hold =
            Hold::until(self.clock.clone(), self.lease_deadline(since).min(self.granted_deadline(&head)));
        if !hold.stands() {
            // A repeated start finds the lease of its first try, which may have expired. The next engine to
            // claim the run executes it.
            self.scheduler_wakeup.notify_one();
            return;
        }
        let slot = Arc::new(RunSlot::new(head.facts.workspace.clone(), head.id(), head.fence, hold));
        if self.slots.insert(slot.clone()) {
            // The span covers one activation. It is detached from the request that started it, which may end
            // much earlier.
            let facts = &head.facts;
            let span = tracing::debug_span!(
                parent: None, "drive", run = %facts.id, workflow = %facts.workflow, workspace = %facts.workspace, fence = %head.fence
            );
            tokio::spawn(supervise(self.clone(), slot, head, source).instrument(span));
        }
    }

    /// Wakes the scheduler because runs became due.
    pub(crate) fn wake_scheduler_for(&self, runs: &[RunId]) {
        if !runs.is_empty() {
            self.scheduler_wakeup.notify_one();
        }
    }

    /// Makes the scheduler look for due runs at `at` at the latest.
    pub(crate) fn wake_scheduler_by(&self, at: Timestamp) {
        if self.next_look_ms.fetch_min(at.as_millis(), Ordering::AcqRel) > at.as_millis() {
            self.scheduler_wakeup.notify_one();
        }
    }

    /// Notifies everything in this process that waits for the end of the run.
    pub(crate) fn notify_run_ended(&self, head: &RunHead, result: &crate::model::RunResult) {
        Counters::add(&self.counters.closed);
        self.waiters.notify(head.id(), result);
        if let Some(parent) = &head.facts.parent
            && let Some(slot) = self.slots.find(parent.run)
        {
            let arrival = Arrival::ChildEnded(head.id(), parent.step.clone(), result.clone());
            slot.send(RunMessage::Arrived(arrival));
        }
    }

    /// Keeps a parked run in memory and evicts the oldest one if there are too many.
    pub(crate) fn keep_resident(&self, driver: Driver) {
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
        // Dropping a driver drops user values, which must not happen under the lock.
        drop(resident);
        drop((evicted, replaced));
    }

    pub(crate) async fn load(&self, slot: &RunSlot) -> StoreResult<Option<RunLog>> {
        let mut wait = Duration::from_millis(5);
        loop {
            match self.call_store(self.store.find_log(&slot.workspace, slot.run)).await {
                Err(error) if error.is_retryable() && self.clock.monotonic() + wait < slot.deadline() => {
                    self.clock.sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                answer => return answer,
            }
        }
    }
}
