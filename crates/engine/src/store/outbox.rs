//! Delivering after-effects.

use std::time::Duration;

use crate::model::{
    EffectKey, Failure, JournalEntry, Name, OutboxMessage, OutboxState, OutboxStatus, OwnerId, Timestamp,
    WorkspaceId,
};

/// A deliverer's request for work.
#[derive(Debug, Clone)]
pub struct ClaimOutbox {
    /// Who asks.
    pub owner: OwnerId,
    /// For how long they may have them.
    pub lease_for: Duration,
    /// How many for each target at most, so that one target's many do not keep out another's few; cut to
    /// [`crate::limits::MAX_CLAIM`] each.
    pub room: Vec<(Name, usize)>,
}

/// What was claimed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedOutbox {
    /// After-effects to deliver, as they are after the claim.
    pub posts: Vec<OutboxMessage>,
    /// When the next one for these targets will be due, if one is known; those claimed now do not count.
    pub next_due_at: Option<Timestamp>,
}

/// How a delivery went.
#[derive(Debug, Clone)]
pub struct FinishOutboxMessage {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which after-effect.
    pub id: EffectKey,
    /// Who delivered it.
    pub owner: OwnerId,
    /// In which attempt.
    pub attempt: u32,
    /// Where it stands now.
    pub state: OutboxState,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// What a person wants of an after-effect that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxCommand {
    /// It is to be delivered once more.
    Again,
    /// Nobody will ever want it: it is to be forgotten.
    Never,
}

/// A person's wish to have one delivered once more, or never.
#[derive(Debug, Clone)]
pub struct Redeliver {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Which after-effect.
    pub id: EffectKey,
    /// What is wanted.
    pub wish: OutboxCommand,
    /// What the journal is told.
    pub note: Option<JournalEntry>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RedeliverOutcome {
    /// It is due again, its attempts counted anew.
    Due(OutboxMessage),
    /// It is forgotten; so it was.
    Forgotten(OutboxMessage),
    /// It is on its way already.
    UnderWay(OutboxMessage),
    /// There is no such after-effect in the workspace.
    NoSuchPost,
}

/// Which after-effects to list.
#[derive(Debug, Clone)]
pub struct ListOutbox {
    /// Of this workspace; `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only with this status.
    pub status: Option<OutboxStatus>,
    /// Only for this target.
    pub target: Option<Name>,
    /// Only after this one, in the order of workspaces and ids; where the page before ended.
    pub after: Option<(WorkspaceId, EffectKey)>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// How much waits to be delivered, over all workspaces. Each count stops at [`crate::limits::MAX_COUNTED_OUTBOX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxDepth {
    /// Due or being delivered.
    pub undelivered: u64,
    /// When the oldest of those counted was made.
    pub oldest_at: Option<Timestamp>,
    /// When the first of them was or will be due; of one that is being delivered, when its deliverer is given up. One that failed is
    /// due when it is to be tried again, so what lies before now is late because nobody delivers it.
    pub first_due_at: Option<Timestamp>,
    /// Given up.
    pub dead: u64,
}
