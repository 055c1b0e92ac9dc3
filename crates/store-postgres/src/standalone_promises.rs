//! Promises that stand alone as a transaction knows them: locked by their own rows, with the runs that wait for them.
//!
//! All nodes lock them before runs, in the order of their ids: who settles one then finds everybody who waits for it, and who begins to wait
//! finds out whether it is settled.

use std::collections::HashMap;

use hapax_engine::model::{PromiseId, RunId};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{Columns, uuid};
use crate::session::{Session, params};

/// Where a promise is kept.
pub(crate) type PromisePlace = (WorkspaceRowId, PromiseId);

/// Locked promises that stand alone, with the runs that wait for them, as they are with the writes of the transaction.
pub(crate) type KnownAlone = HashMap<PromisePlace, Vec<RunId>>;

/// Locks promises that stand alone in the order of their ids, and reads who waits for them.
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
    // A statement of its own, so that it sees who began to wait before the locks were ours.
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

/// From now on the run waits for a promise that is locked or that this transaction has made.
pub(crate) fn wait_for(session: &mut Session<'_>, workspace: WorkspaceRowId, id: &PromiseId, run: RunId) {
    let waiters = session.alone.entry((workspace, id.clone())).or_default();
    if let Err(place) = waiters.binary_search(&run) {
        waiters.insert(place, run);
        let waits = params![workspace.0, id.as_str().to_owned(), uuid(run)];
        session.keep_back(include_str!("../sql/insert_waiter.sql"), waits);
    }
}

/// The run waits for nothing any more.
pub(crate) fn stop_waiting(session: &mut Session<'_>, workspace: WorkspaceRowId, run: RunId) {
    let here = session.alone.iter_mut().filter(|((of, _), _)| *of == workspace);
    here.for_each(|(_, waiters)| waiters.retain(|waiter| *waiter != run));
}
