//! Idempotency keys as people look them up: what a key stands for, and what it has refused.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::doubt::Actor;

/// What kind of thing a key names.
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

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyStatus {
    /// The first request under it is under way.
    InFlight,
    /// It is claimed for a promise that is still to be made: somebody settled that early.
    Claimed,
    /// It gives what it stands for.
    Live,
    /// It has expired and is refused, for the time of grace.
    Grace,
    /// It has expired and may be used anew.
    Expired,
    /// The data is gone; it still refuses a second operation.
    Tombstone,
}

/// What a key names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyHolder {
    /// `run`, `promise`, `operation`, `request`.
    pub kind: KeyScope,
    /// Its id.
    pub id: String,
}

/// What a key stands for, in `storedRequest` of `idempotency_key_conflict`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoredRequest {
    /// What kind of thing it names.
    pub kind: KeyScope,
    /// Its id, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The definition, for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// When the key was first seen.
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// SHA-256 of what was asked first, in hex.
    pub fingerprint: String,
    /// JSON pointers at which this request differs from the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing_paths: Vec<String>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// What kind of thing it names.
    pub scope: KeyScope,
    /// The key.
    pub key: String,
    /// Where it stands.
    pub status: KeyStatus,
    /// What it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<KeyHolder>,
    /// Who used it first, for the key of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The credential that used it first, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
    /// Method and path, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The status it was answered with, for a request key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_status: Option<u16>,
    /// SHA-256 of what was asked first, in hex; a key of a promise has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// When it was first seen.
    #[schema(format = DateTime)]
    pub first_seen_at: String,
    /// When it expires; absent while what it names is open, or if it is kept for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// Requests that got the first one's answer; not counted for the key of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replays: Option<u64>,
    /// Requests that were refused because they asked for something else; not counted for the key of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
}

/// Frees a key, so that it may be used anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseKey {
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
}
