//! The history of a run: one event per version.

use super::{Fence, Timestamp, Version};

/// What happened to the run as a whole. Steps are history of their own: their records carry the versions they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It was accepted, and granted at once if the fence is above zero.
    Started,
    /// A lease was granted after an orderly release, wait or start.
    Claimed,
    /// A lease was granted over one that had ended without release.
    TakenOver,
    /// It parked.
    Waited,
    /// The holder gave the lease back.
    Released,
    /// People asked it to pause.
    PauseAsked,
    /// It stopped.
    Paused,
    /// People let it go on, or took back a pause that was not yet carried out.
    Resumed,
    /// People asked it to cancel.
    CancelAsked,
    /// It was put aside after losing its worker too often.
    Quarantined,
    /// It began again with a new input.
    ContinuedAsNew,
    /// It ended with an output.
    Completed,
    /// It ended with a failure.
    Failed,
    /// It ended by cancellation.
    Cancelled,
    /// People reopened it.
    Retried,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 15] = [
        EventKind::Started,
        EventKind::Claimed,
        EventKind::TakenOver,
        EventKind::Waited,
        EventKind::Released,
        EventKind::PauseAsked,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::CancelAsked,
        EventKind::Quarantined,
        EventKind::ContinuedAsNew,
        EventKind::Completed,
        EventKind::Failed,
        EventKind::Cancelled,
        EventKind::Retried,
    ];

    /// The kind as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Started => "started",
            EventKind::Claimed => "claimed",
            EventKind::TakenOver => "taken_over",
            EventKind::Waited => "waited",
            EventKind::Released => "released",
            EventKind::PauseAsked => "pause_asked",
            EventKind::Paused => "paused",
            EventKind::Resumed => "resumed",
            EventKind::CancelAsked => "cancel_asked",
            EventKind::Quarantined => "quarantined",
            EventKind::ContinuedAsNew => "continued_as_new",
            EventKind::Completed => "completed",
            EventKind::Failed => "failed",
            EventKind::Cancelled => "cancelled",
            EventKind::Retried => "retried",
        }
    }

    /// The kind spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        EventKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Does it end the run?
    pub const fn is_ending(self) -> bool {
        matches!(self, EventKind::Completed | EventKind::Failed | EventKind::Cancelled)
    }
}

/// One entry of a run's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// The version it made.
    pub version: Version,
    /// When.
    pub at: Timestamp,
    /// The fence then in force.
    pub fence: Fence,
    /// What.
    pub kind: EventKind,
    /// For people: who asked, why, or the new owner.
    pub note: Option<String>,
}
