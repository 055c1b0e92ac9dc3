//! Promises as rows.

use std::borrow::Cow;

use hapax_engine::model::{
    IdempotencyKey, Payload, Promise, PromiseId, PromiseKey, PromiseState, PromiseStatus, RunId, Settlement,
    Timestamp, WriteToken,
};
use rusqlite::params;

use crate::codes::{Code, millis, millis_of};
use crate::fault::Fault;
use crate::rows::{self, Columns, broken, bytes, failure_text};
use crate::session::{Session, WorkspaceRowId};

/// Writes a promise that is new, or had lost its key to another; one that is there is left as it is. Answers whether it was written.
pub(crate) fn insert_promise(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    promise: &Promise,
    token: Option<WriteToken>,
) -> Result<bool, Fault> {
    let (settled_at, value) = state_columns(&promise.state)?;
    let written = session.prepare(include_str!("../sql/open_promise.sql"))?.execute(params![
        workspace.0,
        promise.id.as_str(),
        bytes(promise.run),
        millis(promise.created_at),
        millis_of(promise.deadline_at),
        promise.state.status().code(),
        millis_of(settled_at),
        value,
        promise.key.as_ref().map(|key| key.key.as_str()),
        promise.key.as_ref().map(|key| rows::span_ms(key.keep_for)),
        promise.create_key.as_ref().map(IdempotencyKey::as_str),
        promise.about.as_ref().map(Payload::as_str),
        promise.complete_key.as_ref().map(IdempotencyKey::as_str),
        promise.said.as_ref().map(Payload::as_str),
        token.map(WriteToken::get),
    ])?;
    Ok(written > 0)
}

/// Writes how a promise that was pending is settled.
pub(crate) fn write_settled(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    promise: &Promise,
) -> Result<(), Fault> {
    let (settled_at, value) = state_columns(&promise.state)?;
    session.prepare(include_str!("../sql/settle_promise.sql"))?.execute(params![
        workspace.0,
        promise.id.as_str(),
        promise.state.status().code(),
        millis_of(settled_at),
        value,
        promise.complete_key.as_ref().map(IdempotencyKey::as_str),
        promise.said.as_ref().map(Payload::as_str),
    ])?;
    Ok(())
}

/// Writes that a pending promise has timed out.
pub(crate) fn time_out_promise(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    id: &PromiseId,
) -> Result<(), Fault> {
    let nothing = None::<&str>;
    let mut settle = session.prepare(include_str!("../sql/settle_promise.sql"))?;
    let status = PromiseStatus::TimedOut.code();
    settle.execute(params![workspace.0, id.as_str(), status, None::<i64>, nothing, nothing, nothing])?;
    Ok(())
}

/// The runs that wait for a promise without a run.
pub(crate) fn list_waiters(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    id: &PromiseId,
) -> Result<Vec<RunId>, Fault> {
    let mut list = session.prepare(include_str!("../sql/list_waiters.sql"))?;
    rows::collect(list.query(params![workspace.0, id.as_str()])?, |mut row| row.run())
}

/// The instant and the value of a promise's state.
fn state_columns(state: &PromiseState) -> Result<(Option<Timestamp>, Option<Cow<'_, str>>), Fault> {
    Ok(match state {
        PromiseState::Pending | PromiseState::TimedOut => (None, None),
        PromiseState::Settled { at, settlement } => (Some(*at), Some(settlement_value(settlement)?)),
        PromiseState::KeyTaken { by } => (None, Some(by.as_str().into())),
    })
}

/// The value of a settlement; its status says what it means.
pub(crate) fn settlement_value(settlement: &Settlement) -> Result<Cow<'_, str>, Fault> {
    Ok(match settlement {
        Settlement::Resolved(value) => value.as_str().into(),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => failure_text(failure)?.into(),
    })
}

pub(crate) fn promise(mut row: Columns<'_>) -> Result<Promise, Fault> {
    let id = PromiseId::from_stored(row.text()?);
    let run = row.run()?;
    let created_at = row.at()?;
    let deadline_at = row.maybe_at()?;
    let state = state(row.code()?, row.maybe_at()?, row.maybe_text()?)?;
    let key = match (rows::maybe_key_text(&mut row)?, row.get::<Option<i64>>()?) {
        (Some(key), Some(keep_for_ms)) => Some(PromiseKey { key, keep_for: rows::span(keep_for_ms) }),
        _ => None,
    };
    Ok(Promise {
        id,
        run,
        key,
        created_at,
        deadline_at,
        state,
        create_key: rows::maybe_key_text(&mut row)?,
        about: rows::maybe_payload(&mut row)?,
        complete_key: rows::maybe_key_text(&mut row)?,
        said: rows::maybe_payload(&mut row)?,
    })
}

fn state(
    status: PromiseStatus,
    settled_at: Option<Timestamp>,
    value: Option<&str>,
) -> Result<PromiseState, Fault> {
    let value = || value.ok_or_else(|| broken("a promise without its value"));
    Ok(match status {
        PromiseStatus::Pending => PromiseState::Pending,
        PromiseStatus::TimedOut => PromiseState::TimedOut,
        PromiseStatus::KeyTaken => PromiseState::KeyTaken { by: PromiseId::from_stored(value()?) },
        PromiseStatus::Resolved | PromiseStatus::Rejected | PromiseStatus::Cancelled => {
            let at = settled_at.ok_or_else(|| broken("a settled promise without its instant"))?;
            PromiseState::Settled { at, settlement: settlement(status, value()?)? }
        }
    })
}

/// A settlement from its status and its value.
pub(crate) fn settlement(status: PromiseStatus, value: &str) -> Result<Settlement, Fault> {
    Ok(match status {
        PromiseStatus::Resolved => Settlement::Resolved(Payload::from_stored(value)),
        PromiseStatus::Rejected => Settlement::Rejected(rows::failure(value)?),
        PromiseStatus::Cancelled => Settlement::Cancelled(rows::failure(value)?),
        PromiseStatus::Pending | PromiseStatus::TimedOut | PromiseStatus::KeyTaken => {
            return Err(broken("the settlement of a promise that is not settled"));
        }
    })
}
