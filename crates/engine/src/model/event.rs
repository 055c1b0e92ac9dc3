//! The history of a run: one event per version.

use super::{Fence, Timestamp, Version};

/// A change to the run as a whole. Changes to steps are not events: step records carry their own versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The run was accepted. A fence above zero means it was also granted.
    Started,
    /// A lease was granted after a release, a wait or the start.
    Claimed,
    /// A lease was granted after the previous one expired without a release.
    TakenOver,
    /// The run parked.
    Waited,
    /// The holder released the lease.
    Released,
    /// A pause was requested.
    PauseRequested,
    /// The run paused.
    Paused,
    /// The run was resumed, or a pending pause was withdrawn.
    Resumed,
    /// A cancellation was requested.
    CancelRequested,
    /// The run was quarantined after losing its worker too often.
    Quarantined,
    /// The run started again with a new input.
    ContinuedAsNew,
    /// The run completed with an output.
    Completed,
    /// The run failed.
    Failed,
    /// The run was cancelled.
    Cancelled,
    /// The run was reopened.
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
        EventKind::PauseRequested,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::CancelRequested,
        EventKind::Quarantined,
        EventKind::ContinuedAsNew,
        EventKind::Completed,
        EventKind::Failed,
        EventKind::Cancelled,
        EventKind::Retried,
    ];

    /// Name of the kind, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Started => "started",
            EventKind::Claimed => "claimed",
            EventKind::TakenOver => "taken_over",
            EventKind::Waited => "waited",
            EventKind::Released => "released",
            EventKind::PauseRequested => "pause_asked",
            EventKind::Paused => "paused",
            EventKind::Resumed => "resumed",
            EventKind::CancelRequested => "cancel_asked",
            EventKind::Quarantined => "quarantined",
            EventKind::ContinuedAsNew => "continued_as_new",
            EventKind::Completed => "completed",
            EventKind::Failed => "failed",
            EventKind::Cancelled => "cancelled",
            EventKind::Retried => "retried",
        }
    }

    /// The kind with this name.
    pub fn from_name(text: &str) -> Option<Self> {
        EventKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns true if the event ends the run.
    pub const fn is_ending(self) -> bool {
        matches!(self, EventKind::Completed | EventKind::Failed | EventKind::Cancelled)
    }
}

/// One event in the history of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEvent {
    /// The version that the event created.
    pub version: Version,
    /// When it happened.
    pub at: Timestamp,
    /// Fence at that time.
    pub fence: Fence,
    /// Kind of event.
    pub kind: EventKind,
    /// Text for people: who asked, why, or the new owner.
    pub note: Option<String>,
}
