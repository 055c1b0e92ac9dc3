//! Reads: each function sees one snapshot of the database.

use std::sync::Arc;

use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyRecord, Promise, PromiseId, RunEvent, RunId, StepId, Timestamp, Version,
    WorkspaceId,
};
use hapax_engine::store::{RunLog, RunView, StoredKey};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codes::{Code, count};
use crate::fault::Fault;
use crate::pools::HeldConnection;
use crate::promises::promise;
use crate::rows::{self, uuid};

/// Several statements with one snapshot; read-only, so the server need not write anything.
pub(crate) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

pub(crate) async fn query(
    held: &HeldConnection,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Fault> {
    let statement = held.prepare_cached(sql).await?;
    Ok(held.query(&statement, params).await?)
}

pub(crate) async fn find_run(
    held: Arc<HeldConnection>,
    workspace: WorkspaceId,
    run: RunId,
) -> Result<Option<RunView>, Fault> {
    let found = query(&held, include_str!("../sql/find_run.sql"), &[&workspace.as_str(), &uuid(run)]).await?;
    rows::at_most_one(&found, rows::view)
}

pub(crate) async fn find_log(
    held: Arc<HeldConnection>,
    workspace: WorkspaceId,
    run: RunId,
) -> Result<Option<RunLog>, Fault> {
    const PARTS: [&str; 6] = [
        include_str!("../sql/find_run.sql"),
        include_str!("../sql/list_steps_of_log.sql"),
        include_str!("../sql/list_children_of_log.sql"),
        include_str!("../sql/list_promises_of_log.sql"),
        include_str!("../sql/list_signals_of_log.sql"),
        include_str!("../sql/list_reruns_of_log.sql"),
    ];
    let (workspace, run) = (workspace.as_str(), uuid(run));
    // Prepared first, so that the statements below are sent in this order and without waiting.
    for sql in PARTS {
        held.prepare_cached(sql).await?;
    }
    let of_run: [&(dyn ToSql + Sync); 2] = [&workspace, &run];
    let (begun, view, steps, children, promises, signals, reruns, committed) = futures_util::join!(
        held.batch_execute(BEGIN_SNAPSHOT),
        query(&held, PARTS[0], &of_run),
        query(&held, PARTS[1], &of_run),
        query(&held, PARTS[2], &of_run),
        query(&held, PARTS[3], &of_run),
        query(&held, PARTS[4], &of_run),
        query(&held, PARTS[5], &of_run),
        held.batch_execute("COMMIT"),
    );
    begun?;
    let (view, steps, children) = (view?, steps?, children?);
    let (promises, signals, reruns) = (promises?, signals?, reruns?);
    committed?;
    let Some(RunView { head, input, .. }) = rows::at_most_one(&view, rows::view)? else { return Ok(None) };
    Ok(Some(RunLog {
        head,
        input,
        steps: rows::collect(&steps, rows::step)?,
        promises: rows::collect(&promises, promise)?,
        signals: rows::collect(&signals, rows::signal)?,
        children: rows::collect(&children, rows::child)?,
        attempts_before: rows::collect(&reruns, |mut row| {
            Ok((StepId::from_stored(row.text()?), row.get::<i32>()?.cast_unsigned()))
        })?,
    }))
}

pub(crate) async fn list_events(
    held: Arc<HeldConnection>,
    workspace: WorkspaceId,
    run: RunId,
    after: Version,
) -> Result<Vec<RunEvent>, Fault> {
    let wanted: [&(dyn ToSql + Sync); 4] =
        [&workspace.as_str(), &uuid(run), &count(after.get()), &(MAX_PAGE as i64)];
    let found = query(&held, include_str!("../sql/list_events.sql"), &wanted).await?;
    rows::collect(&found, rows::event)
}

pub(crate) async fn find_key(
    held: Arc<HeldConnection>,
    workspace: WorkspaceId,
    kind: KeyKind,
    key: IdempotencyKey,
) -> Result<Option<KeyRecord>, Fault> {
    let place: [&(dyn ToSql + Sync); 3] = [&workspace.as_str(), &kind.code(), &key.as_str()];
    let found = query(&held, include_str!("../sql/find_named_key.sql"), &place).await?;
    rows::at_most_one(&found, |mut row| rows::key_record(&mut row))
}

/// Keys in the order of workspace names, not of their numbers.
pub(crate) async fn list_keys(
    held: Arc<HeldConnection>,
    after: Option<StoredKey>,
) -> Result<Vec<(StoredKey, KeyRecord)>, Fault> {
    // No name is empty and no kind is negative, so without a position every key counts.
    let (workspace, kind, key) = match &after {
        Some(after) => (after.workspace.as_str(), after.kind.code(), after.key.as_str()),
        None => ("", -1, ""),
    };
    let from: [&(dyn ToSql + Sync); 4] = [&workspace, &kind, &key, &(MAX_PAGE as i64)];
    let found = query(&held, include_str!("../sql/list_keys.sql"), &from).await?;
    rows::collect(&found, |mut row| {
        let workspace = rows::workspace_name(&mut row)?;
        let (kind, key) = (row.code()?, rows::key_text(&mut row)?);
        Ok((StoredKey { workspace, kind, key }, rows::key_record(&mut row)?))
    })
}

pub(crate) async fn find_promise(
    held: Arc<HeldConnection>,
    workspace: WorkspaceId,
    id: PromiseId,
    now: Timestamp,
) -> Result<Option<Promise>, Fault> {
    let place: [&(dyn ToSql + Sync); 2] = [&workspace.as_str(), &id.as_str()];
    let found = query(&held, include_str!("../sql/find_named_promise.sql"), &place).await?;
    let promise = rows::at_most_one(&found, promise)?;
    Ok(promise.map(|promise| promise.seen_at(now)))
}
