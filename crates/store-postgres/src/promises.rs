//! Promises and early settlements, as rows.

use std::borrow::Cow;
use std::time::Duration;

use hapax_engine::model::{
    EarlySettlement, Payload, Promise, PromiseId, PromiseKey, PromiseState, PromiseStatus, Settlement,
    Timestamp, WriteToken,
};

use crate::codes::{Code, millis, millis_of};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::rows::{Columns, broken, failure, failure_text, uuid};
use crate::session::{Params, params};

/// A promise, from the current column on.
pub(crate) fn promise(mut row: Columns<'_>) -> Result<Promise, Fault> {
    let id = PromiseId::from_stored(row.text()?);
    let run = row.run()?;
    let deadline_at = row.maybe_at()?;
    let state = state(row.code()?, row.maybe_at()?, row.maybe_text()?)?;
    let (key, keep_for_ms) = (row.maybe_key()?, row.get::<Option<i64>>()?);
    let keep_for = Duration::from_millis(u64::try_from(keep_for_ms.unwrap_or(0)).unwrap_or(0));
    Ok(Promise {
        id,
        run,
        key: key.map(|key| PromiseKey { key, keep_for }),
        deadline_at,
        state,
        created_at: row.at()?,
        create_key: row.maybe_key()?,
        about: row.maybe_payload()?,
        complete_key: row.maybe_key()?,
        said: row.maybe_payload()?,
    })
}

fn state(
    status: PromiseStatus,
    settled_at: Option<Timestamp>,
    value: Option<&str>,
) -> Result<PromiseState, Fault> {
    let value = || value.ok_or_else(|| broken("a promise without its value"));
    match status {
        PromiseStatus::Pending => Ok(PromiseState::Pending),
        PromiseStatus::TimedOut => Ok(PromiseState::TimedOut),
        PromiseStatus::KeyTaken => Ok(PromiseState::KeyTaken { by: PromiseId::from_stored(value()?) }),
        PromiseStatus::Resolved | PromiseStatus::Rejected | PromiseStatus::Cancelled => {
            let at = settled_at.ok_or_else(|| broken("a settled promise without its instant"))?;
            Ok(PromiseState::Settled { at, settlement: settlement(status, value()?)? })
        }
    }
}

fn settlement(status: PromiseStatus, value: &str) -> Result<Settlement, Fault> {
    match status {
        PromiseStatus::Resolved => Ok(Settlement::Resolved(Payload::from_stored(value))),
        PromiseStatus::Rejected => failure(value).map(Settlement::Rejected),
        PromiseStatus::Cancelled => failure(value).map(Settlement::Cancelled),
        PromiseStatus::Pending | PromiseStatus::TimedOut | PromiseStatus::KeyTaken => {
            Err(broken("a settlement that settles nothing"))
        }
    }
}

/// A settlement as it is kept.
fn settlement_text(settlement: &Settlement) -> Result<Cow<'_, str>, Fault> {
    Ok(match settlement {
        Settlement::Resolved(value) => value.as_str().into(),
        Settlement::Rejected(failure) | Settlement::Cancelled(failure) => failure_text(failure)?.into(),
    })
}

/// The state of a promise as three columns.
fn state_columns(state: &PromiseState) -> Result<(i16, Option<i64>, Option<String>), Fault> {
    let (settled_at, value) = match state {
        PromiseState::Pending | PromiseState::TimedOut => (None, None),
        PromiseState::KeyTaken { by } => (None, Some(by.as_str().to_owned())),
        PromiseState::Settled { at, settlement } => {
            (Some(millis(*at)), Some(settlement_text(settlement)?.into_owned()))
        }
    };
    Ok((state.status().code(), settled_at, value))
}

/// A new promise, in the order of `open_promise.sql` and `insert_promise.sql`.
pub(crate) fn new_promise(
    workspace: WorkspaceRowId,
    promise: &Promise,
    token: Option<WriteToken>,
) -> Result<Params, Fault> {
    let (status, settled_at, value) = state_columns(&promise.state)?;
    let keep_for = promise.key.as_ref().map(|key| key.keep_for);
    Ok(params![
        workspace.0,
        promise.id.as_str().to_owned(),
        uuid(promise.run),
        millis_of(promise.deadline_at),
        status,
        settled_at,
        value,
        promise.key.as_ref().map(|key| key.key.as_str().to_owned()),
        keep_for.map(|span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        millis(promise.created_at),
        promise.create_key.as_ref().map(|key| key.as_str().to_owned()),
        promise.about.as_ref().map(|about| about.as_str().to_owned()),
        promise.complete_key.as_ref().map(|key| key.as_str().to_owned()),
        promise.said.as_ref().map(|said| said.as_str().to_owned()),
        token.map(WriteToken::get),
    ])
}

/// An ended promise, in the order of `settle_promise.sql`.
pub(crate) fn settled_promise(workspace: WorkspaceRowId, promise: &Promise) -> Result<Params, Fault> {
    let (status, settled_at, value) = state_columns(&promise.state)?;
    Ok(params![
        workspace.0,
        promise.id.as_str().to_owned(),
        status,
        settled_at,
        value,
        promise.complete_key.as_ref().map(|key| key.as_str().to_owned()),
        promise.said.as_ref().map(|said| said.as_str().to_owned()),
    ])
}

/// An early settlement, in the order of `keep_early.sql`.
pub(crate) fn new_early(
    workspace: WorkspaceRowId,
    key: &str,
    early: &EarlySettlement,
) -> Result<Params, Fault> {
    Ok(params![
        workspace.0,
        key.to_owned(),
        early.settlement.status().code(),
        settlement_text(&early.settlement)?.into_owned(),
        early.complete_key.as_ref().map(|key| key.as_str().to_owned()),
        early.said.as_ref().map(|said| said.as_str().to_owned()),
        millis(early.at),
        millis(early.expires_at),
    ])
}

/// An early settlement, from the current column on; the columns are empty if there is none.
pub(crate) fn maybe_early(row: &mut Columns<'_>) -> Result<Option<EarlySettlement>, Fault> {
    let Some(status) = row.get::<Option<i16>>()? else { return Ok(None) };
    let settlement = settlement(PromiseStatus::from_code(status)?, row.text()?)?;
    let (complete_key, said) = (row.maybe_key()?, row.maybe_payload()?);
    Ok(Some(EarlySettlement { settlement, complete_key, said, at: row.at()?, expires_at: row.at()? }))
}

/// An early settlement.
pub(crate) fn early(row: &mut Columns<'_>) -> Result<EarlySettlement, Fault> {
    maybe_early(row)?.ok_or_else(|| broken("a kept settlement that says nothing"))
}
