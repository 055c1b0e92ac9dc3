//! The engine: one process's share in driving runs, and the operations on them.

use std::collections::BTreeMap;
use std::future::Future;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::active::{Active, ActiveRuns, Mail, News};
use super::desk::Activation;
use super::drive::{Driver, End};
use super::point::Point;
use super::registry::{Registry, Workflow, WorkflowOptions};
use super::stats::Counters;
use super::waiters::Waiters;
use super::{EngineOptions, Error, RunHandle, Start, Stats};
use crate::clock::{Clock, Sleep};
use crate::ctx::Ctx;
use crate::model::{
    Failure, Grant, Name, OwnerId, Payload, PromiseId, Refusal, RunEvent, RunHead, RunId, Settlement, Signal,
    SignalId, Steer, StepId, Timestamp, Version, WorkspaceId,
};
use crate::store::{
    ListRuns, RunLog, RunPage, RunView, SendSignal, SettleOutcome, SettlePromise, SignalOutcome,
    SteerOutcome, SteerRun, Store, StoreResult,
};

/// Drives runs and answers about them. Cheap to clone; the last clone to go stops the engine as a crash would:
/// nothing is lost, and whoever opens the store next goes on.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    pub(crate) workspace: WorkspaceId,
    _alive: Arc<Alive>,
}

struct Alive(Arc<Inner>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.kill();
    }
}

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
    pub(crate) active: ActiveRuns,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
    resident: Mutex<BTreeMap<RunId, Driver>>,
    /// Wakes the scheduler: something may be due.
    pub(crate) nudge: Notify,
    /// The earliest timer known here, in milliseconds since the epoch.
    pub(crate) next_look_ms: AtomicI64,
    phase: AtomicU8,
    /// Tells loops and shutdown that the phase or the set of active runs has changed.
    pub(crate) changed: Notify,
}

/// What a granted run is driven from.
enum Source {
    Fresh(Payload),
    Resident(Driver, Option<News>),
    Log,
}

impl Engine {
    /// Launches an engine on `store`. It takes up runs that wait as soon as their workflows are registered.
    pub fn launch(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let inner = Arc::new(Inner {
            store,
            clock,
            owner: OwnerId::fresh(),
            options,
            registry: Registry::default(),
            active: ActiveRuns::default(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            resident: Mutex::default(),
            nudge: Notify::new(),
            next_look_ms: AtomicI64::new(i64::MAX),
            phase: AtomicU8::new(Phase::Running as u8),
            changed: Notify::new(),
        });
        tokio::spawn(super::scheduler::schedule(inner.clone()));
        tokio::spawn(super::renewal::renew(inner.clone()));
        tokio::spawn(super::housekeeping::purge(inner.clone()));
        let alive = Arc::new(Alive(inner.clone()));
        Ok(Engine { inner, workspace: WorkspaceId::default(), _alive: alive })
    }

    /// The same engine, speaking for another workspace.
    #[must_use]
    pub fn workspace(&self, workspace: WorkspaceId) -> Engine {
        Engine { workspace, ..self.clone() }
    }

    /// Registers a workflow: an async function of a context and an input. Its waiting runs are taken up at once.
    pub fn register<F, Fut, I, O, E>(&self, name: &str, function: F) -> Result<(), Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.register_with(name, WorkflowOptions::default(), function)
    }

    /// Registers a workflow with a version, a need for keys, or a retention of its own.
    pub fn register_with<F, Fut, I, O, E>(
        &self,
        name: &str,
        options: WorkflowOptions,
        function: F,
    ) -> Result<(), Error>
    where
        F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Failure> + Send + 'static,
    {
        self.inner.registry.register(name, options, function)?;
        self.inner.nudge.notify_one();
        Ok(())
    }

    /// Starts a run of the newest version of `workflow`; await what it returns.
    pub fn start<I: Serialize + ?Sized>(&self, workflow: &str, input: &I) -> Start {
        Start::new(self.clone(), workflow, Payload::of(input))
    }

    /// A handle on a run that exists.
    pub async fn run(&self, run: RunId) -> Result<RunHandle, Error> {
        self.get(run).await?;
        Ok(RunHandle::new(self.clone(), run, false))
    }

    /// A run as it stands.
    pub async fn get(&self, run: RunId) -> Result<RunView, Error> {
        self.inner.store.find_run(&self.workspace, run).await?.ok_or(Error::NoSuchRun(run))
    }

    /// A run with its steps, promises and unread signals.
    pub async fn get_log(&self, run: RunId) -> Result<RunLog, Error> {
        self.inner.store.find_log(&self.workspace, run).await?.ok_or(Error::NoSuchRun(run))
    }

