//! The hook book of the store.

use async_trait::async_trait;
use hapax_engine::model::{Hook, HookId, Timestamp};
use hapax_engine::store::{
    FinishHook, HookBook, ListHooks, ListUnprocessedHooks, NewHook, ReceivedHook, StoreResult,
};

use crate::hooks;
use crate::purge_hooks::PurgeHooks;
use crate::store::SqliteStore;

#[async_trait]
impl HookBook for SqliteStore {
    async fn receive_hook(&self, hook: NewHook) -> StoreResult<ReceivedHook> {
        self.write(hook).await
    }

    async fn finish_hook(&self, request: FinishHook) -> StoreResult<bool> {
        self.write(request).await
    }

    async fn find_hook(&self, id: &HookId) -> StoreResult<Option<Hook>> {
        let id = id.clone();
        self.readers().find(move |connection| hooks::find_hook(connection, &id)).await
    }

    async fn list_hooks(&self, request: ListHooks) -> StoreResult<Vec<Hook>> {
        self.readers().read(move |connection| hooks::list_hooks(connection, &request)).await
    }

    async fn list_unprocessed_hooks(&self, request: ListUnprocessedHooks) -> StoreResult<Vec<Hook>> {
        self.readers().read(move |connection| hooks::list_unprocessed_hooks(connection, &request)).await
    }

    async fn purge_hooks(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.write(PurgeHooks { before, limit }).await
    }
}
