//! Creating a promise without a run.

use hapax_engine::model::{PromiseState, WriteToken};
use hapax_engine::store::{CreateOutcome, CreatePromise};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::open_promise::{decide_open, write_opening};
use crate::rows;
use crate::session::{Session, params};

impl Verb for CreatePromise {
    type Outcome = CreateOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.workspaces.push(self.workspace.clone());
        needs.promises.push((self.workspace.clone(), self.promise.id.clone()));
        let key = self.promise.key.iter().map(|key| (self.workspace.clone(), key.key.clone()));
        needs.promise_keys.extend(key);
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<CreateOutcome, Fault> {
        let workspace = session.get_workspace(&self.workspace).await?;
        if let Some(known) = session.find_promise(workspace, &self.promise.id).await? {
            let is_own = find_token(session, workspace, self).await? == Some(self.token);
            let known = Box::new(known.seen_at(session.now));
            return Ok(match is_own {
                true => CreateOutcome::Created(known),
                false => CreateOutcome::Exists(known),
            });
        }
        let opening = decide_open(session, workspace, self.promise.clone()).await?;
        if let PromiseState::KeyTaken { by } = opening.promise.state {
            return Ok(CreateOutcome::KeyConflict { existing: by });
        }
        let promise = write_opening(session, workspace, opening, Some(self.token))?;
        Ok(CreateOutcome::Created(Box::new(promise.seen_at(session.now))))
    }
}

/// Token of the existing promise's creation.
async fn find_token(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    request: &CreatePromise,
) -> Result<Option<WriteToken>, Fault> {
    let place = params![workspace.0, request.promise.id.as_str().to_owned()];
    let found = session.query(include_str!("../sql/find_promise_token.sql"), place).await?;
    let token = rows::at_most_one(&found, |mut row| row.get::<Option<i64>>())?;
    Ok(token.flatten().map(WriteToken::from_stored))
}
