//! Consequences of the end of a run: its key begins to age, its subject is free, its parent is
//! notified, its children are asked to cancel.

use std::collections::VecDeque;

use hapax_engine::model::{
    KeyKind, RunCommand, RunHead, RunId, RunResult, RunState, RunningState, Subscribers, decide_command,
    decide_key_expiry,
};
use rusqlite::params;

use crate::arrival::arrive;
use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::outbox::insert_posts;
use crate::rows::{self, bytes, failure_text};
use crate::session::{Session, WorkspaceRowId};

/// Applies the consequences of the end of a run, and of the runs that end with it; adds the runs
/// made due to `woken`.
pub(crate) fn follow_ending(
    session: &mut Session<'_, '_>,
    workspace: WorkspaceRowId,
    ended: RunHead,
    announce: &Subscribers,
    woken: &mut Vec<RunId>,
) -> Result<(), Fault> {
    let mut ended = VecDeque::from([ended]);
    while let Some(head) = ended.pop_front() {
        expire_key(session, workspace, &head)?;
        release_subject(session, workspace, &head)?;
        if let Some(parent) = &head.facts.parent
            && let Some(arrival) = arrive(session, workspace, parent.run, None)?
            && arrival.woken
        {
            woken.push(parent.run);
        }
        for child in list_children_to_cancel(session, workspace, head.id())? {
            let Some(child) = cancel_child(session, workspace, head.id(), child)? else { continue };
            match child.state {
                RunState::Closed { .. } => {
                    announce_ending(session, &child, announce)?;
                    ended.push_back(child);
                }
                RunState::Running(RunningState::Ready { .. }) => woken.push(child.id()),
                RunState::Running(RunningState::Leased(_))
                | RunState::Pending { .. }
                | RunState::Waiting { .. }
                | RunState::Paused => {}
            }
        }
    }
    Ok(())
}

/// Queues notifications about the end of a run.
pub(crate) fn announce_ending(
    session: &mut Session<'_, '_>,
    head: &RunHead,
    announce: &Subscribers,
) -> Result<(), Fault> {
    let RunState::Closed { ending, .. } = head.state else { return Ok(()) };
    insert_posts(session, &announce.announce_ending_of(&head.facts, head.generation, ending, session.now))
}

fn expire_key(session: &Session<'_, '_>, workspace: WorkspaceRowId, head: &RunHead) -> Result<(), Fault> {
    let (Some(key), RunState::Closed { at, ending }) = (&head.facts.key, head.state) else { return Ok(()) };
    // The key of an open run has no expiry, so a key that never expires needs no write.
    let Some(expires_at) = decide_key_expiry(head.facts.retention, ending, at) else { return Ok(()) };
    session.prepare(include_str!("../sql/expire_key.sql"))?.execute(params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str(),
        bytes(head.id()),
        millis(expires_at),
    ])?;
    Ok(())
}

fn release_subject(
    session: &mut Session<'_, '_>,
    workspace: WorkspaceRowId,
    head: &RunHead,
) -> Result<(), Fault> {
    let Some(subject) = &head.facts.subject else { return Ok(()) };
    let Some(workflow) = session.find_workflow(&head.facts.workflow.name)? else { return Ok(()) };
    let mut release = session.prepare(include_str!("../sql/release_subject.sql"))?;
    release.execute(params![workspace.0, workflow.0, subject.as_str(), bytes(head.id())])?;
    Ok(())
}

fn list_children_to_cancel(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    parent: RunId,
) -> Result<Vec<RunId>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_children_to_cancel.sql"))?;
    rows::collect(list.query(params![workspace.0, bytes(parent)])?, |mut row| row.run())
}

/// The child, if the end of its parent changed it.
fn cancel_child(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    parent: RunId,
    child: RunId,
) -> Result<Option<RunHead>, Fault> {
    let Some(head) = session.find_head(workspace, child)? else { return Ok(None) };
    let command = RunCommand::parent_ended(parent);
    let Ok(steered) = decide_command(&head, &command, &[], session.now) else { return Ok(None) };
    session.write_head(workspace, &steered.head)?;
    session.insert_event(workspace, child, &steered.event)?;
    if let Some(result) = &steered.result {
        insert_result(session, workspace, child, result)?;
    }
    Ok(Some(steered.head))
}

pub(crate) fn insert_result(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
    result: &RunResult,
) -> Result<(), Fault> {
    use hapax_engine::model::RunStatus;
    let mut insert = session.prepare(include_str!("../sql/insert_result.sql"))?;
    let run = bytes(run);
    match result {
        RunResult::Completed(output) => {
            insert.execute(params![workspace.0, run, RunStatus::Completed.code(), output.as_str()])?
        }
        RunResult::Failed(failure) => {
            insert.execute(params![workspace.0, run, RunStatus::Failed.code(), failure_text(failure)?])?
        }
        RunResult::Cancelled(failure) => {
            insert.execute(params![workspace.0, run, RunStatus::Cancelled.code(), failure_text(failure)?])?
        }
    };
    Ok(())
}
