//! Incoming webhook events. Each event of a source is received once, and its outcome is kept.

use super::{Name, Payload, Timestamp, WorkspaceId};

/// Identifies an event of a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboundEventId {
    /// Workspace of the source.
    pub workspace: WorkspaceId,
    /// Name of the source.
    pub source: Name,
    /// Id that the provider gave the event.
    pub event: String,
}

/// Processing status of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InboundEventStatus {
    /// Stored durably. Its actions have not run yet.
    Received,
    /// Its actions have run.
    Applied,
    /// No action matched it.
    Ignored,
    /// Its target does not exist. A settlement is kept for its promise.
    Unmatched,
    /// Its actions could not run. It can be processed again.
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

    /// The status with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        InboundEventStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// One received event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundEvent {
    /// Sequence number. Rises from event to event of a workspace.
    pub place: u64,
    /// Identifies the event.
    pub id: InboundEventId,
    /// When it was first received.
    pub received_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// How often it was received again.
    pub duplicates: u64,
    /// How often it was processed.
    pub attempts: u32,
    /// Processing status.
    pub status: InboundEventStatus,
    /// Result of processing: the actions taken, or the reason why none was.
    pub outcome: Option<Payload>,
    /// Headers that a source may read, by lower-case name, as JSON.
    pub headers: Payload,
    /// Body, byte for byte.
    pub body: Vec<u8>,
}
