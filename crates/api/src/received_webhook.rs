//! Incoming webhooks and their outcomes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Status of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceivedStatus {
    /// It is stored; its actions are still pending.
    Received,
    /// Its actions are done.
    Applied,
    /// No action matched it.
    Ignored,
    /// Its target does not exist. A settlement is kept for its promise.
    Unmatched,
    /// Its actions failed; it can be processed again.
    Failed,
}

impl ReceivedStatus {
    /// Every status.
    pub const ALL: [ReceivedStatus; 5] = [
        ReceivedStatus::Received,
        ReceivedStatus::Applied,
        ReceivedStatus::Ignored,
        ReceivedStatus::Unmatched,
        ReceivedStatus::Failed,
    ];

    /// The status as it is spelled.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReceivedStatus::Received => "received",
            ReceivedStatus::Applied => "applied",
            ReceivedStatus::Ignored => "ignored",
            ReceivedStatus::Unmatched => "unmatched",
            ReceivedStatus::Failed => "failed",
        }
    }

    /// The status with this spelling, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        ReceivedStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Confirms to the sender that it need not send the webhook again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookReceipt {
    /// The provider's id of the event.
    pub event_id: String,
    /// Outcome of the event.
    pub status: ReceiptStatus,
}

/// Outcome of a webhook, as shown to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptStatus {
    /// It is stored; its actions are still pending.
    Received,
    /// It was received before; nothing was done.
    Duplicate,
    /// Its actions are done.
    Applied,
    /// No action matched it.
    Ignored,
    /// Its target does not exist. A settlement is kept for its promise.
    Unmatched,
    /// Its actions failed; an operator handles it.
    Failed,
}

/// Response to a provider's challenge request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookChallenge {
    /// Challenge that the provider sent.
    pub challenge: String,
}

/// An event in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedWebhookSummary {
    /// The name of its source.
    pub source: String,
    /// The provider's id of the event.
    pub event_id: String,
    /// Status of the event.
    pub status: ReceivedStatus,
    /// When it was first received.
    #[schema(format = DateTime)]
    pub received_at: String,
    /// When it last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
    /// Number of repeated deliveries.
    pub duplicates: u64,
    /// Number of times it was processed.
    pub attempts: u32,
    /// Actions that were done, or why none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<WebhookOutcome>,
}

/// An event with its headers and body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedWebhook {
    /// Summary, as in lists.
    #[serde(flatten)]
    pub summary: ReceivedWebhookSummary,
    /// Its headers, without signatures and secrets.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Body as text; invalid UTF-8 is replaced.
    pub raw_body: String,
}

/// Outcome of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookOutcome {
    /// Why no action was tried, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// One for each action of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<WebhookActionOutcome>,
}

/// Outcome of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookActionOutcome {
    /// `settle`, `start` or `signal`.
    pub action: String,
    /// Status of the action.
    pub status: WebhookActionStatus,
    /// Explanation for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The settled promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_id: Option<String>,
    /// The run that was started or received the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// Status of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookActionStatus {
    /// It is done, now or earlier.
    Applied,
    /// Its `when` is false.
    Skipped,
    /// Its target does not exist. A settlement is kept for its promise.
    Unmatched,
    /// It failed.
    Failed,
}

/// Processes events again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReprocessWebhooks {
    /// Only events of this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only events with this status.
    pub status: ReceivedStatus,
    /// Most events to process: the newest ones, processed oldest first.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u64,
    /// Continues before the events of an earlier response: its `nextCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Events after reprocessing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprocessedWebhooks {
    /// Each event as it is now.
    pub items: Vec<ReceivedWebhookSummary>,
    /// Cursor to the earlier events; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_spelled_as_it_is_serialised() {
        for status in ReceivedStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(ReceivedStatus::from_name(status.as_str()), Some(status));
        }
    }
}
