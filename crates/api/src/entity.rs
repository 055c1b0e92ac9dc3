//! Entities: business objects whose status is their state, and what may be done with them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DurationText, JsonObject, OperationStatus, RawJson};

/// Makes an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateEntity {
    /// Which, among those of its type.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// The status it begins in; not one that claims lead into.
    #[schema(min_length = 1, max_length = 128)]
    pub status: String,
    /// What else is known of it.
    #[serde(default)]
    pub data: JsonObject,
}

/// An entity as it stands.
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
    /// How often it was changed; also sent as `ETag`.
    pub version: u64,
    /// What else is known of it.
    pub data: RawJson,
    /// When it was last changed.
    #[schema(format = DateTime)]
    pub updated_at: String,
}

/// What became of a request to make an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedEntity {
    /// The entity.
    pub entity: Entity,
    /// Was it made now? `false`: it was there, and is as it would have been made.
    pub created: bool,
}

/// One entity with what is going on with it and what may be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityDetail {
    /// The entity.
    pub entity: Entity,
    /// The entity workflow that moves it.
    pub workflow: String,
    /// The operation that is in progress or in doubt; while there is one, no other can begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_operation: Option<PendingOperation>,
    /// Every step for whoever asks, by its number, and whether it may be taken now.
    pub allowed_actions: Vec<AllowedAction>,
}

/// An operation that is in the way of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingOperation {
    /// Its id.
    pub id: String,
    /// The step.
    pub step_key: String,
    /// `PENDING`, or `IN_DOUBT` if nobody knows whether it happened.
    pub status: OperationStatus,
    /// When it began, or since when it is in doubt.
    #[schema(format = DateTime)]
    pub since: String,
    /// How long ago that is.
    pub age: DurationText,
}

/// A step, and whether it may be taken now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedAction {
    /// The step, for `POST …/steps/{stepKey}`.
    pub step_key: String,
    /// Its number (`step_id` of the document), by which people sort steps.
    pub step_number: u32,
    /// The status after it.
    pub to: String,
    /// May it be taken now?
    pub enabled: bool,
    /// Why not, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why not, in one word: `other_status`, `operation_pending`, `operation_in_doubt`, `claimed`, `override_required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The operation that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Can it not be taken back?
    pub irreversible: bool,
}

/// Says something about an entity, whatever is going on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddEntityNote {
    /// The note.
    #[schema(min_length = 1, max_length = 4096)]
    pub text: String,
    /// The person who says it, where a credential is shared by several.
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
