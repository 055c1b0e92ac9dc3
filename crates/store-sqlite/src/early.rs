//! Settlements that came before their promise, as rows.

use hapax_engine::model::{EarlySettlement, IdempotencyKey, Payload};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::promises::{settlement, settlement_value};
use crate::rows::{self, Columns};
use crate::session::{Session, WorkspaceRowId};

pub(crate) fn find_early(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
) -> Result<Option<EarlySettlement>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_early.sql"))?;
    rows::at_most_one(find.query(params![workspace.0, key.as_str()])?, |mut row| early(&mut row))
}

/// The columns of an early settlement, from where the row stands.
pub(crate) fn early(row: &mut Columns<'_>) -> Result<EarlySettlement, Fault> {
    Ok(EarlySettlement {
        settlement: settlement(row.code()?, row.text()?)?,
        complete_key: rows::maybe_key_text(row)?,
        said: rows::maybe_payload(row)?,
        at: row.at()?,
        expires_at: row.at()?,
    })
}

pub(crate) fn put_early(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    early: &EarlySettlement,
) -> Result<(), Fault> {
    session.prepare(include_str!("../sql/keep_early.sql"))?.execute(params![
        workspace.0,
        key.as_str(),
        early.settlement.status().code(),
        settlement_value(&early.settlement)?,
        early.complete_key.as_ref().map(IdempotencyKey::as_str),
        early.said.as_ref().map(Payload::as_str),
        millis(early.at),
        millis(early.expires_at),
    ])?;
    Ok(())
}

pub(crate) fn delete_early(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
) -> Result<(), Fault> {
    let mut delete = session.prepare(include_str!("../sql/delete_early.sql"))?;
    delete.execute(params![workspace.0, key.as_str()])?;
    Ok(())
}
