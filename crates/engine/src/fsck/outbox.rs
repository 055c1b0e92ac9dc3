//! Checks outbox messages: each comes from a step of its run or announces an event, and each such step still
//! has its message.

use super::Found;
use super::invariant::LEFT_BY_ITS_STEP;
use super::report::{Report, Violation};
use super::snapshot::Snapshot;
use crate::limits::MAX_PAGE;
use crate::model::{
    AnnouncementKind, EffectKey, EventKind, OperationId, OutboxMessage, RunId, StepId, StepKind, StepRecord,
    StepStatus, WorkspaceId,
};
use crate::store::{ListOutbox, RunLog, Store, StoreError, StoreResult};

/// Reads the outbox messages of a run. Their ids begin with the run id, so they are adjacent in id order.
pub(super) async fn read(
    store: &dyn Store,
    workspace: &WorkspaceId,
    log: &RunLog,
) -> StoreResult<Vec<OutboxMessage>> {
    let run = log.head.id();
    // The expected number, plus one to detect extra messages.
    let limit = 1 + log.steps.iter().filter(|step| step.kind == StepKind::AfterEffect).count();
    let mut after = EffectKey::before(run);
    let mut posts = Vec::new();
    loop {
        let request = ListOutbox {
            workspace: Some(workspace.clone()),
            status: None,
            target: None,
            after: Some((workspace.clone(), after.clone())),
            limit: limit.min(MAX_PAGE),
        };
        let page = store.list_outbox(request).await?;
        let Some(last) = page.last().map(|post| post.id.clone()) else { return Ok(posts) };
        if last <= after {
            return Err(StoreError::Broken(format!("the list of after-effects goes back at {last}")));
        }
        posts.extend(page.into_iter().filter(|post| is_of(&post.id, run)));
        if !is_of(&last, run) {
            return Ok(posts);
        }
        after = last;
    }
}

/// Returns true if the id belongs to a step of `run`.
fn is_of(id: &EffectKey, run: RunId) -> bool {
    let rest = id.as_str().strip_prefix(&run.to_string());
    rest.is_some_and(|rest| rest.starts_with([':', '.']))
}

pub(super) fn check_own(snapshot: &Snapshot, found: &mut Found) {
    let head = &snapshot.log.head;
    let key_of = |step: &StepRecord| EffectKey::new(head.id(), head.generation, &step.id);
    for step in snapshot.log.steps.iter().filter(|step| step.kind == StepKind::AfterEffect) {
        let is_there = snapshot.posts.iter().any(|post| post.id == key_of(step));
        if step.state.status() == StepStatus::Completed && !is_there {
            found.push((LEFT_BY_ITS_STEP, format!("what step {} left is not there", step.id)));
        }
    }
    for post in &snapshot.posts {
        if let Some((what, at)) = post.id.announced()
            && let Some(kind) = ending_told_by(what)
            && !snapshot.events.iter().any(|event| (event.kind, event.at) == (kind, at))
        {
            found.push((LEFT_BY_ITS_STEP, format!("{} tells of an end that did not happen", post.id)));
        }
    }
    // A retry may have deleted the records of steps that added messages. When these steps run again, they
    // find their message.
    if was_retried(snapshot) {
        return;
    }
    let current = EffectKey::new(head.id(), head.generation, &StepId::from_stored(""));
    let of_steps = snapshot.posts.iter().filter(|post| post.id.announced().is_none());
    for post in of_steps.filter(|post| post.id.as_str().starts_with(current.as_str())) {
        let left_it = |step: &StepRecord| step.kind == StepKind::AfterEffect && key_of(step) == post.id;
        if !snapshot.log.steps.iter().any(left_it) {
            found.push((LEFT_BY_ITS_STEP, format!("no step left the after-effect {}", post.id)));
        }
    }
}

/// The history event that an announcement describes.
fn ending_told_by(what: AnnouncementKind) -> Option<EventKind> {
    match what {
        AnnouncementKind::RunCompleted => Some(EventKind::Completed),
        AnnouncementKind::RunFailed => Some(EventKind::Failed),
        AnnouncementKind::RunCancelled => Some(EventKind::Cancelled),
        AnnouncementKind::EffectInDoubt => None,
    }
}

/// Returns true if the run was retried in its current generation.
fn was_retried(snapshot: &Snapshot) -> bool {
    let later = snapshot.events.iter().rev().take_while(|event| event.kind != EventKind::ContinuedAsNew);
    later.into_iter().any(|event| event.kind == EventKind::Retried)
}

/// Returns true if the id belongs to an operation that is standalone or carried out by `run`.
fn is_of_operation(id: &EffectKey, run: RunId) -> bool {
    let operation =
        id.as_str().split_once(':').and_then(|(operation, _)| operation.parse::<OperationId>().ok());
    operation.is_some_and(|operation| run == RunId::NONE || run == operation.as_run())
}

/// Checks that every message carries the id of a step of its run, or of an operation.
pub(super) async fn check_all(store: &dyn Store, report: &mut Report) -> StoreResult<()> {
    let mut after: Option<(WorkspaceId, EffectKey)> = None;
    loop {
        let request =
            ListOutbox { workspace: None, status: None, target: None, after: after.clone(), limit: MAX_PAGE };
        let page = store.list_outbox(request).await?;
        let is_known =
            |post: &&OutboxMessage| is_of(&post.id, post.run) || is_of_operation(&post.id, post.run);
        for post in page.iter().filter(|post| !is_known(post)) {
            let what = format!("the after-effect {} carries the id of another run", post.id);
            report.add(Violation { invariant: LEFT_BY_ITS_STEP, run: Some(post.run), what });
        }
        report.posts += page.len();
        let Some(last) = page.last() else { return Ok(()) };
        let next = Some((last.workspace.clone(), last.id.clone()));
        if next <= after {
            return Err(StoreError::Broken(format!("the list of after-effects goes back at {}", last.id)));
        }
        after = next;
    }
}
