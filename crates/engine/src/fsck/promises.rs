//! Checks that the key of a pending promise finds it and does not expire before the promise ends (G4.2).

use std::collections::BTreeSet;

use super::invariant::ONE_PROMISE;
use super::released_keys::Released;
use super::report::{Report, Violation};
use crate::limits::MAX_PAGE;
use crate::model::{IdempotencyKey, KeyKind, Promise, PromiseId, PromiseState, PromiseStatus, WorkspaceId};
use crate::store::{ListPromises, Store, StoreError, StoreResult};

/// Checks every promise that can still be settled.
pub(super) async fn check_all(
    store: &dyn Store,
    workspaces: &BTreeSet<WorkspaceId>,
    released: &mut Released,
    report: &mut Report,
) -> StoreResult<()> {
    let Some(book) = store.promise_store() else { return Ok(()) };
    for workspace in workspaces {
        let mut after: Option<PromiseId> = None;
        loop {
            let request = ListPromises {
                workspace: workspace.clone(),
                run: None,
                status: Some(PromiseStatus::Pending),
                after: after.clone(),
                limit: MAX_PAGE,
            };
            let page = book.list_promises(request).await?;
            report.promises += page.promises.len();
            for promise in &page.promises {
                check_key(store, workspace, promise, released, report).await?;
            }
            let Some(next) = page.next else { break };
            if after.as_ref().is_some_and(|after| next <= *after) {
                return Err(StoreError::Broken(format!("the list of promises goes back at {next}")));
            }
            after = Some(next);
        }
    }
    Ok(())
}

async fn check_key(
    store: &dyn Store,
    workspace: &WorkspaceId,
    promise: &Promise,
    released: &mut Released,
    report: &mut Report,
) -> StoreResult<()> {
    let Some(key) = promise.key.as_ref().map(|key| &key.key) else { return Ok(()) };
    if names(store, workspace, key, &promise.id).await? {
        return Ok(());
    }
    // It may have been settled, and its key may have expired, since it was listed.
    let now = store.find_promise(workspace, &promise.id).await?;
    let is_pending = now.is_some_and(|now| now.state_at(store.now()) == PromiseState::Pending);
    if is_pending && !released.has(store, workspace, KeyKind::Promise, key, promise.created_at).await? {
        let what = format!("the promise {} can be settled, but its key {key} does not name it", promise.id);
        report.add(Violation { invariant: ONE_PROMISE, run: None, what });
    }
    Ok(())
}

async fn names(
    store: &dyn Store,
    workspace: &WorkspaceId,
    key: &IdempotencyKey,
    id: &PromiseId,
) -> StoreResult<bool> {
    let record = store.find_key(workspace, KeyKind::Promise, key).await?;
    let now = store.now();
    Ok(record.is_some_and(|record| record.promise() == Some(id) && record.is_live(now)))
}
