//! Promises without a run, within a transaction: locked by their own rows, with the runs that wait
//! for them.
//!
//! All nodes lock them before runs, in the order of their ids. So a settlement finds every waiter,
//! and a new waiter sees the settlement.

use std::collections::HashMap;

use hapax_engine::model::{PromiseId, RunId};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{Columns, uuid};
use crate::session::{Session, params};

/// Primary key of a promise.
pub(crate) type PromisePlace = (WorkspaceRowId, PromiseId);

/// Locked promises without a run, with the runs that wait for them and the changes of the
/// transaction.
pub(crate) type LockedPromises = HashMap<PromisePlace, Vec<RunId>>;

/// Locks promises without a run in the order of their ids, and reads their waiters.
pub(crate) async fn lock(session: &mut Session<'_>, mut wanted: Vec<PromisePlace>) -> Result<(), Fault> {
    wanted.retain(|place| !session.alone.contains_key(place));
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    let number = wanted.len() as i64;
    let workspaces: Vec<i32> = wanted.iter().map(|(workspace, _)| workspace.0).collect();
    let ids: Vec<String> = wanted.iter().map(|(_, id)| id.as_str().to_owned()).collect();
    session.keep_back(
        include_str!("../sql/lock_promises.sql"),
        params![number, workspaces.clone(), ids.clone()],
    );
    // A separate statement, so that it sees runs that began to wait before the locks were taken.
    let found =
        session.query(include_str!("../sql/list_waiters.sql"), params![number, workspaces, ids]).await?;
    session.alone.extend(wanted.into_iter().map(|place| (place, Vec::new())));
    for row in &found {
        let mut row = Columns::of(row);
        let place = (WorkspaceRowId(row.get()?), PromiseId::from_stored(row.text()?));
        session.alone.entry(place).or_default().push(row.run()?);
    }
    Ok(())
}

/// From now on the run waits for a promise that is locked or that this transaction has created.
pub(crate) fn wait_for(session: &mut Session<'_>, workspace: WorkspaceRowId, id: &PromiseId, run: RunId) {
    let waiters = session.alone.entry((workspace, id.clone())).or_default();
    if let Err(place) = waiters.binary_search(&run) {
        waiters.insert(place, run);
        let waits = params![workspace.0, id.as_str().to_owned(), uuid(run)];
        session.keep_back(include_str!("../sql/insert_waiter.sql"), waits);
    }
}

/// The run no longer waits for any promise.
pub(crate) fn stop_waiting(session: &mut Session<'_>, workspace: WorkspaceRowId, run: RunId) {
    let here = session.alone.iter_mut().filter(|((of, _), _)| *of == workspace);
    here.for_each(|(_, waiters)| waiters.retain(|waiter| *waiter != run));
}
