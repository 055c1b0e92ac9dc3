//! Recording the outcome of a webhook.

use hapax_engine::model::Payload;
use hapax_engine::store::FinishInboundEvent;
use rusqlite::params;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::job::Verb;
use crate::session::Session;

impl Verb for FinishInboundEvent {
    type Outcome = bool;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<bool, Fault> {
        let Some(workspace) = session.find_workspace(&self.id.workspace)? else { return Ok(false) };
        let changed = session.prepare(include_str!("../sql/finish_inbound_event.sql"))?.execute(params![
            workspace.0,
            self.id.source.as_str(),
            self.id.event,
            self.attempts,
            self.status.code(),
            self.outcome.as_ref().map(Payload::as_str),
            millis(session.now),
        ])?;
        Ok(changed == 1)
    }
}
