//! Deleting operations that newer ones have replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use hapax_engine::limits::MAX_PURGE;
use hapax_engine::model::{OperationId, Timestamp};
use hapax_engine::store::{OperationCursor, PurgeOperations, PurgeOperationsOutcome};
use uuid::Uuid;

use crate::codes::millis;
use crate::fault::Fault;
use crate::limits::PURGE_AT_ONCE;
use crate::pools::HeldConnection;
use crate::read::query;
use crate::rows;

/// An operation that was read.
struct ExpiredOperation {
    workspace: i32,
    place: OperationCursor,
    forgettable: bool,
}

/// Primary key of an operation.
type Key = (i32, Uuid);

/// One bounded pass, on a connection of its own: a few at a time, until `until`.
pub(crate) async fn purge_operations(
    held: Arc<HeldConnection>,
    request: PurgeOperations,
    until: Instant,
) -> Result<PurgeOperationsOutcome, Fault> {
    let limit = request.limit.clamp(1, MAX_PURGE);
    let (from, after) = match &request.after {
        Some(after) => (after.workspace.as_str(), uuid_of(after.operation)),
        None => ("", Uuid::nil()),
    };
    let list = include_str!("../sql/list_operations_to_purge.sql");
    let ended_before = request.ended_before;
    let found = query(&held, list, &[&from, &after, &millis(ended_before), &(limit as i64 + 1)]).await?;
    let seen = rows::collect(&found, |mut row| {
        let (workspace, name) = (row.get()?, rows::workspace_name(&mut row)?);
        let operation = OperationId::from_u128(row.run()?.as_u128());
        let place = OperationCursor { workspace: name, operation };
        Ok(ExpiredOperation { workspace, place, forgettable: row.get()? })
    })?;
    let mut purged = PurgeOperationsOutcome::default();
    let looked_at = &seen[..seen.len().min(limit)];
    let end = seen.last().map(|seen| &seen.place);
    for few in looked_at.chunks(PURGE_AT_ONCE) {
        let old: Vec<Key> = few
            .iter()
            .filter(|seen| seen.forgettable)
            .map(|seen| (seen.workspace, uuid_of(seen.place.operation)))
            .collect();
        let (operations, posts) = delete(&held, old, ended_before).await?;
        purged.operations += operations;
        purged.posts += posts;
        purged.next = few.last().map(|seen| &seen.place).filter(|last| Some(*last) != end).cloned();
        if Instant::now() >= until {
            break;
        }
    }
    Ok(purged)
}

/// Returns the numbers of deleted operations and after-effects.
async fn delete(
    held: &HeldConnection,
    old: Vec<Key>,
    ended_before: Timestamp,
) -> Result<(usize, usize), Fault> {
    if old.is_empty() {
        return Ok((0, 0));
    }
    let (workspaces, ids): (Vec<i32>, Vec<Uuid>) = old.into_iter().unzip();
    held.batch_execute("BEGIN").await?;
    let lock = include_str!("../sql/lock_operations_to_purge.sql");
    let locked = query(held, lock, &[&workspaces, &ids, &millis(ended_before)]).await?;
    let locked: Vec<Key> = rows::collect(&locked, |mut row| key(&mut row))?;
    let (workspaces, ids): (Vec<i32>, Vec<Uuid>) = locked.into_iter().unzip();
    let many = ids.len() as i64;
    // A redelivery may have been requested since the read. The statement skips locked rows, so that
    // there is no deadlock.
    let lock = include_str!("../sql/lock_posts_to_purge.sql");
    let locked = query(held, lock, &[&many, &workspaces, &ids]).await?;
    let mut settled: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    for (key, post) in rows::collect(&locked, |mut row| Ok((key(&mut row)?, row.get::<String>()?)))? {
        settled.entry(key).or_default().push(post);
    }
    let count = include_str!("../sql/count_posts_of_operations.sql");
    let counted = query(held, count, &[&many, &workspaces, &ids]).await?;
    let counted = rows::collect(&counted, |mut row| Ok((key(&mut row)?, row.count()? as usize)))?;
    let is_all_told =
        |(key, posts): &(Key, usize)| settled.get(key).map_or(0, |settled| settled.len()) == *posts;
    let gone: Vec<Key> = counted.into_iter().filter(is_all_told).map(|(key, _)| key).collect();
    let (of_posts, posts): (Vec<i32>, Vec<&String>) =
        gone.iter().flat_map(|key| settled.get(key).into_iter().flatten().map(|post| (key.0, post))).unzip();
    query(held, include_str!("../sql/delete_posts.sql"), &[&(posts.len() as i64), &of_posts, &posts]).await?;
    let (workspaces, ids): (Vec<i32>, Vec<Uuid>) = gone.into_iter().unzip();
    let delete = include_str!("../sql/delete_operations.sql");
    query(held, delete, &[&(ids.len() as i64), &workspaces, &ids]).await?;
    held.batch_execute("COMMIT").await?;
    Ok((ids.len(), posts.len()))
}

fn uuid_of(operation: OperationId) -> Uuid {
    Uuid::from_u128(operation.as_run().as_u128())
}

fn key(row: &mut rows::Columns<'_>) -> Result<Key, Fault> {
    Ok((row.get()?, rows::uuid(row.run()?)))
}
