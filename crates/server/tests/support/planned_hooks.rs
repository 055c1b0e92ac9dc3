//! Webhooks in a planned store: what became of them can be lost, as when a process dies before it is written.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use hapax_engine::model::{Hook, HookId, Timestamp};
use hapax_engine::store::{
    FinishHook, HookBook, ListHooks, ListUnprocessedHooks, NewHook, ReceivedHook, Store, StoreError,
    StoreResult,
};

use super::planned_store::PlannedStore;

impl PlannedStore {
    /// From now on nobody gets to write what became of a webhook, or everybody does again.
    pub fn lose_outcomes(&self, loses: bool) {
        self.loses_outcomes.store(loses, Ordering::SeqCst);
    }

    fn hooks(&self) -> StoreResult<&dyn HookBook> {
        Ok(self.behind()?.hook_book().expect("it keeps webhooks"))
    }
}

#[async_trait]
impl HookBook for PlannedStore {
    async fn receive_hook(&self, hook: NewHook) -> StoreResult<ReceivedHook> {
        self.hooks()?.receive_hook(hook).await
    }

    async fn finish_hook(&self, request: FinishHook) -> StoreResult<bool> {
        match self.loses_outcomes.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("planned".into())),
            false => self.hooks()?.finish_hook(request).await,
        }
    }

    async fn find_hook(&self, id: &HookId) -> StoreResult<Option<Hook>> {
        self.hooks()?.find_hook(id).await
    }

    async fn list_hooks(&self, request: ListHooks) -> StoreResult<Vec<Hook>> {
        self.hooks()?.list_hooks(request).await
    }

    async fn list_unprocessed_hooks(&self, request: ListUnprocessedHooks) -> StoreResult<Vec<Hook>> {
        self.hooks()?.list_unprocessed_hooks(request).await
    }

    async fn purge_hooks(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.hooks()?.purge_hooks(before, limit).await
    }
}
