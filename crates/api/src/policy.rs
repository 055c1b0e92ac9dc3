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
    /// The methods it counts on.
    pub methods: Vec<String>,
    /// Within what a key is unique.
    pub scope: String,
    /// Fewest characters.
    pub min_chars: u32,
    /// Most characters.
    pub max_chars: u32,
    /// How long an answer is kept.
    pub retention: DurationText,
    /// How long an expired key is still refused.
    pub grace: DurationText,
    /// How long a second request waits for the first, unless it says otherwise.
    pub wait: DurationText,
    /// The longest wait `Prefer: wait=N` may ask for.
    pub max_wait: DurationText,
    /// Answers up to this size are kept whole.
    pub max_stored_body_bytes: u64,
    /// Statuses that are not kept, so that the key may be used again.
    pub statuses_not_stored: Vec<u16>,
    /// The header by which a client says when it first sent the request.
    pub first_sent_header: String,
    /// The header on an answer that was given before.
    pub replayed_header: String,
    /// The header that says when a key expires.
    pub expires_header: String,
}

/// Keys in the body, for runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BusinessKeyPolicy {
    /// The field.
    pub field: String,
    /// Within what a key is unique.
    pub scope: String,
    /// Fewest characters.
    pub min_chars: u32,
    /// Most characters.
    pub max_chars: u32,
    /// How long a key lives after its run has ended; absent: for ever. A definition may say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<DurationText>,
    /// Does a failed or cancelled run free its key?
    pub released_on_failure: bool,
}

/// Keys of promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromiseKeyPolicy {
    /// How long a key lives, but never less than until the promise settles.
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
    /// What makes two requests the same.
    pub fingerprint: String,
}
