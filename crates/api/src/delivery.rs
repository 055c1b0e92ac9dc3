//! Deliveries of webhooks: each tells one subscription of one event, however many attempts that takes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Failure, RawJson};

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// To be delivered, now or at `nextAttemptAt`.
    Due,
    /// An attempt is under way.
    Claimed,
    /// The receiver has it.
    Delivered,
    /// Given up; people may have it delivered once more.
    Dead,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [DeliveryStatus; 4] =
        [DeliveryStatus::Due, DeliveryStatus::Claimed, DeliveryStatus::Delivered, DeliveryStatus::Dead];

    /// As it is spelled.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Due => "due",
            DeliveryStatus::Claimed => "claimed",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dead => "dead",
        }
    }

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        DeliveryStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// One delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDelivery {
    /// Its id, to redeliver it by.
    pub id: String,
    /// The `webhook-id` that every attempt bears.
    pub webhook_id: String,
    /// Who is told.
    pub subscription_id: String,
    /// What is told, such as `run.completed`.
    pub event: String,
    /// The run it is about.
    pub run_id: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts begun since it was made or last redelivered.
    pub attempts: u32,
    /// When what it tells of was committed.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub next_attempt_at: Option<String>,
    /// When the receiver took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub delivered_at: Option<String>,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub given_up_at: Option<String>,
    /// Why the last attempt failed, with the status that the receiver answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What is sent, byte for byte.
    pub body: RawJson,
}

/// Asks to deliver one once more, under the same `webhook-id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedeliverWebhook {
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// The person who asks, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// Asks to deliver many to one subscription once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedeliverWebhooks {
    /// To which subscription.
    pub subscription_id: String,
    /// Those that stand there: `dead` or `delivered`.
    pub status: DeliveryStatus,
    /// How many at most.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u64,
    /// Only those after the ones that an earlier answer told of: its `nextCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// The person who asks, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}

/// Asks to forget those that were given up for one subscription, because nobody will want them any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscardWebhooks {
    /// For which subscription; also if it was disabled or deleted.
    pub subscription_id: String,
    /// How many at most.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u64,
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 4096)]
    pub reason: String,
    /// The person who asks, where a credential is shared by several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub by: Option<String>,
}
