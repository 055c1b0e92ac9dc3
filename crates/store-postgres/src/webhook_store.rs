//! The webhook store.

use async_trait::async_trait;
use hapax_engine::model::{InboundEvent, InboundEventId, Timestamp};
use hapax_engine::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome, Store,
    StoreResult, WebhookStore,
};

use crate::inbound_events;
use crate::store::PostgresStore;

#[async_trait]
impl WebhookStore for PostgresStore {
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome> {
        let (interned_names, now) = (self.interned_names(), self.now());
        self.write_at_once(|held| inbound_events::receive_event(held, interned_names, hook, now)).await
    }

    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool> {
        let (interned_names, now) = (self.interned_names(), self.now());
        self.write_at_once(|held| inbound_events::finish_event(held, interned_names, request, now)).await
    }

    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>> {
        let (interned_names, id) = (self.interned_names(), id.clone());
        self.read(|held| inbound_events::find_inbound_event(held, interned_names, id)).await
    }

    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>> {
        let interned_names = self.interned_names();
        self.read(|held| inbound_events::list_inbound_events(held, interned_names, request)).await
    }

    async fn list_unprocessed_events(
        &self,
        request: ListUnprocessedEvents,
    ) -> StoreResult<Vec<InboundEvent>> {
        self.read(|held| inbound_events::list_unprocessed_events(held, request)).await
    }

    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.maintain(|held| inbound_events::purge_inbound_events(held, before, limit)).await
    }
}
