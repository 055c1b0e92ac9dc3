//! Requests under their keys as rows.

use std::sync::Arc;

use hapax_engine::model::{
    Fingerprint, IdempotencyKey, RequestId, RequestRecord, RequestScope, RequestState, RequestSummary,
    StoredAnswer, Timestamp, WriteToken,
};
use rusqlite::params;

use crate::codes::{Code, RequestStatus, millis};
use crate::fault::Fault;
use crate::rows::{self, Columns, broken};
use crate::session::{Session, WorkspaceRowId};
use crate::statements::Statements;

/// A request as the number it has in this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestRowId(pub(crate) i64);

/// A request that is there.
pub(crate) struct StoredRequest {
    pub(crate) number: RequestRowId,
    pub(crate) record: RequestRecord,
}

pub(crate) fn find_request(
    statements: &Statements<'_>,
    workspace: WorkspaceRowId,
    scope: &RequestScope,
    key: &IdempotencyKey,
) -> Result<Option<StoredRequest>, Fault> {
    let mut find = statements.take(include_str!("../sql/find_request.sql"))?;
    let found = find.query(params![workspace.0, scope.caller.as_str(), key.as_str()])?;
    rows::at_most_one(found, |row| request(scope, key, row))
}

fn request(scope: &RequestScope, key: &IdempotencyKey, mut row: Columns<'_>) -> Result<StoredRequest, Fault> {
    let number = RequestRowId(row.get()?);
    let id = RequestId::from_u128(u128::from_be_bytes(row.get()?));
    let fingerprint = Fingerprint::from_bytes(row.get()?);
    let (method, path) = (row.get()?, row.get()?);
    let outline = serde_json::from_str(row.text()?).map_err(broken)?;
    let first_seen_at = row.at()?;
    let state = state(&mut row)?;
    let record = RequestRecord {
        scope: scope.clone(),
        key: key.clone(),
        id,
        fingerprint,
        summary: RequestSummary { method, path, outline },
        first_seen_at,
        state,
    };
    Ok(StoredRequest { number, record })
}

fn state(row: &mut Columns<'_>) -> Result<RequestState, Fault> {
    let status: RequestStatus = row.code()?;
    let (token, until) = (row.get::<Option<i64>>()?, row.maybe_at()?);
    let (at, expires_at, free_at) = (row.maybe_at()?, row.maybe_at()?, row.maybe_at()?);
    let instant = |at: Option<Timestamp>| at.ok_or_else(|| broken("a request without its instant"));
    match status {
        RequestStatus::InFlight => {
            let token = token.ok_or_else(|| broken("a request that nobody holds"))?;
            Ok(RequestState::InFlight { token: WriteToken::from_stored(token), until: instant(until)? })
        }
        RequestStatus::Answered => Ok(RequestState::Answered {
            answer: answer(row)?,
            at: instant(at)?,
            expires_at: instant(expires_at)?,
            free_at: instant(free_at)?,
        }),
    }
}

fn answer(row: &mut Columns<'_>) -> Result<StoredAnswer, Fault> {
    let status = row.get::<Option<u16>>()?.ok_or_else(|| broken("an answered request without its answer"))?;
    let headers = serde_json::from_str(row.text()?).map_err(broken)?;
    let body = row.maybe_bytes()?.map(Arc::from);
    Ok(StoredAnswer { status, headers, body })
}

/// Writes a request that is being handled, in place of `found`.
pub(crate) fn hold_request(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    found: Option<&StoredRequest>,
    record: &RequestRecord,
) -> Result<(), Fault> {
    let RequestState::InFlight { token, until } = record.state else {
        return Err(Fault::Broken("a request was to be held that is answered".into()));
    };
    session.prepare(include_str!("../sql/hold_request.sql"))?.execute(params![
        workspace.0,
        record.scope.caller.as_str(),
        record.key.as_str(),
        record.id.as_u128().to_be_bytes(),
        record.fingerprint.as_bytes(),
        millis(record.first_seen_at),
        RequestStatus::InFlight.code(),
        token.get(),
        millis(until),
        record.summary.method,
        record.summary.path,
        outline(record)?,
    ])?;
    // The earlier response under the key was for another operation.
    match found {
        Some(StoredRequest {
            number,
            record: RequestRecord { state: RequestState::Answered { .. }, .. },
            ..
        }) => delete_answer(session, *number),
        _ => Ok(()),
    }
}

/// Writes a request with its answer, in place of `found`, whose key is free.
pub(crate) fn insert_answered(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    found: Option<&StoredRequest>,
    record: &RequestRecord,
) -> Result<(), Fault> {
    let RequestState::Answered { answer, at, expires_at, free_at } = &record.state else {
        return Err(Fault::Broken("a request was to be kept answered without an answer".into()));
    };
    if let Some(found) = found {
        delete_request(session, found.number)?;
    }
    let mut insert = session.prepare(include_str!("../sql/insert_answered_request.sql"))?;
    let number = insert.query_row(
        params![
            workspace.0,
            record.scope.caller.as_str(),
            record.key.as_str(),
            record.id.as_u128().to_be_bytes(),
            record.fingerprint.as_bytes(),
            millis(record.first_seen_at),
            RequestStatus::Answered.code(),
            millis(*at),
            millis(*expires_at),
            millis(*free_at),
            record.summary.method,
            record.summary.path,
            outline(record)?,
        ],
        |row| row.get(0).map(RequestRowId),
    )?;
    insert_answer(session, number, answer)
}

fn outline(record: &RequestRecord) -> Result<String, Fault> {
    serde_json::to_string(&record.summary.outline)
        .map_err(|error| Fault::Refused(format!("an outline cannot be kept: {error}")))
}

/// Writes the answer of a request.
pub(crate) fn answer_request(
    session: &Session<'_, '_>,
    number: RequestRowId,
    state: &RequestState,
) -> Result<(), Fault> {
    let RequestState::Answered { answer, at, expires_at, free_at } = state else {
        return Err(Fault::Broken("a request was to be answered without an answer".into()));
    };
    session.prepare(include_str!("../sql/answer_request.sql"))?.execute(params![
        number.0,
        RequestStatus::Answered.code(),
        millis(*at),
        millis(*expires_at),
        millis(*free_at),
    ])?;
    insert_answer(session, number, answer)
}

fn insert_answer(
    session: &Session<'_, '_>,
    number: RequestRowId,
    answer: &StoredAnswer,
) -> Result<(), Fault> {
    let headers = serde_json::to_string(&answer.headers)
        .map_err(|error| Fault::Refused(format!("headers cannot be kept: {error}")))?;
    session.prepare(include_str!("../sql/insert_answer.sql"))?.execute(params![
        number.0,
        answer.status,
        headers,
        answer.body.as_deref(),
    ])?;
    Ok(())
}

/// Deletes a request with its answer.
pub(crate) fn delete_request(session: &Session<'_, '_>, number: RequestRowId) -> Result<(), Fault> {
    session.prepare(include_str!("../sql/delete_request.sql"))?.execute([number.0])?;
    delete_answer(session, number)
}

fn delete_answer(session: &Session<'_, '_>, number: RequestRowId) -> Result<(), Fault> {
    session.prepare(include_str!("../sql/delete_answer.sql"))?.execute([number.0])?;
    Ok(())
}
