//! Forgetting webhooks that have been processed.

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::Timestamp;
use rusqlite::params;

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::rows;
use crate::session::Session;

/// Deletes at most this many that were received before an instant.
pub(crate) struct PurgeInboundEvents {
    pub(crate) before: Timestamp,
    pub(crate) limit: usize,
}

impl Verb for PurgeInboundEvents {
    type Outcome = usize;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<usize, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE) as i64;
        let mut list = session.prepare(include_str!("../sql/list_events_to_purge.sql"))?;
        let places: Vec<i64> =
            rows::collect(list.query(params![millis(self.before), limit])?, |mut row| row.get())?;
        let mut delete = session.prepare(include_str!("../sql/delete_inbound_event.sql"))?;
        for place in &places {
            delete.execute([place])?;
        }
        Ok(places.len())
    }
}
