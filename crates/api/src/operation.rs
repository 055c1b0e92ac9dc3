//! Operations: requested transitions of an entity, from the claim to the outcome.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{Actor, Entity, Failure, JournalEntry, JsonObject, RawJson};

/// Status of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationStatus {
    /// Its action is in progress.
    Pending,
    /// Done: the entity has the status it leads to.
    Done,
    /// The action declined; the entity is unchanged.
    Rejected,
    /// The action failed; the entity is unchanged.
    Failed,
    /// Its holder vanished, and the janitor released its claim.
    Reverted,
    /// Its holder vanished, and it is unknown whether the action happened; people must decide.
    InDoubt,
}

impl OperationStatus {
    /// Every status.
    pub const ALL: [OperationStatus; 6] = [
        OperationStatus::Pending,
        OperationStatus::Done,
        OperationStatus::Rejected,
        OperationStatus::Failed,
        OperationStatus::Reverted,
        OperationStatus::InDoubt,
    ];

    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationStatus::Pending => "PENDING",
            OperationStatus::Done => "DONE",
            OperationStatus::Rejected => "REJECTED",
            OperationStatus::Failed => "FAILED",
            OperationStatus::Reverted => "REVERTED",
            OperationStatus::InDoubt => "IN_DOUBT",
        }
    }

    /// The status with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        OperationStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Takes a step with an entity. All fields are optional, and so is the body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeStep {
    /// Requester, where fields of the step differ by requester. A credential with a requester of
    /// its own always uses that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// Input of the action.
    #[serde(default)]
    pub input: JsonObject,
    /// Names the operation. A second request with the same key and content gets the recorded
    /// outcome of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub idempotency_key: Option<String>,
    /// The person who asks, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// A manager's order to run an irreversible step although it may have happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideStep {
    /// Evidence that it did not happen, or the reason to repeat it; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// Requester, where fields of the step differ by requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// Input of the action.
    #[serde(default)]
    pub input: JsonObject,
    /// Names the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub idempotency_key: Option<String>,
    /// The manager, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenStep {
    /// The operation.
    pub operation: Operation,
    /// The entity as it is now; absent while the operation is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Entity>,
    /// Did this request create the operation? `false`: an earlier request did, and this is its
    /// record.
    pub created: bool,
    /// Is this the record of an earlier request?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Its id.
    pub id: String,
    /// The type of the entity it moves.
    pub entity_type: String,
    /// The entity it moves.
    pub entity_id: String,
    /// The entity workflow.
    pub workflow: String,
    /// The module whose janitor covers it.
    pub module: String,
    /// The step.
    pub step_key: String,
    /// Status of the operation.
    pub status: OperationStatus,
    /// Requester that it was requested for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Person or credential that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// Key of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Input of the action.
    pub input: RawJson,
    /// The status the entity was in.
    pub from: String,
    /// The status it leads to.
    pub to: String,
    /// The transient status of its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_into: Option<String>,
    /// Status that the claim returns to on failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert_to: Option<String>,
    /// Recovery if its holder vanishes: `revert` or `hold`.
    pub recovery: String,
    /// Is the effect irreversible?
    pub irreversible: bool,
    /// The run that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Effect key that the action sends to the provider. It stays the same over all attempts, and
    /// in later operations that continue an attempt with an unknown outcome.
    pub effect_key: String,
    /// May an earlier attempt or operation under the same effect key have happened?
    #[serde(default)]
    pub may_repeat: bool,
    /// Version of the entity workflow at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_version: Option<u64>,
    /// Number of attempts.
    pub attempts: u32,
    /// When it first began.
    #[schema(format = DateTime)]
    pub began_at: String,
    /// Last sign of life of its holder, while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub heard_at: Option<String>,
    /// When it became in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub in_doubt_since: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// Result of the action.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// Why it was rejected or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// One operation with its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationDetail {
    /// The operation.
    pub operation: Operation,
    /// History of the operation, oldest first: its beginning, notes, its end.
    pub history: Vec<JournalEntry>,
}

/// Decision about an operation in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationResolution {
    /// The action happened: the entity gets the status the step leads to.
    Happened,
    /// It did not happen: the claim is released, and the step can be taken again.
    DidNotHappen,
}

/// Decides an operation in doubt. The credential says who decides and in which role.
/// `did_not_happen` needs the role manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveOperation {
    /// Attempt that you saw in doubt: `attempts` of the operation. A later attempt is a different
    /// doubt.
    #[schema(minimum = 1)]
    pub attempt: u32,
    /// The decision.
    pub resolution: OperationResolution,
    /// Result of the action, for `happened`; `null` if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// Evidence for the decision.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// The person who decides, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_can_be_taken_without_saying_anything_and_nothing_unknown_is_taken() {
        let asked: TakeStep = serde_json::from_str("{}").unwrap();
        assert_eq!((asked.input.text(), asked.requester), ("{}", None));
        for body in [r#"{"input":[]}"#, r#"{"input":null}"#, r#"{"reason":"x"}"#, r#"{"requester":1}"#] {
            assert!(serde_json::from_str::<TakeStep>(body).is_err(), "{body}");
        }
        assert!(serde_json::from_str::<OverrideStep>("{}").is_err(), "an override has a reason");
    }

    #[test]
    fn every_status_is_spelled_as_on_the_wire() {
        for status in OperationStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(OperationStatus::from_name(status.as_str()), Some(status));
        }
    }
}
