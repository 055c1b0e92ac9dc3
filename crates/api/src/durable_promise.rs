//! Promises as clients of the public specification of durable promises know them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;
use crate::json::present;

/// `timeout` of a promise that never times out: the largest integer that every client reads exactly.
pub const NO_TIMEOUT: i64 = (1 << 53) - 1;

/// Where a durable promise stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DurableState {
    /// Nobody has completed it.
    Pending,
    /// It has a value.
    Resolved,
    /// It will have none.
    Rejected,
    /// It was called off.
    RejectedCanceled,
    /// Its time ran out.
    #[serde(rename = "REJECTED_TIMEDOUT")]
    RejectedTimedout,
}

/// How a durable promise is to be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DurableCompletion {
    /// With a value.
    Resolved,
    /// Without one.
    Rejected,
    /// Not at all.
    RejectedCanceled,
}

/// What goes with a creation or a completion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DurableValue {
    /// About the data.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The data; clients of the specification send a text.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub data: Option<RawJson>,
}

/// A durable promise to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateDurablePromise {
    /// Its id.
    #[schema(min_length = 1, max_length = 255)]
    pub id: String,
    /// When it times out, in milliseconds of Unix time; 9007199254740991 for never.
    pub timeout: i64,
    /// What its maker says about it.
    #[serde(default)]
    pub param: DurableValue,
    /// What its maker finds it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// Completes a durable promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteDurablePromise {
    /// How.
    pub state: DurableCompletion,
    /// With what.
    #[serde(default)]
    pub value: DurableValue,
}

/// One durable promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurablePromise {
    /// Its id.
    pub id: String,
    /// Where it stands now.
    pub state: DurableState,
    /// When it times out, in milliseconds of Unix time; 9007199254740991 for never.
    pub timeout: i64,
    /// What its maker said about it.
    pub param: DurableValue,
    /// What it was completed with.
    pub value: DurableValue,
    /// What its maker finds it by.
    pub tags: BTreeMap<String, String>,
    /// The key it was made under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_for_create: Option<String>,
    /// The key it was completed under.
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
