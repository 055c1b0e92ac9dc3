//! The ledger: all attempts of every effect, with their known outcomes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Actor, EntityName, Resolution, StepStatus};

/// How an effect is protected from happening twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerClass {
    /// The provider honours its key.
    Idempotent,
    /// A claim is committed before it begins.
    Claimed,
    /// It commits together with its record.
    Transactional,
}

/// Known outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOutcome {
    /// It happened.
    Completed,
    /// It did not happen.
    Failed,
    /// It may have happened.
    Unknown,
    /// It is in progress, or was when its worker vanished. It may have happened.
    Open,
}

/// One attempt in which an effect's code ran or may have run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerAttempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// When it began, if recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub began_at: Option<String>,
    /// When its outcome was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// The engine that ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The fence it ran under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Outcome of the attempt.
    pub status: LedgerOutcome,
}

/// A decision of people about an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerRuling {
    /// Person who decided.
    pub actor: Actor,
    /// Time of the decision.
    #[schema(format = DateTime)]
    pub at: String,
    /// The decision, if it was about a doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Why.
    pub reason: String,
}

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Idempotency key that the provider received.
    pub effect_key: String,
    /// Run of the effect, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Workflow that caused it, such as `order@2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Host of the provider, if a document names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Entity of the effect, if an operation caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityName>,
    /// Operation of the effect, if one caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The step.
    pub step_id: String,
    /// How it is protected from happening twice.
    pub class: LedgerClass,
    /// Status of the step. Absent if its record is gone: a retry of the run dropped it, a later
    /// generation began, or the operation was deleted. CANCELLED if the claim of its operation was
    /// given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
    /// Every attempt that ran or may have run.
    pub attempt_log: Vec<LedgerAttempt>,
    /// Answers of probes: `happened`, `did_not_happen` or `unknown`.
    pub probes: Vec<String>,
    /// Decisions of people.
    pub rulings: Vec<LedgerRuling>,
    /// Outcomes that were rejected because their writer no longer held the run.
    pub refused_writes: u32,
    /// Attempts with a known effect.
    pub happened: u32,
    /// Attempts that may have had an effect.
    pub may_have_happened: u32,
    /// Known repeats: effects beyond the first.
    pub happened_twice: u32,
    /// Possible further repeats.
    pub may_have_happened_twice: u32,
}
