//! Idempotency keys as people look them up: what a key names, and which requests it rejected.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::doubt::Actor;

/// Type of object a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    /// One HTTP request of one credential.
    Request,
    /// A run.
    Run,
    /// A promise.
    Promise,
    /// An operation on an entity.
    Operation,
}

/// Status of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The first request under it is in progress.
    InFlight,
    /// An early settlement claimed it for a promise that does not exist yet.
    Claimed,
    /// It is in use and names its object.
    Live,
    /// It has expired and is rejected during the grace period.
    Grace,
    /// It has expired and can be used again.
    Expired,
    /// The data is deleted; the key still rejects a second operation.
    Tombstone,
}

/// Object that a key names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyHolder {
    /// `run`, `promise`, `operation`, `request`.
    pub kind: KeyScope,
    /// Its id.
    pub id: String,
}

/// First request under a key, in `storedRequest` of `idempotency_key_conflict`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredRequest {
    /// Type of the object.
    pub kind: KeyScope,
    /// Id of the object, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The definition, for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// When the key was first seen.
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// SHA-256 of the first request, in hex.
    pub fingerprint: String,
    /// JSON Pointers to the differences between this request and the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing_paths: Vec<String>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Type of object that the key names.
    pub scope: KeyScope,
    /// The key.
    pub key: String,
    /// Status of the key.
    pub status: KeyStatus,
    /// Object that the key names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<KeyHolder>,
    /// First user of the key, for an operation key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The credential that used it first, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// Method and path, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Status of the stored response, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_status: Option<u16>,
    /// SHA-256 of the first request, in hex; promise keys have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// When it was first seen.
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// When it expires; absent while its object is open, or if the key never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// Requests answered with the first response; not counted for operation keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<u64>,
    /// Requests rejected because they differ from the first; not counted for operation keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
}

/// Releases a key, so that it can be used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseKey {
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
}
