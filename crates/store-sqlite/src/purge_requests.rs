//! Forgetting requests whose keys are free, and how old the others are.

use hapax_engine::limits::{ABANDONED_REQUEST_FOR, MAX_PURGE};
use hapax_engine::model::Timestamp;
use rusqlite::{Connection, params};

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::requests::{RequestNo, delete_request};
use crate::rows;
use crate::session::Session;

/// Deletes at most this many.
pub(crate) struct PurgeRequests {
    pub(crate) limit: usize,
}

impl Verb for PurgeRequests {
    type Outcome = usize;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<usize, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE) as i64;
        let abandoned = millis(session.now).saturating_sub(ABANDONED_REQUEST_FOR.as_millis() as i64);
        let mut list = session.prepare(include_str!("../sql/list_free_requests.sql"))?;
        let free = rows::collect(list.query(params![millis(session.now), limit, abandoned])?, |mut row| {
            Ok(RequestNo(row.get()?))
        })?;
        for number in &free {
            delete_request(session, *number)?;
        }
        Ok(free.len())
    }
}

pub(crate) fn find_oldest_request(
    connection: &Connection,
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_oldest_request.sql"))?;
    rows::at_most_one(find.query([millis(now)])?, |mut row| row.at())
}
