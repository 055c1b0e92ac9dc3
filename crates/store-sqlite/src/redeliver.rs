//! Delivering once more what is delivered or given up.

use hapax_engine::model::{Post, PostState};
use hapax_engine::store::{Redeliver, RedeliverOutcome};

use crate::fault::Fault;
use crate::job::Verb;
use crate::journal::insert_notes;
use crate::outbox::{find_post, write_post};
use crate::session::Session;

impl Verb for Redeliver {
    type Outcome = RedeliverOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<RedeliverOutcome, Fault> {
        let Some(workspace) = session.find_workspace(&self.workspace)? else {
            return Ok(RedeliverOutcome::NoSuchPost);
        };
        let Some(post) = find_post(session, workspace, &self.workspace, &self.id)? else {
            return Ok(RedeliverOutcome::NoSuchPost);
        };
        if !post.state.status().is_settled() {
            return Ok(RedeliverOutcome::UnderWay(post));
        }
        let due = Post { state: PostState::Due { at: session.now }, attempts: 0, failure: None, ..post };
        write_post(session, workspace, &due)?;
        insert_notes(session, self.note.as_slice())?;
        Ok(RedeliverOutcome::Due(due))
    }
}
