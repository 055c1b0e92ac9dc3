//! Promises that a write under a lease opens, or begins to wait for.

use hapax_engine::model::{
    KeyKind, OpenedPromise, Promise, PromiseState, RunCommit, RunId, WriteToken, decide_open,
};
use rusqlite::params;

use crate::early::{delete_early, find_early};
use crate::fault::Fault;
use crate::find;
use crate::promise_keys::put_promise_key;
use crate::promises::insert_promise;
use crate::rows::bytes;
use crate::session::{Session, WorkspaceRowId};

/// Opens the promises of a write; returns the ones with news beyond being open.
pub(crate) fn open_promises(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<Vec<Promise>, Fault> {
    let mut opened = Vec::new();
    for promise in &advance.promises {
        let promise = open_promise(session, workspace, advance.run(), promise)?;
        opened.extend(promise.filter(|promise| promise.is_reported_on_open(session.now)));
    }
    Ok(opened)
}

/// News about the promises of a write that took effect before.
pub(crate) fn opened_since(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    advance: &RunCommit,
) -> Result<Vec<Promise>, Fault> {
    let mut opened = Vec::new();
    for promise in &advance.promises {
        let promise = find::promise(session.statements(), workspace, &promise.id)?;
        opened.extend(promise.filter(|promise| promise.is_reported_on_open(session.now)));
    }
    Ok(opened)
}

/// Opens a promise of `run`, or one that it waits for; answers with it as it is, unless there is nothing to know about it.
fn open_promise(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
    promise: &Promise,
) -> Result<Option<Promise>, Fault> {
    // The usual case: no conflict, and nothing to report.
    if promise.key.is_none() && !promise.is_standalone() {
        return match insert_promise(session, workspace, promise, None)? {
            true => Ok(None),
            false => find::promise(session.statements(), workspace, &promise.id),
        };
    }
    let lost_its_key = |known: &Promise| matches!(known.state, PromiseState::KeyTaken { .. });
    let known = find::promise(session.statements(), workspace, &promise.id)?;
    let promise = match known.filter(|known| !lost_its_key(known)) {
        Some(known) => known,
        None => {
            let opening = decide(session, workspace, promise.clone())?;
            write_opening(session, workspace, &opening, None)?;
            opening.promise
        }
    };
    if promise.is_standalone() {
        let mut wait = session.prepare(include_str!("../sql/wait_for_promise.sql"))?;
        wait.execute(params![workspace.0, promise.id.as_str(), bytes(run)])?;
    }
    Ok(Some(promise))
}

/// Decides how a promise is opened, by what its key stands for. One writer decides and writes, so nothing comes between.
pub(crate) fn decide(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    promise: Promise,
) -> Result<OpenedPromise, Fault> {
    let (holder, early) = match &promise.key {
        Some(key) => (
            find::key(session.statements(), workspace, KeyKind::Promise, &key.key)?,
            find_early(session, workspace, &key.key)?,
        ),
        None => (None, None),
    };
    Ok(decide_open(promise, holder.as_ref(), early, session.now))
}

/// Writes a promise with its key; a settlement that was kept for the key is used up.
pub(crate) fn write_opening(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    opening: &OpenedPromise,
    token: Option<WriteToken>,
) -> Result<(), Fault> {
    if let (Some(record), Some(key)) = (&opening.key, &opening.promise.key) {
        delete_early(session, workspace, &key.key)?;
        put_promise_key(session, workspace, &key.key, record)?;
    }
    insert_promise(session, workspace, &opening.promise, token)?;
    Ok(())
}
