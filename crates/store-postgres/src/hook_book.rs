//! The hook book of the store.

use async_trait::async_trait;
use hapax_engine::model::{Hook, HookId, Timestamp};
use hapax_engine::store::{
    FinishHook, HookBook, ListHooks, ListUnprocessedHooks, NewHook, ReceivedHook, Store, StoreResult,
};

use crate::hooks;
use crate::store::PostgresStore;

#[async_trait]
impl HookBook for PostgresStore {
    async fn receive_hook(&self, hook: NewHook) -> StoreResult<ReceivedHook> {
        let (numbers, now) = (self.numbers(), self.now());
        self.write_at_once(|held| hooks::receive_hook(held, numbers, hook, now)).await
    }

    async fn finish_hook(&self, request: FinishHook) -> StoreResult<bool> {
        let (numbers, now) = (self.numbers(), self.now());
        self.write_at_once(|held| hooks::finish_hook(held, numbers, request, now)).await
    }

    async fn find_hook(&self, id: &HookId) -> StoreResult<Option<Hook>> {
        let (numbers, id) = (self.numbers(), id.clone());
        self.read(|held| hooks::find_hook(held, numbers, id)).await
    }

    async fn list_hooks(&self, request: ListHooks) -> StoreResult<Vec<Hook>> {
        let numbers = self.numbers();
        self.read(|held| hooks::list_hooks(held, numbers, request)).await
    }

    async fn list_unprocessed_hooks(&self, request: ListUnprocessedHooks) -> StoreResult<Vec<Hook>> {
        self.read(|held| hooks::list_unprocessed_hooks(held, request)).await
    }

    async fn purge_hooks(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.maintain(|held| hooks::purge_hooks(held, before, limit)).await
    }
}
