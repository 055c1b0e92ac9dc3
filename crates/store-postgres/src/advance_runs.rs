//! The hot path of writes under leases: any number of them in one statement.

use std::borrow::Cow;
use std::collections::HashMap;

use hapax_engine::model::{
    EventKind, Promise, PromiseState, RunCommit, RunState, RunningState, StepId, StepRecord, Timestamp,
    decide_key_expiry,
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::codes::{Code, count, millis, millis_of};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{self, uuid};

/// Returns true if the write concerns nothing but its own run. Every other write reads first.
pub(crate) fn is_plain(advance: &RunCommit) -> bool {
    let facts = &advance.head.facts;
    let ends_quietly = match advance.head.state {
        RunState::Closed { .. } => facts.parent.is_none() && facts.subject.is_none(),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => true,
    };
    ends_quietly
        && advance.children.is_empty()
        && advance.input.is_none()
        && advance.timed_out.is_empty()
        && advance.promises.iter().all(says_nothing_more)
        && !advance.events.iter().any(|event| event.kind == EventKind::ContinuedAsNew)
}

/// Returns true if the promise is plainly open.
fn says_nothing_more(promise: &Promise) -> bool {
    let Promise { state, key, create_key, about, complete_key, said, .. } = promise;
    !promise.is_standalone()
        && *state == PromiseState::Pending
        && key.is_none()
        && create_key.is_none()
        && about.is_none()
        && complete_key.is_none()
        && said.is_none()
}

/// The columns of `advance_runs.sql`, each a list with one entry per row. `n` says which write a row belongs to.
#[derive(Debug, Default)]
pub(crate) struct CommitColumns<'a> {
    runs: RunColumns,
    steps: StepColumns<'a>,
    events: EventColumns<'a>,
    results: ResultColumns<'a>,
    expiries: ExpiryColumns<'a>,
    promises: PromiseColumns<'a>,
    consumed: ConsumedColumns,
    now: i64,
    /// At least as many as there are rows of runs, expiries, promises or consumed signals.
    limit: i64,
}

#[derive(Debug, Default)]
struct RunColumns {
    n: Vec<i32>,
    workspace: Vec<i32>,
    id: Vec<Uuid>,
    expected: Vec<i64>,
    fence: Vec<i64>,
    version: Vec<i64>,
    token: Vec<i64>,
    changed_at: Vec<i64>,
    stalls: Vec<i32>,
    generation: Vec<i32>,
    asked: Vec<i16>,
    status: Vec<i16>,
    closed_at: Vec<Option<i64>>,
    wake_at: Vec<Option<i64>>,
    keeps_lease: Vec<bool>,
    seen: Vec<i64>,
}

#[derive(Debug, Default)]
struct StepColumns<'a> {
    n: Vec<i32>,
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    generation: Vec<i32>,
    step: Vec<&'a str>,
    kind: Vec<i16>,
    status: Vec<i16>,
    attempts: Vec<i32>,
    started_at: Vec<i64>,
    started_version: Vec<i64>,
    changed_version: Vec<i64>,
    fence: Vec<i64>,
    at: Vec<Option<i64>>,
    value: Vec<Option<Cow<'a, str>>>,
    child: Vec<Option<Uuid>>,
}

#[derive(Debug, Default)]
struct EventColumns<'a> {
    n: Vec<i32>,
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    version: Vec<i64>,
    at: Vec<i64>,
    fence: Vec<i64>,
    kind: Vec<i16>,
    note: Vec<Option<&'a str>>,
}

#[derive(Debug, Default)]
struct ResultColumns<'a> {
    n: Vec<i32>,
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    status: Vec<i16>,
    value: Vec<Cow<'a, str>>,
}

#[derive(Debug, Default)]
struct ExpiryColumns<'a> {
    n: Vec<i32>,
    workspace: Vec<i32>,
    key: Vec<&'a str>,
    run: Vec<Uuid>,
    expires_at: Vec<i64>,
}

