//! Outgoing webhook subscriptions. Only one response shows the secret.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DurationText;

/// Event that a subscription can receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum WebhookEvent {
    /// A run completed.
    #[serde(rename = "run.completed")]
    RunCompleted,
    /// A run failed.
    #[serde(rename = "run.failed")]
    RunFailed,
    /// A run was cancelled.
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// An effect is in doubt, and people must rule.
    #[serde(rename = "effect.in_doubt")]
    EffectInDoubt,
}

impl WebhookEvent {
    /// All of them.
    pub const ALL: [WebhookEvent; 4] = [
        WebhookEvent::RunCompleted,
        WebhookEvent::RunFailed,
        WebhookEvent::RunCancelled,
        WebhookEvent::EffectInDoubt,
    ];

    /// Spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebhookEvent::RunCompleted => "run.completed",
            WebhookEvent::RunFailed => "run.failed",
            WebhookEvent::RunCancelled => "run.cancelled",
            WebhookEvent::EffectInDoubt => "effect.in_doubt",
        }
    }

    /// The event with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        WebhookEvent::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

/// How messages are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookSigning {
    /// With a shared secret: `v1`.
    #[default]
    Hmac,
    /// With a private key: `v1a`. The receiver has only the public key, so it can verify messages
    /// but not sign any.
    Ed25519,
}

impl WebhookSigning {
    /// All signing methods.
    pub const ALL: [WebhookSigning; 2] = [WebhookSigning::Hmac, WebhookSigning::Ed25519];

    /// Spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebhookSigning::Hmac => "hmac",
            WebhookSigning::Ed25519 => "ed25519",
        }
    }

    /// The method with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        WebhookSigning::ALL.into_iter().find(|way| way.as_str() == text)
    }
}

/// Creates a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSubscription {
    /// Name for people and for the audit log; unique in the workspace.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Where webhooks are sent.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
    /// Events to send.
    #[schema(min_items = 1, max_items = 16)]
    pub events: Vec<WebhookEvent>,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub description: Option<String>,
    /// How messages are signed; with a shared secret if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<WebhookSigning>,
}

/// Gives a subscription a new secret. Both secrets sign for a while.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSubscription {
    /// How long the old secret keeps signing; a day if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<DurationText>,
}

/// Changes a subscription. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeSubscription {
    /// New name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// New address for webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 2048)]
    pub url: Option<String>,
    /// New events to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 16)]
    pub events: Option<Vec<WebhookEvent>>,
    /// New description; an empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub description: Option<String>,
    /// `disabled` stops sending: waiting deliveries are given up, and can be redelivered later.
    /// `enabled` sends again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ActivationStatus>,
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}

/// Activation of a resource that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivationStatus {
    /// It is on.
    Enabled,
    /// It is off until it is enabled.
    Disabled,
}

/// Status of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SubscriptionStatus {
    /// It receives events.
    Enabled,
    /// It receives no events until it is enabled.
    Disabled,
    /// It receives no more events; kept for its deliveries.
    Deleted,
}

/// A subscription, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// Its id.
    pub id: String,
    /// For people.
    pub name: String,
    /// Where webhooks are sent.
    pub url: String,
    /// Events it receives.
    pub events: Vec<WebhookEvent>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Public key for verification, if messages are signed with a private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Status of the subscription.
    pub status: SubscriptionStatus,
    /// Why it has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Rises with each change, for `If-Match`.
    pub version: u64,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
    /// Time until which the previous secret also signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub old_secret_until: Option<String>,
}

/// A subscription with its secret, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedSubscription {
    /// The subscription.
    pub subscription: Subscription,
    /// Secret to verify webhooks with: `whsec_…`, shown this once, for any library of Standard
    /// Webhooks. If they are signed with Ed25519, it is the public key, `whpk_…`.
    pub secret: String,
}

impl std::fmt::Debug for IssuedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedSubscription").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}

/// Result of a test: one `test.ping`, sent once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestedSubscription {
    /// Its `webhook-id`.
    pub webhook_id: String,
    /// Was the response a 2xx?
    pub delivered: bool,
    /// The HTTP status of the response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// Cause of the failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How long it took.
    pub took: DurationText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_spelled_on_the_wire_as_they_name_themselves() {
        for event in WebhookEvent::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
            assert_eq!(WebhookEvent::from_name(event.as_str()), Some(event));
        }
    }

    #[test]
    fn what_is_told_to_a_log_holds_no_secret() {
        let subscription = Subscription {
            id: "sub_1".into(),
            name: "billing".into(),
            url: "https://example.com/hooks".into(),
            events: vec![WebhookEvent::RunFailed],
            description: None,
            public_key: None,
            status: SubscriptionStatus::Enabled,
            reason: None,
            version: 1,
            created_at: String::new(),
            changed_at: String::new(),
            old_secret_until: None,
        };
        let issued = IssuedSubscription { subscription, secret: "whsec_canary".into() };
        assert!(!format!("{issued:?}").contains("canary"));
    }
}
