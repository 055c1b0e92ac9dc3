//! The promise book of the store.

use async_trait::async_trait;
use hapax_engine::model::{IdempotencyKey, Promise, Timestamp, WorkspaceId};
use hapax_engine::store::{
    CreateOutcome, CreatePromise, ListEarlySettlements, ListPromises, PromisePage, PromiseStore,
    PutSettleToken, SettleToken, Store, StoreResult, StoredEarlySettlement, TokenDigest,
};
use rusqlite::Connection;

use crate::purge_promises::PurgePromises;
use crate::read::find_workspace;
use crate::statements::Statements;
use crate::store::SqliteStore;
use crate::{find, list_promises, settle_tokens};

#[async_trait]
impl PromiseStore for SqliteStore {
    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome> {
        self.write(request).await
    }

    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>> {
        let (workspace, key, now) = (workspace.clone(), key.clone(), self.now());
        let find = move |connection: &Connection| {
            let Some(workspace) = find_workspace(connection, &workspace)? else { return Ok(None) };
            let found = find::promise_by_key(&Statements::new(connection), workspace, &key, now)?;
            Ok(found.map(|promise| promise.seen_at(now)))
        };
        self.readers().find(find).await
    }

    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage> {
        let now = self.now();
        self.readers().read(move |connection| list_promises::list_promises(connection, &request, now)).await
    }

    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>> {
        let now = self.now();
        self.readers()
            .read(move |connection| list_promises::list_early_settlements(connection, &request, now))
            .await
    }

    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool> {
        self.write(request).await
    }

    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>> {
        let digest = *digest;
        self.readers().find(move |connection| settle_tokens::find_settle_token(connection, digest)).await
    }

    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.write(PurgePromises { over_before, limit }).await
    }
}
