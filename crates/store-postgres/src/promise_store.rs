//! The promise store.

use std::sync::Arc;

use async_trait::async_trait;
use hapax_engine::limits::{MAX_PAGE, MAX_PROMISES_SCANNED};
use hapax_engine::model::{IdempotencyKey, Promise, PromiseId, RunId, Timestamp, WorkspaceId};
use hapax_engine::store::{
    CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleToken, Store, StoreResult, StoredEarlySettlement, TokenDigest,
};
use tokio_postgres::types::ToSql;

use crate::codes::{Code, millis};
use crate::fault::Fault;
use crate::interned_names::{InternedNames, WorkspaceRowId};
use crate::pools::HeldConnection;
use crate::promises::{early, promise};
use crate::purge_promises::purge_promises;
use crate::read::query;
use crate::rows::{self, uuid};
use crate::settle_tokens::find_settle_token;
use crate::store::PostgresStore;

/// No text sorts after it, byte by byte.
const LAST_TEXT: &str = "\u{10ffff}\u{10ffff}";

#[async_trait]
impl PromiseStore for PostgresStore {
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome> {
        self.consider(request).await
    }

    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>> {
        let (interned_names, workspace, key, now) =
            (self.interned_names(), workspace.clone(), key.clone(), self.now());
        self.read(|held| find_promise_by_key(held, interned_names, workspace, key, now)).await
    }

    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage> {
        let (interned_names, now) = (self.interned_names(), self.now());
        self.read(|held| list_promises(held, interned_names, request, now)).await
    }

    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>> {
        let (interned_names, now) = (self.interned_names(), self.now());
        self.read(|held| list_early_settlements(held, interned_names, request, now)).await
    }

    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool> {
        self.consider(request).await
    }

    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>> {
        let digest = *digest;
        self.read(|held| find_settle_token(held, digest)).await
    }

    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.maintain(|held| purge_promises(held, over_before, limit)).await
    }
}

async fn find_promise_by_key(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    workspace: WorkspaceId,
    key: IdempotencyKey,
    now: Timestamp,
) -> Result<Option<Promise>, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &workspace).await? else {
        return Ok(None);
    };
    let place: [&(dyn ToSql + Sync); 3] = [&workspace.0, &key.as_str(), &millis(now)];
    let found = query(&held, include_str!("../sql/find_promise_by_key.sql"), &place).await?;
    let promise = rows::at_most_one(&found, promise)?;
    Ok(promise.map(|promise| promise.seen_at(now)))
}

async fn list_promises(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListPromises,
    now: Timestamp,
) -> Result<PromisePage, Fault> {
    let Some(workspace) = interned_names.find_workspace(held.link(), &request.workspace).await? else {
        return Ok(PromisePage::default());
    };
    // No id is empty.
    let after = request.after.as_ref().map_or("", |after| after.as_str());
    let limit = request.limit.clamp(1, MAX_PAGE);
    let upto = match request.status {
        Some(_) => find_ahead(&held, workspace, request.run, after).await?,
        None => None,
    };
    let end = upto.as_ref().map_or(LAST_TEXT, |upto| upto.as_str());
    let (status, at, room) = (request.status.map(Code::code), millis(now), limit as i64);
    let wanted: [&(dyn ToSql + Sync); 6] = [&workspace.0, &after, &room, &status, &at, &end];
    let found = match request.run {
        None => query(&held, include_str!("../sql/list_promises.sql"), &wanted).await?,
        Some(RunId::NONE) => query(&held, include_str!("../sql/list_promises_alone.sql"), &wanted).await?,
        Some(run) => {
            let [workspace, after, room, status, at, _] = wanted;
            let wanted = [workspace, after, room, status, at, &uuid(run)];
            query(&held, include_str!("../sql/list_promises_of_run.sql"), &wanted).await?
        }
    };
    let promises = rows::collect(&found, |row| Ok(promise(row)?.seen_at(now)))?;
    Ok(PromisePage::new(promises, limit, upto))
}

/// The last promise that a page considers; `None` if that reaches to the end. A run has few.
async fn find_ahead(
    held: &HeldConnection,
    workspace: WorkspaceRowId,
    run: Option<RunId>,
    after: &str,
) -> Result<Option<PromiseId>, Fault> {
    let sql = match run {
        None => include_str!("../sql/find_promise_ahead.sql"),
        Some(RunId::NONE) => include_str!("../sql/find_promise_ahead_alone.sql"),
        Some(_) => return Ok(None),
    };
    let ahead = MAX_PROMISES_SCANNED as i64 - 1;
    let found = query(held, sql, &[&workspace.0, &after, &ahead]).await?;
    rows::at_most_one(&found, |mut row| Ok(PromiseId::from_stored(row.get::<&str>()?)))
}

/// In the order of workspace names, not of their numbers.
async fn list_early_settlements(
    held: Arc<HeldConnection>,
    interned_names: Arc<InternedNames>,
    request: ListEarlySettlements,
    now: Timestamp,
) -> Result<Vec<StoredEarlySettlement>, Fault> {
    let (limit, now) = (request.limit.clamp(1, MAX_PAGE) as i64, millis(now));
    let Some(workspace) = request.workspace else {
        // No name is empty, so without a position everything counts.
        let after = request.after.as_ref();
        let (from, after) = after.map_or(("", ""), |(workspace, key)| (workspace.as_str(), key.as_str()));
        let sql = include_str!("../sql/list_early_of_all_workspaces.sql");
        let found = query(&held, sql, &[&from, &after, &limit, &now]).await?;
        return rows::collect(&found, |mut row| {
            let (workspace, key) = (rows::workspace_name(&mut row)?, rows::key_text(&mut row)?);
            Ok(StoredEarlySettlement { workspace, key, early: early(&mut row)? })
        });
    };
    // No key is empty.
    let after = match &request.after {
        Some((from, _)) if *from > workspace => return Ok(Vec::new()),
        Some((from, key)) if *from == workspace => key.as_str(),
        _ => "",
    };
    let Some(number) = interned_names.find_workspace(held.link(), &workspace).await? else {
        return Ok(Vec::new());
    };
    let found =
        query(&held, include_str!("../sql/list_early.sql"), &[&number.0, &after, &limit, &now]).await?;
    rows::collect(&found, |mut row| {
        let key = rows::key_text(&mut row)?;
        Ok(StoredEarlySettlement { workspace: workspace.clone(), key, early: early(&mut row)? })
    })
}
