//! Runs: requests and responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{DurationText, Failure, JsonObject, LedgerClass, Problem, RawJson, Step, StepStatus};

/// Most runs in one batch.
pub const MAX_BATCH_RUNS: usize = 100;

/// Status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RunStatus {
    /// Accepted, not yet driven.
    Pending,
    /// Being driven, or ready to be driven on.
    Running,
    /// Waiting for a timer, a promise, a signal, a child or the next attempt of a step.
    Waiting,
    /// Stopped by people, until they resume it.
    Paused,
    /// Ended with an output.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended by a cancellation.
    Cancelled,
}

/// Which due runs go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// After all others.
    Low,
    /// The usual one.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// Request of a person that is not carried out yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PendingRequest {
    /// Pause at the next boundary.
    Pause,
    /// Undo what can be undone, then end.
    Cancel,
}

/// The run that started this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRun {
    /// Its id.
    pub run_id: String,
    /// The parent's step that waits for this run.
    pub step_id: String,
}

/// Starts a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRun {
    /// The workflow to run: `order` is its latest version, `order@2` version 2. The run keeps the
    /// version it begins with. Give either this or `definitionId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9._-]{1,128}(@[1-9][0-9]{0,9})?$", example = "order@2")]
    pub workflow: Option<String>,
    /// The id of the definition to run. Give either this or `workflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub definition_id: Option<String>,
    /// Input of the run.
    #[serde(default)]
    pub input: JsonObject,
    /// Names the run: a second request with this key and the same input gets the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub idempotency_key: Option<String>,
    /// Business object of the run; at most one run per definition and subject is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub subject: Option<String>,
    /// Delay before the run begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// Fail the run if it has not ended this long after it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// Its place among due runs.
    #[serde(default)]
    pub priority: Priority,
}

/// A run, and whether this request created it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedRun {
    /// The run as it stands now.
    pub run: Run,
    /// Did this request create it?
    pub created: bool,
}

/// Starts several runs. Each item succeeds or fails on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRunBatch {
    /// The runs, in order.
    #[schema(min_items = 1, max_items = 100)]
    pub runs: Vec<CreateRun>,
}

/// Result of one item of a batch: exactly one of the two fields is present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchItem {
    /// The run, as in the response to a single request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_run: Option<CreatedRun>,
    /// Why no run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The answer to a batch, in the order of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedRunBatch {
    /// One per item.
    pub items: Vec<BatchItem>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its workspace.
    pub workspace_id: String,
    /// Status of the run.
    pub status: RunStatus,
    /// The definition it runs; absent for a workflow written in code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_id: Option<String>,
    /// The workflow it is pinned to, with the version: `order@2`.
    pub workflow: String,
    /// Number of state changes. Send it in `If-Match` to act only on the state that you saw.
    pub version: u64,
    /// How many times it continued as new.
    pub generation: u64,
    /// The current step, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step_name: Option<String>,
    /// Input of the run.
    pub input: RawJson,
    /// Output, if it completed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Idempotency key of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Business object of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Its place among due runs.
    pub priority: Priority,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentRun>,
    /// Request of a person that is not carried out yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_request: Option<PendingRequest>,
    /// When it was accepted.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was first driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// When its state last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub closed_at: Option<String>,
    /// Deadline of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline_at: Option<String>,
    /// When it continues by itself, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub wake_at: Option<String>,
    /// Why it waits for a person to act. Present where runs are listed or read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_attention: Option<Attention>,
}

/// Why a run needs people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionReason {
    /// A step used up its retries, and its policy pauses the run.
    RetriesExhausted,
    /// The run lost its worker too often without progress.
    Quarantined,
    /// It is unknown whether an effect happened.
    InDoubt,
    /// A compensation failed.
    CompensationFailed,
}

/// Problem of a run that needs a person, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// Why it needs a person.
    pub reason: AttentionReason,
    /// The step that caused it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// Remedy, with the exact call.
    pub detail: String,
}

