//! Webhooks in a planned store: the record of their outcome can be lost, as when a process dies
//! before the write.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use hapax_engine::model::{InboundEvent, InboundEventId, Timestamp};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome, Store,
    StoreError, StoreResult, WebhookStore,
};

use super::planned_store::PlannedStore;

impl PlannedStore {
    /// From now on writes of webhook outcomes are lost, or work again.
    pub fn lose_outcomes(&self, loses: bool) {
        self.loses_outcomes.store(loses, Ordering::SeqCst);
    }

    fn store(&self) -> StoreResult<&dyn WebhookStore> {
        Ok(self.behind()?.webhook_store().expect("it keeps webhooks"))
    }
}

#[async_trait]
impl WebhookStore for PlannedStore {
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome> {
        self.store()?.receive_event(hook).await
    }

    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool> {
        match self.loses_outcomes.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("planned".into())),
            false => self.store()?.finish_event(request).await,
        }
    }

    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>> {
        self.store()?.find_inbound_event(id).await
    }

    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>> {
        self.store()?.list_inbound_events(request).await
    }

    async fn list_unprocessed_events(
        &self,
        request: ListUnprocessedEvents,
    ) -> StoreResult<Vec<InboundEvent>> {
        self.store()?.list_unprocessed_events(request).await
    }

    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.store()?.purge_inbound_events(before, limit).await
    }
}
