//! The idempotency contract in force, as `GET /api/v1/idempotency-policy` publishes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DurationText;

/// Keys in the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestKeyPolicy {
    /// The header.
    pub header: String,
    /// Methods that honour it.
    pub methods: Vec<String>,
    /// Scope of uniqueness of a key.
    pub scope: String,
    /// Fewest characters.
    pub min_chars: u32,
    /// Most characters.
    pub max_chars: u32,
    /// How long a response is kept.
    pub retention: DurationText,
    /// How long an expired key is still rejected.
    pub grace: DurationText,
    /// How long a second request waits for the first by default.
    pub wait: DurationText,
    /// The longest wait `Prefer: wait=N` may ask for.
    pub max_wait: DurationText,
    /// Largest response body that is stored.
    pub max_stored_body_bytes: u64,
    /// Statuses that are not stored; the key can be used again after them.
    pub statuses_not_stored: Vec<u16>,
    /// Header with the time of the first sending of the request.
    pub first_sent_header: String,
    /// Header that marks a repeated response.
    pub replayed_header: String,
    /// Header with the expiry of the key.
    pub expires_header: String,
}

/// Keys in the body, for runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BusinessKeyPolicy {
    /// The field.
    pub field: String,
    /// Scope of uniqueness of a key.
    pub scope: String,
    /// Fewest characters.
    pub min_chars: u32,
    /// Most characters.
    pub max_chars: u32,
    /// How long a key lives after its run has ended; absent if it never expires. A definition may
    /// override it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// Is the key released when its run fails or is cancelled?
    pub released_on_failure: bool,
}

/// Keys of promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseKeyPolicy {
    /// Lifetime of a key, but at least until the promise settles.
    pub ttl: DurationText,
}

/// The contract in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdempotencyPolicy {
    /// Keys in the header.
    pub request_keys: RequestKeyPolicy,
    /// Keys in the body.
    pub business_keys: BusinessKeyPolicy,
    /// Keys of promises.
    pub promise_keys: PromiseKeyPolicy,
    /// Rule for two requests to count as equal.
    pub fingerprint: String,
}
