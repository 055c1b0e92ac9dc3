//! Lies about promises and early settlements.

use async_trait::async_trait;
use hapax_engine::model::{IdempotencyKey, Promise, Timestamp, WorkspaceId};
use hapax_engine::store::*;

use super::faked_store::FakedStore;

impl FakedStore {
    fn promises(&self) -> &dyn PromiseStore {
        self.store.promise_store().expect("the store keeps promises")
    }
}

#[async_trait]
impl PromiseStore for FakedStore {
    async fn list_early_settlements(
        &self,
        request: ListEarlySettlements,
    ) -> StoreResult<Vec<StoredEarlySettlement>> {
        let all = ListEarlySettlements { workspace: None, after: None, limit: 1000 };
        let mut kept = self.promises().list_early_settlements(all).await?;
        (self.lie.early)(&mut kept);
        let place = |one: &StoredEarlySettlement| (one.workspace.clone(), one.key.clone());
        kept.retain(|one| request.after.as_ref().is_none_or(|after| place(one) > *after));
        Ok(kept)
    }

    async fn create_promise(&self, request: CreatePromise) -> StoreResult<CreateOutcome> {
        self.promises().create_promise(request).await
    }

    async fn find_promise_by_key(
        &self,
        workspace: &WorkspaceId,
        key: &IdempotencyKey,
    ) -> StoreResult<Option<Promise>> {
        self.promises().find_promise_by_key(workspace, key).await
    }

    async fn list_promises(&self, request: ListPromises) -> StoreResult<PromisePage> {
        self.promises().list_promises(request).await
    }

    async fn put_settle_token(&self, request: PutSettleToken) -> StoreResult<bool> {
        self.promises().put_settle_token(request).await
    }

    async fn find_settle_token(&self, digest: &TokenDigest) -> StoreResult<Option<SettleToken>> {
        self.promises().find_settle_token(digest).await
    }

    async fn purge_promises(&self, over_before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.promises().purge_promises(over_before, limit).await
    }
}
