//! The engine: runs workflows in this process and offers the operations on runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::approvals::RESERVED_SIGNAL_IDS;
use super::background::{BackgroundLoops, LoopReporter};
use super::inner::{Inner, Phase};
use super::registry::WorkflowOptions;
use super::run_slot::{Arrival, RunMessage};
use super::{EngineOptions, Error, RunHandle, Start, Stats};
use crate::clock::Clock;
use crate::ctx::Ctx;
use crate::model::{
    Actor, Failure, HumanText, Invalid, JournalEntry, JournalEvent, Name, OwnerId, Payload, Refusal,
    RepeatPermission, RetryPlan, RunCommand, RunEvent, RunHead, RunId, Signal, SignalId, StepId, Version,
    WorkflowRef, WorkspaceId, check_actor_and_reason, check_repeat_permission, plan_retry,
};
use crate::store::{
    CommandRun, ListJournal, ListRuns, RunCommandOutcome, RunLog, RunPage, RunView, SendSignal,
    SignalOutcome, Store, StoredJournalEntry,
};

/// Workflow engine: executes runs and offers operations on them.
///
/// An engine works on one [`Store`]. Any number of engines may share a store; leases decide which of them
/// executes a run. Clones are cheap. Dropping the last clone stops the engine like a crash: no data is lost,
/// and the next engine on the store continues its runs.
///
/// Most programs use `hapax::Hapax`, which opens a store and launches an engine on it.
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

/// A background loop over `inner`, in the form that can be started again.
fn with<Fut>(
    inner: &Arc<Inner>,
    run: fn(Arc<Inner>, LoopReporter) -> Fut,
) -> impl FnMut(LoopReporter) -> Fut + Send + use<Fut>
where
    Fut: Future<Output = ()> + Send + 'static,
{
    let inner = inner.clone();
    move |reporter| run(inner.clone(), reporter)
}

impl Engine {
    /// Launches an engine on `store`. It claims due runs as soon as their workflows are registered.
    pub fn launch(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let inner = Arc::new(Inner::new(store, clock, options));
        let loops = &inner.loops;
        loops.spawn("scheduler", with(&inner, super::scheduler::schedule));
        loops.spawn("lease renewal", with(&inner, super::renewal::renew));
        loops.spawn("retention", with(&inner, super::maintenance::purge));
        loops.spawn("cancelled families", with(&inner, super::families::sweep));
        loops.spawn("outbox", with(&inner, super::outbox::deliver));
        loops.spawn("heartbeats", with(&inner, super::entities::send_heartbeats));
        let alive = Arc::new(Alive(inner.clone()));
        Ok(Engine { inner, workspace: WorkspaceId::default(), _alive: alive })
    }

    /// Returns a function that restores the engine. A background task holds it instead of the engine, so that
    /// the task does not keep the engine alive.
    pub(super) fn detached(&self) -> impl Fn() -> Option<Engine> + Send + use<> {
        let (inner, alive) = (Arc::downgrade(&self.inner), Arc::downgrade(&self._alive));
        move || {
            let (inner, _alive) = (inner.upgrade()?, alive.upgrade()?);
            Some(Engine { inner, workspace: WorkspaceId::default(), _alive })
        }
    }

    /// Returns the same engine for another workspace.
    #[must_use]
    pub fn workspace(&self, workspace: WorkspaceId) -> Engine {
        Engine { workspace, ..self.clone() }
    }

    /// Registers a workflow: an async function of a [`Ctx`] and an input. Its due runs are claimed at once.
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

