//! Reads that both the writer and the readers make.

use hapax_engine::model::{Promise, PromiseId, RunHead, RunId, StepRecord};
use hapax_engine::store::RunView;
use rusqlite::{Connection, params};

use crate::fault::Fault;
use crate::rows::{self, bytes};
use crate::session::WorkspaceNo;

pub(crate) fn head(
    connection: &Connection,
    workspace: WorkspaceNo,
    run: RunId,
) -> Result<Option<RunHead>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_head.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, |mut row| rows::head(&mut row))
}

/// A run with its input and result.
pub(crate) fn view(
    connection: &Connection,
    workspace: WorkspaceNo,
    run: RunId,
) -> Result<Option<RunView>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_run.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, rows::view)
}

/// The records of a run's current generation, in the order they started.
pub(crate) fn steps(
    connection: &Connection,
    workspace: WorkspaceNo,
    head: &RunHead,
) -> Result<Vec<StepRecord>, Fault> {
    let mut list = connection.prepare_cached(include_str!("../sql/list_steps_of_run.sql"))?;
    rows::collect(list.query(params![workspace.0, bytes(head.id()), head.generation.get()])?, rows::step)
}

/// A promise as it was last written.
pub(crate) fn promise(
    connection: &Connection,
    workspace: WorkspaceNo,
    id: &PromiseId,
) -> Result<Option<Promise>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_promise.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, id.as_str()])?, rows::promise)
}
