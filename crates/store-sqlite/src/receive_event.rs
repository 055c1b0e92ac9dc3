//! Taking in a webhook, once.

use hapax_engine::model::{InboundEvent, InboundEventStatus};
use hapax_engine::store::{NewInboundEvent, ReceiveOutcome};
use rusqlite::params;

use crate::codes::{count, millis};
use crate::fault::Fault;
use crate::inbound_events::find_hook_in;
use crate::job::Verb;
use crate::session::Session;

impl Verb for NewInboundEvent {
    type Outcome = ReceiveOutcome;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<ReceiveOutcome, Fault> {
        let workspace = session.number_workspace(&self.id.workspace)?;
        if let Some(mut known) = find_hook_in(session.statements(), workspace, &self.id)? {
            let mut add = session.prepare(include_str!("../sql/count_duplicate_event.sql"))?;
            add.execute([count(known.place)])?;
            known.duplicates += 1;
            return Ok(ReceiveOutcome::Duplicate(known));
        }
        let now = session.now;
        let place = session.prepare(include_str!("../sql/insert_inbound_event.sql"))?.insert(params![
            workspace.0,
            self.id.source.as_str(),
            self.id.event,
            millis(now),
            self.headers.as_str(),
            self.body,
        ])?;
        Ok(ReceiveOutcome::New(InboundEvent {
            place: place.unsigned_abs(),
            id: self.id.clone(),
            received_at: now,
            changed_at: now,
            duplicates: 0,
            attempts: 0,
            status: InboundEventStatus::Received,
            outcome: None,
            headers: self.headers.clone(),
            body: self.body.clone(),
        }))
    }
}
