//! How a delivery went.

use hapax_engine::model::OutboxMessage;
use hapax_engine::store::FinishOutboxMessage;

use crate::fault::Fault;
use crate::job::Verb;
use crate::outbox::{find_post, write_post};
use crate::session::Session;

impl Verb for FinishOutboxMessage {
    type Outcome = bool;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<bool, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else { return Ok(false) };
        match find_post(session, workspace, &self.workspace, &self.id)? {
            Some(post) if post.is_held_by(self.owner, self.attempt) => {
                let post = OutboxMessage { state: self.state, failure: self.failure.clone(), ..post };
                write_post(session, workspace, &post)?;
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    }
}
