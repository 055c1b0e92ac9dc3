//! Random writes under a lease: legal changes of steps, then sometimes a park, an end or a new generation.
//!
//! The writes follow the rules of an engine (it looks at arrivals before it parks, and ends its steps before it ends),
//! because the invariants apply to engines. The guards are random.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::model::{
    ClosePolicy, CommitBuilder, DoubtedAttempt, EffectKey, Failure, Fence, KeyRetention, NewRun,
    OutboxMessage, OutboxState, PendingRequest, Priority, Promise, PromiseId, PromiseKey, PromiseState,
    RunCommit, RunFacts, RunHead, RunId, RunResult, RunState, STEP_TRANSITIONS, StepChange, StepId, StepKind,
    StepRecord, StepState, StepStatus, StepTransition, Timestamp, Version, WriteToken,
};
use hapax_engine::store::RunLog;

use super::request_generator::{RequestGenerator, TARGETS, workflows};
use crate::fixture::{json, name};

/// Every step a run may have.
pub(super) const STEPS: [&str; 15] = [
    "charge",
    "ship",
    "pack",
    "charge~undo",
    "payment",
    "approval",
    "go",
    "kid",
    "kid#2",
    "nap",
    "wire",
    "wire#2",
    "book",
    "notify",
    "notify#2",
];
/// Standalone promises.
pub(super) const ALONE: [&str; 2] = ["approved", "shipped"];
/// Steps that wait for a promise.
pub(super) const PROMISES: [&str; 2] = ["payment", "approval"];

fn kind_of(step: &str) -> StepKind {
    match step {
        "charge~undo" => StepKind::Undo,
        "payment" | "approval" => StepKind::Promise,
        "go" => StepKind::Signal,
        "kid" | "kid#2" => StepKind::Child,
        "nap" => StepKind::Sleep,
        "wire" | "wire#2" => StepKind::Claimed,
        "book" => StepKind::Transaction,
        "notify" | "notify#2" => StepKind::AfterEffect,
        _ => StepKind::Effect,
    }
}

pub(super) struct CommitDraft<'a> {
    drafter: &'a mut RequestGenerator,
    head: RunHead,
    log: &'a RunLog,
    now: Timestamp,
    records: BTreeMap<StepId, StepRecord>,
    /// Unconsumed signals.
    signals: Vec<u64>,
    advancing: CommitBuilder,
}

impl<'a> CommitDraft<'a> {
    pub(super) fn new(
        drafter: &'a mut RequestGenerator,
        head: &RunHead,
        log: &'a RunLog,
        now: Timestamp,
    ) -> Self {
        CommitDraft {
            drafter,
            head: head.clone(),
            log,
            now,
            records: log.steps.iter().map(|step| (step.id.clone(), step.clone())).collect(),
            signals: log.signals.iter().map(|signal| signal.seq).collect(),
            advancing: CommitBuilder::new(head, now),
        }
    }

    pub(super) fn draw(mut self) -> RunCommit {
        for _ in 0..self.drafter.rng.usize(..4) {
            self.change_a_step();
        }
        match self.drafter.rng.u32(..100) {
            0..40 => {}
            40..62 => self.park(),
            62..68 => self.legal(CommitBuilder::release),
            68..72 => self.continue_as_new(),
            72..90 => self.end(),
            _ if self.head.asked == PendingRequest::Pause => self.legal(|advancing| advancing.pause(None)),
            // A step may have exhausted its attempts.
            96.. if self.head.asked == PendingRequest::Nothing => {
                self.legal(|advancing| advancing.pause(Some("tired".into())))
            }
            _ => {}
        }
        for _ in 0..self.drafter.rng.usize(..3) {
            let note = self.drafter.note_about(&self.head, self.advancing.generation(), self.now);
            self.advancing.note(note);
        }
        if self.drafter.chance(30) {
            let most = self.drafter.rng.u64(..4);
            self.advancing.limit_descendants(most);
        }
        let wrong = self.drafter.rng.u32(..40);
        let token = WriteToken::from_stored(self.drafter.rng.i64(..));
        let nothing = PromiseId::from_stored("nothing");
        let mut advance = RunCommit { token, ..self.advancing.finish() };
        match wrong {
            0 => advance.expected = Version::new(advance.expected.get() + 1000),
            1 => advance.fence = Fence::new(advance.fence.get() + 1000),
            2 => advance.timed_out.push(nothing),
            _ => {}
        }
        advance
    }

