//! Deleting promises without a run.

use std::sync::Arc;

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::Timestamp;

use crate::codes::millis;
use crate::fault::Fault;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;

/// Deletes promises that ended before an instant, with all their rows; returns how many.
pub(crate) async fn purge_promises(
    held: Arc<HeldConnection>,
    over_before: Timestamp,
    limit: usize,
) -> Result<usize, Fault> {
    let limit = limit.clamp(1, MAX_PURGE) as i64;
    let list = include_str!("../sql/list_promises_to_purge.sql");
    let old = places(&query(&held, list, &[&millis(over_before), &limit]).await?)?;
    if old.0.is_empty() {
        return Ok(0);
    }
    held.batch_execute("BEGIN").await?;
    let lock = include_str!("../sql/lock_promises_to_purge.sql");
    let (workspaces, ids) = places(&query(&held, lock, &[&old.0, &old.1]).await?)?;
    // A separate statement, so that it sees new waiters; under the locks there can be no more.
    let delete = include_str!("../sql/delete_promises.sql");
    let gone = query(&held, delete, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    held.batch_execute("COMMIT").await?;
    Ok(gone.len())
}

fn places(found: &[tokio_postgres::Row]) -> Result<(Vec<i32>, Vec<String>), Fault> {
    let places = rows::collect(found, |mut row| Ok((row.get::<i32>()?, row.get::<String>()?)))?;
    Ok(places.into_iter().unzip())
}
