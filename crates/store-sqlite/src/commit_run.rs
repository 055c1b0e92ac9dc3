//! Writes under a lease: one guarded update of the run, then what belongs to it.

use std::borrow::Cow;

use hapax_engine::model::{
    EventKind, Promise, PromiseState, RunCommit, RunState, RunningState, StepRecord, StepState, Timestamp,
    WriteToken,
};
use hapax_engine::store::CommitOutcome;
use rusqlite::{OptionalExtension, params};

use crate::codes::{Code, count, millis, millis_of};
use crate::ending::{follow_ending, insert_result};
use crate::families::{family_after, put_family};
use crate::fault::Fault;
use crate::find;
use crate::forget_promises::forget_promises_of_run;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::open_promises::{open_promises, opened_since};
use crate::outbox::insert_posts;
use crate::promises::time_out_promise;
use crate::rows::{bytes, failure_text};
use crate::session::{Session, WorkspaceRowId};
use crate::start_run::{find_own, insert_new};

impl Verb for RunCommit {
    type Outcome = CommitOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<CommitOutcome, Fault> {
        check_children(self)?;
        let Some(workspace) = session.find_workspace(self.workspace())? else {
            return Ok(CommitOutcome::LeaseLost);
        };
        let mut children = Vec::new();
        for child in &self.children {
            if find_own(session, &child.facts)?.is_none() {
                children.push(child);
            }
        }
        if !all_pending(session, workspace, self)? {
            return refuse(session, workspace, self);
        }
        let family = match family_after(session, workspace, self, children.len())? {
            Ok(family) => family,
            Err(refused) if holds(session, workspace, self)? => {
                return Ok(CommitOutcome::ChildrenRefused(refused));
            }
            Err(_) => return refuse(session, workspace, self),
        };
        let mut woken = match write_guarded(session, workspace, self)? {
            GuardedUpdate::Refused => return refuse(session, workspace, self),
            GuardedUpdate::Written => Vec::new(),
            GuardedUpdate::DueAtOnce => vec![self.run()],
        };
        let opened = write_parts(session, workspace, self)?;
        if !opened.is_empty() && count_opened(session, workspace, self, opened.len())? && woken.is_empty() {
            woken.push(self.run());
        }
        insert_notes(session, &self.notes)?;
        insert_posts(session, &self.posts)?;
        if let Some(family) = family {
            put_family(session, workspace, self.head.facts.root(), &family)?;
        }
        for child in children {
            let head = insert_new(session, child)?;
            if matches!(head.state, RunState::Pending { due_at } if due_at <= session.now) {
                woken.push(head.id());
            }
        }
        if let RunState::Closed { .. } = self.head.state {
            follow_ending(session, workspace, self.head.clone(), &self.announce, &mut woken)?;
        }
        Ok(CommitOutcome::Committed { woken, opened })
    }
}

/// A child is named by the step that waits for it, so it has no key and no subject that could stand against it.
fn check_children(advance: &RunCommit) -> Result<(), Fault> {
    for child in &advance.children {
        if child.facts.workspace != *advance.workspace() {
            return Err(Fault::Refused("a child belongs to the workspace of its parent".into()));
        }
        if child.facts.key.is_some() || child.facts.subject.is_some() {
            return Err(Fault::Refused("a child has neither key nor subject".into()));
        }
    }
    Ok(())
}

