//! Drives one run: polls its code, commits changes, and parks, stops or ends it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use super::activation::Activation;
use super::crash_point::CrashPoint;
use super::inner::{Inner, Phase};
use super::late_outcomes::LostRun;
use super::pending_change::{CommitAction, CommitBase, PendingChange, build};
use super::registry::{Workflow, WorkflowFuture};
use super::replay_state::Stop;
use super::run_slot::{Arrival, RunMessage, RunSlot};
use super::stats::Counters;
use crate::clock::Sleep;
use crate::ctx::{Ctx, Scope, undo_all};
use crate::model::{Failure, Payload, RunCommit, RunHead, RunResult, Timestamp};
use crate::store::{CommitOutcome, StoreError};

/// How one activation ended.
pub(crate) enum DriveEnd {
    /// The run is parked. Its code may stay in memory to continue later.
    Parked(Timestamp),
    /// The run ended.
    Closed(RunResult),
    /// The run was paused, or its lease was released.
    Released,
    /// Another engine has the run, or this one can no longer keep its lease. Nothing more may be done here.
    Lost,
    /// The loaded state is out of date. Read the log again and continue under the same lease.
    Reload,
}

type CommitFuture = Pin<Box<dyn Future<Output = (Box<RunCommit>, Result<CommitOutcome, StoreError>)> + Send>>;

/// Work that the driver polls.
enum DriverWork {
    /// The workflow's code.
    Workflow(UserCode),
    /// Undoes effects; the run then ends with this result.
    Undoing(Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>, RunResult),
    /// The code is done. Only the last commit is left.
    FinishOperationOutcome(CommitAction),
}

/// Driver of one run, with its code and the commit in flight.
pub(crate) struct Driver {
    pub(crate) activation: Arc<Activation>,
    workflow: Arc<Workflow>,
    scope: Arc<Scope>,
    work: DriverWork,
    commit: Option<(CommitFuture, Vec<PendingChange>, CommitAction, u64)>,
    pub(super) transaction: Option<super::transact::TransactionInFlight>,
    timer: Option<(Timestamp, Sleep)>,
    /// Waiters of all timers up to this time were woken.
    timers_woken: Timestamp,
    commanded_head: Option<RunHead>,
    turn: Arc<TurnSignal>,
    turn_waker: Waker,
}

/// Signals that the code wants a turn. A wake-up during the driver's own turn is free: the driver checks
/// again before it yields.
#[derive(Default)]
struct TurnSignal {
    wanted: AtomicBool,
    within: AtomicBool,
    task: AtomicWaker,
}

