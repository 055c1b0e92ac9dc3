//! Promises: values that somebody outside supplies, once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::present;
use crate::{DurationText, Failure, RawJson};

/// Where a promise stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PromiseStatus {
    /// Nobody has settled it.
    Pending,
    /// It has a value.
    Resolved,
    /// It will have none.
    Rejected,
    /// It was called off.
    Cancelled,
    /// Its time ran out.
    TimedOut,
    /// It never was one to be settled: its key names another.
    KeyTaken,
}

/// A promise to be made that belongs to no run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreatePromise {
    /// Its id, 1 to 255 printable ASCII characters; one is made if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub id: Option<String>,
    /// Its business key: by it, who does not know the id finds the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub idempotency_key: Option<String>,
    /// For how long the key still names it once it is over; a day if absent. While it can be settled the key lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_ttl_seconds: Option<u64>,
    /// It times out after this long; never, if neither this nor `deadlineAt` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// It times out then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline_at: Option<String>,
    /// What its maker says about it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub about: Option<RawJson>,
}

/// One promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// Its id; `<runId>:<name>` if a run made it.
    pub id: String,
    /// Where it stands now.
    pub status: PromiseStatus,
    /// The run that made it; absent if it stands alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Its business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When the key stops naming it, as things are now; absent while nobody can tell.
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
    /// Why there is none, once it is rejected or called off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The promise that has its key, if it lost that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_held_by: Option<String>,
    /// What its maker said about it.
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

/// Says that there will be no value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RejectPromise {
    /// Why, for people.
    #[schema(min_length = 1, max_length = 4096)]
    pub message: String,
    /// Why, for the run that waits: a short stable word; `rejected` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128)]
    pub code: Option<String>,
}

/// A promise that is settled as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettledPromise {
    /// The promise.
    pub promise: Promise,
    /// Was it settled so before?
    pub already_settled: bool,
}

/// A settlement whose key names no promise yet: it is kept for the one it will name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptSettlement {
    /// Always true.
    pub kept: bool,
    /// The key.
    pub idempotency_key: String,
    /// Until when it is kept.
    #[schema(format = DateTime)]
    pub until: String,
}

/// A settlement that came before its promise and waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlySettlement {
    /// The key it came under.
    pub idempotency_key: String,
    /// What the promise will be once it is made.
    pub status: PromiseStatus,
    /// The value it brings.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
    /// Why it brings none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// When it came.
    #[schema(format = DateTime)]
    pub received_at: String,
    /// Until when it is kept.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

/// Asks for a token by which somebody without a credential may settle one promise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSettleToken {
    /// How long it works; a week if absent, at most 90 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<DurationText>,
}

/// Such a token, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedSettleToken {
    /// The token: whoever has it may settle the promise.
    pub token: String,
    /// Where to POST, as a path on this server.
    pub url: String,
    /// Until when it works.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl std::fmt::Debug for IssuedSettleToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedSettleToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// What whoever has a token says: one of both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SettleByToken {
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<RawJson>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reject: Option<RejectPromise>,
}

/// The promise of the token is settled as it was asked for.
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
