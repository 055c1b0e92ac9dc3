//! Drives one run: polls its code, writes what it did, and parks, stops or ends it.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;

use super::activation::Activation;
use super::change::{Base, Change, Closing, build};
use super::inner::{Inner, Phase};
use super::late::LostRun;
use super::point::Point;
use super::registry::{Workflow, WorkflowFuture};
use super::replay_state::Stop;
use super::run_slot::{NewArrival, RunMessage, RunSlot};
use super::stats::Counters;
use crate::clock::Sleep;
use crate::ctx::{Ctx, Scope, undo_all};
use crate::model::{Failure, Payload, RunCommit, RunHead, RunResult, Timestamp};
use crate::store::{CommitOutcome, StoreError};

/// How a stretch of driving ended.
pub(crate) enum End {
    /// The run is parked; its code may be kept to go on from here.
    Parked(Timestamp),
    /// The run ended.
    Closed(RunResult),
    /// The run was paused, or the lease was given back.
    LetGo,
    /// Somebody else has the run, or this engine can no longer hold it: nothing more may be done.
    Lost,
    /// What was read no longer holds: read the log and drive on under the same lease.
    Reread,
}

type Commit = Pin<Box<dyn Future<Output = (Box<RunCommit>, Result<CommitOutcome, StoreError>)> + Send>>;

/// What the driver is polling.
enum Work {
    /// The workflow's code.
    Workflow(UserCode),
    /// The undoing of its effects; the run then ends with this.
    Undoing(Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>, RunResult),
    /// Nothing: the last write says how it ends.
    Over(Closing),
}

/// One run, its code, and the write in flight.
pub(crate) struct Driver {
    pub(crate) activation: Arc<Activation>,
    workflow: Arc<Workflow>,
    scope: Arc<Scope>,
    work: Work,
    commit: Option<(Commit, Vec<Change>, Closing, u64)>,
    pub(super) transaction: Option<super::transact::InFlight>,
    timer: Option<(Timestamp, Sleep)>,
    steered: Option<RunHead>,
    turn: Arc<Turn>,
    turn_waker: Waker,
}

