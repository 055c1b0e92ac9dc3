//! Webhooks that came in.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{InboundEvent, InboundEventId, InboundEventStatus, Name, Payload, Timestamp, WorkspaceId};

/// Takes in events of webhook sources, each once.
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Takes in an event; durable when it answers. One that was taken in before is counted as a duplicate, whatever it carries, and
    /// nothing else of it changes.
    async fn receive_event(&self, hook: NewInboundEvent) -> StoreResult<ReceiveOutcome>;

    /// Writes what became of an event, or that it is yet to be processed and why, if it has been processed `attempts` times so far; answers whether it had. Sent again after it took
    /// effect it answers `false` and changes nothing.
    async fn finish_event(&self, request: FinishInboundEvent) -> StoreResult<bool>;

    /// One event.
    async fn find_inbound_event(&self, id: &InboundEventId) -> StoreResult<Option<InboundEvent>>;

    /// Events, newest first.
    async fn list_inbound_events(&self, request: ListInboundEvents) -> StoreResult<Vec<InboundEvent>>;

    /// Events over all workspaces that nobody has processed, in the order in which they were received: the process that took them in may be gone.
    async fn list_unprocessed_events(&self, request: ListUnprocessedEvents)
    -> StoreResult<Vec<InboundEvent>>;

    /// Deletes events that were received before `before` and have been processed, oldest first; at most `limit`, cut to
    /// [`crate::limits::MAX_PURGE`]. Answers how many.
    async fn purge_inbound_events(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;
}

/// An event that came.
#[derive(Debug, Clone)]
pub struct NewInboundEvent {
    /// Which.
    pub id: InboundEventId,
    /// Its headers.
    pub headers: Payload,
    /// Its body.
    pub body: Vec<u8>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ReceiveOutcome {
    /// It is taken in; what it asks for is to be done.
    New(InboundEvent),
    /// It came before.
    Again(InboundEvent),
}

/// What became of an event when it was processed.
#[derive(Debug, Clone)]
pub struct FinishInboundEvent {
    /// Which event.
    pub id: InboundEventId,
    /// How often it had been processed before this time.
    pub attempts: u32,
    /// What became of it.
    pub status: InboundEventStatus,
    /// What was done, or why it was not.
    pub outcome: Option<Payload>,
}

/// Which events that nobody has processed to list.
#[derive(Debug, Clone)]
pub struct ListUnprocessedEvents {
    /// Only those received before this.
    pub before: Timestamp,
    /// Only those after the one that was received then and has this place; where the page before ended.
    pub after: Option<(Timestamp, u64)>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Which events to list.
#[derive(Debug, Clone)]
pub struct ListInboundEvents {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only of this source.
    pub source: Option<Name>,
    /// Only those with this status.
    pub status: Option<InboundEventStatus>,
    /// Only those before this place; where the page before ended.
    pub before: Option<u64>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}
