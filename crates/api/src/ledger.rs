//! The ledger: for each effect, every time its code was entered, and what is known of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Actor, EntityName, Resolution, StepStatus};

/// How an effect is kept from happening twice.
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

/// What is known of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOutcome {
    /// It happened.
    Completed,
    /// It did not happen.
    Failed,
    /// It may have happened.
    Unknown,
    /// It is under way, or was when its worker vanished. It may have happened.
    Open,
}

/// One time that an effect's code was, or may have been, entered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerAttempt {
    /// Which, from 1.
    pub number: u32,
    /// When it began, if that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub began_at: Option<String>,
    /// When its outcome was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// The engine that entered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The fence it was entered under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// How it went.
    pub status: LedgerOutcome,
}

/// A decision of people about an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerRuling {
    /// Who.
    pub actor: Actor,
    /// When.
    #[schema(format = DateTime)]
    pub at: String,
    /// What, if it was about a doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Why.
    pub reason: String,
}

/// One effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// What the provider knows it by.
    pub effect_key: String,
    /// Its run, if a run made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The entity, if an operation on one made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<EntityName>,
    /// The operation, if one made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// The step.
    pub step_id: String,
    /// How it is kept from happening twice.
    pub class: LedgerClass,
    /// Where it stands; absent if no record of it stands: a retry of the run dropped it, a later generation began, or the operation is no longer kept. CANCELLED if the claim of its operation was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
    /// Every attempt that was, or may have been, entered.
    pub attempt_log: Vec<LedgerAttempt>,
    /// What probes said: `happened`, `did_not_happen` or `unknown`.
    pub probes: Vec<String>,
    /// What people decided.
    pub rulings: Vec<LedgerRuling>,
    /// Outcomes that were refused, because their writer no longer held the run.
    pub refused_writes: u32,
    /// Attempts that are known to have happened.
    pub happened: u32,
    /// Attempts that may have happened.
    pub may_have_happened: u32,
    /// Times it is known to have happened beyond the first.
    pub happened_twice: u32,
    /// Times more than that it may have happened beyond the first.
    pub may_have_happened_twice: u32,
}
