//! Delivering once more what is delivered or given up, or never.

use hapax_engine::model::{OutboxMessage, OutboxState};
use hapax_engine::store::{OutboxCommand, Redeliver, RedeliverOutcome};

use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::outbox::{delete_post, find_post, write_post};
use crate::session::Session;

impl Verb for Redeliver {
    type Outcome = RedeliverOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<RedeliverOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(RedeliverOutcome::NoSuchMessage);
        };
        let Some(post) = find_post(session, workspace, &self.workspace, &self.id)? else {
            return Ok(RedeliverOutcome::NoSuchMessage);
        };
        if !post.state.status().is_settled() {
            return Ok(RedeliverOutcome::UnderWay(post));
        }
        insert_notes(session, self.note.as_slice())?;
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
