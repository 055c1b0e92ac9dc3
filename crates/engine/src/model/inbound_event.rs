//! Webhooks that came in: each event of a source is taken in once, and what became of it is kept.

use super::{Name, Payload, Timestamp, WorkspaceId};

/// Which event of which source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboundEventId {
    /// The workspace of the source.
    pub workspace: WorkspaceId,
    /// The source.
    pub source: Name,
    /// What the provider calls the event.
    pub event: String,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InboundEventStatus {
    /// It is durable; what it asks for is yet to be done.
    Received,
    /// What it asks for is done.
    Applied,
    /// Nothing was asked for: no action wanted it.
    Ignored,
    /// What it is for is not there; a settlement is kept for its promise.
    Unmatched,
    /// What it asks for could not be done; it can be processed again.
    Failed,
}

impl InboundEventStatus {
    /// Every status.
    pub const ALL: [InboundEventStatus; 5] = [
        InboundEventStatus::Received,
        InboundEventStatus::Applied,
        InboundEventStatus::Ignored,
        InboundEventStatus::Unmatched,
        InboundEventStatus::Failed,
    ];

    /// The status as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            InboundEventStatus::Received => "received",
            InboundEventStatus::Applied => "applied",
            InboundEventStatus::Ignored => "ignored",
            InboundEventStatus::Unmatched => "unmatched",
            InboundEventStatus::Failed => "failed",
        }
    }

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        InboundEventStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// One event as it was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// Its place: rises from event to event of a workspace.
    pub place: u64,
    /// Which event.
    pub id: InboundEventId,
    /// When it first came.
    pub received_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// How often it came again.
    pub duplicates: u64,
    /// How often it was processed.
    pub attempts: u32,
    /// What became of it.
    pub status: InboundEventStatus,
    /// What was done, or why it was not.
    pub outcome: Option<Payload>,
    /// The headers that a source may look at, by lower-case name, as JSON.
    pub headers: Payload,
    /// What it carried, byte for byte.
    pub body: Vec<u8>,
}