/// Tells the driver that the code wants a turn. A wake-up from within the driver's own turn costs nothing: the
/// driver looks again before it yields.
#[derive(Default)]
struct Turn {
    wanted: AtomicBool,
    within: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Turn {
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
        let work = Work::Workflow(begin(&workflow, &activation, &scope, input));
        let turn = Arc::new(Turn { wanted: AtomicBool::new(true), ..Turn::default() });
        let turn_waker = Waker::from(turn.clone());
        Driver {
            activation,
            workflow,
            scope,
            work,
            commit: None,
            transaction: None,
            timer: None,
            steered: None,
            turn,
            turn_waker,
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let active = self.activation.active();
        active.listen(cx.waker());
        self.turn.task.register(cx.waker());
        loop {
            self.turn.within.store(true, Ordering::SeqCst);
            let end = self.take_turn(&active, cx);
            self.turn.within.store(false, Ordering::SeqCst);
            match end {
                Some(end) => return Poll::Ready(end),
                None if self.turn.wanted.load(Ordering::SeqCst) => {}
                None => return Poll::Pending,
            }
        }
    }

    fn take_turn(&mut self, active: &Arc<RunSlot>, cx: &mut Context<'_>) -> Option<End> {
        let engine = self.activation.engine.clone();
        loop {
            if engine.phase() == Phase::Killed {
                return Some(End::Lost);
            }
            if !self.read_mail(&engine, active) {
                let unwritten = self.commit.take().map(|(_, changes, ..)| changes).unwrap_or_default();
                self.tell_late(&engine, active, &unwritten);
                return Some(End::Lost);
            }
            if let Some(end) = self.poll_commit(&engine, active, cx) {
                return Some(end);
            }
            if let Some(end) = self.poll_transaction(&engine, cx) {
                return Some(end);
            }
            self.poll_timer(cx);
            self.poll_work();
            self.heed_late_cancel();
            match self.next_write() {
                Some(closing) => {
                    if !self.begin_commit(&engine, active, closing) {
                        return Some(End::Lost);
                    }
                }
                None if !self.is_writing() && self.begin_transaction(&engine) => {}
                None if self.step_aside() => {}
                None => return None,
            }
        }
    }

    /// Takes in what came for the run; false if the lease is gone.
    fn read_mail(&mut self, engine: &Inner, active: &RunSlot) -> bool {
        let mail = active.take_mail();
        if mail.is_empty() {
            return true;
        }
        for mail in mail {
            match mail {
                RunMessage::Arrived(news) => self.activation.desk().note(news),
                RunMessage::Release => {
                    self.activation.desk().stop.get_or_insert(Stop::Release);
                }
                RunMessage::Steered(head) => self.steered = Some(*head),
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
        active: &Arc<RunSlot>,
        cx: &mut Context<'_>,
    ) -> Option<End> {
        let Some((commit, ..)) = self.commit.as_mut() else {
            if self.transaction.is_none() {
                self.look_at_steering();
            }
            return None;
        };
        let Poll::Ready((advance, outcome)) = commit.as_mut().poll(cx) else { return None };
        let (_, changes, closing, covers) = self.commit.take().expect("polled just now");
        self.activation.desk().leaving = false;
        match outcome {
            Ok(CommitOutcome::Committed { woken, opened }) => {
                engine.wake(&woken);
                Counters::add_many(&engine.counters.created, advance.children.len() as u64);
                for promise in opened {
                    self.activation.desk().note(NewArrival::Opened(Box::new(promise)));
                }
                self.written(engine, *advance, closing, covers)
            }
            Ok(CommitOutcome::Stale(head)) if head.version == advance.expected => {
                // A promise was settled just as its time ran out, and the code has seen the other outcome.
                Counters::add(&engine.counters.stale_writes);
                self.read_again(engine, active, &changes);
                Some(End::Reread)
            }
            Ok(CommitOutcome::Stale(head)) => {
                Counters::add(&engine.counters.stale_writes);
                self.take_back(changes, closing, head);
                None
            }
            Ok(CommitOutcome::ChildrenRefused(refused)) => {
                self.refuse_children(changes, &refused);
                if matches!(closing, Closing::Continue(_) | Closing::End(_)) {
                    self.work = Work::Over(closing);
                }
                None
            }
            Ok(CommitOutcome::LeaseLost) => {
                Counters::add(&engine.counters.fenced_writes);
                tracing::warn!(run = %active.run, fence = %active.fence, "lease lost; the write was refused");
                self.tell_late(engine, active, &changes);
                Some(End::Lost)
            }
            Err(error) => {
                Counters::add(&engine.counters.self_fenced);
                tracing::error!(run = %active.run, %error, "the run is given up here: its write could not be made");
                self.tell_late(engine, active, &changes);
                Some(End::Lost)
            }
        }
    }

    /// The run is lost. What its attempts came to is evidence all the same: what was in the write that failed, and what came after it.
    pub(super) fn tell_late(&self, engine: &Arc<Inner>, active: &RunSlot, unwritten: &[Change]) {
        let desk = self.activation.desk();
        let lost = LostRun {
            workspace: &active.workspace,
            run: active.run,
            generation: self.activation.generation,
            fence: active.fence,
        };
        engine.tell_late(lost.outcomes(unwritten.iter().chain(&desk.changes)));
    }

    /// What was collected is dropped, and with it the code. What the code was in the middle of may happen, and nothing else tells of it.
    pub(super) fn read_again(&mut self, engine: &Arc<Inner>, active: &RunSlot, unwritten: &[Change]) {
        self.tell_late(engine, active, unwritten);
        let mut desk = self.activation.desk();
        let mut cut_off = std::mem::take(&mut desk.entered);
        cut_off.extend(unwritten.iter().chain(&desk.changes).filter_map(Change::attempted));
        desk.cut_off = cut_off;
    }

    /// Takes over what people asked, unless a write has told of it already.
    fn look_at_steering(&mut self) {
        let Some(steered) = self.steered.take() else { return };
        let mut desk = self.activation.desk();
        if steered.version > desk.head.version && steered.fence == desk.head.fence {
            desk.take_over(steered);
        }
    }

    /// The write took effect.
    pub(super) fn written(
        &mut self,
        engine: &Arc<Inner>,
        advance: RunCommit,
        closing: Closing,
        covers: u64,
    ) -> Option<End> {
        let run = advance.run();
        if !advance.posts.is_empty() {
            engine.posted.notify_one();
        }
        {
            let mut desk = self.activation.desk();
            desk.durable = covers;
            for step in &advance.steps {
                match step.state.status().is_final() {
                    true => desk.open.remove(&step.id),
                    false => desk.open.insert(step.id.clone(), step.clone()),
                };
            }
            desk.head = advance.head;
            desk.first_wave &= desk.head.stalls > 0;
        }
        match closing {
            Closing::GoOn => {
                engine.reached(|| Point::AfterRecord(run));
                self.activation.wake_all();
                None
            }
            Closing::Wait { wake_at, .. } => {
                engine.reached(|| Point::AfterRecord(run));
                let far = Timestamp::from_millis(i64::MAX);
                Some(End::Parked(wake_at.unwrap_or(far)))
            }
            Closing::Pause(_) | Closing::Release => Some(End::LetGo),
            Closing::Continue(input) => {
                engine.reached(|| Point::AfterRecord(run));
                self.continue_with(input);
                None
            }
            Closing::End(result) => {
                engine.reached(|| Point::AfterCompletion(run));
                Some(End::Closed(result))
            }
        }
    }

    /// The run changed under the write: put it back together on top of the change.
    fn take_back(&mut self, changes: Vec<Change>, closing: Closing, head: RunHead) {
        let mut desk = self.activation.desk();
        let later = std::mem::replace(&mut desk.changes, changes);
        desk.changes.extend(later);
        desk.take_over(head);
        drop(desk);
        if matches!(closing, Closing::Continue(_) | Closing::End(_)) {
            self.work = Work::Over(closing);
        }
        self.activation.wake_all();
    }

    fn continue_with(&mut self, input: Payload) {
        let head = self.activation.desk().head.clone();
        self.activation = Arc::new(self.activation.continued(head));
        self.scope = Arc::new(Scope::default());
        self.work = Work::Workflow(begin(&self.workflow, &self.activation, &self.scope, input));
        self.timer = None;
        self.turn.wanted.store(true, Ordering::SeqCst);
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        if let Work::Over(_) = self.work {
            self.timer = None;
            return;
        }
        let now = self.activation.now();
        if self.activation.desk().next_timer().is_some_and(|due| due <= now) {
            let past_deadline = self.activation.facts.deadline_at.is_some_and(|at| at <= now);
            if past_deadline && matches!(self.work, Work::Workflow(_)) {
                self.activation.desk().stop.get_or_insert(Stop::Deadline);
            }
            self.activation.wake_all();
        }
        // What is due takes its turn now; what is not must be waited for all the same.
        let next = self.activation.desk().next_timer_after(now);
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
        self.activation.desk().in_turn = true;
        let next = match &mut self.work {
            Work::Over(_) => return,
            Work::Workflow(code) => match catch_unwind(AssertUnwindSafe(|| code.poll(cx))) {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(outcome)) => Some(self.after_workflow(outcome)),
                Err(panic) => {
                    let failure = Failure::unknown(format!("the workflow panicked: {}", panic_text(&*panic)));
                    Some(self.after_workflow(Err(failure.with_code("panicked"))))
                }
            },
            Work::Undoing(code, result) => match code.as_mut().poll(cx) {
                Poll::Pending => None,
                Poll::Ready(undone) => Some(Work::Over(Closing::End(after_undoing(undone, result.clone())))),
            },
        };
        if let Some(next) = next {
            self.work = next;
        }
        self.activation.desk().in_turn = false;
        let violation = self.activation.desk().violation.take();
        if let Some(violation) = violation {
            let text = format!(
                "DeterminismViolation: {violation}; restore the code this run began with, or register the \
                 changed code as a new version, then retry the run"
            );
            let failure = Failure::permanent(text).with_code("determinism_violation");
            // Nothing of what the deviating code collected may be written.
            self.activation.desk().changes.clear();
            self.work = Work::Over(Closing::End(RunResult::Failed(failure)));
        }
    }

    fn after_workflow(&mut self, outcome: Result<Payload, Failure>) -> Work {
        {
            let mut desk = self.activation.desk();
            if desk.replaying || desk.has_untaken() {
                desk.end_replay();
            }
            if let Some(input) = desk.continue_with.take() {
                if desk.has_doubt() {
                    let text = "an effect of the run is in doubt, and a new history would not know of it; \
                                resolve it and retry the run, or start a new one if its effects were undone";
                    let failure = Failure::permanent(text).with_code("in_doubt");
                    drop(desk);
                    // It fails like any other run: what was done in it is undone.
                    return self.undo(RunResult::Failed(failure));
                }
                return Work::Over(Closing::Continue(input));
            }
        }
        match outcome {
            Ok(output) => Work::Over(Closing::End(RunResult::Completed(output))),
            Err(failure) => self.undo(RunResult::Failed(failure)),
        }
    }

    /// A cancellation wins if it was acknowledged before the end of the run is durable, even if the code has run to its end.
    fn heed_late_cancel(&mut self) {
        let is_late =
            matches!(self.work, Work::Over(Closing::End(RunResult::Completed(_)) | Closing::Continue(_)));
        if is_late && !self.is_writing() && self.activation.desk().asked_to_stop() == Some(Stop::Cancel) {
            self.work = self.undo(cancelled());
        }
    }

    /// Undoes the effects that know how to be undone, last first, and then ends with `result`.
    fn undo(&self, result: RunResult) -> Work {
        {
            let mut desk = self.activation.desk();
            desk.transactions.clear();
            desk.heeds_cancel = matches!(result, RunResult::Cancelled(_));
        }
        self.turn.wanted.store(true, Ordering::SeqCst);
        if self.scope.is_empty() {
            return Work::Over(Closing::End(result));
        }
        let mut desk = self.activation.desk();
        desk.undoing = true;
        // What is collected by now is written before the first effect is undone, and looks like progress.
        desk.hides_undo = desk.is_first_after_crash();
        // What is undone depends on how far the code has come, and a run that is to stop is told nothing more in a replay.
        desk.bind();
        // A run that was to be cancelled and failed by itself is undone like any other.
        desk.stop = desk.stop.filter(|stop| matches!(stop, Stop::Pause | Stop::Exhausted | Stop::Release));
        drop(desk);
        Work::Undoing(Box::pin(undo_all(self.activation.clone(), self.scope.clone())), result)
    }

    /// Is a write or a transaction in flight? There is one at a time: each is guarded by the version the last one made.
    fn is_writing(&self) -> bool {
        self.commit.is_some() || self.transaction.is_some()
    }

    /// What to write now, if anything.
    fn next_write(&mut self) -> Option<Closing> {
        if self.is_writing() {
            return None;
        }
        let desk = self.activation.desk();
        if let Work::Over(closing) = &self.work {
            // A pause that was acknowledged before the end is durable comes first: the end follows when people resume it.
            let pauses_first =
                matches!(closing, Closing::End(_)) && desk.asked_to_stop() == Some(Stop::Pause);
            return Some(if pauses_first { Closing::Pause(None) } else { closing.clone() });
        }
        if desk.computing > 0 {
            return None;
        }
        if desk.replaying {
            // Whether the code is the one that made the records is not known before all of them were asked for.
            return None;
        }
        if desk.in_flight == 0 {
            let only_waits = desk.gated == 0 && !desk.waits.is_empty() && desk.transactions.is_empty();
            // A run that is stopped has not looked at what has arrived for it, so it may not park as if it had.
            if only_waits && !desk.is_stopped() {
                if self.turn.wanted.load(Ordering::SeqCst) {
                    // Some of it may be there already: it looks again before it parks.
                    return None;
                }
                return Some(Closing::Wait { wake_at: desk.next_timer(), arrivals_seen: desk.arrivals_seen });
            }
            let is_to_end = matches!(desk.stop, Some(Stop::Cancel | Stop::Deadline)) && desk.shields == 0;
            if is_to_end
                && desk.gated_through == 0
                && desk.doubts_held > 0
                && !desk.waits.is_empty()
                && !self.turn.wanted.load(Ordering::SeqCst)
            {
                // It ends when people have ruled, and waits for them as any run waits.
                let wake_at = desk.next_look_at_doubts();
                return Some(Closing::Wait { wake_at, arrivals_seen: desk.arrivals_seen });
            }
            match desk.stop.filter(|_| desk.shields == 0) {
                Some(Stop::Pause) => return Some(Closing::Pause(None)),
                Some(Stop::Exhausted) => return Some(Closing::Pause(desk.exhausted.clone())),
                Some(Stop::Release) => return Some(Closing::Release),
                Some(Stop::Cancel | Stop::Deadline) | None => {}
            }
        }
        match desk.has_binding_changes() {
            true => Some(Closing::GoOn),
            false => None,
        }
    }

    /// Nothing to write and the code waits: is there a turn to take? True if there was.
    fn step_aside(&mut self) -> bool {
        if self.is_writing() || matches!(self.work, Work::Over(_)) {
            return false;
        }
        let mut desk = self.activation.desk();
        if desk.computing > 0 {
            return false;
        }
        if desk.replaying {
            if self.turn.wanted.load(Ordering::SeqCst) {
                return false;
            }
            if desk.release_next() {
                return true;
            }
            if !desk.is_awaited() {
                // The code waits for something of its own; the replay is not over.
                return false;
            }
            desk.end_replay();
            drop(desk);
            self.activation.wake_all();
            return true;
        }
        if desk.end_turn() {
            // Whoever had it is gone.
            drop(desk);
            self.activation.wake_all();
            return true;
        }
        let undoing = desk.undoing;
        if desk.stop.is_none()
            && let Some(asked) = desk.asked_to_stop()
        {
            desk.stop = Some(asked);
            return true;
        }
        let must_undo = matches!(desk.stop, Some(Stop::Cancel | Stop::Deadline));
        if !must_undo || undoing || desk.in_flight > 0 || desk.shields > 0 || desk.doubts_held > 0 {
            return false;
        }
        let result = match desk.stop.take() {
            Some(Stop::Deadline) => {
                let failure = Failure::permanent("the run did not end by its deadline");
                RunResult::Failed(failure.with_code("deadline_exceeded"))
            }
            _ => cancelled(),
        };
        desk.ending = true;
        drop(desk);
        // The code is dropped here; what it has registered for undoing stays.
        self.work = Work::Over(Closing::GoOn);
        self.work = self.undo(result);
        true
    }

    /// Starts the write of what is collected; false if it cannot be one.
    fn begin_commit(&mut self, engine: &Arc<Inner>, active: &Arc<RunSlot>, closing: Closing) -> bool {
        let announce = engine.subscribers(&self.activation.facts.workspace);
        let mut desk = self.activation.desk();
        let changes = std::mem::take(&mut desk.changes);
        let covers = desk.queued();
        desk.leaving = !matches!(closing, Closing::GoOn);
        let base = Base {
            head: &desk.head,
            open: &desk.open,
            is_hiding: desk.is_hiding(),
            heeds_cancel: desk.heeds_cancel,
        };
        let built = build(&base, &changes, &closing, announce, self.activation.now());
        drop(desk);
        let advance = match built {
            Ok(advance) => Box::new(advance),
            Err(illegal) => {
                tracing::error!(run = %active.run, %illegal, "a fault in the engine; the run is given up here");
                return false;
            }
        };
        match closing {
            Closing::End(_) => engine.reached(|| Point::BeforeCompletion(active.run)),
            _ => engine.reached(|| Point::BeforeRecord(active.run)),
        }
        if engine.phase() == Phase::Killed {
            return false;
        }
        let commit = commit(engine.clone(), active.clone(), advance);
        self.commit = Some((Box::pin(commit), changes, closing, covers));
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
    // The user's function is called inside the future, so that a panic in it is caught like any other.
    UserCode(Some(Box::pin(async move { workflow.begin(ctx, input).await })))
}

/// A workflow's code. Whoever drops it does not unwind if something in it panics while it is dropped.
struct UserCode(Option<WorkflowFuture>);

impl UserCode {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Payload, Failure>> {
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

/// Writes, and writes again while the outcome is open and the lease still holds.
async fn commit(
    engine: Arc<Inner>,
    active: Arc<RunSlot>,
    advance: Box<RunCommit>,
) -> (Box<RunCommit>, Result<CommitOutcome, StoreError>) {
    let mut wait = Duration::from_millis(5);
    let mut unknown = false;
    loop {
        active.write_sent(engine.clock.monotonic());
        let answer = engine.store.commit_run((*advance).clone()).await;
        active.write_answered();
        match answer {
            Ok(outcome) => {
                if unknown {
                    Counters::add(&engine.counters.unknown_resolved);
                }
                return (advance, Ok(outcome));
            }
            Err(error) if error.is_retryable() && engine.clock.monotonic() + wait < active.deadline() => {
                unknown |= matches!(error, StoreError::Unknown(_));
                tracing::warn!(run = %active.run, %error, "write not confirmed; sending it again");
                engine.clock.sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                wait = (wait * 2).min(Duration::from_secs(1));
            }
            Err(error) => return (advance, Err(error)),
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
