//! Incoming webhook events.

use async_trait::async_trait;

use super::MemoryStore;
use crate::limits::{MAX_PAGE, MAX_PURGE};
use crate::model::{InboundEvent, InboundEventId, InboundEventStatus, Timestamp};
use crate::store::{
    FinishInboundEvent, ListInboundEvents, ListUnprocessedEvents, NewInboundEvent, ReceiveOutcome, Store,
    StoreResult, WebhookStore,
};

#[async_trait]
impl WebhookStore for MemoryStore {
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome> {
        let (now, mut state) = (self.now(), self.state());
        if let Some(known) = state.inbound_events.get_mut(&hook.id) {
            known.duplicates += 1;
            return Ok(ReceiveOutcome::Duplicate(known.clone()));
        }
        state.last_hook += 1;
        let hook = InboundEvent {
            place: state.last_hook,
            id: hook.id,
            received_at: now,
            changed_at: now,
            duplicates: 0,
            attempts: 0,
            status: InboundEventStatus::Received,
            outcome: None,
            headers: hook.headers,
            body: hook.body,
        };
        state.inbound_events.insert(hook.id.clone(), hook.clone());
        Ok(ReceiveOutcome::New(hook))
    }

    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool> {
        let (now, mut state) = (self.now(), self.state());
        let hook = state.inbound_events.get_mut(&request.id).filter(|hook| hook.attempts == request.attempts);
        let Some(hook) = hook else { return Ok(false) };
        hook.attempts += 1;
        hook.status = request.status;
        hook.outcome = request.outcome;
        hook.changed_at = now;
        Ok(true)
    }

    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>> {
        Ok(self.state().inbound_events.get(id).cloned())
    }

    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>> {
        let state = self.state();
        let matching = state
            .inbound_events
            .values()
            .filter(|hook| hook.id.workspace == request.workspace)
            .filter(|hook| request.source.as_ref().is_none_or(|source| hook.id.source == *source))
            .filter(|hook| request.status.is_none_or(|status| hook.status == status))
            .filter(|hook| request.before.is_none_or(|before| hook.place < before));
        let mut inbound_events: Vec<InboundEvent> = matching.cloned().collect();
        inbound_events.sort_by_key(|hook| std::cmp::Reverse(hook.place));
        inbound_events.truncate(request.limit.clamp(1, MAX_PAGE));
        Ok(inbound_events)
    }

    async fn list_unprocessed_events(
        &self,
        request: ListUnprocessedEvents,
    ) -> StoreResult<Vec<InboundEvent>> {
        let state = self.state();
        let waiting = |hook: &&InboundEvent| {
            hook.status == InboundEventStatus::Received
                && hook.received_at < request.before
                && request.after.is_none_or(|after| (hook.received_at, hook.place) > after)
        };
        let mut inbound_events: Vec<InboundEvent> =
            state.inbound_events.values().filter(waiting).cloned().collect();
        inbound_events.sort_by_key(|hook| (hook.received_at, hook.place));
        inbound_events.truncate(request.limit.clamp(1, MAX_PAGE));
        Ok(inbound_events)
    }

    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        let mut state = self.state();
        let done =
            |hook: &&InboundEvent| hook.status != InboundEventStatus::Received && hook.received_at < before;
        let mut old: Vec<(u64, InboundEventId)> =
            state.inbound_events.values().filter(done).map(|hook| (hook.place, hook.id.clone())).collect();
        old.sort();
        old.truncate(limit.clamp(1, MAX_PURGE));
        old.iter().for_each(|(_, id)| drop(state.inbound_events.remove(id)));
        Ok(old.len())
    }
}