    /// Registers a workflow with options, such as a version, a required idempotency key or a key retention.
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
        self.inner.registry.register(None, name, options, function)?;
        self.inner.scheduler_wakeup.notify_one();
        Ok(())
    }

    /// Registers a workflow for this workspace only. It takes precedence over a shared workflow of the same
    /// name.
    pub fn register_for_workspace<F, Fut, I, O, E>(
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
        self.inner.registry.register(Some(&self.workspace), name, options, function)?;
        self.inner.scheduler_wakeup.notify_one();
        Ok(())
    }

    /// Archives a workflow of this workspace ([`register_for_workspace`](Engine::register_for_workspace)), or
    /// takes it out of the archive. An archived workflow starts no new runs; its open runs continue.
    pub fn set_archived(&self, workflow: &WorkflowRef, is_archived: bool) {
        self.inner.registry.set_archived(&self.workspace, workflow, is_archived);
    }

    /// Says whether this process drives runs of a workflow of this workspace
    /// ([`register_for_workspace`](Engine::register_for_workspace)), as it does at first. If not, new runs are accepted and
    /// wait for a process that drives them.
    pub fn set_served(&self, workflow: &WorkflowRef, is_served: bool) {
        self.inner.registry.set_served(&self.workspace, workflow, is_served);
        self.inner.scheduler_wakeup.notify_one();
    }

    /// The clock that leases and holds go by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock.clone()
    }

    /// Most runs that this engine drives at once.
    pub fn max_active(&self) -> usize {
        self.inner.options.max_active
    }

    /// Duration of the leases of this engine, without renewal.
    pub fn lease_for(&self) -> Duration {
        self.inner.options.lease_for
    }

    /// Starts a run of the latest version of `workflow`. Await the returned [`Start`].
    pub fn start<I: Serialize + ?Sized>(&self, workflow: &str, input: &I) -> Start {
        Start::new(self.clone(), workflow, Payload::of(input))
    }

    /// Starts a run whose input is already a [`Payload`].
    pub fn start_payload(&self, workflow: &str, input: Payload) -> Start {
        Start::new(self.clone(), workflow, Ok(input))
    }

    /// Returns a handle to an existing run.
    pub async fn run(&self, run: RunId) -> Result<RunHandle, Error> {
        self.get(run).await?;
        Ok(RunHandle::new(self.clone(), run))
    }

    /// Returns the current state of a run.
    pub async fn get(&self, run: RunId) -> Result<RunView, Error> {
        self.inner
            .call_store(self.inner.store.find_run(&self.workspace, run))
            .await?
            .ok_or(Error::NoSuchRun(run))
    }

    /// Returns a run with its steps, promises and unread signals.
    pub async fn get_log(&self, run: RunId) -> Result<RunLog, Error> {
        self.inner
            .call_store(self.inner.store.find_log(&self.workspace, run))
            .await?
            .ok_or(Error::NoSuchRun(run))
    }

    /// Lists events of a run after a version, oldest first, one page at a time.
    pub async fn list_events(&self, run: RunId, after: Version) -> Result<Vec<RunEvent>, Error> {
        self.get(run).await?;
        Ok(self.inner.call_store(self.inner.store.list_events(&self.workspace, run, after)).await?)
    }

    /// Lists runs of this workspace, newest first. The workspace in the request is ignored.
    pub async fn list(&self, request: ListRuns) -> Result<RunPage, Error> {
        let request = ListRuns { workspace: Some(self.workspace.clone()), ..request };
        Ok(self.inner.call_store(self.inner.store.list_runs(request)).await?)
    }

    /// Sends a signal to a run. The signal is stored until the run waits for it.
    ///
    /// With an `id`, a repeated signal is stored once; the call then returns false.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        run: RunId,
        name: &str,
        payload: &T,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        self.signal_payload(run, name, Payload::of(payload)?, id).await
    }

    /// Sends a signal whose value is already a [`Payload`].
    pub async fn signal_payload(
        &self,
        run: RunId,
        name: &str,
        payload: Payload,
        id: Option<&str>,
    ) -> Result<bool, Error> {
        let id = id.map(SignalId::new).transpose()?;
        if id.as_ref().is_some_and(|id| id.as_str().starts_with(RESERVED_SIGNAL_IDS)) {
            return Err(Invalid::Key { what: "signal id" }.into());
        }
        self.send_signal(run, name, payload, id, None).await
    }

    pub(super) async fn send_signal(
        &self,
        run: RunId,
        name: &str,
        payload: Payload,
        id: Option<SignalId>,
        note: Option<JournalEntry>,
    ) -> Result<bool, Error> {
        let name = Name::new("signal name", name)?;
        let since = self.inner.clock.monotonic();
        let request = SendSignal {
            workspace: self.workspace.clone(),
            run,
            name: name.clone(),
            payload: payload.clone(),
            id: id.clone(),
            note,
            grant: self.inner.offer(),
        };
        match self.inner.call_store(self.inner.store.send_signal(request)).await? {
            SignalOutcome::Stored { seq, granted } => {
                let at = self.inner.store.now();
                let arrival = Arrival::Signal(Signal { seq, name, id, payload, at, consumed: false });
                self.inner.deliver_arrival(run, granted, arrival, since);
                Ok(true)
            }
            SignalOutcome::Duplicate => Ok(false),
            SignalOutcome::Ended(status) => Err(Error::RunEnded { run, status }),
            SignalOutcome::TooMany => Err(Error::TooManySignals(run)),
            SignalOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Pauses a run at the next step boundary.
    pub async fn pause(&self, run: RunId) -> Result<RunHead, Error> {
        self.command_run(run, RunCommand::Pause, None).await
    }

    /// Resumes a paused run. A run that is not paused stays unchanged, and its current state is returned.
    pub async fn resume(&self, run: RunId) -> Result<RunHead, Error> {
        match self.try_command(run, RunCommand::Resume, None).await? {
            Ok(head) | Err((Refusal::NotPaused(_) | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Cancels a run: it undoes its effects where it can and then ends. Cancelling a closed run, or
    /// cancelling twice, changes nothing.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<RunHead, Error> {
        match self.try_command(run, RunCommand::Cancel { reason: reason.into() }, None).await? {
            Ok(head) | Err((Refusal::AlreadyRequested | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Reopens a failed run and runs the failed step again. With `from`, that step and every later one run
    /// again too.
    ///
    /// The retry is refused if an effect would happen twice. See [`Engine::plan_retry`] and
    /// [`Engine::retry_repeating`].
    pub async fn retry(&self, run: RunId, from: Option<&str>) -> Result<RunHead, Error> {
        self.command_run(run, RunCommand::retry(from.map(StepId::from_stored)), None).await
    }

    /// Shows the result of a retry without changing anything: effects that stay, effects that run again, and
    /// effects that would happen twice.
    pub async fn plan_retry(&self, run: RunId, from: Option<&str>) -> Result<RetryPlan, Error> {
        let log = self.get_log(run).await?;
        let from = from.map(StepId::from_stored);
        plan_retry(&log.head, from.as_ref(), &log.steps).map_err(|refusal| Error::Refused { run, refusal })
    }

    /// Reopens a failed run even though effects will happen again. `repeat` names each of those effects and
    /// the person who allows it.
    pub async fn retry_repeating(
        &self,
        run: RunId,
        from: Option<&str>,
        repeat: RepeatPermission,
    ) -> Result<RunHead, Error> {
        let from = from.map(StepId::from_stored);
        self.command_run(run, RunCommand::Retry { from, repeat: Some(Box::new(repeat)) }, None).await
    }

    /// Executes a command on a run if the run still has the `expected` version.
    pub async fn command_run(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
    ) -> Result<RunHead, Error> {
        match self.try_command(run, command, expected).await? {
            Ok(head) => Ok(head),
            Err((Refusal::Stale(version), _)) => Err(Error::Concurrency { run, version }),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Executes a person's command on a run and records the person and the reason in the audit log.
    ///
    /// A command without effect, such as resuming a run that is not paused, changes nothing and returns the
    /// current state. The reason may be empty.
    pub async fn command_run_by(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
        by: Actor,
        reason: &str,
    ) -> Result<RunHead, Error> {
        let entry = self.command_entry(run, command.as_str(), by, reason).await?;
        let is_cancel = matches!(command, RunCommand::Cancel { .. });
        match self.try_command_journaled(run, command, expected, Some(entry)).await? {
            Ok(head) => Ok(head),
            Err((Refusal::Stale(version), _)) => Err(Error::Concurrency { run, version }),
            Err((Refusal::NotPaused(_), head)) => Ok(head),
            Err((Refusal::AlreadyRequested | Refusal::Ended(_), head)) if is_cancel => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Checks a person's name and reason, and builds the audit log entry of their command on a run.
    pub(super) async fn command_entry(
        &self,
        run: RunId,
        command: &str,
        by: Actor,
        reason: &str,
    ) -> Result<JournalEntry, Error> {
        HumanText::Actor.check(&by.name)?;
        if !reason.is_empty() {
            HumanText::Reason.check(reason)?;
        }
        let head = self.get(run).await?.head;
        let what = JournalEvent::Commanded { command: command.into(), reason: reason.into() };
        Ok(JournalEntry::on_run(&head, None, by, self.inner.store.now(), what))
    }

    async fn try_command(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
    ) -> Result<Result<RunHead, (Refusal, RunHead)>, Error> {
        self.try_command_journaled(run, command, expected, None).await
    }

    async fn try_command_journaled(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
        note: Option<JournalEntry>,
    ) -> Result<Result<RunHead, (Refusal, RunHead)>, Error> {
        if let RunCommand::Retry { repeat: Some(repeat), .. } = &command {
            check_repeat_permission(repeat)?;
        }
        let (workspace, announce) = (self.workspace.clone(), self.inner.subscribers(&self.workspace));
        let request = CommandRun { workspace, run, command, expected, note, announce };
        match self.inner.call_store(self.inner.store.command_run(request)).await? {
            RunCommandOutcome::Accepted(head) => {
                if let Some(slot) = self.inner.slots.find(run) {
                    slot.send(RunMessage::Steered(Box::new(head.clone())));
                }
                // The command has taken effect. A failure to read the result now must not look like a failed
                // command.
                if head.status().is_closed()
                    && let Ok(Some(view)) =
                        self.inner.call_store(self.inner.store.find_run(&self.workspace, run)).await
                    && let Some(result) = view.result
                {
                    self.inner.notify_run_ended(&head, &result);
                }
                self.inner.scheduler_wakeup.notify_one();
                Ok(Ok(head))
            }
            RunCommandOutcome::Refused(refusal, head) => Ok(Err((refusal, head))),
            RunCommandOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Adds a person's comment on a run, or on one of its steps, to the journal.
    pub async fn remark(
        &self,
        run: RunId,
        step: Option<&str>,
        by: Actor,
        text: &str,
    ) -> Result<JournalEntry, Error> {
        HumanText::Actor.check(&by.name)?;
        HumanText::Remark.check(text)?;
        let head = self.get(run).await?.head;
        let what = JournalEvent::Remarked { text: text.into() };
        let step = step.map(StepId::from_stored);
        let entry = JournalEntry::on_run(&head, step, by, self.inner.store.now(), what);
        self.inner.call_store(self.inner.store.append_journal(vec![entry.clone()])).await?;
        Ok(entry)
    }

    /// Records that a person looks at what a run hides from others, and why.
    pub async fn note_reveal(&self, run: RunId, by: Actor, reason: &str) -> Result<(), Error> {
        check_actor_and_reason(&by, reason)?;
        let head = self.get(run).await?.head;
        let what = JournalEvent::PayloadsRevealed { reason: reason.into() };
        let entry = JournalEntry::on_run(&head, None, by, self.inner.store.now(), what);
        Ok(self.inner.call_store(self.inner.store.append_journal(vec![entry])).await?)
    }

    /// Lists journal entries after position `after`, oldest first: of one run or of the workspace, of all
    /// writers or only of people.
    pub async fn list_journal(
        &self,
        run: Option<RunId>,
        by_people: bool,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredJournalEntry>, Error> {
        if let Some(run) = run {
            self.get(run).await?;
        }
        let workspace = self.workspace.clone();
        let request = ListJournal { workspace, run, by_people, after, limit };
        Ok(self.inner.call_store(self.inner.store.list_journal(request)).await?)
    }

    /// Claims due runs now instead of at the next poll. Returns their number.
    pub async fn claim_due_runs(&self) -> Result<usize, Error> {
        Ok(super::scheduler::claim_due(&self.inner).await?.0)
    }

    /// Id of this engine as a lease holder. Each launch gets a new one.
    pub fn owner(&self) -> OwnerId {
        self.inner.owner
    }

    /// Counters since the engine was launched.
    pub fn stats(&self) -> Stats {
        let stats = self.inner.counters.read();
        Stats {
            clock_jumps: stats.clock_jumps + self.inner.clock.jumps() + self.inner.store.clock_jumps(),
            ..stats
        }
    }

    /// Background loops of the engine. A host that needs a loop of its own spawns it here.
    pub fn background_loops(&self) -> &BackgroundLoops {
        &self.inner.loops
    }

    /// Number of runs that this engine executes now.
    pub fn active_runs(&self) -> usize {
        self.inner.slots.len()
    }

    /// Store that the engine works on.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.store.clone()
    }

    /// Number of runs that callers in this process wait for.
    pub fn awaited_runs(&self) -> usize {
        self.inner.waiters.len()
    }

    /// Time since retention last deleted everything that had expired. It exceeds `purge_every` while
    /// maintenance cannot keep up.
    pub fn retention_lag(&self) -> Duration {
        self.inner.retention_lag()
    }

    /// Shuts down gracefully: takes no new work, lets effects in flight finish for up to `grace`, commits
    /// their outcomes, releases the leases, and closes the store.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Error> {
        self.drain(grace).await;
        self.close().await
    }

    /// First half of [`Engine::shutdown`]: everything but closing the store, for programs that still serve
    /// reads.
    pub async fn drain(&self, grace: Duration) {
        let inner = &self.inner;
        inner.set_phase(Phase::Draining);
        let end = inner.clock.now().plus(grace);
        let mut out_of_time = inner.clock.sleep_until(end);
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Sent again in each round, because a run may have been granted to this engine while it began to
            // drain.
            inner.slots.all().iter().for_each(|slot| slot.send(RunMessage::Release));
            if inner.slots.len() == 0 && inner.active_operations.len() == 0 {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = &mut out_of_time => return,
            }
        }
    }

    /// Second half of [`Engine::shutdown`]: abandons unfinished work and closes the store.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.kill();
        Ok(self.inner.store.close().await?)
    }

    /// Stops at once, like a crash: writes and starts nothing more. For tests.
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
