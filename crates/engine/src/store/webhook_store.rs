//! Incoming webhook events.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{InboundEvent, InboundEventId, InboundEventStatus, Name, Payload, Timestamp, WorkspaceId};

/// Stores events of webhook sources, each once.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Stores an event durably. If it was received before, only its count of duplicates rises, whatever the
    /// new one carries.
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome>;

    /// Records the result of processing an event, if it has been processed `attempts` times so far. Returns
    /// whether it had. Sent again after it took effect, it returns `false` and changes nothing.
    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool>;

    /// Finds an event.
    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>>;

    /// Lists events, newest first.
    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>>;

    /// Lists unprocessed events of all workspaces, in the order they were received. The process that received
    /// them may be gone.
    async fn list_unprocessed_events(&self, request: ListUnprocessedEvents)
    -> StoreResult<Vec<InboundEvent>>;

    /// Deletes processed events that were received before `before`, oldest first. `limit` is at most
    /// [`crate::limits::MAX_PURGE`]. Returns the number deleted.
    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;
}

/// An event to store.
#[derive(Debug, Clone)]
pub struct NewInboundEvent {
    /// Identifies the event.
    pub id: InboundEventId,
    /// Headers.
    pub headers: Payload,
    /// Body.
    pub body: Vec<u8>,
}

/// Outcome of [`WebhookStore::receive_event`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ReceiveOutcome {
    /// Stored. Its actions must run.
    New(InboundEvent),
    /// Received before.
    Duplicate(InboundEvent),
}

/// Result of processing an event.
#[derive(Debug, Clone)]
pub struct FinishInboundEvent {
    /// Identifies the event.
    pub id: InboundEventId,
    /// How often it was processed before.
    pub attempts: u32,
    /// New status.
    pub status: InboundEventStatus,
    /// Result of processing: the actions taken, or the reason why none was.
    pub outcome: Option<Payload>,
}

/// Selects unprocessed events to list.
#[derive(Debug, Clone)]
pub struct ListUnprocessedEvents {
    /// Only events received before this instant.
    pub before: Timestamp,
    /// Only events after this time and sequence number, the last of the previous page.
    pub after: Option<(Timestamp, u64)>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Selects events to list.
#[derive(Debug, Clone)]
pub struct ListInboundEvents {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only this source.
    pub source: Option<Name>,
    /// Only this status.
    pub status: Option<InboundEventStatus>,
    /// Only events before this sequence number, the last of the previous page.
    pub before: Option<u64>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}
