//! The history of a run: one event per version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happened to the run as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It was accepted.
    Started,
    /// A worker took it.
    Claimed,
    /// A worker took it over from one that vanished.
    TakenOver,
    /// It parked.
    Waited,
    /// Its worker gave it back.
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

/// One entry of a run's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// The version it made.
    pub version: u64,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// The fence then in force.
    pub fence: u64,
    /// What.
    pub kind: EventKind,
    /// For people: who asked, why, or the new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
