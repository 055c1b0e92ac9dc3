//! The hook book of the store.

use async_trait::async_trait;
use hapax_engine::model::{InboundEvent, InboundEventId, Timestamp};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome,
    StoreResult, WebhookStore,
};

use crate::inbound_events;
use crate::purge_inbound_events::PurgeInboundEvents;
use crate::store::SqliteStore;

#[async_trait]
impl WebhookStore for SqliteStore {
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome> {
        self.write(hook).await
    }

    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool> {
        self.write(request).await
    }

    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>> {
        let id = id.clone();
        self.readers().find(move |connection| inbound_events::find_inbound_event(connection, &id)).await
    }

    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>> {
        self.readers().read(move |connection| inbound_events::list_inbound_events(connection, &request)).await
    }

    async fn list_unprocessed_events(
        &self,
        request: ListUnprocessedEvents,
    ) -> StoreResult<Vec<InboundEvent>> {
        self.readers()
            .read(move |connection| inbound_events::list_unprocessed_events(connection, &request))
            .await
    }

    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.write(PurgeInboundEvents { before, limit }).await
    }
}
