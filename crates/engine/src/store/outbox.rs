//! Delivering outbox messages.

use std::time::Duration;

use crate::model::{
    EffectKey, Failure, JournalEntry, Name, OutboxMessage, OutboxState, OutboxStatus, OwnerId, Timestamp,
    WorkspaceId,
};

/// A worker's request for messages to deliver.
#[derive(Debug, Clone)]
pub struct ClaimOutbox {
    /// The worker.
    pub owner: OwnerId,
    /// Duration of the claim.
    pub lease_for: Duration,
    /// Maximum number for each target, each at most [`crate::limits::MAX_CLAIM`]. Per target, so that a busy
    /// target does not starve the others.
    pub room: Vec<(Name, usize)>,
}

/// Outcome of [`ClaimOutbox`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedOutbox {
    /// Messages to deliver, as they are after the claim.
    pub posts: Vec<OutboxMessage>,
    /// When the next message for these targets is due, if known. Messages claimed now do not count.
    pub next_due_at: Option<Timestamp>,
}

/// Report on a delivery attempt.
#[derive(Debug, Clone)]
pub struct FinishOutboxMessage {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id of the message.
    pub id: EffectKey,
    /// The worker.
    pub owner: OwnerId,
    /// Number of the attempt.
    pub attempt: u32,
    /// New state of the message.
    pub state: OutboxState,
    /// The failure, if it failed.
    pub failure: Option<Failure>,
}

/// An operator's command on a message that was delivered or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxCommand {
    /// Deliver it again.
    Redeliver,
    /// Delete it.
    Discard,
}

/// An operator's request to deliver a message again, or to delete it.
#[derive(Debug, Clone)]
pub struct Redeliver {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Id of the message.
    pub id: EffectKey,
    /// The command.
    pub wish: OutboxCommand,
    /// Entry for the journal.
    pub note: Option<JournalEntry>,
}

/// Outcome of [`Redeliver`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RedeliverOutcome {
    /// It is due again, with its attempts reset.
    Due(OutboxMessage),
    /// It was deleted. This is its last state.
    Discarded(OutboxMessage),
    /// It has not been delivered or given up yet.
    UnderWay(OutboxMessage),
    /// The workspace has no such message.
    NoSuchMessage,
}

/// Selects messages to list.
#[derive(Debug, Clone)]
pub struct ListOutbox {
    /// Only this workspace. `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only this status.
    pub status: Option<OutboxStatus>,
    /// Only this target.
    pub target: Option<Name>,
    /// Only messages after this one in the order of workspace and id, the last of the previous page.
    pub after: Option<(WorkspaceId, EffectKey)>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Size of the backlog in all workspaces. Each count stops at [`crate::limits::MAX_COUNTED_OUTBOX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxDepth {
    /// Messages that are due or being delivered.
    pub undelivered: u64,
    /// When the oldest of them was created.
    pub oldest_at: Option<Timestamp>,
    /// When the first of them was or will be due. For a message being delivered, the end of its claim. For
    /// one that failed, its next attempt. A time in the past therefore means that deliveries are late.
    pub first_due_at: Option<Timestamp>,
    /// Messages given up.
    pub dead: u64,
}
