//! Freeing keys before their time.

use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyRecord, PromiseState, RequestScope, RunId, WorkspaceId,
};
use hapax_engine::store::{KeyRef, ReleaseKey, ReleaseOutcome};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::early;
use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::requests::{delete_request, find_request};
use crate::rows::bytes;
use crate::session::{Session, WorkspaceRowId};

impl Verb for ReleaseKey {
    type Outcome = ReleaseOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ReleaseOutcome, Fault> {
        let outcome = match &self.place {
            KeyRef::Run { workspace, key } => release_run_key(session, workspace, key)?,
            KeyRef::Promise { workspace, key } => release_promise_key(session, workspace, key)?,
            KeyRef::Request { scope, key } => release_request_key(session, scope, key)?,
        };
        if outcome == ReleaseOutcome::Released {
            insert_notes(session, std::slice::from_ref(&self.note))?;
        }
        Ok(outcome)
    }
}

fn release_run_key(
    session: &mut Session<'_, '_>,
    workspace: &WorkspaceId,
    key: &IdempotencyKey,
) -> Result<ReleaseOutcome, Fault> {
    let Some(workspace) = session.find_workspace(workspace)? else { return Ok(ReleaseOutcome::NoSuchKey) };
    let record = find_live(session, workspace, KeyKind::Run, key)?;
    let Some(run) = record.and_then(|record| record.run()) else { return Ok(ReleaseOutcome::NoSuchKey) };
    if is_open(session, workspace, run)? {
        return Ok(ReleaseOutcome::InUse { run: Some(run) });
    }
    session.prepare(include_str!("../sql/expire_key.sql"))?.execute(params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str(),
        bytes(run),
        millis(session.now),
    ])?;
    Ok(ReleaseOutcome::Released)
}

/// A promise that can still be settled keeps its key, unless its run, which alone waits for it, has ended.
fn release_promise_key(
    session: &mut Session<'_, '_>,
    workspace: &WorkspaceId,
    key: &IdempotencyKey,
) -> Result<ReleaseOutcome, Fault> {
    let Some(workspace) = session.find_workspace(workspace)? else { return Ok(ReleaseOutcome::NoSuchKey) };
    let Some(record) = find_live(session, workspace, KeyKind::Promise, key)? else {
        return Ok(ReleaseOutcome::NoSuchKey);
    };
    let promise = match record.promise() {
        Some(id) => find::promise(session.statements(), workspace, id)?,
        None => None,
    };
    if let Some(promise) = promise.filter(|promise| promise.state_at(session.now) == PromiseState::Pending) {
        let run = (!promise.is_standalone()).then_some(promise.run);
        let in_use = match run {
            Some(run) => is_open(session, workspace, run)?,
            None => true,
        };
        if in_use {
            return Ok(ReleaseOutcome::InUse { run });
        }
    }
    early::delete_early(session, workspace, key)?;
    let mut release = session.prepare(include_str!("../sql/release_promise_key.sql"))?;
    release.execute(params![workspace.0, key.as_str(), millis(session.now)])?;
    Ok(ReleaseOutcome::Released)
}

fn find_live(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    kind: KeyKind,
    key: &IdempotencyKey,
) -> Result<Option<KeyRecord>, Fault> {
    let found = find::key(session.statements(), workspace, kind, key)?;
    Ok(found.filter(|record| record.is_live(session.now)))
}

fn is_open(session: &Session<'_, '_>, workspace: WorkspaceRowId, run: RunId) -> Result<bool, Fault> {
    Ok(session.find_head(workspace, run)?.is_some_and(|head| !head.status().is_closed()))
}

fn release_request_key(
    session: &mut Session<'_, '_>,
    scope: &RequestScope,
    key: &IdempotencyKey,
) -> Result<ReleaseOutcome, Fault> {
    let Some(workspace) = session.find_workspace(&scope.workspace)? else {
        return Ok(ReleaseOutcome::NoSuchKey);
    };
    match find_request(session.statements(), workspace, scope, key)? {
        None => Ok(ReleaseOutcome::NoSuchKey),
        Some(found) if found.record.is_free(session.now) => Ok(ReleaseOutcome::NoSuchKey),
        Some(found) if found.record.is_held(session.now) => Ok(ReleaseOutcome::InUse { run: None }),
        Some(found) => {
            delete_request(session, found.number)?;
            Ok(ReleaseOutcome::Released)
        }
    }
}
