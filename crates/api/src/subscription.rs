//! Subscriptions: who is told by webhook what becomes of runs. The secret is in one answer only.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DurationText;

/// What can be subscribed to.
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
    /// An effect is in doubt, and people are asked to rule.
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

    /// As it is spelled.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebhookEvent::RunCompleted => "run.completed",
            WebhookEvent::RunFailed => "run.failed",
            WebhookEvent::RunCancelled => "run.cancelled",
            WebhookEvent::EffectInDoubt => "effect.in_doubt",
        }
    }

    /// What is spelled so, if anything.
    pub fn from_name(text: &str) -> Option<Self> {
        WebhookEvent::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

/// How what is sent is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookSigning {
    /// With a secret that the receiver has, too: `v1`.
    #[default]
    Hmac,
    /// With a private key, of which the receiver has the public half: `v1a`. It can check what it is sent, and sign nothing.
    Ed25519,
}

impl WebhookSigning {
    /// Every way.
    pub const ALL: [WebhookSigning; 2] = [WebhookSigning::Hmac, WebhookSigning::Ed25519];

    /// As it is spelled.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebhookSigning::Hmac => "hmac",
            WebhookSigning::Ed25519 => "ed25519",
        }
    }

    /// What is spelled so, if anything.
    pub fn from_name(text: &str) -> Option<Self> {
        WebhookSigning::ALL.into_iter().find(|way| way.as_str() == text)
    }
}

/// Asks to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSubscription {
    /// For people, and for the audit log; one of a kind in the workspace.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// Where webhooks are sent.
    #[schema(min_length = 1, max_length = 2048)]
    pub url: String,
    /// What is told.
    #[schema(min_items = 1, max_items = 16)]
    pub events: Vec<WebhookEvent>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub description: Option<String>,
    /// How what is sent is signed; with a shared secret, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<WebhookSigning>,
}

/// Gives a subscription a new secret. For a while both sign.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSubscription {
    /// How long the old secret signs alongside; a day, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<DurationText>,
}

/// Changes a subscription. Absent fields stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeSubscription {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
    /// Where webhooks are sent from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 2048)]
    pub url: Option<String>,
    /// What is sent from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 16)]
    pub events: Option<Vec<WebhookEvent>>,
    /// Another description; an empty one removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub description: Option<String>,
    /// `disabled` stops sending: what waits is given up, and can be redelivered once it is enabled. `enabled` sends again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ActivationStatus>,
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}

/// Whether something that can be switched off is to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivationStatus {
    /// It works.
    Enabled,
    /// It does nothing until it is enabled.
    Disabled,
}

/// Where a subscription stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SubscriptionStatus {
    /// It is told.
    Enabled,
    /// It is told nothing, until somebody enables it.
    Disabled,
    /// It is told nothing more; kept for its deliveries.
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
    /// What is told.
    pub events: Vec<WebhookEvent>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The key that the receiver checks with, if what is sent is signed with a private one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Whether webhooks are sent.
    pub status: SubscriptionStatus,
    /// Why it stands there.
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
    /// Until when the secret before the last rotation signs alongside.
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
    /// What webhooks are checked with: the secret they are signed with, `whsec_…`, shown this once, for any library of Standard Webhooks; or, if
    /// they are signed with Ed25519, the public key, `whpk_…`.
    pub secret: String,
}

impl std::fmt::Debug for IssuedSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedSubscription").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}

/// What came of a test: a `test.ping` that was sent once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestedSubscription {
    /// The `webhook-id` it bore.
    pub webhook_id: String,
    /// Was it answered with 2xx?
    pub delivered: bool,
    /// The HTTP status of the response, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_status: Option<u16>,
    /// What went wrong, if something did.
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
