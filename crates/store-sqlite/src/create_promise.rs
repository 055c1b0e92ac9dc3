//! Creating a promise without a run.

use hapax_engine::model::{PromiseState, WriteToken};
use hapax_engine::store::{CreateOutcome, CreatePromise};
use rusqlite::{OptionalExtension, params};

use crate::fault::Fault;
use crate::find;
use crate::job::Verb;
use crate::open_promises::{decide, write_opening};
use crate::session::{Session, WorkspaceRowId};

impl Verb for CreatePromise {
    type Outcome = CreateOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<CreateOutcome, Fault> {
        let workspace = session.number_workspace(&self.workspace)?;
        if let Some(known) = find::promise(session.statements(), workspace, &self.promise.id)? {
            let known = Box::new(known.seen_at(session.now));
            return Ok(match find_token(session, workspace, self)? == Some(self.token) {
                true => CreateOutcome::Created(known),
                false => CreateOutcome::Exists(known),
            });
        }
        let opening = decide(session, workspace, self.promise.clone())?;
        if let PromiseState::KeyTaken { by } = opening.promise.state {
            return Ok(CreateOutcome::KeyConflict { existing: by });
        }
        write_opening(session, workspace, &opening, Some(self.token))?;
        Ok(CreateOutcome::Created(Box::new(opening.promise.seen_at(session.now))))
    }
}

/// Token of the existing promise's creation.
fn find_token(
    session: &Session<'_, '_>,
    workspace: WorkspaceRowId,
    request: &CreatePromise,
) -> Result<Option<WriteToken>, Fault> {
    let mut find = session.prepare(include_str!("../sql/find_promise_token.sql"))?;
    let token: Option<Option<i64>> =
        find.query_row(params![workspace.0, request.promise.id.as_str()], |row| row.get(0)).optional()?;
    Ok(token.flatten().map(WriteToken::from_stored))
}