impl Wake for TurnSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wanted.store(true, Ordering::SeqCst);
        if !self.within.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Driver {
    pub(crate) fn new(activation: Activation, workflow: Arc<Workflow>, input: Payload) -> Self {
        let activation = Arc::new(activation);
        let scope = Arc::new(Scope::default());
        let work = DriverWork::Workflow(begin(&workflow, &activation, &scope, input));
        let turn = Arc::new(TurnSignal { wanted: AtomicBool::new(true), ..TurnSignal::default() });
        let turn_waker = Waker::from(turn.clone());
        Driver {
            activation,
            workflow,
            scope,
            work,
            commit: None,
            transaction: None,
            timer: None,
            timers_woken: Timestamp::from_millis(i64::MIN),
            commanded_head: None,
            turn,
            turn_waker,
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DriveEnd> {
        let slot = self.activation.slot();
        slot.listen(cx.waker());
        self.turn.task.register(cx.waker());
        loop {
            self.turn.within.store(true, Ordering::SeqCst);
            let end = self.take_turn(&slot, cx);
            self.turn.within.store(false, Ordering::SeqCst);
            match end {
                Some(end) => return Poll::Ready(end),
                None if self.turn.wanted.load(Ordering::SeqCst) => {}
                None => return Poll::Pending,
            }
        }
    }

    fn take_turn(&mut self, slot: &Arc<RunSlot>, cx: &mut Context<'_>) -> Option<DriveEnd> {
        let engine = self.activation.engine.clone();
        loop {
            if engine.phase() == Phase::Killed {
                return Some(DriveEnd::Lost);
            }
            if !self.handle_messages(&engine, slot) {
                let unwritten = self.commit.take().map(|(_, changes, ..)| changes).unwrap_or_default();
                self.record_late_outcomes(&engine, slot, &unwritten);
                return Some(DriveEnd::Lost);
            }
            if let Some(end) = self.poll_commit(&engine, slot, cx) {
                return Some(end);
            }
            if let Some(end) = self.poll_transaction(&engine, cx) {
                return Some(end);
            }
            self.poll_timer(cx);
            self.poll_work();
            self.apply_late_cancel();
            match self.next_write() {
                Some(action) => {
                    if !self.begin_commit(&engine, slot, action) {
                        return Some(DriveEnd::Lost);
                    }
                }
                None if !self.is_writing() && self.begin_transaction(&engine) => {}
                None if self.take_idle_turn() => {}
                None => return None,
            }
        }
    }

    /// Handles messages for the run. Returns false if the lease is lost.
    fn handle_messages(&mut self, engine: &Inner, slot: &RunSlot) -> bool {
        let messages = slot.take_messages();
        if messages.is_empty() {
            return true;
        }
        for message in messages {
            match message {
                RunMessage::Arrived(arrival) => self.activation.replay().record_arrival(arrival),
                RunMessage::Release => {
                    self.activation.replay().stop.get_or_insert(Stop::Release);
                }
                RunMessage::Steered(head) => self.commanded_head = Some(*head),
                RunMessage::Renewed => {}
                RunMessage::LeaseLost => {
                    Counters::add(&engine.counters.self_fenced);
                    return false;
                }
            }
        }
        self.activation.wake_all();
        true
    }

    fn poll_commit(
        &mut self,
        engine: &Arc<Inner>,
        slot: &Arc<RunSlot>,
        cx: &mut Context<'_>,
    ) -> Option<DriveEnd> {
        let Some((commit, ..)) = self.commit.as_mut() else {
            if self.transaction.is_none() {
                self.apply_command();
            }
            return None;
        };
        let Poll::Ready((request, outcome)) = commit.as_mut().poll(cx) else { return None };
        let (_, changes, action, covers) = self.commit.take().expect("polled just now");
        self.activation.replay().releasing_lease = false;
        match outcome {
            Ok(CommitOutcome::Committed { woken, opened }) => {
                engine.wake_scheduler_for(&woken);
                Counters::add_many(&engine.counters.created, request.children.len() as u64);
                for promise in opened {
                    self.activation.replay().record_arrival(Arrival::Opened(Box::new(promise)));
                }
                self.on_committed(engine, *request, action, covers)
            }
            Ok(CommitOutcome::Stale(head)) if head.version == request.expected => {
                // A promise was settled just as it timed out, and the code has already seen the other
                // outcome.
                Counters::add(&engine.counters.stale_writes);
                self.prepare_reload(engine, slot, &changes);
                Some(DriveEnd::Reload)
            }
            Ok(CommitOutcome::Stale(head)) => {
                Counters::add(&engine.counters.stale_writes);
                self.restore_changes(changes, action, head);
                None
            }
            Ok(CommitOutcome::ChildrenRefused(refused)) => {
                self.refuse_children(changes, &refused);
                if matches!(action, CommitAction::ContinueAsNew(_) | CommitAction::Close(_)) {
                    self.work = DriverWork::FinishOperationOutcome(action);
                }
                None
            }
            Ok(CommitOutcome::LeaseLost) => {
                Counters::add(&engine.counters.fenced_writes);
                tracing::warn!(run = %slot.run, fence = %slot.fence, "lease lost; the write was refused");
                self.record_late_outcomes(engine, slot, &changes);
                Some(DriveEnd::Lost)
            }
            Err(error) => {
                Counters::add(&engine.counters.self_fenced);
                tracing::error!(run = %slot.run, %error, "the run is given up here: its write could not be made");
                self.record_late_outcomes(engine, slot, &changes);
                Some(DriveEnd::Lost)
            }
        }
    }

    /// Records outcomes after the run was lost. Outcomes in the failed commit and after it are still
    /// evidence.
    pub(super) fn record_late_outcomes(
        &self,
        engine: &Arc<Inner>,
        slot: &RunSlot,
        unwritten: &[PendingChange],
    ) {
        let replay = self.activation.replay();
        let lost = LostRun {
            workspace: &slot.workspace,
            run: slot.run,
            generation: self.activation.generation,
            fence: slot.fence,
        };
        engine.record_late_outcomes(lost.outcomes(unwritten.iter().chain(&replay.changes)));
    }

    /// Drops the queued changes and the code. An effect in progress may still happen, so its step is
    /// remembered as cut off.
    pub(super) fn prepare_reload(
        &mut self,
        engine: &Arc<Inner>,
        slot: &RunSlot,
        unwritten: &[PendingChange],
    ) {
        self.record_late_outcomes(engine, slot, unwritten);
        let mut replay = self.activation.replay();
        let mut cut_off = std::mem::take(&mut replay.running_effects);
        cut_off.extend(unwritten.iter().chain(&replay.changes).filter_map(PendingChange::attempted_step));
        replay.cut_off = cut_off;
    }

    /// Applies an operator's command, unless a commit has already shown it.
    fn apply_command(&mut self) {
        let Some(commanded_head) = self.commanded_head.take() else { return };
        let mut replay = self.activation.replay();
        if commanded_head.version > replay.head.version && commanded_head.fence == replay.head.fence {
            replay.adopt_head(commanded_head);
            drop(replay);
            // A pause may have been withdrawn.
            self.activation.wake_all();
        }
    }

    /// Handles a successful commit.
    pub(super) fn on_committed(
        &mut self,
        engine: &Arc<Inner>,
        request: RunCommit,
        action: CommitAction,
        covers: u64,
    ) -> Option<DriveEnd> {
        let run = request.run();
        if !request.posts.is_empty() {
            engine.outbox_ready.notify_one();
        }
        {
            let mut replay = self.activation.replay();
            replay.durable = covers;
            for step in &request.steps {
                match step.state.status().is_final() {
                    true => replay.open.remove(&step.id),
                    false => replay.open.insert(step.id.clone(), step.clone()),
                };
            }
            replay.head = request.head;
            replay.first_wave &= replay.head.stalls > 0;
        }
        match action {
            CommitAction::KeepRunning => {
                engine.reached(|| CrashPoint::AfterRecord(run));
                self.activation.wake_all();
                None
            }
            CommitAction::Park { wake_at, .. } => {
                engine.reached(|| CrashPoint::AfterRecord(run));
                let far = Timestamp::from_millis(i64::MAX);
                Some(DriveEnd::Parked(wake_at.unwrap_or(far)))
            }
            CommitAction::Pause(_) | CommitAction::Release => Some(DriveEnd::Released),
            CommitAction::ContinueAsNew(input) => {
                engine.reached(|| CrashPoint::AfterRecord(run));
                self.continue_with(input);
                None
            }
            CommitAction::Close(result) => {
                engine.reached(|| CrashPoint::AfterCompletion(run));
                Some(DriveEnd::Closed(result))
            }
        }
    }

    /// Requeues the changes after another writer changed the run, so that they are committed on top of that
    /// change.
    fn restore_changes(&mut self, changes: Vec<PendingChange>, action: CommitAction, head: RunHead) {
        let mut replay = self.activation.replay();
        let later = std::mem::replace(&mut replay.changes, changes);
        replay.changes.extend(later);
        replay.adopt_head(head);
        drop(replay);
        if matches!(action, CommitAction::ContinueAsNew(_) | CommitAction::Close(_)) {
            self.work = DriverWork::FinishOperationOutcome(action);
        }
        self.activation.wake_all();
    }

    fn continue_with(&mut self, input: Payload) {
        let head = self.activation.replay().head.clone();
        self.activation = Arc::new(self.activation.continued(head));
        self.scope = Arc::new(Scope::default());
        self.work = DriverWork::Workflow(begin(&self.workflow, &self.activation, &self.scope, input));
        self.timer = None;
        self.timers_woken = Timestamp::from_millis(i64::MIN);
        self.turn.wanted.store(true, Ordering::SeqCst);
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        if let DriverWork::FinishOperationOutcome(_) = self.work {
            self.timer = None;
            return;
        }
        let now = self.activation.now();
        if self.activation.replay().next_timer().is_some_and(|due| due <= now) {
            let past_deadline = self.activation.facts.deadline_at.is_some_and(|at| at <= now);
            if past_deadline && matches!(self.work, DriverWork::Workflow(_)) {
                self.activation.replay().stop.get_or_insert(Stop::Deadline);
            }
        }
        // Once for each timer. Code that waits on cannot act on it now, in a replay, say. A set of futures that yields
        // after it was woken would be woken for ever.
        let is_newly_due =
            self.activation.replay().next_timer_after(self.timers_woken).is_some_and(|due| due <= now);
        if is_newly_due {
            self.timers_woken = now;
            self.activation.wake_all();
        }
        // Due timers are handled now. Later ones still need a wake-up.
        let next = self.activation.replay().next_timer_after(now);
        if self.timer.as_ref().map(|(at, _)| *at) != next {
            self.timer = next.map(|at| (at, self.activation.engine.sleep_until(at)));
        }
        if let Some((_, sleep)) = &mut self.timer
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.timer = None;
            cx.waker().wake_by_ref();
            self.activation.wake_all();
        }
    }

    fn poll_work(&mut self) {
        if !self.turn.wanted.swap(false, Ordering::SeqCst) {
            return;
        }
        let cx = &mut Context::from_waker(&self.turn_waker);
        self.activation.replay().in_turn = true;
        let next = match &mut self.work {
            DriverWork::FinishOperationOutcome(_) => return,
            DriverWork::Workflow(code) => match catch_unwind(AssertUnwindSafe(|| code.poll(cx))) {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(outcome)) => Some(self.after_workflow(outcome)),
                Err(panic) => {
                    let failure = Failure::unknown(format!("the workflow panicked: {}", panic_text(&*panic)));
                    Some(self.after_workflow(Err(failure.with_code("panicked"))))
                }
            },
            DriverWork::Undoing(code, result) => match code.as_mut().poll(cx) {
                Poll::Pending => None,
                Poll::Ready(undone) => Some(DriverWork::FinishOperationOutcome(CommitAction::Close(
                    after_undoing(undone, result.clone()),
                ))),
            },
        };
        if let Some(next) = next {
            self.work = next;
        }
        self.activation.replay().in_turn = false;
        let violation = self.activation.replay().violation.take();
        if let Some(violation) = violation {
            if self.pauses_on_violation() {
                let text = format!(
                    "DeterminismViolation: {violation}; deploy the code this run began with, or give the changed code a \
                     new version, then resume the run"
                );
                self.activation.replay().changes.clear();
                self.work = DriverWork::FinishOperationOutcome(CommitAction::Pause(Some(text)));
                return;
            }
            let text = format!(
                "DeterminismViolation: {violation}; restore the code this run began with, or register the \
                 changed code as a new version, then retry the run"
            );
            let failure = Failure::permanent(text).with_code("determinism_violation");
            // Changes of non-deterministic code must never be committed.
            self.activation.replay().changes.clear();
            self.work = DriverWork::FinishOperationOutcome(CommitAction::Close(RunResult::Failed(failure)));
        }
    }

    /// Returns whether a violation pauses the run. A run that is about to end cannot be undone by other code, so it fails.
    fn pauses_on_violation(&self) -> bool {
        self.workflow.pauses_on_violation && !self.activation.replay().must_end()
    }

    fn after_workflow(&mut self, outcome: Result<Payload, Failure>) -> DriverWork {
        {
            let mut replay = self.activation.replay();
            if replay.replaying || replay.has_unused_records() {
                replay.end_replay();
            }
            if let Some(input) = replay.continue_with.take() {
                if replay.has_doubt() {
                    let text = "an effect of the run is in doubt, and a new history would not know of it; \
                                resolve it and retry the run, or start a new one if its effects were undone";
                    let failure = Failure::permanent(text).with_code("in_doubt");
                    drop(replay);
                    // The run fails like any other, so its effects are undone.
                    return self.undo(RunResult::Failed(failure));
                }
                return DriverWork::FinishOperationOutcome(CommitAction::ContinueAsNew(input));
            }
        }
        match outcome {
            Ok(output) => {
                DriverWork::FinishOperationOutcome(CommitAction::Close(RunResult::Completed(output)))
            }
            Err(failure) => self.undo(RunResult::Failed(failure)),
        }
    }

    /// Applies a cancellation that was acknowledged before the end of the run is durable, even if the code
    /// has already finished.
    fn apply_late_cancel(&mut self) {
        let is_late = matches!(
            self.work,
            DriverWork::FinishOperationOutcome(
                CommitAction::Close(RunResult::Completed(_)) | CommitAction::ContinueAsNew(_)
            )
        );
        if is_late && !self.is_writing() && self.activation.replay().requested_stop() == Some(Stop::Cancel) {
            self.work = self.undo(cancelled());
        }
    }

    /// Undoes compensable effects, last first, and then ends the run with `result`.
    fn undo(&self, result: RunResult) -> DriverWork {
        {
            let mut replay = self.activation.replay();
            replay.transactions.clear();
            replay.ends_by_cancel = matches!(result, RunResult::Cancelled(_));
        }
        self.turn.wanted.store(true, Ordering::SeqCst);
        if self.scope.is_empty() {
            return DriverWork::FinishOperationOutcome(CommitAction::Close(result));
        }
        let mut replay = self.activation.replay();
        replay.undoing = true;
        // The queued changes are committed before the first undo, and that commit counts as progress.
        replay.has_unrecorded_undo = replay.is_first_after_crash();
        // The undo depends on how far the code has come. A run that must stop receives no more outcomes in a
        // replay.
        replay.require_commit();
        // A run that fails by itself while a cancellation is pending is undone like any other.
        replay.stop =
            replay.stop.filter(|stop| matches!(stop, Stop::Pause | Stop::Exhausted | Stop::Release));
        drop(replay);
        DriverWork::Undoing(Box::pin(undo_all(self.activation.clone(), self.scope.clone())), result)
    }

    /// Returns whether a commit or a transaction is in flight. Only one may be, because each is guarded by
    /// the version of the last.
    fn is_writing(&self) -> bool {
        self.commit.is_some() || self.transaction.is_some()
    }

    /// Returns the next commit, if one is needed.
    fn next_write(&mut self) -> Option<CommitAction> {
        if self.is_writing() {
            return None;
        }
        let replay = self.activation.replay();
        if let DriverWork::FinishOperationOutcome(action) = &self.work {
            // A pause that was acknowledged before the end is durable comes first. The run ends after it is
            // resumed.
            let pauses_first =
                matches!(action, CommitAction::Close(_)) && replay.requested_stop() == Some(Stop::Pause);
            return Some(if pauses_first { CommitAction::Pause(None) } else { action.clone() });
        }
        if replay.is_given_back && replay.in_flight == 0 {
            return Some(match replay.stop {
                Some(Stop::Exhausted) if replay.requested_stop() != Some(Stop::Cancel) => {
                    CommitAction::Pause(replay.exhausted.clone())
                }
                _ => CommitAction::Release,
            });
        }
        if replay.computing > 0 {
            return None;
        }
        if replay.replaying {
            // Until every record was requested, it is not certain that this code made the records.
            return None;
        }
        if replay.in_flight == 0 {
            let only_waits = replay.gated == 0 && !replay.waits.is_empty() && replay.transactions.is_empty();
            // A stopped run has not looked at its arrivals, so it must not park as if it had seen them.
            if only_waits && !replay.is_stopped() {
                if self.turn.wanted.load(Ordering::SeqCst) {
                    // The awaited event may already be here. Check again before parking.
                    return None;
                }
                return Some(CommitAction::Park {
                    wake_at: replay.next_timer(),
                    arrivals_seen: replay.arrivals_seen,
                });
            }
            let must_end = matches!(replay.stop, Some(Stop::Cancel | Stop::Deadline)) && replay.shields == 0;
            if must_end
                && replay.gated_through == 0
                && replay.doubts_held > 0
                && !replay.waits.is_empty()
                && !self.turn.wanted.load(Ordering::SeqCst)
            {
                // The run ends after a person has ruled. Until then it waits like any other run.
                let wake_at = replay.next_doubt_check_at();
                return Some(CommitAction::Park { wake_at, arrivals_seen: replay.arrivals_seen });
            }
            match replay.stop.filter(|_| replay.shields == 0) {
                Some(Stop::Pause) => return Some(CommitAction::Pause(None)),
                Some(Stop::Exhausted) => return Some(CommitAction::Pause(replay.exhausted.clone())),
                Some(Stop::Release) => return Some(CommitAction::Release),
                Some(Stop::Cancel | Stop::Deadline) | None => {}
            }
        }
        match replay.has_must_commit_changes() {
            true => Some(CommitAction::KeepRunning),
            false => None,
        }
    }

    /// Advances an idle run that has nothing to commit. Returns true if something changed.
    fn take_idle_turn(&mut self) -> bool {
        if self.is_writing() || matches!(self.work, DriverWork::FinishOperationOutcome(_)) {
            return false;
        }
        let mut replay = self.activation.replay();
        if replay.computing > 0 {
            return false;
        }
        if replay.replaying {
            if self.turn.wanted.load(Ordering::SeqCst) {
                return false;
            }
            if replay.release_next() {
                return true;
            }
            if !replay.is_awaited() {
                // The code waits for something of its own, so the replay is not over.
                return false;
            }
            replay.end_replay();
            drop(replay);
            self.activation.wake_all();
            return true;
        }
        if replay.end_turn() {
            // The step that had the turn was dropped.
            drop(replay);
            self.activation.wake_all();
            return true;
        }
        let undoing = replay.undoing;
        if replay.stop.is_none()
            && let Some(asked) = replay.requested_stop()
        {
            replay.stop = Some(asked);
            return true;
        }
        let must_undo = matches!(replay.stop, Some(Stop::Cancel | Stop::Deadline));
        if !must_undo || undoing || replay.in_flight > 0 || replay.shields > 0 || replay.doubts_held > 0 {
            return false;
        }
        let result = match replay.stop.take() {
            Some(Stop::Deadline) => {
                let failure = Failure::permanent("the run did not end by its deadline");
                RunResult::Failed(failure.with_code("deadline_exceeded"))
            }
            _ => cancelled(),
        };
        replay.ending = true;
        drop(replay);
        // Drops the code. The effects that it registered for undo stay.
        self.work = DriverWork::FinishOperationOutcome(CommitAction::KeepRunning);
        self.work = self.undo(result);
        true
    }

    /// Starts the commit of the queued changes. Returns false if the commit cannot be built.
    fn begin_commit(&mut self, engine: &Arc<Inner>, slot: &Arc<RunSlot>, action: CommitAction) -> bool {
        let announce = engine.subscribers(&self.activation.facts.workspace);
        let mut replay = self.activation.replay();
        if replay.replaying && replay.is_given_back {
            // It is not certain that this code made the records.
            replay.changes.clear();
        }
        let changes = std::mem::take(&mut replay.changes);
        let covers = replay.queued();
        replay.releasing_lease = !matches!(action, CommitAction::KeepRunning);
        let base = CommitBase {
            head: &replay.head,
            open: &replay.open,
            has_unrecorded_steps: replay.has_unrecorded_steps()
                || (replay.replaying && replay.is_first_after_crash()),
            ends_by_cancel: replay.ends_by_cancel,
        };
        let built = build(&base, &changes, &action, announce, self.activation.now());
        drop(replay);
        let request = match built {
            Ok(request) => Box::new(request),
            Err(illegal) => {
                tracing::error!(run = %slot.run, %illegal, "a fault in the engine; the run is given up here");
                return false;
            }
        };
        match action {
            CommitAction::Close(_) => engine.reached(|| CrashPoint::BeforeCompletion(slot.run)),
            _ => engine.reached(|| CrashPoint::BeforeRecord(slot.run)),
        }
        if engine.phase() == Phase::Killed {
            return false;
        }
        let commit = commit(engine.clone(), slot.clone(), request);
        self.commit = Some((Box::pin(commit), changes, action, covers));
        true
    }
}