    fn legal(&mut self, change: fn(&mut CommitBuilder) -> Result<(), hapax_engine::model::IllegalChange>) {
        change(&mut self.advancing).expect("a running run may do so");
    }

    fn status_of(&self, id: &StepId) -> Option<StepStatus> {
        self.records.get(id).map(|record| record.state.status())
    }

    fn change_a_step(&mut self) {
        let step = match self.drafter.chance(15) {
            true => self.drafter.one_of(&["notify", "notify#2"]),
            false => self.drafter.one_of(&STEPS),
        };
        let id = StepId::from_stored(step);
        match (kind_of(step), self.status_of(&id)) {
            (StepKind::Undo, None) if self.drafter.chance(70) => {}
            (StepKind::AfterEffect, None) => self.leave(&id),
            (StepKind::Effect | StepKind::Undo | StepKind::Claimed | StepKind::Transaction, from) => {
                self.change_effect(&id, from);
            }
            (_, None) => self.begin_waiting(&id),
            (_, Some(StepStatus::Waiting)) => self.look_after(&id),
            (_, Some(_)) => {}
        }
    }

    /// Any legal change, with or without a recorded start before it.
    fn change_effect(&mut self, id: &StepId, from: Option<StepStatus>) {
        let begun = StepTransition::Begin.target(from);
        let ways: Vec<(StepTransition, StepStatus)> = STEP_TRANSITIONS
            .iter()
            .filter(|(f, by, _)| {
                let straight = *f == from && *by != StepTransition::Await;
                straight || (begun.is_some() && *f == begun && by.target(from).is_none())
            })
            .map(|(_, by, to)| (*by, *to))
            .collect();
        if let Some((transition, to)) = self.drafter.rng.choice(&ways).copied() {
            let state = self.state(to);
            self.change(id, transition, state, None);
            if to == StepStatus::InDoubt {
                self.ask_people(id);
            }
        }
    }

    /// Opens the promise that people settle to resolve a doubt. Each new doubt gets a new promise.
    fn ask_people(&mut self, id: &StepId) {
        let (attempt, round) = (self.records[id].attempts, self.drafter.rng.u32(..));
        let promise =
            DoubtedAttempt::new(self.head.id(), self.advancing.generation(), id, attempt).round(round.into());
        self.advancing.open_promise(Promise::pending(promise, self.head.id(), Timestamp::EPOCH, None));
    }

    fn state(&mut self, status: StepStatus) -> StepState {
        let at = self.now;
        match status {
            StepStatus::Pending => StepState::Pending {
                due_at: at.plus(Duration::from_secs(1)),
                failure: Failure::retryable("busy"),
            },
            StepStatus::Running => StepState::Running,
            StepStatus::Waiting => StepState::Waiting { until: None },
            StepStatus::Completed => {
                StepState::Completed { at, output: json(self.drafter.one_of(&["1", "[2]"])) }
            }
            StepStatus::Failed => StepState::Failed { at, failure: Failure::permanent("no").with_code("e") },
            StepStatus::Skipped => StepState::Skipped { at },
            StepStatus::Cancelled => StepState::Cancelled { at },
            StepStatus::InDoubt => {
                StepState::InDoubt { since: at, failure: Failure::unknown("its worker vanished") }
            }
        }
    }

