//! Writes under a lease, one at a time, for writes with consequences beyond their own run.

use std::borrow::Cow;

use hapax_engine::model::{
    EventKind, NewRun, Promise, PromiseState, RunCommit, RunHead, RunId, RunState, RunningState, StepRecord,
    Timestamp,
};
use hapax_engine::store::CommitOutcome;

use crate::codes::{Code, count, millis};
use crate::ending::{follow_ending, insert_result};
use crate::families::{concerns_family, family_after, put_family};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::open_promise::open_promise;
use crate::outbox::insert_posts;
use crate::rows::{self, StoredHead, uuid};
use crate::session::{Session, params};
use crate::settle_promise::write_promise;
use crate::standalone_promises::stop_waiting;
use crate::start_run::{find_taken, insert_new, refuse_id};

impl Verb for RunCommit {
    type Outcome = CommitOutcome;

    fn foresee(&self, needs: &mut Needs) {
        let here = self.workspace();
        needs.runs.push((here.clone(), self.run()));
        if let (RunState::Closed { .. }, Some(parent)) = (self.head.state, &self.head.facts.parent) {
            needs.runs.push((here.clone(), parent.run));
        }
        let workflows = self.children.iter().map(|child| child.facts.workflow.name.clone());
        needs.names.extend(workflows.map(|workflow| (here.clone(), workflow)));
        if concerns_family(self) {
            needs.families.push((here.clone(), self.head.facts.root()));
        }
        needs.bring(here, &self.notes);
        let elsewhere = self.posts.iter().map(|post| &post.workspace).filter(|workspace| *workspace != here);
        needs.workspaces.extend(elsewhere.cloned());
        needs.promises.extend(self.timed_out.iter().map(|id| (here.clone(), id.clone())));
        for promise in &self.promises {
            needs.promises.push((here.clone(), promise.id.clone()));
            needs.promise_keys.extend(promise.key.iter().map(|key| (here.clone(), key.key.clone())));
        }
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<CommitOutcome, Fault> {
        check_children(self)?;
        let Some(workspace) = session.find_workspace(self.workspace()).await? else {
            return Ok(CommitOutcome::LeaseLost);
        };
        let children = list_new_children(session, workspace, self).await?;
        let Some(stored) = session.find_head(workspace, self.run()).await? else {
            return Ok(CommitOutcome::LeaseLost);
        };
        if let Some(refused) = refuse(self, &stored) {
            return match refused {
                CommitOutcome::Committed { woken, .. } => {
                    let opened = opened_since(session, workspace, self).await?;
                    Ok(CommitOutcome::Committed { woken, opened })
                }
                CommitOutcome::Stale(_) | CommitOutcome::ChildrenRefused(_) | CommitOutcome::LeaseLost => {
                    Ok(refused)
                }
            };
        }
        if !all_pending(session, workspace, self).await? {
            return Ok(CommitOutcome::Stale(stored.head));
        }
        match family_after(session, workspace, self, children.len()).await? {
            Ok(Some(family)) => put_family(session, workspace, self.head.facts.root(), family),
            Ok(None) => {}
            Err(refused) => return Ok(CommitOutcome::ChildrenRefused(refused)),
        }
        let (woken, opened) = write(session, self, &children, stored).await?;
        Ok(CommitOutcome::Committed { woken, opened })
    }
}

/// A child is named by the step that waits for it, so it has no key or subject that could conflict.
pub(crate) fn check_children(advance: &RunCommit) -> Result<(), Fault> {
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

/// Explains why a write did not take effect: it took effect before, the run has moved on, or
/// another worker holds it. News about its promises is not included.
pub(crate) fn refuse(advance: &RunCommit, stored: &StoredHead) -> Option<CommitOutcome> {
    let holds = stored.head.state.lease().is_some() && stored.head.fence == advance.fence;
    if holds && stored.head.version == advance.expected {
        return None;
    }
    Some(match stored.token == Some(advance.token) {
        true => CommitOutcome::Committed { woken: Vec::new(), opened: Vec::new() },
        false if holds => CommitOutcome::Stale(stored.head.clone()),
        false => CommitOutcome::LeaseLost,
    })
}

/// Returns true if every promise that should time out is still pending.
async fn all_pending(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<bool, Fault> {
    for id in &advance.timed_out {
        let pending = match session.find_promise(workspace, id).await? {
            Some(promise) => promise.state == PromiseState::Pending,
            None => advance.promises.iter().any(|opened| opened.id == *id),
        };
        if !pending {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The children that do not exist yet.
async fn list_new_children<'a>(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &'a RunCommit,
) -> Result<Vec<&'a NewRun>, Fault> {
    let mut new = Vec::new();
    for child in &advance.children {
        match find_taken(session, workspace, child.facts.id).await? {
            None => new.push(child),
            Some(taken) if taken == workspace => {}
            Some(_) => return Err(refuse_id(child.facts.id)),
        }
    }
    Ok(new)
}

/// News about the promises of a write that took effect before.
async fn opened_since(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<Vec<Promise>, Fault> {
    let mut opened = Vec::new();
    for promise in &advance.promises {
        let stored = session.find_promise(workspace, &promise.id).await?;
        opened.extend(stored.filter(|promise| promise.is_reported_on_open(session.now)));
    }
    Ok(opened)
}

/// Applies the write; returns the runs it made due, and news about its promises.
async fn write(
    session: &mut Session<'_>,
    advance: &RunCommit,
    children: &[&NewRun],
    stored: StoredHead,
) -> Result<(Vec<RunId>, Vec<Promise>), Fault> {
    let (workspace, run) = (stored.workspace, advance.run());
    let mut woken = Vec::new();
    if advance.input.is_some() {
        let of_run = params![workspace.0, uuid(run)];
        session.keep_back(include_str!("../sql/delete_promises_of_run.sql"), of_run);
        session.forget_promises();
        stop_waiting(session, workspace, run);
    }
    let mut opened = Vec::new();
    for promise in &advance.promises {
        let promise = open_promise(session, workspace, run, promise).await?;
        opened.extend(Some(promise).filter(|promise| promise.is_reported_on_open(session.now)));
    }
    let arrivals = stored.head.arrivals + opened.len() as u64;
    let head = next_head(advance, &stored.head, arrivals, session.now, &mut woken);
    let has_children = stored.has_children || !advance.children.is_empty();
    let written = StoredHead { head, token: Some(advance.token), has_children, workspace };
    session.write_head(written.clone());
    write_parts(session, workspace, advance).await?;
    insert_notes(session, &advance.notes).await?;
    insert_posts(session, &advance.posts).await?;
    for child in children {
        let workflow = session.get_workflow(&child.facts.workflow.name).await?;
        let stored = insert_new(session, workspace, workflow, child).await?;
        if matches!(stored.head.state, RunState::Pending { due_at } if due_at <= session.now) {
            woken.push(child.facts.id);
        }
    }
    if let RunState::Closed { .. } = written.head.state {
        follow_ending(session, written, &advance.announce, &mut woken).await?;
    }
    session.has_woken |= !woken.is_empty();
    Ok((woken, opened))
}

/// The run after the write: as its holder computed it, plus the fields that others change.
fn next_head(
    advance: &RunCommit,
    before: &RunHead,
    arrivals: u64,
    now: Timestamp,
    woken: &mut Vec<RunId>,
) -> RunHead {
    let mut head = RunHead { facts: before.facts.clone(), ..advance.head.clone() };
    if let RunState::Waiting { .. } = head.state
        && head.arrivals < arrivals
    {
        head.state = RunState::Waiting { wake_at: Some(now) };
        woken.push(head.id());
    }
    head.arrivals = arrivals;
    if let RunState::Running(RunningState::Leased(_)) = head.state {
        head.state = before.state;
    }
    head
}

/// Everything beside the run row and the promises it opens: steps, events, timeouts, signals, input and result.
async fn write_parts(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<(), Fault> {
    let run = advance.run();
    let continued = advance.events.iter().rfind(|event| event.kind == EventKind::ContinuedAsNew);
    for step in &advance.steps {
        // A record of the generation that ends with this write is deleted with it.
        if continued.is_none_or(|event| step.changed_version > event.version) {
            record_step(session, workspace, advance, step)?;
        }
    }
    for event in &advance.events {
        session.insert_event(workspace, run, event);
    }
    for seq in &advance.consumed {
        let signal = params![workspace.0, uuid(run), count(*seq)];
        session.keep_back(include_str!("../sql/consume_signal.sql"), signal);
    }
    if let Some(input) = &advance.input {
        let older = params![workspace.0, uuid(run), advance.head.generation.get().cast_signed()];
        session.keep_back(include_str!("../sql/delete_older_steps.sql"), older);
        let replaced = params![workspace.0, uuid(run), input.as_str().to_owned()];
        session.keep_back(include_str!("../sql/replace_input.sql"), replaced);
    }
    for id in &advance.timed_out {
        if let Some(promise) = session.find_promise(workspace, id).await? {
            write_promise(session, workspace, Promise { state: PromiseState::TimedOut, ..promise })?;
        }
    }
    if let Some(result) = &advance.result {
        insert_result(session, workspace, run, result)?;
    }
    Ok(())
}

fn record_step(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
    step: &StepRecord,
) -> Result<(), Fault> {
    let (at, value) = rows::step_columns(&step.state)?;
    let record = params![
        workspace.0,
        uuid(advance.run()),
        advance.head.generation.get().cast_signed(),
        step.id.as_str().to_owned(),
        step.kind.code(),
        step.state.status().code(),
        step.attempts.cast_signed(),
        millis(step.started_at),
        count(step.started_version.get()),
        count(step.changed_version.get()),
        count(step.fence.get()),
        at,
        value.map(Cow::into_owned),
        step.child.map(uuid),
    ];
    session.keep_back(include_str!("../sql/record_step.sql"), record);
    Ok(())
}
