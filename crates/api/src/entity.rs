//! Entities: business objects whose status is their state, and the steps they allow.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DurationText, JsonObject, OperationStatus, RawJson};

/// Creates an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateEntity {
    /// Id, unique among entities of the type.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// Initial status; not a transient one.
    #[schema(min_length = 1, max_length = 128)]
    pub status: String,
    /// Other data of the entity.
    #[serde(default)]
    pub data: JsonObject,
}

/// An entity in its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its status, which is its state.
    pub status: String,
    /// Number of changes; also sent as `ETag`.
    pub version: u64,
    /// Other data of the entity.
    pub data: RawJson,
    /// When it was last changed.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

/// Result of a request to create an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedEntity {
    /// The entity.
    pub entity: Entity,
    /// Was it created now? `false`: it already existed, unchanged.
    pub created: bool,
}

/// One entity with its pending operation and its allowed steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityDetail {
    /// The entity.
    pub entity: Entity,
    /// The entity workflow that moves it.
    pub workflow: String,
    /// The operation that is in progress or in doubt. No other operation can begin while there is
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_operation: Option<PendingOperation>,
    /// The janitor of its workflow, if it runs on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub janitor: Option<Janitor>,
    /// Every step of the requester, by number, and whether it is allowed now.
    pub allowed_actions: Vec<AllowedAction>,
}

/// The loop that frees an entity whose holder vanished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Janitor {
    /// Its module.
    pub module: String,
    /// Longest time between two passes.
    pub every: DurationText,
    /// Silence after which it treats a holder as gone.
    pub stale_after: DurationText,
}

/// An operation that blocks others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingOperation {
    /// Its id.
    pub id: String,
    /// The step.
    pub step_key: String,
    /// `PENDING`, or `IN_DOUBT` if the outcome is unknown.
    pub status: OperationStatus,
    /// When it began, or when it became in doubt.
    #[schema(format = DateTime)]
    pub since: String,
    /// Time since then.
    pub age: DurationText,
}

/// A step, and whether it is allowed now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedAction {
    /// The step, for `POST …/steps/{stepKey}`.
    pub step_key: String,
    /// Number of the step (`step_id` of the document), for sorting.
    pub step_number: u32,
    /// The status after it.
    pub to: String,
    /// Is the step allowed now?
    pub enabled: bool,
    /// Why the step is not allowed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the step is not allowed, in one word: `other_status`, `operation_pending`,
    /// `operation_in_doubt`, `claimed`, `override_required`, `forbidden` (your role may only look).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The operation that blocks the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Is the step irreversible?
    pub irreversible: bool,
}

/// Adds a note to an entity, also while an operation is pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddEntityNote {
    /// The note.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
    /// The author, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// An entity by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityName {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its id.
    pub id: String,
}