    /// Adds an after-effect, due now or later.
    fn leave(&mut self, id: &StepId) {
        let wait = Duration::from_millis(self.drafter.one_of(&[0, 0, 1_000, 100_000]));
        let post = OutboxMessage {
            workspace: self.head.facts.workspace.clone(),
            id: EffectKey::new(self.head.id(), self.advancing.generation(), id),
            run: self.head.id(),
            target: name(self.drafter.one_of(&TARGETS)),
            payload: json(self.drafter.one_of(&["1", r#"{ "exact" : 2.0 }"#])),
            created_at: self.now,
            attempts: 0,
            failure: None,
            state: OutboxState::Due { at: self.now.plus(wait) },
        };
        self.advancing.post(post);
        let state = self.state(StepStatus::Completed);
        self.change(id, StepTransition::Complete, state, None);
    }

    fn change(&mut self, id: &StepId, transition: StepTransition, state: StepState, child: Option<RunId>) {
        let previous = self.records.get(id).cloned();
        let from = previous.as_ref().map(|record| record.state.status());
        let begins = transition == StepTransition::Begin || transition.target(from).is_none();
        let change = StepChange {
            id: id.clone(),
            kind: kind_of(id.as_str()),
            attempts: previous.as_ref().map_or(0, |record| record.attempts) + u32::from(begins),
            started_at: previous.as_ref().map_or(self.now, |record| record.started_at),
            child: child.or(previous.as_ref().and_then(|record| record.child)),
            previous,
            transition,
            state,
        };
        let record = self.advancing.step(change).expect("the change is legal");
        self.records.insert(id.clone(), record);
    }

    fn promise_of(&self, id: &StepId) -> PromiseId {
        PromiseId::for_step(self.head.id(), self.advancing.generation(), id)
    }

    /// Sometimes adds a key, sometimes picks a standalone promise instead.
    fn some_promise(&mut self, promise: Promise) -> Promise {
        match self.drafter.rng.u32(..10) {
            0..5 => {
                let keep_for = self.drafter.one_of(&[0, 1_000, 100_000]);
                let key = self.drafter.promise_key();
                Promise {
                    key: Some(PromiseKey { key, keep_for: Duration::from_millis(keep_for) }),
                    ..promise
                }
            }
            5..7 => {
                let id = PromiseId::from_stored(self.drafter.one_of(&ALONE));
                Promise::pending(id, RunId::NONE, self.now, promise.deadline_at)
            }
            _ => promise,
        }
    }

    fn begin_waiting(&mut self, id: &StepId) {
        let (mut until, mut child) = (None, None);
        match kind_of(id.as_str()) {
            StepKind::Promise => {
                let span = self.drafter.one_of(&[None, Some(0), Some(10_000), Some(100_000)]);
                until = span.map(|ms| self.now.plus(Duration::from_millis(ms)));
                let promise = Promise::pending(self.promise_of(id), self.head.id(), Timestamp::EPOCH, until);
                let promise = self.some_promise(promise);
                self.advancing.open_promise(promise);
            }
            StepKind::Child => {
                let new = self.child(id);
                child = Some(new.facts.id);
                self.advancing.start_child(new);
            }
            StepKind::Sleep => until = Some(self.now.plus(Duration::from_secs(self.drafter.rng.u64(..60)))),
            _ => {}
        }
        self.change(id, StepTransition::Await, StepState::Waiting { until }, child);
    }

    fn child(&mut self, step: &StepId) -> NewRun {
        let on_close = self.drafter.one_of(&[ClosePolicy::Cancel, ClosePolicy::Abandon]);
        let facts = RunFacts {
            workspace: self.head.facts.workspace.clone(),
            id: self.drafter.fresh_id(),
            workflow: workflows()[self.drafter.rng.usize(..3)].clone(),
            key: None,
            fingerprint: None,
            retention: KeyRetention::default(),
            subject: None,
            priority: Priority::Normal,
            deadline_at: None,
            parent: Some(self.head.facts.as_parent(step.clone(), on_close)),
            created_at: self.now,
        };
        NewRun { facts: Arc::new(facts), input: json("3"), due_at: None, grant: self.drafter.maybe_grant() }
    }

    /// Returns true if the arrival that the step waits for is there.
    fn has_come(&self, id: &StepId) -> bool {
        let Some(record) = self.records.get(id) else { return false };
        match record.kind {
            StepKind::Promise => {
                let promise = self.promise_of(id);
                let found =
                    self.log.promises.iter().find(|known| known.id == promise || known.is_standalone());
                found.is_some_and(|known| known.state != PromiseState::Pending)
            }
            StepKind::Child => {
                let ended = |(child, result): &(RunId, Option<RunResult>)| {
                    Some(*child) == record.child && result.is_some()
                };
                self.log.children.iter().any(ended)
            }
            StepKind::Sleep => {
                matches!(record.state, StepState::Waiting { until: Some(until) } if until <= self.now)
            }
            _ => false,
        }
    }

    /// Completes a wait that is due, lets a promise time out, or abandons the wait.
    fn look_after(&mut self, id: &StepId) {
        let kind = kind_of(id.as_str());
        let is_late =
            matches!(self.records[id].state, StepState::Waiting { until: Some(until) } if until <= self.now);
        if self.has_come(id) {
            let state = self.state(StepStatus::Completed);
            self.change(id, StepTransition::Complete, state, None);
        } else if kind == StepKind::Signal && !self.signals.is_empty() {
            let seq = self.signals.swap_remove(self.drafter.rng.usize(..self.signals.len()));
            self.advancing.consume_signal(seq);
            let state = self.state(StepStatus::Completed);
            self.change(id, StepTransition::Complete, state, None);
        } else if kind == StepKind::Promise && is_late {
            // A standalone promise has its own deadline.
            let own = self.promise_of(id);
            if self.log.promises.iter().any(|known| known.id == own) {
                self.advancing.time_out_promise(own);
            }
            let state = self.state(StepStatus::Failed);
            self.change(id, StepTransition::Fail, state, None);
        } else if self.drafter.chance(30) {
            self.change(id, StepTransition::Cancel, StepState::Cancelled { at: self.now }, None);
        }
    }

    fn steps_with(&self, fits: impl Fn(StepStatus) -> bool) -> Vec<StepId> {
        let fitting = self.records.values().filter(|record| fits(record.state.status()));
        fitting.map(|record| record.id.clone()).collect()
    }

    /// Parks having seen all arrivals up to the time the head was read; sometimes it has missed one.
    fn park(&mut self) {
        for id in self.steps_with(|status| status == StepStatus::Waiting) {
            if self.has_come(&id) {
                self.look_after(&id);
            }
        }
        let timer = |record: &StepRecord| match record.state {
            StepState::Waiting { until } => until,
            StepState::Pending { due_at, .. } => Some(due_at),
            _ => None,
        };
        let moved_by_others = |record: &&StepRecord| {
            record.state.status() == StepStatus::Waiting && record.kind != StepKind::Sleep
        };
        let mut wake_at = self.records.values().filter_map(timer).min();
        if !self.records.values().any(|record| moved_by_others(&record)) {
            wake_at = wake_at.or(Some(self.now.plus(Duration::from_secs(1))));
        }
        let unseen = u64::from(self.drafter.chance(20));
        let seen = self.head.arrivals.saturating_sub(unseen);
        self.advancing.wait(wake_at, seen).expect("a running run may park");
    }

    fn continue_as_new(&mut self) {
        let input = json(self.drafter.one_of(&["4", "5"]));
        self.advancing.continue_as_new(input).expect("a running run may continue");
        self.records.clear();
        for _ in 0..self.drafter.rng.usize(..2) {
            self.change_a_step();
        }
    }

    fn end(&mut self) {
        for id in self.steps_with(|status| !status.is_final()) {
            match self.status_of(&id) {
                // A run may end with an open doubt.
                Some(StepStatus::InDoubt) if self.drafter.chance(60) => {}
                Some(StepStatus::InDoubt) => {
                    let state = self.state(StepStatus::Failed);
                    self.change(&id, StepTransition::Abandon, state, None);
                }
                _ => self.change(&id, StepTransition::Cancel, StepState::Cancelled { at: self.now }, None),
            }
        }
        let result = match self.drafter.rng.u32(..5) {
            0 => RunResult::Completed(json(self.drafter.one_of(&["1", "2"]))),
            1 => RunResult::Cancelled(Failure::permanent("cancelled")),
            _ => RunResult::Failed(Failure::permanent("no")),
        };
        self.advancing.close(result).expect("a running run may end");
        debug_assert!(matches!(self.head.state, RunState::Running(_)));
    }
}
