//! The history of a run: one event per version.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kind of an event in the life of a run.
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
    /// People resumed it, or withdrew a pending pause.
    Resumed,
    /// People asked it to cancel.
    CancelAsked,
    /// It was quarantined after losing its worker too often.
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
    /// The run's version after the event.
    pub version: u64,
    /// Time of the event.
    #[schema(format = DateTime)]
    pub at: String,
    /// The fence in force.
    pub fence: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// For people: the person who asked, the reason, or the new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
