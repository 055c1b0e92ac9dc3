//! The engine: one process's share in driving runs, and the operations on them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::approvals::RESERVED_SIGNAL_IDS;
use super::inner::{Inner, Phase};
use super::registry::WorkflowOptions;
use super::run_slot::{NewArrival, RunMessage};
use super::{EngineOptions, Error, RunHandle, Start, Stats};
use crate::clock::Clock;
use crate::ctx::Ctx;
use crate::model::{
    Actor, Failure, HumanText, Invalid, JournalEntry, JournalEvent, Name, OwnerId, Payload, Refusal, Repeat,
    RetryPlan, RunCommand, RunEvent, RunHead, RunId, Signal, SignalId, StepId, Version, WorkflowRef,
    WorkspaceId, check_repeat, plan_retry,
};
use crate::store::{
    CommandRun, ListJournal, ListRuns, PlacedEntry, RunCommandOutcome, RunLog, RunPage, RunView, SendSignal,
    SignalOutcome, Store,
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

impl Engine {
    /// Launches an engine on `store`. It takes up runs that wait as soon as their workflows are registered.
    pub fn launch(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let inner = Arc::new(Inner::new(store, clock, options));
        tokio::spawn(super::scheduler::schedule(inner.clone()));
        tokio::spawn(super::renewal::renew(inner.clone()));
        tokio::spawn(super::housekeeping::purge(inner.clone()));
        tokio::spawn(super::families::sweep(inner.clone()));
        tokio::spawn(super::outbox::deliver(inner.clone()));
        tokio::spawn(super::entities::keep_hearing(inner.clone()));
        let alive = Arc::new(Alive(inner.clone()));
        Ok(Engine { inner, workspace: WorkspaceId::default(), _alive: alive })
    }

    /// Makes the engine again for a task of its own that must not keep it alive.
    pub(super) fn detached(&self) -> impl Fn() -> Option<Engine> + Send + use<> {
        let (inner, alive) = (Arc::downgrade(&self.inner), Arc::downgrade(&self._alive));
        move || {
            let (inner, _alive) = (inner.upgrade()?, alive.upgrade()?);
            Some(Engine { inner, workspace: WorkspaceId::default(), _alive })
        }
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
        self.inner.registry.register(None, name, options, function)?;
        self.inner.nudge.notify_one();
        Ok(())
    }

    /// Registers a workflow that only this workspace has; it goes before one of the same name that all have.
    pub fn register_own<F, Fut, I, O, E>(
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
        self.inner.nudge.notify_one();
        Ok(())
    }

    /// Says whether a workflow of this workspace ([`register_own`](Engine::register_own)) is archived: it then starts no new runs, and runs
    /// that began with it go on.
    pub fn set_archived(&self, workflow: &WorkflowRef, is_archived: bool) {
        self.inner.registry.set_archived(&self.workspace, workflow, is_archived);
    }

    /// Starts a run of the newest version of `workflow`; await what it returns.
    pub fn start<I: Serialize + ?Sized>(&self, workflow: &str, input: &I) -> Start {
        Start::new(self.clone(), workflow, Payload::of(input))
    }

    /// Starts a run with an input that is a payload already.
    pub fn start_payload(&self, workflow: &str, input: Payload) -> Start {
        Start::new(self.clone(), workflow, Ok(input))
    }

    /// A handle on a run that exists.
    pub async fn run(&self, run: RunId) -> Result<RunHandle, Error> {
        self.get(run).await?;
        Ok(RunHandle::new(self.clone(), run))
    }

    /// A run as it stands.
    pub async fn get(&self, run: RunId) -> Result<RunView, Error> {
        self.inner.answer(self.inner.store.find_run(&self.workspace, run)).await?.ok_or(Error::NoSuchRun(run))
    }

    /// A run with its steps, promises and unread signals.
    pub async fn get_log(&self, run: RunId) -> Result<RunLog, Error> {
        self.inner.answer(self.inner.store.find_log(&self.workspace, run)).await?.ok_or(Error::NoSuchRun(run))
    }

    /// The history of a run after a version, oldest first, one bounded page.
    pub async fn list_events(&self, run: RunId, after: Version) -> Result<Vec<RunEvent>, Error> {
        self.get(run).await?;
        Ok(self.inner.answer(self.inner.store.list_events(&self.workspace, run, after)).await?)
    }

    /// Runs of this workspace, newest first; the workspace in the request is replaced by this one.
    pub async fn list(&self, request: ListRuns) -> Result<RunPage, Error> {
        let request = ListRuns { workspace: Some(self.workspace.clone()), ..request };
        Ok(self.inner.answer(self.inner.store.list_runs(request)).await?)
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
        self.signal_payload(run, name, Payload::of(payload)?, id).await
    }

    /// Sends a signal whose value is a payload already.
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
        match self.inner.answer(self.inner.store.send_signal(request)).await? {
            SignalOutcome::Stored { seq, granted } => {
                let at = self.inner.store.now();
                let news = NewArrival::Signal(Signal { seq, name, id, payload, at, consumed: false });
                self.inner.deliver(run, granted, news, since);
                Ok(true)
            }
            SignalOutcome::Duplicate => Ok(false),
            SignalOutcome::Ended(status) => Err(Error::RunEnded { run, status }),
            SignalOutcome::TooMany => Err(Error::TooManySignals(run)),
            SignalOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Asks a run to stop at the next boundary.
    pub async fn pause(&self, run: RunId) -> Result<RunHead, Error> {
        self.steer(run, RunCommand::Pause, None).await
    }

    /// Lets a paused run go on. A run that is not paused is left as it is: the answer is where it stands.
    pub async fn resume(&self, run: RunId) -> Result<RunHead, Error> {
        match self.try_steer(run, RunCommand::Resume, None).await? {
            Ok(head) | Err((Refusal::NotPaused(_) | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Asks a run to undo what it can and end. Cancelling a run that has ended, or was asked before, changes nothing.
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<RunHead, Error> {
        match self.try_steer(run, RunCommand::Cancel { reason: reason.into() }, None).await? {
            Ok(head) | Err((Refusal::AlreadyAsked | Refusal::Ended(_), head)) => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Reopens a failed run: what failed last runs again, and with `from` also that step and all that began after it. It is refused
    /// if an effect would happen again; see [`Engine::plan_retry`] and [`Engine::retry_repeating`].
    pub async fn retry(&self, run: RunId, from: Option<&str>) -> Result<RunHead, Error> {
        self.steer(run, RunCommand::retry(from.map(StepId::from_stored)), None).await
    }

    /// What a retry would do: which effects stay done, which run again, and which of those would happen a second time. Changes nothing.
    pub async fn plan_retry(&self, run: RunId, from: Option<&str>) -> Result<RetryPlan, Error> {
        let log = self.get_log(run).await?;
        let from = from.map(StepId::from_stored);
        plan_retry(&log.head, from.as_ref(), &log.steps).map_err(|refusal| Error::Refused { run, refusal })
    }

    /// Reopens a failed run although effects that have happened run again. `repeat` names each of them, and who allows it.
    pub async fn retry_repeating(
        &self,
        run: RunId,
        from: Option<&str>,
        repeat: Repeat,
    ) -> Result<RunHead, Error> {
        let from = from.map(StepId::from_stored);
        self.steer(run, RunCommand::Retry { from, repeat: Some(Box::new(repeat)) }, None).await
    }

    /// Carries out a command if the run still has the `expected` version.
    pub async fn steer(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
    ) -> Result<RunHead, Error> {
        match self.try_steer(run, command, expected).await? {
            Ok(head) => Ok(head),
            Err((Refusal::Stale(version), _)) => Err(Error::Concurrency { run, version }),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    /// Carries out a person's command, and writes who gave it and why into the audit log. A command that finds the run as it would
    /// leave it (to cancel one that has ended, to let go on one that is not paused) changes nothing: the answer is where it stands.
    /// The reason may be empty.
    pub async fn steer_by(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
        by: Actor,
        reason: &str,
    ) -> Result<RunHead, Error> {
        HumanText::Actor.check(&by.name)?;
        if !reason.is_empty() {
            HumanText::Reason.check(reason)?;
        }
        let head = self.get(run).await?.head;
        let what = JournalEvent::Steered { command: command.as_str().into(), reason: reason.into() };
        let note = JournalEntry {
            workspace: self.workspace.clone(),
            run,
            generation: head.generation,
            step: None,
            at: self.inner.store.now(),
            fence: head.fence,
            owner: None,
            by: Some(by),
            what,
            evidence: None,
        };
        let is_cancel = matches!(command, RunCommand::Cancel { .. });
        match self.try_steer_noted(run, command, expected, Some(note)).await? {
            Ok(head) => Ok(head),
            Err((Refusal::Stale(version), _)) => Err(Error::Concurrency { run, version }),
            Err((Refusal::NotPaused(_), head)) => Ok(head),
            Err((Refusal::AlreadyAsked | Refusal::Ended(_), head)) if is_cancel => Ok(head),
            Err((refusal, _)) => Err(Error::Refused { run, refusal }),
        }
    }

    async fn try_steer(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
    ) -> Result<Result<RunHead, (Refusal, RunHead)>, Error> {
        self.try_steer_noted(run, command, expected, None).await
    }

    async fn try_steer_noted(
        &self,
        run: RunId,
        command: RunCommand,
        expected: Option<Version>,
        note: Option<JournalEntry>,
    ) -> Result<Result<RunHead, (Refusal, RunHead)>, Error> {
        if let RunCommand::Retry { repeat: Some(repeat), .. } = &command {
            check_repeat(repeat)?;
        }
        let (workspace, announce) = (self.workspace.clone(), self.inner.subscribers(&self.workspace));
        let request = CommandRun { workspace, run, command, expected, note, announce };
        match self.inner.answer(self.inner.store.command_run(request)).await? {
            RunCommandOutcome::Steered(head) => {
                if let Some(active) = self.inner.active.find(run) {
                    active.post(RunMessage::Steered(Box::new(head.clone())));
                }
                // The command is carried out; that its result cannot be read now must not sound as if it were not.
                if head.status().is_closed()
                    && let Ok(Some(view)) =
                        self.inner.answer(self.inner.store.find_run(&self.workspace, run)).await
                    && let Some(result) = view.result
                {
                    self.inner.ended(&head, &result);
                }
                self.inner.nudge.notify_one();
                Ok(Ok(head))
            }
            RunCommandOutcome::Refused(refusal, head) => Ok(Err((refusal, head))),
            RunCommandOutcome::NoSuchRun => Err(Error::NoSuchRun(run)),
        }
    }

    /// Writes down what a person has to say about a run, or about a step of it.
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
        let note = JournalEntry {
            workspace: self.workspace.clone(),
            run,
            generation: head.generation,
            step: step.map(StepId::from_stored),
            at: self.inner.store.now(),
            fence: head.fence,
            owner: None,
            by: Some(by),
            what: JournalEvent::Remarked { text: text.into() },
            evidence: None,
        };
        self.inner.answer(self.inner.store.append_journal(vec![note.clone()])).await?;
        Ok(note)
    }

    /// Entries of the journal: of one run or of the workspace, of everybody or only of people, oldest first, after `after`.
    pub async fn list_journal(
        &self,
        run: Option<RunId>,
        by_people: bool,
        after: u64,
        limit: usize,
    ) -> Result<Vec<PlacedEntry>, Error> {
        if let Some(run) = run {
            self.get(run).await?;
        }
        let workspace = self.workspace.clone();
        let request = ListJournal { workspace, run, by_people, after, limit };
        Ok(self.inner.answer(self.inner.store.list_journal(request)).await?)
    }

    /// Takes up due runs now, without waiting for the next look; answers how many.
    pub async fn sweep(&self) -> Result<usize, Error> {
        Ok(super::scheduler::claim_due(&self.inner).await?.0)
    }

    /// The name under which this engine holds leases: a fresh one each time an engine is launched.
    pub fn owner(&self) -> OwnerId {
        self.inner.owner
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        let stats = self.inner.counters.read();
        Stats {
            clock_jumps: stats.clock_jumps + self.inner.clock.jumps() + self.inner.store.clock_jumps(),
            ..stats
        }
    }

    /// How many runs are being driven here now.
    pub fn active_runs(&self) -> usize {
        self.inner.active.len()
    }

    /// The store the engine works on.
    pub fn store(&self) -> Arc<dyn Store> {
        self.inner.store.clone()
    }

    /// How many runs callers of this process wait for.
    pub fn runs_waited_for(&self) -> usize {
        self.inner.waiters.len()
    }

    /// How long ago everything was deleted whose retention had ended. It grows beyond `purge_every` while housekeeping cannot keep up.
    pub fn retention_behind(&self) -> Duration {
        self.inner.retention_behind()
    }

    /// Stops in good order: takes nothing new, lets effects in flight end for up to `grace`, writes what they did,
    /// gives the leases back, and closes the store.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Error> {
        self.drain(grace).await;
        self.close().await
    }

    /// The first half of [`Engine::shutdown`]: takes nothing new, lets effects in flight end for up to `grace`, writes what they did, and gives
    /// the leases back. The store stays open, for whoever still answers others.
    pub async fn drain(&self, grace: Duration) {
        let inner = &self.inner;
        inner.set_phase(Phase::Draining);
        let end = inner.clock.now().plus(grace);
        let mut out_of_time = inner.clock.sleep_until(end);
        loop {
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Posted again each time, because a run may have been granted to us while we were closing the door.
            inner.active.all().iter().for_each(|active| active.post(RunMessage::Release));
            if inner.active.len() == 0 && inner.held.len() == 0 {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = &mut out_of_time => return,
            }
        }
    }

    /// The second half: gives up what is still under way, and closes the store.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.kill();
        Ok(self.inner.store.close().await?)
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
