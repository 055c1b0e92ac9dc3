//! Keys that name promises, or are claimed for future ones.

use hapax_engine::model::{IdempotencyKey, KeyRecord, Promise, PromiseId};
use rusqlite::params;

use crate::codes::{millis, millis_of};
use crate::fault::Fault;
use crate::session::{Session, WorkspaceRowId};

/// Makes a key name a promise, or claims it for one that is still to be made.
pub(crate) fn put_promise_key(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    record: &KeyRecord,
) -> Result<(), Fault> {
    session.prepare(include_str!("../sql/put_promise_key.sql"))?.execute(params![
        workspace.0,
        key.as_str(),
        record.promise().map(PromiseId::as_str),
        millis(record.first_seen_at),
        millis_of(record.expires_at),
    ])?;
    Ok(())
}

/// The key of a promise that is over lives for as long as its maker asked.
pub(crate) fn age_promise_key(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    promise: &Promise,
) -> Result<(), Fault> {
    let Some(key) = &promise.key else { return Ok(()) };
    session.prepare(include_str!("../sql/age_promise_key.sql"))?.execute(params![
        workspace.0,
        key.key.as_str(),
        promise.id.as_str(),
        millis_of(promise.key_expires_at()),
        millis(session.now),
    ])?;
    Ok(())
}
