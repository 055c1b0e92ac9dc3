//! Deleting promises without a run.

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{PromiseId, Timestamp};
use rusqlite::params;

use crate::codes::millis;
use crate::fault::Fault;
use crate::forget_promises::forget_promise;
use crate::job::Verb;
use crate::rows;
use crate::session::{Session, WorkspaceRowId};

/// Deletes at most this many that were over before an instant.
pub(crate) struct PurgePromises {
    pub(crate) over_before: Timestamp,
    pub(crate) limit: usize,
}

impl Verb for PurgePromises {
    type Outcome = usize;
    const IS_BRIEF: bool = false;

    fn apply(&self, session: &mut Session<'_, '_>) -> Result<usize, Fault> {
        let limit = self.limit.clamp(1, MAX_PURGE) as i64;
        let mut list = session.prepare(include_str!("../sql/list_promises_to_purge.sql"))?;
        let over = rows::collect(list.query(params![millis(self.over_before), limit])?, |mut row| {
            Ok((WorkspaceRowId(row.get()?), PromiseId::from_stored(row.text()?)))
        })?;
        for (workspace, id) in &over {
            forget_promise(session, *workspace, id)?;
        }
        Ok(over.len())
    }
}