    /// The history of a run after a version, oldest first, one bounded page.
    pub async fn list_events(&self, run: RunId, after: Version) -> Result<Vec<RunEvent>, Error> {
        self.get(run).await?;
        Ok(self.inner.store.list_events(&self.workspace, run, after).await?)
    }

    /// Runs of this workspace, newest first; the workspace in the request is replaced by this one.
    pub async fn list(&self, request: ListRuns) -> Result<RunPage, Error> {
        let request = ListRuns { workspace: Some(self.workspace.clone()), ..request };
        Ok(self.inner.store.list_runs(request).await?)
    }

    /// Sends a signal to a run. It is kept until the run asks for it. With an id, sending it again is not a second
    /// signal: the answer is false.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        run: RunId,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        let name = Name::new("signal name", name)?;
        let payload = Payload::of(payload)?;
        let id = id.map(SignalId::new).transpose()?;
        let since = self.inner.clock.monotonic();
        let request = SendSignal {
            workspace: self.workspace.clone(),
            run,
            name: name.clone(),
            payload: payload.clone(),
            id: id.clone(),
            grant: self.inner.offer(),
        };
        match self.inner.store.send_signal(request).await? {
            SignalOutcome::Stored { seq, granted } => {
                let at = self.inner.store.now();
                let news = News::Signal(Signal { seq, name, id, payload, at, consumed: false });
                self.inner.deliver(run, granted, news, since);
                Ok(true)
            }
            SignalOutcome::Duplicate => Ok(false),
            SignalOutcome::Ended(status) => Err(Error::RunEnded { run, status }),
            SignalOutcome::TooMany => Err(Error::TooManySignals(run)),
            SignalOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Resolves a promise. The first settlement wins; settling with the same value again is fine.
    pub async fn resolve_promise<T: Serialize + ?Sized>(
        &self,
        id: &str,
        value: &T,
    ) -> Result<Settling, Error> {
        self.settle(id, Settlement::Resolved(Payload::of(value)?)).await
    }

    /// Rejects a promise: the run that waits for it sees this failure.
    pub async fn reject_promise(&self, id: &str, failure: Failure) -> Result<Settling, Error> {
        self.settle(id, Settlement::Rejected(failure)).await
    }

    async fn settle(&self, id: &str, settlement: Settlement) -> Result<Settling, Error> {
        let id = PromiseId::from_stored(id);
        let since = self.inner.clock.monotonic();
        let request = SettlePromise {
            workspace: self.workspace.clone(),
            id: id.clone(),
            settlement: settlement.clone(),
            grant: self.inner.offer(),
        };
        match self.inner.store.settle_promise(request).await? {
            SettleOutcome::Settled { granted } => {
                let run = granted.as_ref().map(RunHead::id).or_else(|| run_of_promise(&id));
                if let Some(run) = run {
                    self.inner.deliver(run, granted, News::Settled(id, settlement), since);
                }
                Ok(Settling::Done)
            }
            SettleOutcome::AlreadySettled { same: true, .. } => Ok(Settling::AlreadySo),
            SettleOutcome::AlreadySettled { same: false, .. } => {
                Counters::add(&self.inner.counters.conflicts);
                Err(Error::AlreadySettled)
            }
            SettleOutcome::TimedOut => Err(Error::PromiseTimedOut),
            SettleOutcome::NoSuchPromise => {
                Err(Error::NoSuchPromise(id.as_str().chars().take(200).collect()))
            }
        }
    }

    /// Asks a run to stop at the next boundary.
    pub async fn pause(&self, run: RunId) -> Result<RunHead, Error> {
        self.steer(run, Steer::Pause, None).await
    }

    /// Lets a paused run go on. A run that is not paused is left as it is: the answer is where it stands.
    pub async fn resume(&self, run: RunId) -> Result<RunHead, Error> {
        match self.try_steer(run, Steer::Resume, None).await? {
            Ok(head) | Err((Refusal::NotPaused(_) | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Asks a run to undo what it can and end. Cancelling a run that has ended, or was asked before, changes nothing.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<RunHead, Error> {
        match self.try_steer(run, Steer::Cancel { reason: reason.into() }, None).await? {
            Ok(head) | Err((Refusal::AlreadyAsked | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Reopens a failed run: what failed last runs again, and with `from` also that step and all that began after it.
    pub async fn retry(&self, run: RunId, from: Option<&str>) -> Result<RunHead, Error> {
        self.steer(run, Steer::Retry { from: from.map(StepId::from_stored) }, None).await
    }

    /// Carries out a command if the run still has the `expected` version.
    pub async fn steer(
        &self,
        run: RunId,
        command: Steer,
        expected: Option<Version>,
    ) -> Result<RunHead, Error> {
        match self.try_steer(run, command, expected).await? {
            Ok(head) => Ok(head),
            Err((Refusal::Stale(version), _)) => Err(Error::Concurrency { run, version }),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    async fn try_steer(
        &self,
        run: RunId,
        command: Steer,
        expected: Option<Version>,
    ) -> Result<Result<RunHead, (Refusal, RunHead)>, Error> {
        let request = SteerRun { workspace: self.workspace.clone(), run, command, expected };
        match self.inner.store.steer_run(request).await? {
            SteerOutcome::Steered(head) => {
                if let Some(active) = self.inner.active.find(run) {
                    active.post(Mail::Steered(Box::new(head.clone())));
                }
                // The command is carried out; that its result cannot be read now must not sound as if it were not.
                if head.status().is_closed()
                    && let Ok(Some(view)) = self.inner.store.find_run(&self.workspace, run).await
                    && let Some(result) = view.result
                {
                    self.inner.ended(&head, &result);
                }
                self.inner.nudge.notify_one();
                Ok(Ok(head))
            }
            SteerOutcome::Refused(refusal, head) => Ok(Err((refusal, head))),
            SteerOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Takes up due runs now, without waiting for the next look; answers how many.
    pub async fn sweep(&self) -> Result<usize, Error> {
        Ok(super::scheduler::claim_due(&self.inner).await?.0)
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.inner.counters.read()
    }

    /// How many runs are being driven here now.
    pub fn active_runs(&self) -> usize {
        self.inner.active.len()
    }

    /// The store the engine works on.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.store.clone()
    }

    /// Stops in good order: takes nothing new, lets effects in flight end for up to `grace`, writes what they did,
    /// gives the leases back, and closes the store.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Error> {
        let inner = &self.inner;
        inner.set_phase(Phase::Draining);
        let end = inner.clock.now().plus(grace);
        let mut out_of_time = inner.clock.sleep_until(end);
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Posted again each time, because a run may have been granted to us while we were closing the door.
            inner.active.all().iter().for_each(|active| active.post(Mail::Release));
            if inner.active.len() == 0 {
                break;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = &mut out_of_time => break,
            }
        }
        inner.kill();
        Ok(inner.store.close().await?)
    }

    /// Stops at once, as a crash would: nothing more is written or started. For tests.
    pub fn kill(&self) {
        self.inner.kill();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("owner", &self.inner.owner)
            .field("workspace", &self.workspace)
            .finish()
    }
}

/// What a settlement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// The promise is settled by this.
    Done,
    /// It was settled with the same value before.
    AlreadySo,
}

/// The run that waits for a promise is named in its id.
fn run_of_promise(id: &PromiseId) -> Option<RunId> {
    let run = id.as_str().split([':', '.']).next()?;
    run.parse().ok()
}

impl Inner {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Killed,
        }
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
        self.nudge.notify_one();
    }

    fn kill(&self) {
        self.set_phase(Phase::Killed);
        self.resident.lock().expect("no holder panics").clear();
        self.active.all().iter().for_each(|active| active.post(Mail::LeaseLost));
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

    /// Until when, by the monotonic clock, a lease asked for at `since` may be relied on.
    pub(crate) fn lease_deadline(&self, since: Duration) -> Duration {
        since + self.options.lease_for - self.options.lease_for / 10
    }

    /// May effects still be begun under this lease?
    pub(crate) fn may_start_effects(&self, active: &Active) -> bool {
        self.clock.monotonic() < active.deadline() && self.phase() != Phase::Killed
    }

    /// Waits until the store's clock shows `at`, whatever ours shows.
    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        let wait = at.since(self.store.now());
        self.clock.sleep_until(self.clock.now().plus(wait))
    }

    /// Drives a run that was just created and granted to us.
    pub(crate) fn drive_new(self: &Arc<Self>, head: RunHead, input: Payload, since: Duration) {
        self.adopt(head, Source::Fresh(input), since);
    }

    /// Drives a run whose lease was granted to us.
    pub(crate) fn drive_on(self: &Arc<Self>, head: RunHead, news: Option<News>, since: Duration) {
        let resident = self.resident.lock().expect("no holder panics").remove(&head.id());
        let fits = |driver: &Driver| driver.activation.desk().head.version.next() == head.version;
        let source = match resident.filter(fits) {
            Some(driver) => Source::Resident(driver, news),
            None => Source::Log,
        };
        self.adopt(head, source, since);
    }

    /// Brings an arrival to the run: by driving it if it was granted, or by its mailbox if it is driven here.
    pub(crate) fn deliver(
        self: &Arc<Self>,
        run: RunId,
        granted: Option<RunHead>,
        news: News,
        since: Duration,
    ) {
        match granted {
            Some(head) => self.drive_on(head, Some(news), since),
            None => match self.active.find(run) {
                Some(active) => active.post(Mail::Arrived(news)),
                None => self.nudge.notify_one(),
            },
        }
    }

    fn adopt(self: &Arc<Self>, head: RunHead, source: Source, since: Duration) {
        let deadline = self.lease_deadline(since);
        let active = Arc::new(Active::new(head.facts.workspace.clone(), head.id(), head.fence, deadline));
        self.active.insert(active.clone());
        tokio::spawn(drive_to_its_end(self.clone(), active, head, source));
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
            let news = News::ChildEnded(head.id(), parent.step.clone(), result.clone());
            active.post(Mail::Arrived(news));
        }
    }

    /// Keeps a parked run in memory, in place of the oldest if there are too many.
    fn keep(&self, driver: Driver) {
        let mut resident = self.resident.lock().expect("no holder panics");
        if self.options.max_resident == 0 || self.phase() != Phase::Running {
            return;
        }
        if resident.len() >= self.options.max_resident {
            resident.pop_first();
        }
        resident.insert(driver.activation.facts.id, driver);
    }

    async fn load(&self, active: &Active) -> StoreResult<Option<RunLog>> {
        let mut wait = Duration::from_millis(5);
        loop {
            match self.store.find_log(&active.workspace, active.run).await {
                Err(error) if error.is_retryable() && self.clock.monotonic() + wait < active.deadline() => {
                    self.clock.sleep_until(self.clock.now().plus(wait)).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                answer => return answer,
            }
        }
    }
}

/// Drives until the run is parked, ended, or no longer ours.
async fn drive_to_its_end(inner: Arc<Inner>, active: Arc<Active>, head: RunHead, source: Source) {
    let Some(workflow) = inner.registry.find(&head.facts.workflow) else {
        tracing::error!(run = %active.run, workflow = %head.facts.workflow, "granted a run whose workflow is not registered");
        inner.active.remove(&active);
        return;
    };
    let mut driver = match prepare(&inner, &active, head, source, &workflow).await {
        Some(driver) => driver,
        None => {
            inner.active.remove(&active);
            inner.changed.notify_waiters();
            return;
        }
    };
    loop {
        let end = poll_fn(|cx| driver.poll(cx)).await;
        match end {
            End::Parked(wake_at) => {
                inner.active.remove(&active);
                inner.keep(driver);
                inner.look_by(wake_at);
            }
            End::Closed(result) => {
                let head = driver.activation.desk().head.clone();
                drop(driver);
                inner.active.remove(&active);
                inner.ended(&head, &result);
            }
            End::LetGo => {
                inner.active.remove(&active);
                inner.nudge.notify_one();
            }
            End::Lost => inner.active.remove(&active),
            End::Reread => {
                let head = driver.activation.desk().head.clone();
                match prepare(&inner, &active, head, Source::Log, &workflow).await {
                    Some(again) => {
                        driver = again;
                        continue;
                    }
                    None => inner.active.remove(&active),
                }
            }
        }
        if inner.phase() != Phase::Running {
            inner.changed.notify_waiters();
        } else if inner.active.len() + 1 == inner.options.max_active {
            // There is room again for runs that wait.
            inner.nudge.notify_one();
        }
        return;
    }
}

async fn prepare(
    inner: &Arc<Inner>,
    active: &Arc<Active>,
    head: RunHead,
    source: Source,
    workflow: &Arc<Workflow>,
) -> Option<Driver> {
    match source {
        Source::Fresh(input) => {
            let activation = Activation::fresh(inner.clone(), active.clone(), head);
            Some(Driver::new(activation, workflow.clone(), input))
        }
        Source::Resident(driver, news) => {
            let arrivals = head.arrivals;
            driver.activation.regrant(active.clone(), head);
            let seen = driver.activation.desk().arrivals_seen;
            match news {
                Some(news) if arrivals == seen + 1 => driver.activation.desk().note_last(news, arrivals),
                None if arrivals == seen => {}
                _ => {
                    let log = loaded(inner, active).await?;
                    driver.activation.desk().refresh(log);
                }
            }
            Counters::add(&inner.counters.resumed_in_memory);
            driver.activation.wake_all();
            Some(driver)
        }
        Source::Log => {
            let mut log = loaded(inner, active).await?;
            if log.head.fence != head.fence {
                return None;
            }
            let input = log.input.clone();
            log.steps.sort_by_key(|step| step.started_version);
            Counters::add(&inner.counters.replays);
            let activation = Activation::replaying(inner.clone(), active.clone(), log);
            Some(Driver::new(activation, workflow.clone(), input))
        }
    }
}

async fn loaded(inner: &Inner, active: &Active) -> Option<RunLog> {
    match inner.load(active).await {
        Ok(Some(log)) => Some(log),
        Ok(None) => {
            tracing::error!(run = %active.run, "granted a run that the store does not have");
            None
        }
        Err(error) => {
            tracing::error!(run = %active.run, %error, "the run's log could not be read; it is left for another");
            None
        }
    }
}