/// Can every promise that is to time out still do so?
fn all_pending(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<bool, Fault> {
    for id in &advance.timed_out {
        let pending = match find::promise(session.statements(), workspace, id)? {
            Some(promise) => promise.state == PromiseState::Pending,
            None => advance.promises.iter().any(|opened| opened.id == *id),
        };
        if !pending {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Does the run still have the expected version, and its holder the lease?
fn holds(session: &Session<'_, '_>, workspace: WorkspaceRowId, advance: &RunCommit) -> Result<bool, Fault> {
    let head = session.find_head(workspace, advance.run())?;
    Ok(head.is_some_and(|head| {
        head.state.lease().is_some() && head.fence == advance.fence && head.version == advance.expected
    }))
}

/// Explains why a write did not take effect: it took effect before, the run has moved on, or
/// another worker holds it.
fn refuse(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<CommitOutcome, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_token.sql"))?;
    let token: Option<Option<i64>> =
        find.query_row(params![workspace.0, bytes(advance.run())], |row| row.get(0)).optional()?;
    if token.flatten().map(WriteToken::from_stored) == Some(advance.token) {
        let opened = opened_since(session, workspace, advance)?;
        return Ok(CommitOutcome::Committed { woken: Vec::new(), opened });
    }
    Ok(match session.find_head(workspace, advance.run())? {
        Some(head) if head.state.lease().is_some() && head.fence == advance.fence => {
            CommitOutcome::Stale(head)
        }
        Some(_) | None => CommitOutcome::LeaseLost,
    })
}

/// Result of the guarded update of the run.
enum GuardedUpdate {
    /// Version or fence no longer hold; nothing was written.
    Refused,
    Written,
    /// It parked, but something had arrived that it had not seen.
    DueAtOnce,
}

/// How many arrivals a run that parks has seen; only a run that waits looks at what has arrived.
fn arrivals_seen(advance: &RunCommit) -> i64 {
    match advance.head.state {
        RunState::Waiting { .. } => count(advance.head.arrivals),
        RunState::Pending { .. } | RunState::Running(_) | RunState::Paused | RunState::Closed { .. } => {
            i64::MAX
        }
    }
}

/// What this write itself opened has arrived as well; is the run that parked due by it?
fn count_opened(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
    opened: usize,
) -> Result<bool, Fault> {
    let seen = arrivals_seen(advance);
    let mut add = session.prepare(include_str!("../sql/count_opened.sql"))?;
    let arrivals: i64 = add.query_row(
        params![workspace.0, bytes(advance.run()), opened as i64, seen, millis(session.now)],
        |row| row.get(0),
    )?;
    Ok(arrivals > seen)
}

/// The run row, if version and fence hold. No read comes before it: in the usual case this is all that guards.
fn write_guarded(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<GuardedUpdate, Fault> {
    let head = &advance.head;
    let run = bytes(advance.run());
    let (expected, fence) = (count(advance.expected.get()), count(advance.fence.get()));
    let (version, token) = (count(head.version.get()), advance.token.get());
    let (changed_at, generation) = (millis(head.changed_at), head.generation.get());
    let changed = match head.state {
        RunState::Running(RunningState::Leased(_)) if advance.events.is_empty() => session
            .prepare(include_str!("../sql/advance_run_steps.sql"))?
            .execute(params![workspace.0, run, expected, fence, version, token, changed_at, head.stalls,])?,
        RunState::Running(RunningState::Leased(_)) => {
            session.prepare(include_str!("../sql/advance_run_continue.sql"))?.execute(params![
                workspace.0,
                run,
                expected,
                fence,
                version,
                token,
                changed_at,
                head.stalls,
                generation,
                head.asked.code(),
            ])?
        }
        RunState::Closed { at, .. } => {
            session.prepare(include_str!("../sql/advance_run_close.sql"))?.execute(params![
                workspace.0,
                run,
                expected,
                fence,
                version,
                token,
                changed_at,
                head.stalls,
                generation,
                head.asked.code(),
                head.status().code(),
                millis(at),
            ])?
        }
        RunState::Pending { .. } | RunState::Running(_) | RunState::Waiting { .. } | RunState::Paused => {
            let seen = arrivals_seen(advance);
            let mut park = session.prepare(include_str!("../sql/advance_run_park.sql"))?;
            let parked: Option<i64> = park
                .query_row(
                    params![
                        workspace.0,
                        run,
                        expected,
                        fence,
                        version,
                        token,
                        changed_at,
                        head.stalls,
                        generation,
                        head.asked.code(),
                        head.status().code(),
                        millis_of(head.state.wake_at()),
                        seen,
                        millis(session.now),
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            return Ok(match parked {
                None => GuardedUpdate::Refused,
                Some(arrivals) if arrivals > seen => GuardedUpdate::DueAtOnce,
                Some(_) => GuardedUpdate::Written,
            });
        }
    };
    Ok(if changed == 0 { GuardedUpdate::Refused } else { GuardedUpdate::Written })
}

/// Everything beside the run row: steps, events, promises, signals, input and result. Answers with the promises that there is
/// something to know about.
fn write_parts(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<Vec<Promise>, Fault> {
    let run = advance.run();
    let continued = advance.events.iter().rfind(|event| event.kind == EventKind::ContinuedAsNew);
    for step in &advance.steps {
        // A record of the generation that ends with this write goes with it.
        if continued.is_none_or(|event| step.changed_version > event.version) {
            record_step(session, workspace, advance, step)?;
        }
    }
    for event in &advance.events {
        session.insert_event(workspace, run, event)?;
    }
    for seq in &advance.consumed {
        let mut consume = session.prepare(include_str!("../sql/consume_signal.sql"))?;
        consume.execute(params![workspace.0, bytes(run), count(*seq)])?;
    }
    if let Some(input) = &advance.input {
        session.prepare(include_str!("../sql/delete_older_steps.sql"))?.execute(params![
            workspace.0,
            bytes(run),
            advance.head.generation.get()
        ])?;
        forget_promises_of_run(session, workspace, run)?;
        let mut replace = session.prepare(include_str!("../sql/replace_input.sql"))?;
        replace.execute(params![bytes(run), input.as_str()])?;
    }
    let opened = open_promises(session, workspace, advance)?;
    for id in &advance.timed_out {
        time_out_promise(session, workspace, id)?;
    }
    if let Some(result) = &advance.result {
        insert_result(session, workspace, run, result)?;
    }
    Ok(opened)
}

fn record_step(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
    step: &StepRecord,
) -> Result<(), Fault> {
    let (at, value) = step_columns(&step.state)?;
    session.prepare(include_str!("../sql/record_step.sql"))?.execute(params![
        workspace.0,
        bytes(advance.run()),
        advance.head.generation.get(),
        step.id.as_str(),
        step.kind.code(),
        step.state.status().code(),
        step.attempts,
        millis(step.started_at),
        count(step.started_version.get()),
        count(step.changed_version.get()),
        count(step.fence.get()),
        millis_of(at),
        value,
        step.child.map(bytes),
    ])?;
    Ok(())
}

/// The instant and the value of a step's state.
fn step_columns(state: &StepState) -> Result<(Option<Timestamp>, Option<Cow<'_, str>>), Fault> {
    Ok(match state {
        StepState::Pending { due_at, failure } => (Some(*due_at), Some(failure_text(failure)?.into())),
        StepState::Running => (None, None),
        StepState::Waiting { until } => (*until, None),
        StepState::Completed { at, output } => (Some(*at), Some(output.as_str().into())),
        StepState::Failed { at, failure } => (Some(*at), Some(failure_text(failure)?.into())),
        StepState::Skipped { at } | StepState::Cancelled { at } => (Some(*at), None),
        StepState::InDoubt { since, failure } => (Some(*since), Some(failure_text(failure)?.into())),
    })
}
