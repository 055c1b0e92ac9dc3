//! Freeing keys before their time.

use hapax_engine::model::{IdempotencyKey, KeyKind, RequestScope, WorkspaceId};
use hapax_engine::store::{KeyPlace, ReleaseKey, ReleaseOutcome};
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::requests::{delete_request, find_request};
use crate::rows::{self, bytes};
use crate::session::Session;

impl Verb for ReleaseKey {
    type Outcome = ReleaseOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ReleaseOutcome, Fault> {
        let outcome = match &self.place {
            KeyPlace::Run { workspace, key } => release_run_key(session, workspace, key)?,
            KeyPlace::Request { scope, key } => release_request_key(session, scope, key)?,
        };
        if outcome == ReleaseOutcome::Released {
            insert_notes(session, std::slice::from_ref(&self.note))?;
        }
        Ok(outcome)
    }
}

fn release_run_key(
    session: &mut Session<'_, '_>,
    workspace: &WorkspaceId,
    key: &IdempotencyKey,
) -> Result<ReleaseOutcome, Fault> {
    let Some(workspace) = session.find_workspace(workspace)? else { return Ok(ReleaseOutcome::NoSuchKey) };
    let mut find = session.prepare(include_str!("../sql/find_key.sql"))?;
    let found = find.query(params![workspace.0, KeyKind::Run.code(), key.as_str()])?;
    let found = rows::at_most_one(found, |mut row| rows::key_record(&mut row))?;
    let Some(record) = found.filter(|record| record.is_live(session.now)) else {
        return Ok(ReleaseOutcome::NoSuchKey);
    };
    let holder = session.find_head(workspace, record.run)?;
    if holder.is_some_and(|head| !head.status().is_closed()) {
        return Ok(ReleaseOutcome::InUse { run: Some(record.run) });
    }
    session.prepare(include_str!("../sql/expire_key.sql"))?.execute(params![
        workspace.0,
        KeyKind::Run.code(),
        key.as_str(),
        bytes(record.run),
        millis(session.now),
    ])?;
    Ok(ReleaseOutcome::Released)
}

fn release_request_key(
    session: &mut Session<'_, '_>,
    scope: &RequestScope,
    key: &IdempotencyKey,
) -> Result<ReleaseOutcome, Fault> {
    let Some(workspace) = session.find_workspace(&scope.workspace)? else {
        return Ok(ReleaseOutcome::NoSuchKey);
    };
    match find_request(session.connection(), workspace, scope, key)? {
        None => Ok(ReleaseOutcome::NoSuchKey),
        Some(found) if found.record.is_free(session.now) => Ok(ReleaseOutcome::NoSuchKey),
        Some(found) if found.record.is_held(session.now) => Ok(ReleaseOutcome::InUse { run: None }),
        Some(found) => {
            delete_request(session, found.number)?;
            Ok(ReleaseOutcome::Released)
        }
    }
}
