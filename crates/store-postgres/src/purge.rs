//! Deleting expired data.

use std::sync::Arc;
use std::time::Instant;

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{RunId, Timestamp};
use hapax_engine::store::{Purge, PurgeOutcome};
use uuid::Uuid;

use crate::codes::millis;
use crate::fault::Fault;
use crate::limits::PURGE_AT_ONCE;
use crate::pools::HeldConnection;
use crate::rows::{self, uuid};

/// A run that was read.
struct ExpiredRun {
    run: RunId,
    workspace: i32,
    forgettable: bool,
}

/// Every table with rows of a run, except its key and people's notes.
const DELETE_RUNS: [&str; 10] = [
    include_str!("../sql/delete_steps_of_runs.sql"),
    include_str!("../sql/delete_events_of_runs.sql"),
    include_str!("../sql/delete_promises_of_runs.sql"),
    include_str!("../sql/delete_signals_of_runs.sql"),
    include_str!("../sql/delete_signal_ids_of_runs.sql"),
    include_str!("../sql/delete_notes_of_runs.sql"),
    include_str!("../sql/delete_posts_of_runs.sql"),
    include_str!("../sql/delete_results_of_runs.sql"),
    include_str!("../sql/delete_facts_of_runs.sql"),
    include_str!("../sql/delete_heads_of_runs.sql"),
];

/// One bounded pass, on a connection of its own: a few runs at a time, until `until`.
pub(crate) async fn purge(
    held: Arc<HeldConnection>,
    request: Purge,
    now: Timestamp,
    until: Instant,
) -> Result<PurgeOutcome, Fault> {
    let limit = request.limit.clamp(1, MAX_PURGE);
    let delete_keys = held.prepare_cached(include_str!("../sql/delete_expired_keys.sql")).await?;
    let dead = held.query(&delete_keys, &[&millis(now), &(limit as i64)]).await?;
    let dead = rows::at_most_one(&dead, |mut row| Ok((row.count()? as usize, row.count()? as usize)))?;
    let (keys, early) = dead.unwrap_or_default();
    let mut purged = PurgeOutcome { keys, early, ..PurgeOutcome::default() };
    let Some(closed_before) = request.runs_closed_before else { return Ok(purged) };
    let Some(from) = request.after.map_or(Some(0), |after| after.as_u128().checked_add(1)) else {
        return Ok(purged);
    };
    let list = held.prepare_cached(include_str!("../sql/list_runs_to_purge.sql")).await?;
    let found =
        held.query(&list, &[&Uuid::from_u128(from), &millis(closed_before), &(limit as i64 + 1)]).await?;
    let seen = rows::collect(&found, |mut row| {
        Ok(ExpiredRun { run: row.run()?, workspace: row.get()?, forgettable: row.get()? })
    })?;
    let looked_at = &seen[..seen.len().min(limit)];
    for few in looked_at.chunks(PURGE_AT_ONCE) {
        let old: Vec<&ExpiredRun> = few.iter().filter(|seen| seen.forgettable).collect();
        purged.runs += delete_runs(&held, &old, closed_before).await?;
        let last = few.last().map(|seen| seen.run);
        let is_end = last == seen.last().map(|seen| seen.run);
        purged.next = if is_end { None } else { last };
        if Instant::now() >= until {
            break;
        }
    }
    Ok(purged)
}

/// Returns the number of deleted runs.
async fn delete_runs(
    held: &HeldConnection,
    old: &[&ExpiredRun],
    closed_before: Timestamp,
) -> Result<usize, Fault> {
    if old.is_empty() {
        return Ok(0);
    }
    let mut statements = Vec::with_capacity(DELETE_RUNS.len());
    for sql in DELETE_RUNS {
        statements.push(held.prepare_cached(sql).await?);
    }
    let workspaces: Vec<i32> = old.iter().map(|seen| seen.workspace).collect();
    let ids: Vec<Uuid> = old.iter().map(|seen| uuid(seen.run)).collect();
    held.batch_execute("BEGIN").await?;
    let lock = held.prepare_cached(include_str!("../sql/lock_runs_to_purge.sql")).await?;
    let locked = held.query(&lock, &[&workspaces, &ids, &millis(closed_before)]).await?;
    let mut locked = rows::collect(&locked, place)?;
    let (workspaces, ids): (Vec<i32>, Vec<Uuid>) = locked.iter().copied().unzip();
    // A redelivery may have been requested since the read; under the lock it cannot be.
    let find = held.prepare_cached(include_str!("../sql/find_unsettled_posts.sql")).await?;
    let unsettled = held.query(&find, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    let unsettled = rows::collect(&unsettled, place)?;
    locked.retain(|place| !unsettled.contains(place));
    let (workspaces, ids): (Vec<i32>, Vec<Uuid>) = locked.into_iter().unzip();
    let limit = ids.len() as i64;
    let find = held.prepare_cached(include_str!("../sql/find_roots.sql")).await?;
    let roots = rows::collect(&held.query(&find, &[&limit, &workspaces, &ids]).await?, place)?;
    for statement in &statements {
        held.execute(statement, &[&limit, &workspaces, &ids]).await?;
    }
    let (of_roots, roots): (Vec<i32>, Vec<Uuid>) = roots.into_iter().unzip();
    let forget = held.prepare_cached(include_str!("../sql/delete_families.sql")).await?;
    held.execute(&forget, &[&(roots.len() as i64), &of_roots, &roots]).await?;
    held.batch_execute("COMMIT").await?;
    Ok(ids.len())
}

fn place(mut row: rows::Columns<'_>) -> Result<(i32, Uuid), Fault> {
    Ok((row.get()?, uuid(row.run()?)))
}
