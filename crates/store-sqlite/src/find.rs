//! Reads that both the writer and the readers make.

use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyRecord, Promise, PromiseId, RunHead, RunId, StepRecord, Timestamp,
};
use hapax_engine::store::RunView;
use rusqlite::{Connection, params};

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::promises;
use crate::rows::{self, bytes};
use crate::session::WorkspaceRowId;
use crate::statements::Statements;

pub(crate) fn head(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    run: RunId,
) -> Result<Option<RunHead>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_head.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, |mut row| rows::head(&mut row))
}

/// A run with its input and result.
pub(crate) fn view(
    connection: &Connection,
    workspace: WorkspaceRowId,
    run: RunId,
) -> Result<Option<RunView>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_run.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, bytes(run)])?, rows::view)
}

/// The records of a run's current generation, in the order they started.
pub(crate) fn steps(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    head: &RunHead,
) -> Result<Vec<StepRecord>, Fault> {
    let mut list = statements.take(include_str!("../sql/list_steps_of_run.sql"))?;
    rows::collect(list.query(params![workspace.0, bytes(head.id()), head.generation.get()])?, rows::step)
}

/// A promise as it was last written.
pub(crate) fn promise(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    id: &PromiseId,
) -> Result<Option<Promise>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_promise.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, id.as_str()])?, promises::promise)
}

/// The promise that a live key names, as it was last written.
pub(crate) fn promise_by_key(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<Promise>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_promise_by_key.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, key.as_str(), millis(now)])?, promises::promise)
}

/// Object of a key, expired or not.
pub(crate) fn key(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    kind: KeyKind,
    key: &IdempotencyKey,
) -> Result<Option<KeyRecord>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_key.sql"))?;
    let found = find.query(params![workspace.0, kind.code(), key.as_str()])?;
    rows::at_most_one(found, |mut row| rows::key_record(&mut row))
}