#[derive(Debug, Default)]
struct PromiseColumns<'a> {
    n: Vec<i32>,
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    id: Vec<&'a str>,
    deadline_at: Vec<Option<i64>>,
    created_at: Vec<i64>,
}

#[derive(Debug, Default)]
struct ConsumedColumns {
    n: Vec<i32>,
    workspace: Vec<i32>,
    run: Vec<Uuid>,
    seq: Vec<i64>,
}

impl<'a> CommitColumns<'a> {
    /// The columns of writes to different runs, in the order of the runs.
    pub(crate) fn new(
        writes: &[(i32, WorkspaceRowId, &'a RunCommit)],
        now: Timestamp,
    ) -> Result<Self, Fault> {
        let mut columns = CommitColumns { now: millis(now), ..CommitColumns::default() };
        for (n, workspace, advance) in writes {
            columns.push(*n, *workspace, advance)?;
        }
        // Keys are locked in their own order, as starts do.
        let mut ended: Vec<&(i32, WorkspaceRowId, &'a RunCommit)> = writes.iter().collect();
        ended.sort_by_key(|(_, workspace, advance)| (*workspace, advance.head.facts.key.as_ref()));
        for (n, workspace, advance) in ended {
            columns.push_expiry(*n, *workspace, advance);
        }
        let lengths = [columns.runs.n.len(), columns.consumed.n.len(), columns.promises.n.len()];
        columns.limit = lengths.into_iter().max().unwrap_or(0) as i64;
        Ok(columns)
    }

    fn push(&mut self, n: i32, workspace: WorkspaceRowId, advance: &'a RunCommit) -> Result<(), Fault> {
        let (workspace, run) = (workspace.0, uuid(advance.run()));
        self.push_run(n, workspace, advance);
        for step in latest(&advance.steps) {
            self.push_step(n, workspace, advance, step)?;
        }
        for event in &advance.events {
            self.events.n.push(n);
            self.events.workspace.push(workspace);
            self.events.run.push(run);
            self.events.version.push(count(event.version.get()));
            self.events.at.push(millis(event.at));
            self.events.fence.push(count(event.fence.get()));
            self.events.kind.push(event.kind.code());
            self.events.note.push(event.note.as_deref());
        }
        if let Some(result) = &advance.result {
            let (status, value) = rows::result_columns(result)?;
            self.results.n.push(n);
            self.results.workspace.push(workspace);
            self.results.run.push(run);
            self.results.status.push(status);
            self.results.value.push(value);
        }
        for promise in &advance.promises {
            self.promises.n.push(n);
            self.promises.workspace.push(workspace);
            self.promises.run.push(uuid(promise.run));
            self.promises.id.push(promise.id.as_str());
            self.promises.deadline_at.push(millis_of(promise.deadline_at));
            self.promises.created_at.push(millis(promise.created_at));
        }
        for seq in &advance.consumed {
            self.consumed.n.push(n);
            self.consumed.workspace.push(workspace);
            self.consumed.run.push(run);
            self.consumed.seq.push(count(*seq));
        }
        Ok(())
    }

    fn push_run(&mut self, n: i32, workspace: i32, advance: &RunCommit) {
        let (head, runs) = (&advance.head, &mut self.runs);
        let keeps_lease = matches!(head.state, RunState::Running(RunningState::Leased(_)));
        // Only a waiting run has to notice arrivals.
        let seen = match head.state {
            RunState::Waiting { .. } => count(head.arrivals),
            RunState::Pending { .. } | RunState::Running(_) | RunState::Paused | RunState::Closed { .. } => {
                i64::MAX
            }
        };
        runs.n.push(n);
        runs.workspace.push(workspace);
        runs.id.push(uuid(advance.run()));
        runs.expected.push(count(advance.expected.get()));
        runs.fence.push(count(advance.fence.get()));
        runs.version.push(count(head.version.get()));
        runs.token.push(advance.token.get());
        runs.changed_at.push(millis(head.changed_at));
        runs.stalls.push(head.stalls.cast_signed());
        runs.generation.push(head.generation.get().cast_signed());
        runs.asked.push(head.asked.code());
        runs.status.push(head.status().code());
        runs.closed_at.push(millis_of(rows::closed_at(&head.state)));
        runs.wake_at.push(millis_of(head.state.wake_at()));
        runs.keeps_lease.push(keeps_lease);
        runs.seen.push(seen);
    }

    fn push_step(
        &mut self,
        n: i32,
        workspace: i32,
        advance: &RunCommit,
        step: &'a StepRecord,
    ) -> Result<(), Fault> {
        let (at, value) = rows::step_columns(&step.state)?;
        let steps = &mut self.steps;
        steps.n.push(n);
        steps.workspace.push(workspace);
        steps.run.push(uuid(advance.run()));
        steps.generation.push(advance.head.generation.get().cast_signed());
        steps.step.push(step.id.as_str());
        steps.kind.push(step.kind.code());
        steps.status.push(step.state.status().code());
        steps.attempts.push(step.attempts.cast_signed());
        steps.started_at.push(millis(step.started_at));
        steps.started_version.push(count(step.started_version.get()));
        steps.changed_version.push(count(step.changed_version.get()));
        steps.fence.push(count(step.fence.get()));
        steps.at.push(at);
        steps.value.push(value);
        steps.child.push(step.child.map(uuid));
        Ok(())
    }

    fn push_expiry(&mut self, n: i32, workspace: WorkspaceRowId, advance: &'a RunCommit) {
        let facts = &advance.head.facts;
        let (Some(key), RunState::Closed { at, ending }) = (&facts.key, advance.head.state) else { return };
        // The key of an open run has no expiry, so a key that never expires needs no write.
        let Some(expires_at) = decide_key_expiry(facts.retention, ending, at) else { return };
        self.expiries.n.push(n);
        self.expiries.workspace.push(workspace.0);
        self.expiries.key.push(key.as_str());
        self.expiries.run.push(uuid(facts.id));
        self.expiries.expires_at.push(millis(expires_at));
    }

    /// In the order of the statement.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let CommitColumns {
            runs: r,
            steps: s,
            events: e,
            results: f,
            expiries: x,
            promises: p,
            consumed: c,
            ..
        } = self;
        vec![
            &self.limit,
            &self.now,
            &r.n,
            &r.workspace,
            &r.id,
            &r.expected,
            &r.fence,
            &r.version,
            &r.token,
            &r.changed_at,
            &r.stalls,
            &r.generation,
            &r.asked,
            &r.status,
            &r.closed_at,
            &r.wake_at,
            &r.keeps_lease,
            &r.seen,
            &s.n,
            &s.workspace,
            &s.run,
            &s.generation,
            &s.step,
            &s.kind,
            &s.status,
            &s.attempts,
            &s.started_at,
            &s.started_version,
            &s.changed_version,
            &s.fence,
            &s.at,
            &s.value,
            &s.child,
            &e.n,
            &e.workspace,
            &e.run,
            &e.version,
            &e.at,
            &e.fence,
            &e.kind,
            &e.note,
            &f.n,
            &f.workspace,
            &f.run,
            &f.status,
            &f.value,
            &x.n,
            &x.workspace,
            &x.key,
            &x.run,
            &x.expires_at,
            &p.n,
            &p.workspace,
            &p.run,
            &p.id,
            &p.deadline_at,
            &p.created_at,
            &c.n,
            &c.workspace,
            &c.run,
            &c.seq,
        ]
    }
}

/// The last record of each step: one statement writes a row once.
fn latest(steps: &[StepRecord]) -> Vec<&StepRecord> {
    if let [] | [_] = steps {
        return steps.iter().collect();
    }
    let last: HashMap<&StepId, usize> = steps.iter().enumerate().map(|(i, step)| (&step.id, i)).collect();
    steps.iter().enumerate().filter(|(i, step)| last[&step.id] == *i).map(|(_, step)| step).collect()
}
