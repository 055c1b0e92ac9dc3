//! Explains a key, subject or id: its object, and why the run behind it waits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RunStatus;

/// Kind of object that a lookup matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyMatchKind {
    /// Id of a run.
    Run,
    /// Idempotency key of a run.
    RunKey,
    /// Subject of a run.
    Subject,
    /// Id of a promise.
    Promise,
    /// Key of a promise.
    PromiseKey,
    /// Id of an operation.
    Operation,
    /// Idempotency key of an operation.
    OperationKey,
    /// `type/id` of an entity.
    Entity,
    /// A provider's id of an inbound webhook event.
    WebhookEvent,
}

/// Why a run waits, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyReason {
    /// A promise that must be settled.
    Promise,
    /// A signal.
    Signal,
    /// An approval by people.
    Approval,
    /// A timer.
    Timer,
    /// A child run.
    Child,
    /// The next attempt of a step that failed.
    Retry,
    /// A decision about an effect with an unknown outcome.
    InDoubt,
    /// A person paused it.
    Paused,
    /// A step used up its retries, and its policy paused the run.
    RetriesExhausted,
    /// It lost its worker too often and was quarantined.
    Quarantined,
    /// A worker to take it up.
    Queued,
    /// Nothing: a worker runs it.
    Running,
    /// Nothing: it completed.
    Completed,
    /// Nothing: it failed.
    Failed,
    /// Nothing: it was cancelled.
    Cancelled,
}

/// One wait of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyWait {
    /// Kind of the wait.
    pub reason: WhyReason,
    /// One plain sentence, such as `waits for a webhook carrying carrier:ch_19, since 13 s, until Nov 23`.
    pub sentence: String,
    /// The step that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// When the wait began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub since: Option<String>,
    /// When the wait ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// Key of the promise, name of the signal, or effect key of the step in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The child run it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
    /// Command that ends the wait, or shows more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One run of the family, with what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyRun {
    /// Id of the run.
    pub run_id: String,
    /// Distance from the root of the family. The parent of a run is the nearest run before it with
    /// a smaller depth.
    pub depth: u32,
    /// Is it the run that the query names?
    pub is_match: bool,
    /// Workflow that the run is pinned to, such as `order@2`.
    pub workflow: String,
    /// Status of the run.
    pub status: RunStatus,
    /// Its waits, or how it ended; the most urgent first.
    pub waits_for: Vec<WhyWait>,
}

/// One object that the query names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyMatch {
    /// Kind of the match.
    pub kind: WhyMatchKind,
    /// Its id.
    pub id: String,
    /// The run behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// One plain sentence about it.
    pub sentence: String,
}

/// The answer: what the query names, and the family of the first run behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The query.
    pub query: String,
    /// Matches of the query, at most 20, the most specific first.
    pub matches: Vec<WhyMatch>,
    /// Ancestors, the run itself and its descendants, in tree order; at most 100. Empty if no run is behind the query.
    pub runs: Vec<WhyRun>,
    /// Were runs of the family left out?
    pub is_cut: bool,
}
