//! Deleting promises, with all that is there only for them.

use hapax_engine::model::{PromiseId, RunId};
use rusqlite::params;

use crate::fault::Fault;
use crate::rows::{self, bytes};
use crate::session::{Session, WorkspaceRowId};

/// Deletes the promises of a run, and what it waits for.
pub(crate) fn forget_promises_of_run(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    run: RunId,
) -> Result<(), Fault> {
    let of_run = params![workspace.0, bytes(run)];
    let mut list = session.prepare(include_str!("../sql/list_promise_ids_of_run.sql"))?;
    let own = rows::collect(list.query(of_run)?, |mut row| Ok(PromiseId::from_stored(row.text()?)))?;
    for id in &own {
        forget_names(session, workspace, id)?;
    }
    if !own.is_empty() {
        session.prepare(include_str!("../sql/delete_promises_of_run.sql"))?.execute(of_run)?;
    }
    session.prepare(include_str!("../sql/delete_waits_of_run.sql"))?.execute(of_run)?;
    Ok(())
}

/// Deletes a promise without a run.
pub(crate) fn forget_promise(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    id: &PromiseId,
) -> Result<(), Fault> {
    forget_names(session, workspace, id)?;
    for sql in
        [include_str!("../sql/delete_waiters_of_promise.sql"), include_str!("../sql/delete_promise.sql")]
    {
        session.prepare(sql)?.execute(params![workspace.0, id.as_str()])?;
    }
    Ok(())
}

/// The key that names a promise and the tokens for it.
fn forget_names(session: &Session<'_, '_>, workspace: WorkspaceRowId, id: &PromiseId) -> Result<(), Fault> {
    for sql in [
        include_str!("../sql/delete_keys_of_promise.sql"),
        include_str!("../sql/delete_tokens_of_promise.sql"),
    ] {
        session.prepare(sql)?.execute(params![workspace.0, id.as_str()])?;
    }
    Ok(())
}
