//! Redelivering a message that was delivered or given up.

use hapax_engine::model::{OutboxMessage, OutboxState};
use hapax_engine::store::{OutboxCommand, Redeliver, RedeliverOutcome};

use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::job::{Needs, Verb};
use crate::journal::insert_notes;
use crate::outbox::{delete_post, post, write_post};
use crate::rows;
use crate::session::{Session, params};

impl Verb for Redeliver {
    type Outcome = RedeliverOutcome;

    fn foresee(&self, needs: &mut Needs) {
        needs.bring(&self.workspace, self.note.as_slice());
    }

    async fn apply(&self, session: &mut Session<'_>) -> Result<RedeliverOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace).await? else {
            return Ok(RedeliverOutcome::NoSuchMessage);
        };
        let Some(post) = lock_post(self, session, workspace).await? else {
            return Ok(RedeliverOutcome::NoSuchMessage);
        };
        if !post.state.status().is_settled() {
            return Ok(RedeliverOutcome::UnderWay(post));
        }
        insert_notes(session, self.note.as_slice()).await?;
        match self.wish {
            OutboxCommand::Redeliver => {
                let due = OutboxMessage {
                    state: OutboxState::Due { at: session.now },
                    attempts: 0,
                    failure: None,
                    ..post
                };
                write_post(session, workspace, &due)?;
                Ok(RedeliverOutcome::Due(due))
            }
            OutboxCommand::Discard => {
                delete_post(session, workspace, &post)?;
                Ok(RedeliverOutcome::Discarded(post))
            }
        }
    }
}

/// Locks the after-effect and its run, because a purge of the run would delete the message.
async fn lock_post(
    request: &Redeliver,
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
) -> Result<Option<OutboxMessage>, Fault> {
    let place = || params![workspace.0, request.id.as_str().to_owned()];
    let read = |mut row: rows::Columns<'_>| post(request.workspace.clone(), &mut row);
    let found = session.query(include_str!("../sql/find_post.sql"), place()).await?;
    let Some(post) = rows::at_most_one(&found, read)? else { return Ok(None) };
    session.lock(&[(workspace, post.run)]).await?;
    let found = session.query(include_str!("../sql/lock_post.sql"), place()).await?;
    rows::at_most_one(&found, read)
}
