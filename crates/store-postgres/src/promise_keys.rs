//! Promise keys within a transaction: locked, with the settlements that wait for future promises.
//!
//! All nodes lock them after the runs, in the order of the keys. A missing key cannot be locked: if
//! two transactions insert it at once, the second violates the primary key, is retried, and finds
//! the first one's row.

use std::collections::{BTreeSet, HashMap};

use hapax_engine::model::{
    EarlySettlement, IdempotencyKey, KeyRecord, KeyTarget, Promise, PromiseId, Timestamp,
};

use crate::codes::{millis, millis_of};
use crate::fault::Fault;
use crate::interned_names::WorkspaceRowId;
use crate::promises::{maybe_early, new_early};
use crate::rows::{self, Columns};
use crate::session::{Params, Session, params};

/// Primary key of a promise key.
pub(crate) type KeyPlace = (WorkspaceRowId, IdempotencyKey);

/// Locked keys, with the changes of the transaction.
pub(crate) type KnownKeys = HashMap<KeyPlace, KnownKey>;

/// Object of a key, and the settlement that is kept for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownKey {
    /// `None` if the key does not exist.
    pub(crate) record: Option<KeyRecord>,
    pub(crate) early: Option<EarlySettlement>,
}

impl KnownKey {
    /// The promise that the key names at `now`.
    pub(crate) fn promise(&self, now: Timestamp) -> Option<&PromiseId> {
        self.record.as_ref().filter(|record| record.is_live(now))?.promise()
    }
}

fn asked(places: &[KeyPlace]) -> Params {
    let workspaces: Vec<i32> = places.iter().map(|(workspace, _)| workspace.0).collect();
    let keys: Vec<String> = places.iter().map(|(_, key)| key.as_str().to_owned()).collect();
    params![places.len() as i64, workspaces, keys]
}

/// The promises that keys name, before any lock.
pub(crate) async fn find_named(
    session: &mut Session<'_>,
    places: &BTreeSet<KeyPlace>,
) -> Result<Vec<(WorkspaceRowId, PromiseId)>, Fault> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let places: Vec<KeyPlace> = places.iter().cloned().collect();
    let found = session.query(include_str!("../sql/find_promises_of_keys.sql"), asked(&places)).await?;
    let named = rows::collect(&found, |mut row| {
        let workspace = WorkspaceRowId(row.get()?);
        Ok(row.maybe_text()?.map(|id| (workspace, PromiseId::from_stored(id))))
    })?;
    Ok(named.into_iter().flatten().collect())
}

/// Locks keys in their order and reads them; known keys stay as they are.
pub(crate) async fn lock(session: &mut Session<'_>, wanted: &BTreeSet<KeyPlace>) -> Result<(), Fault> {
    let new: Vec<KeyPlace> =
        wanted.iter().filter(|place| !session.promise_keys.contains_key(place)).cloned().collect();
    if new.is_empty() {
        return Ok(());
    }
    session.keep_back(include_str!("../sql/lock_promise_keys.sql"), asked(&new));
    // A separate statement, so that it sees changes that were committed while this one waited for
    // the locks.
    let found = session.query(include_str!("../sql/find_promise_keys.sql"), asked(&new)).await?;
    session.promise_keys.extend(new.into_iter().map(|place| (place, KnownKey::default())));
    for row in &found {
        let mut row = Columns::of(row);
        let place = (WorkspaceRowId(row.get()?), rows::key_text(&mut row)?);
        let record = Some(rows::key_record(&mut row)?);
        session.promise_keys.insert(place, KnownKey { record, early: maybe_early(&mut row)? });
    }
    Ok(())
}

/// A key, locked if it exists.
pub(crate) async fn find_key(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
) -> Result<KnownKey, Fault> {
    let place = (workspace, key.clone());
    lock(session, &BTreeSet::from([place.clone()])).await?;
    Ok(session.promise_keys.get(&place).cloned().unwrap_or_default())
}

/// Writes a locked or missing key.
pub(crate) fn write_key(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    record: KeyRecord,
) {
    let promise = record.promise().map(|id| id.as_str().to_owned());
    let (first_seen_at, expires_at) = (millis(record.first_seen_at), millis_of(record.expires_at));
    let columns = params![workspace.0, key.as_str().to_owned(), promise, first_seen_at, expires_at];
    let is_there =
        session.promise_keys.get(&(workspace, key.clone())).is_some_and(|known| known.record.is_some());
    match is_there {
        true => session.keep_back(include_str!("../sql/write_promise_key.sql"), columns),
        false => session.keep_back(include_str!("../sql/insert_promise_key.sql"), columns),
    }
    session.promise_keys.entry((workspace, key.clone())).or_default().record = Some(record);
}

/// Stores a settlement for the promise that the key will name.
pub(crate) fn keep_early(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    key: &IdempotencyKey,
    early: EarlySettlement,
) -> Result<(), Fault> {
    let claimed = KeyRecord {
        target: KeyTarget::Nothing,
        first_seen_at: session.now,
        expires_at: Some(early.expires_at),
    };
    write_key(session, workspace, key, claimed);
    session.keep_back(include_str!("../sql/keep_early.sql"), new_early(workspace, key.as_str(), &early)?);
    session.promise_keys.entry((workspace, key.clone())).or_default().early = Some(early);
    Ok(())
}

/// Deletes the settlement that is kept for a locked key.
pub(crate) fn delete_early(session: &mut Session<'_>, workspace: WorkspaceRowId, key: &IdempotencyKey) {
    let Some(known) = session.promise_keys.get_mut(&(workspace, key.clone())) else { return };
    if known.early.take().is_some() {
        let gone = params![workspace.0, key.as_str().to_owned()];
        session.keep_back(include_str!("../sql/delete_early.sql"), gone);
    }
}

/// Starts the expiry of an ended promise's key, as its creator asked.
pub(crate) async fn age_key(
    session: &mut Session<'_>,
    workspace: WorkspaceRowId,
    promise: &Promise,
) -> Result<(), Fault> {
    let Some(key) = &promise.key else { return Ok(()) };
    let known = find_key(session, workspace, &key.key).await?;
    if known.promise(session.now) == Some(&promise.id)
        && let Some(record) = known.record
    {
        let aged = KeyRecord { expires_at: promise.key_expires_at(), ..record };
        write_key(session, workspace, &key.key, aged);
    }
    Ok(())
}