fn begin(
    workflow: &Arc<Workflow>,
    activation: &Arc<Activation>,
    scope: &Arc<Scope>,
    input: Payload,
) -> UserCode {
    let workflow = workflow.clone();
    let ctx = Ctx::new(activation.clone(), scope.clone());
    // The user's function is called inside the future, so a panic in it is caught like any other.
    UserCode::new(Box::pin(async move { workflow.begin(ctx, input).await }))
}

/// Future of a workflow's code. Dropping it never unwinds, even if the code panics while it is dropped.
pub(crate) struct UserCode(Option<WorkflowFuture>);

impl UserCode {
    pub(crate) fn new(code: WorkflowFuture) -> Self {
        UserCode(Some(code))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Payload, Failure>> {
        self.0.as_mut().expect("it is there until it is dropped").as_mut().poll(cx)
    }
}

impl Drop for UserCode {
    fn drop(&mut self) {
        let code = self.0.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(code))) {
            tracing::error!(
                panic = panic_text(&*panic),
                "the code of a workflow panicked while it was dropped"
            );
        }
    }
}

fn cancelled() -> RunResult {
    RunResult::Cancelled(Failure::permanent("the run was cancelled").with_code("cancelled"))
}

fn after_undoing(undone: Result<(), Failure>, result: RunResult) -> RunResult {
    let Err(undo_failure) = undone else { return result };
    let why = match &result {
        RunResult::Completed(_) => String::new(),
        RunResult::Failed(failure) | RunResult::Cancelled(failure) => failure.to_string(),
    };
    let text = format!("{why}; and undoing failed, so effects may stand: {undo_failure}");
    RunResult::Failed(Failure::permanent(text).with_code("undo_failed"))
}

/// Commits, and retries while the outcome is unknown and the lease still holds.
async fn commit(
    engine: Arc<Inner>,
    slot: Arc<RunSlot>,
    request: Box<RunCommit>,
) -> (Box<RunCommit>, Result<CommitOutcome, StoreError>) {
    let mut wait = Duration::from_millis(5);
    let mut unknown = false;
    loop {
        slot.write_sent(engine.clock.monotonic());
        let answer = engine.store.commit_run((*request).clone()).await;
        slot.write_answered();
        match answer {
            Ok(outcome) => {
                if unknown {
                    Counters::add(&engine.counters.unknown_resolved);
                }
                return (request, Ok(outcome));
            }
            Err(error) if error.is_retryable() && engine.clock.monotonic() + wait < slot.deadline() => {
                unknown |= matches!(error, StoreError::Unknown(_));
                tracing::warn!(run = %slot.run, %error, "write not confirmed; sending it again");
                engine.clock.sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                wait = (wait * 2).min(Duration::from_secs(1));
            }
            Err(error) => return (request, Err(error)),
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}
