//! Opening promises: each gets its key, or the id of the key's holder.

use hapax_engine::model::{OpenedPromise, Promise, PromiseState, RunId, WriteToken, decide_open as decide};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::promise_keys::{self, delete_early, write_key};
use crate::promises::new_promise;
use crate::session::Session;
use crate::standalone_promises::wait_for;

/// Opens a promise of `run`, or one that it waits for; returns the promise.
pub(crate) async fn open_promise(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    run: RunId,
    promise: &Promise,
) -> Result<Promise, Fault> {
    let known = session.find_promise(workspace, &promise.id).await?;
    let lost_its_key = |known: &Promise| matches!(known.state, PromiseState::KeyTaken { .. });
    let promise = match known.filter(|known| !lost_its_key(known)) {
        Some(known) => known,
        None => {
            let opening = decide_open(session, workspace, promise.clone()).await?;
            write_opening(session, workspace, opening, None)?
        }
    };
    if promise.is_standalone() {
        wait_for(session, workspace, &promise.id, run);
    }
    Ok(promise)
}

/// Decides how a promise is opened, given the object of its key; the key is then locked.
pub(crate) async fn decide_open(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    promise: Promise,
) -> Result<OpenedPromise, Fault> {
    let known = match &promise.key {
        Some(key) => promise_keys::find_key(session, workspace, &key.key).await?,
        None => Default::default(),
    };
    Ok(decide(promise, known.record.as_ref(), known.early, session.now))
}

/// Writes an opened promise with its key; returns it.
pub(crate) fn write_opening(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    opening: OpenedPromise,
    token: Option<WriteToken>,
) -> Result<Promise, Fault> {
    let OpenedPromise { promise, key } = opening;
    if let (Some(record), Some(key)) = (key, &promise.key) {
        write_key(session, workspace, &key.key, record);
        delete_early(session, workspace, &key.key);
    }
    let columns = new_promise(workspace, &promise, token)?;
    match promise.is_standalone() {
        // Other transactions cannot create these rows in the meantime.
        true => session.keep_back(include_str!("../sql/insert_promise.sql"), columns),
        false => session.keep_back(include_str!("../sql/open_promise.sql"), columns),
    }
    session.note_promise(workspace, promise.clone());
    Ok(promise)
}
