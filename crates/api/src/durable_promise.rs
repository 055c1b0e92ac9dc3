//! Durable promises in the form of the public specification.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;
use crate::json::present;

/// `timeout` of a promise that never times out: the largest integer that every client reads exactly.
pub const NO_TIMEOUT: i64 = (1 << 53) - 1;

/// State of a durable promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DurableState {
    /// Nobody has completed it.
    Pending,
    /// It has a value.
    Resolved,
    /// It has no value and never will.
    Rejected,
    /// It was called off.
    RejectedCanceled,
    /// Its time ran out.
    #[serde(rename = "REJECTED_TIMEDOUT")]
    RejectedTimedout,
}

/// How to complete a durable promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DurableCompletion {
    /// With a value.
    Resolved,
    /// Without one.
    Rejected,
    /// By cancellation.
    RejectedCanceled,
}

/// Value of a creation or completion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DurableValue {
    /// Metadata about the data.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The data; clients of the specification send a text.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub data: Option<RawJson>,
}

/// Creates a durable promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateDurablePromise {
    /// Its id.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// When it times out, in milliseconds of Unix time; 9007199254740991 for never.
    pub timeout: i64,
    /// Description by the creator.
    #[serde(default)]
    pub param: DurableValue,
    /// Labels for searching.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Completes a durable promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteDurablePromise {
    /// State to complete it with.
    pub state: DurableCompletion,
    /// Value to complete it with.
    #[serde(default)]
    pub value: DurableValue,
}

/// One durable promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurablePromise {
    /// Its id.
    pub id: String,
    /// Current state.
    pub state: DurableState,
    /// When it times out, in milliseconds of Unix time; 9007199254740991 for never.
    pub timeout: i64,
    /// Description by the creator.
    pub param: DurableValue,
    /// Value it was completed with.
    pub value: DurableValue,
    /// Labels for searching.
    pub tags: BTreeMap<String, String>,
    /// Key of the creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_for_create: Option<String>,
    /// Key of the completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_for_complete: Option<String>,
    /// When it was made, in milliseconds of Unix time.
    pub created_on: i64,
    /// When it was completed, in milliseconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_on: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CONTRACT §7: the words of the specification.
    #[test]
    fn states_are_spelled_as_the_specification_spells_them() {
        let spelled = |state| serde_json::to_value(state).unwrap();
        assert_eq!(spelled(DurableState::Pending), "PENDING");
        assert_eq!(spelled(DurableState::RejectedCanceled), "REJECTED_CANCELED");
        assert_eq!(spelled(DurableState::RejectedTimedout), "REJECTED_TIMEDOUT");
        assert_eq!(serde_json::to_value(DurableCompletion::RejectedCanceled).unwrap(), "REJECTED_CANCELED");
    }
}
