//! Webhook deliveries. Each carries one event to one subscription, over as many attempts as needed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Failure, RawJson};

/// Status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// Due now or at `nextAttemptAt`.
    Due,
    /// An attempt is under way.
    Claimed,
    /// The receiver accepted it.
    Delivered,
    /// Given up; a person can redeliver it.
    Dead,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [DeliveryStatus; 4] =
        [DeliveryStatus::Due, DeliveryStatus::Claimed, DeliveryStatus::Delivered, DeliveryStatus::Dead];

    /// Spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeliveryStatus::Due => "due",
            DeliveryStatus::Claimed => "claimed",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dead => "dead",
        }
    }

    /// The status with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        DeliveryStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// One delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookDelivery {
    /// Id, used to redeliver it.
    pub id: String,
    /// The `webhook-id` of every attempt.
    pub webhook_id: String,
    /// Subscription that receives it.
    pub subscription_id: String,
    /// Kind of the event, such as `run.completed`.
    pub event: String,
    /// The run it is about.
    pub run_id: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts begun since it was created or last redelivered.
    pub attempts: u32,
    /// When the event was committed.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub next_attempt_at: Option<String>,
    /// When the receiver accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub delivered_at: Option<String>,
    /// When it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub given_up_at: Option<String>,
    /// Why the last attempt failed, with the status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Body that is sent, byte for byte.
    pub body: RawJson,
}

/// Asks to redeliver one delivery under the same `webhook-id`.
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

/// Asks to redeliver many deliveries to one subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedeliverWebhooks {
    /// Id of the subscription.
    pub subscription_id: String,
    /// Only deliveries with this status: `dead` or `delivered`.
    pub status: DeliveryStatus,
    /// Most deliveries to redeliver.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u64,
    /// Continues after an earlier response: its `nextCursor`.
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

/// Discards dead deliveries of one subscription that nobody needs any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiscardWebhooks {
    /// Id of the subscription, which may be disabled or deleted.
    pub subscription_id: String,
    /// Most deliveries to discard.
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
