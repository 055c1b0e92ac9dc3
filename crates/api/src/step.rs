//! Steps of a run, and their failures.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;
use crate::json::present;

/// Status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepStatus {
    /// Waiting for its next attempt.
    Pending,
    /// Marked as started.
    Running,
    /// Waiting for a timer, a promise, a signal or a child.
    Waiting,
    /// Done, with an output.
    Completed,
    /// Failed for good.
    Failed,
    /// Skipped.
    Skipped,
    /// Cancelled, because its run ended or another branch came first.
    Cancelled,
    /// Its effect may or may not have happened; people or a probe must decide.
    InDoubt,
}

/// Kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Runs code with an effect.
    Effect,
    /// Runs code with an effect that is claimed before it begins.
    Claimed,
    /// Runs code that commits together with its record.
    Transaction,
    /// Undoes an earlier effect.
    Undo,
    /// Waits for a duration.
    Sleep,
    /// Waits for a promise.
    Promise,
    /// Waits for a signal.
    Signal,
    /// Waits for a child run.
    Child,
    /// Remembers a value.
    Value,
    /// Remembers which of several branches came first.
    Select,
    /// Queues an after-effect for delivery.
    AfterEffect,
}

/// Meaning of a failure for the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The effect did not happen and may be tried again.
    Retryable,
    /// The effect did not happen and never will.
    Permanent,
    /// The effect may have happened.
    Unknown,
}

/// Why a step or a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// Meaning for the effect.
    pub class: FailureClass,
    /// A short stable code, if the step gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Message for people.
    pub message: String,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its id within the run.
    pub id: String,
    /// Kind of the step.
    pub kind: StepKind,
    /// Status of the step.
    pub status: StepStatus,
    /// Idempotency key of the effect: `runId:stepId`. Absent for steps without an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_key: Option<String>,
    /// Attempts begun, crashed ones included.
    pub attempts: u32,
    /// When the first attempt began.
    #[schema(format = DateTime)]
    pub started_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// When the next attempt is due, or the wait ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub due_at: Option<String>,
    /// Output of the step.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    /// Why it, or its last attempt, failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Version of the run at its last change.
    pub changed_version: u64,
    /// The child run it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
}
