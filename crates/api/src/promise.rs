//! Promises: values supplied once, from outside.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{DurationText, Failure, RawJson};

/// Status of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PromiseStatus {
    /// Nobody has settled it.
    Pending,
    /// It has a value.
    Resolved,
    /// It has no value and never will.
    Rejected,
    /// It was cancelled.
    Cancelled,
    /// Its time ran out.
    TimedOut,
    /// Its key belongs to another promise, so it can never be settled.
    KeyTaken,
}

/// Creates a promise without a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePromise {
    /// Id, 1 to 255 printable ASCII characters; generated if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub id: Option<String>,
    /// Business key. Lets callers find the promise without knowing its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub idempotency_key: Option<String>,
    /// How long the key names the promise after its end; a day if absent. The key never expires
    /// before the promise ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_ttl_seconds: Option<u64>,
    /// Time until it times out. It never times out if neither this nor `deadlineAt` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// Time at which it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline_at: Option<String>,
    /// Description by the creator.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub about: Option<RawJson>,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// Id; `<runId>:<name>` if a run created it.
    pub id: String,
    /// Current status.
    pub status: PromiseStatus,
    /// The run that created it; absent for a promise without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When the key expires; absent while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub key_expires_at: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline_at: Option<String>,
    /// When it was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub settled_at: Option<String>,
    /// The value, once it is resolved.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
    /// Failure, once it is rejected or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The promise that holds its key, if another one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_held_by: Option<String>,
    /// Description by the creator.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub about: Option<RawJson>,
}

/// Gives a promise its value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolvePromise {
    /// The value; `null` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
}

/// Rejects a promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectPromise {
    /// Reason for people.
    #[schema(min_length = 1, max_length = 4096)]
    pub message: String,
    /// Reason for the waiting run: a short stable word; `rejected` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub code: Option<String>,
}

/// A promise with the requested settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledPromise {
    /// The promise.
    pub promise: Promise,
    /// Was it already settled in the same way?
    pub already_settled: bool,
}

/// A settlement whose key names no promise yet. It is kept for the future promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptSettlement {
    /// Always true.
    pub kept: bool,
    /// The key.
    pub idempotency_key: String,
    /// When it is dropped.
    #[schema(format = DateTime)]
    pub until: String,
}

/// A settlement that waits for its promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlySettlement {
    /// Its key.
    pub idempotency_key: String,
    /// Status that the promise will get.
    pub status: PromiseStatus,
    /// Value for the promise.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
    /// Failure, if it rejects the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// When it arrived.
    #[schema(format = DateTime)]
    pub received_at: String,
    /// When it is dropped.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

/// Creates a token that settles one promise without a credential.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSettleToken {
    /// Lifetime; a week if absent, at most 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<DurationText>,
}

/// A settle token, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedSettleToken {
    /// The token. Anyone who has it can settle the promise.
    pub token: String,
    /// Where to POST, as a path on this server.
    pub url: String,
    /// When it expires.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl std::fmt::Debug for IssuedSettleToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedSettleToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Settlement by a token: one of the two fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettleByToken {
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
    /// Rejection instead of a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject: Option<RejectPromise>,
}

/// The promise of the token has the requested settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledByToken {
    /// Always true.
    pub settled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_null_is_a_value() {
        let said: SettleByToken = serde_json::from_str(r#"{"value":null}"#).unwrap();
        assert_eq!(said.value.map(|value| value.into_text()), Some("null".to_owned()));
        let said: SettleByToken = serde_json::from_str("{}").unwrap();
        assert_eq!(said, SettleByToken::default());
        assert!(serde_json::from_str::<ResolvePromise>(r#"{"vlaue":1}"#).is_err());
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let issued =
            IssuedSettleToken { token: "hps_x".into(), url: "/settle/hps_x".into(), expires_at: "t".into() };
        assert!(!format!("{issued:?}").contains("hps_x"));
    }
}
