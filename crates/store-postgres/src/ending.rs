//! Consequences of the end of a run: its key begins to age, its subject is free, its parent is
//! notified, its children are asked to cancel.

use std::collections::VecDeque;

use hapax_engine::model::{
    KeyKind, RunCommand, RunHead, RunId, RunResult, RunState, RunningState, Subscribers, decide_command,
    decide_key_expiry,
};

use crate::arrival::arrive;
use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::outbox::insert_posts;
use crate::rows::{self, StoredHead, uuid};
use crate::session::{Session, params};

/// Applies the consequences of the end of a run, and of the runs that end with it. `announce` names
/// the subscribers. Adds the runs made due to `woken`.
pub(crate) async fn follow_ending(
    session: &mut Session<'_>,
    ended: StoredHead,
    announce: &Subscribers,
    woken: &mut Vec<RunId>,
) -> Result<(), Fault> {
    let workspace = ended.workspace;
    let mut ended = VecDeque::from([ended]);
    while let Some(StoredHead { head, has_children, .. }) = ended.pop_front() {
        expire_key(session, workspace, &head);
        release_subject(session, workspace, &head).await?;
        if let Some(parent) = &head.facts.parent
            && let Some(arrival) = arrive(session, workspace, parent.run, None).await?
            && arrival.woken
        {
            woken.push(parent.run);
        }
        if !has_children {
            continue;
        }
        for child in lock_children_to_cancel(session, workspace, head.id()).await? {
            let Some(child) = cancel_child(session, workspace, head.id(), child).await? else { continue };
            match child.head.state {
                RunState::Closed { .. } => {
                    announce_ending(session, &child.head, announce).await?;
                    ended.push_back(child);
                }
                RunState::Running(RunningState::Ready { .. }) => woken.push(child.head.id()),
                RunState::Running(RunningState::Leased(_))
                | RunState::Pending { .. }
                | RunState::Waiting { .. }
                | RunState::Paused => {}
            }
        }
    }
    session.has_woken |= !woken.is_empty();
    Ok(())
}

/// Queues notifications about the end of a run.
pub(crate) async fn announce_ending(
    session: &mut Session<'_>,
    head: &RunHead,
    announce: &Subscribers,
) -> Result<(), Fault> {
    let RunState::Closed { ending, .. } = head.state else { return Ok(()) };
    let told = announce.announce_ending_of(&head.facts, head.generation, ending, session.now);
    insert_posts(session, &told).await
}

fn expire_key(session: &mut Session<'_>, workspace: WorkspaceRowId, head: &RunHead) {
    let (Some(key), RunState::Closed { at, ending }) = (&head.facts.key, head.state) else { return };
    // The key of an open run has no expiry, so a key that never expires needs no write.
    let Some(expires_at) = decide_key_expiry(head.facts.retention, ending, at) else { return };
    let expired = params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str().to_owned(),
        uuid(head.id()),
        millis(expires_at),
    ];
    session.keep_back(include_str!("../sql/expire_key.sql"), expired);
}

async fn release_subject(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    head: &RunHead,
) -> Result<(), Fault> {
    let Some(subject) = &head.facts.subject else { return Ok(()) };
    let Some(workflow) = session.find_workflow(&head.facts.workflow.name).await? else { return Ok(()) };
    let released = params![workspace.0, workflow.0, subject.as_str().to_owned(), uuid(head.id())];
    session.keep_back(include_str!("../sql/release_subject.sql"), released);
    Ok(())
}

async fn lock_children_to_cancel(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    parent: RunId,
) -> Result<Vec<RunId>, Fault> {
    let of_parent = params![workspace.0, uuid(parent)];
    let found = session.query(include_str!("../sql/list_children_to_cancel.sql"), of_parent).await?;
    let children = rows::collect(&found, |mut row| row.run())?;
    let places: Vec<(WorkspaceRowId, RunId)> = children.iter().map(|child| (workspace, *child)).collect();
    session.lock(&places).await?;
    Ok(children)
}

/// The child, if it changed.
async fn cancel_child(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    parent: RunId,
    child: RunId,
) -> Result<Option<StoredHead>, Fault> {
    let Some(stored) = session.find_head(workspace, child).await? else { return Ok(None) };
    let command = RunCommand::parent_ended(parent);
    let Ok(steered) = decide_command(&stored.head, &command, &[], session.now) else { return Ok(None) };
    let steered_head = StoredHead { head: steered.head, ..stored };
    session.write_head(steered_head.clone());
    session.insert_event(workspace, child, &steered.event);
    if let Some(result) = &steered.result {
        insert_result(session, workspace, child, result)?;
    }
    Ok(Some(steered_head))
}

pub(crate) fn insert_result(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    run: RunId,
    result: &RunResult,
) -> Result<(), Fault> {
    let (status, value) = rows::result_columns(result)?;
    session.keep_back(
        include_str!("../sql/insert_result.sql"),
        params![workspace.0, uuid(run), status, value.into_owned()],
    );
    Ok(())
}
