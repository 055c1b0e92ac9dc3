//! Due time of the most overdue run.

use hapax_engine::limits::MAX_WORKFLOWS_SCANNED;
use hapax_engine::model::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::codes::millis;
use crate::fault::Fault;

/// From one workflow, version and priority to the next, so that however many runs wait, few are looked at.
pub(crate) fn find_oldest_due_at(
    connection: &Connection,
    now: Timestamp,
) -> Result<Option<Timestamp>, Fault> {
    let mut find = connection.prepare_cached(include_str!("../sql/find_first_wake_after.sql"))?;
    // Workflows are numbered from 1.
    let (mut place, mut longest) = ((0, 0, 0), None::<i64>);
    for _ in 0..MAX_WORKFLOWS_SCANNED {
        let (workflow, version, priority): (i64, i64, i64) = place;
        let first = find.query_row(params![workflow, version, priority], |row| {
            Ok(((row.get(0)?, row.get(1)?, row.get(2)?), row.get(3)?))
        });
        let Some((found, wake_at)) = first.optional()? else { break };
        place = found;
        longest = longest.into_iter().chain([wake_at]).min();
    }
    Ok(longest.filter(|at| *at <= millis(now)).map(Timestamp::from_millis))
}