/// One run with its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDetail {
    /// The run.
    pub run: Run,
    /// The steps of its current generation, in the order they started.
    pub steps: Vec<Step>,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// The run.
    pub run_id: String,
    /// Status of the run. COMPLETED comes with `output`, FAILED and CANCELLED with `failure`, any other with neither: the run is still open.
    pub status: RunStatus,
    /// Output, byte for byte as recorded.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    /// Why it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Asks a run to undo what it can and end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRun {
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
    /// Also cancel all descendants of the run, including abandoned children, and keep them from
    /// starting more. Only for a run without a parent; it may have ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub descendants: bool,
}

/// A command on a run as a whole: pause, resume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SteerRun {
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
}

/// Reopens a failed run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// Forget this step and all later ones; absent: only the failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
    /// Why; kept in the audit log. Required with `repeatEffects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub reason: Option<String>,
    /// Steps whose effects have happened and may happen again. Must name every step that the retry
    /// plan marks `happensAgain`. Needs the role manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100000)]
    pub repeat_effects: Vec<String>,
}

/// What a retry of a failed run would do to its effects. Reading it changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPlan {
    /// The run.
    pub run_id: String,
    /// Version of the run that the plan is based on; send it as `If-Match` with the retry.
    pub version: u64,
    /// The step to run again from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
    /// Effects that have happened and stay as they are.
    pub stays_done: Vec<PlannedEffect>,
    /// Steps with an effect that run again.
    pub runs_again: Vec<PlannedEffect>,
    /// Steps that the retry must name in `repeatEffects`; this needs the role manager.
    pub repeat_effects: Vec<String>,
}

/// One effect in a retry plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEffect {
    /// The step.
    pub step_id: String,
    /// Idempotency key that the provider received.
    pub effect_key: String,
    /// How it is protected from happening twice; absent if the step waits for a child, whose
    /// effects are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<LedgerClass>,
    /// Status of the step.
    pub status: StepStatus,
    /// The child that the step waited for. If the step runs again, it starts another child, and all
    /// effects of the child happen anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
    /// True if the effect has happened and the retry makes it happen again.
    pub happens_again: bool,
}

/// Sends a signal to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendSignal {
    /// Name of the signal.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
    /// Value of the signal; `null` if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<RawJson>,
    /// Id of the signal, so that a repeated request is not a second signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub signal_id: Option<String>,
}

/// Answers an approval. The credential says who answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerApproval {
    /// The decision: `approve`, `reject` or `edit`.
    #[schema(pattern = "^(approve|reject|edit)$")]
    pub decision: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096)]
    pub comment: Option<String>,
    /// New value for an `edit`: an object.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<RawJson>,
}

/// Result of sending a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SentSignal {
    /// The run it was sent to.
    pub run_id: String,
    /// Did this request store it? `false`: its `signalId` was seen before.
    pub stored: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0.7, S0.19
    #[test]
    fn a_run_can_be_asked_for_with_nothing_but_a_definition() {
        let asked: CreateRun = serde_json::from_str(r#"{"definitionId":"def_abc123"}"#).unwrap();
        assert_eq!(asked.input.text(), "{}");
        assert_eq!((asked.idempotency_key, asked.priority), (None, Priority::Normal));
    }

    #[test]
    fn unknown_fields_and_inputs_that_are_no_objects_are_refused() {
        for body in [
            r#"{"definitionId":"d","workspaceId":"w"}"#,
            r#"{"definitionId":"d","input":[]}"#,
            r#"{"definitionId":"d","input":null}"#,
        ] {
            assert!(serde_json::from_str::<CreateRun>(body).is_err(), "{body}");
        }
    }

    #[test]
    fn an_input_keeps_its_text() {
        let body = r#"{"definitionId":"d","input":{ "b":1.0, "a":2 }}"#;
        let asked: CreateRun = serde_json::from_str(body).unwrap();
        assert_eq!(asked.input.text(), r#"{ "b":1.0, "a":2 }"#);
    }
}
