//! Forgetting requests whose keys are free, and how old the others are.

use hapax_engine::limits::{ABANDONED_REQUEST_FOR, MAX_PURGE};
use hapax_engine::model::Timestamp;
use rusqlite::{Connection, params};

use crate::codes::millis;
use crate::fault::Fault;
use crate::job::Verb;
use crate::requests::{RequestRowId, delete_request};
use crate::rows;
use crate::session::Session;

/// Deletes at most this many.
pub(crate) struct PurgeRequests {
    pub(crate) limit: usize,
}

impl Verb for PurgeRequests {
    type Outcome = usize;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<usize, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE);
        let now = millis(session.now);
        let mut gone = list(session, include_str!("../sql/list_free_requests.sql"), now, limit)?;
        let since = now.saturating_sub(ABANDONED_REQUEST_FOR.as_millis() as i64);
        let left = limit - gone.len();
        gone.extend(list(session, include_str!("../sql/list_abandoned_requests.sql"), since, left)?);
        for number in &gone {
            delete_request(session, *number)?;
        }
        Ok(gone.len())
    }
}

fn list(
    session: &mut Session<'_, '_>,
    sql: &'static str,
    until: i64,
    limit: usize,
) -> Result<Vec<RequestRowId>, Fault> {
    let mut list = session.prepare(sql)?;
    rows::collect(list.query(params![until, limit as i64])?, |mut row| Ok(RequestRowId(row.get()?)))
}

pub(crate) fn find_oldest_request(
    connection: &Connection,
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_oldest_request.sql"))?;
    rows::at_most_one(find.query([millis(now)])?, |mut row| row.at())
}
