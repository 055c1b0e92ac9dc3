//! Operations: each one requested transition of an entity, from the claim to what became of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{Actor, Entity, Failure, JournalEntry, JsonObject, RawJson};

/// Where an operation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OperationStatus {
    /// Its action is under way.
    Pending,
    /// Done: the entity has the status it leads to.
    Done,
    /// The action would not do it; the entity is as before.
    Rejected,
    /// The action failed; the entity is as before.
    Failed,
    /// Its holder vanished, and the janitor gave back what it had claimed.
    Reverted,
    /// Its holder vanished, and nobody knows whether the action happened; people must decide.
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

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        OperationStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Takes a step with an entity. All of it may be left away, and so may the body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeStep {
    /// As whom, where fields of the step differ by requester. A credential that has a requester of its own asks as no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// What the action is given.
    #[serde(default)]
    pub input: JsonObject,
    /// Names the operation: a second request with the same key and content is told what is recorded of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255, pattern = "^[ -~]+$")]
    pub idempotency_key: Option<String>,
    /// The person who asks, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// A manager's word that an irreversible step is to be taken although it may have happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideStep {
    /// How you know that it did not happen, or why it is to happen again; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// As whom, where fields of the step differ by requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub requester: Option<String>,
    /// What the action is given.
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

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenStep {
    /// The operation.
    pub operation: Operation,
    /// The entity as it stands now; absent while the operation is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity: Option<Entity>,
    /// Did this request have the operation done? `false`: it was asked for before, and this is what is recorded of it.
    pub created: bool,
    /// Is it what is recorded of an earlier request?
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
    /// The module whose janitor looks after it.
    pub module: String,
    /// The step.
    pub step_key: String,
    /// Where it stands.
    pub status: OperationStatus,
    /// As whom it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The key it was asked for under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What the action is given.
    pub input: RawJson,
    /// The status the entity was in.
    pub from: String,
    /// The status it leads to.
    pub to: String,
    /// The transient status of its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_into: Option<String>,
    /// Where the claim goes back to on failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert_to: Option<String>,
    /// What becomes of it if its holder vanishes: `revert` or `hold`.
    pub recovery: String,
    /// Can what it does not be taken back?
    pub irreversible: bool,
    /// The run that carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What its action carries to the outside world: over all its attempts, and over operations that go on with what an earlier one may have done.
    pub effect_key: String,
    /// May an earlier attempt or operation under the same effect key have happened?
    #[serde(default)]
    pub may_repeat: bool,
    /// Version of the entity workflow it began under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_version: Option<u64>,
    /// How often it was begun.
    pub attempts: u32,
    /// When it first began.
    #[schema(format = DateTime)]
    pub began_at: String,
    /// When its holder was last heard of, while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub heard_at: Option<String>,
    /// Since when it is in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub in_doubt_since: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub ended_at: Option<String>,
    /// What the action gave.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// Why it was rejected or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// One operation with what happened to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationDetail {
    /// The operation.
    pub operation: Operation,
    /// What happened to it, oldest first: how it began, what was noted, how it ended.
    pub history: Vec<JournalEntry>,
}

/// What can be decided about an operation in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationResolution {
    /// The action happened: the entity gets the status the step leads to.
    Happened,
    /// It did not happen: the claim is given back, and the step can be taken again.
    DidNotHappen,
}

/// Decides about an operation in doubt. Who decides, and in which role, is taken from the credential: `did_not_happen` needs the role
/// manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveOperation {
    /// Which of its attempts was seen in doubt: `attempts` of the operation. A later one is another doubt.
    #[schema(minimum = 1)]
    pub attempt: u32,
    /// What is decided.
    pub resolution: OperationResolution,
    /// What the action gave, for `happened`; `null` if absent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<RawJson>,
    /// How you know.
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
