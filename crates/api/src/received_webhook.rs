//! Webhooks that came in, and what became of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceivedStatus {
    /// It is durable; what it asks for is yet to be done.
    Received,
    /// What it asks for is done.
    Applied,
    /// No action wanted it.
    Ignored,
    /// What it is for is not there; a settlement is kept for its promise.
    Unmatched,
    /// What it asks for could not be done; it can be processed again.
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

    /// The status spelled so, if there is one.
    pub fn from_name(text: &str) -> Option<Self> {
        ReceivedStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What the sender of a webhook is told: it need not send it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookReceipt {
    /// What the provider calls the event.
    pub event_id: String,
    /// What became of it.
    pub status: ReceiptStatus,
}

/// What became of a webhook as far as its sender is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptStatus {
    /// It is durable; what it asks for is yet to be done.
    Received,
    /// It came before; nothing was done.
    Duplicate,
    /// What it asks for is done.
    Applied,
    /// No action wanted it.
    Ignored,
    /// What it is for is not there; a settlement is kept for its promise.
    Unmatched,
    /// What it asks for could not be done; people see to it.
    Failed,
}

/// The answer to a provider that asks whether somebody is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookChallenge {
    /// What it sent.
    pub challenge: String,
}

/// An event in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedWebhookSummary {
    /// The name of its source.
    pub source: String,
    /// What the provider calls it.
    pub event_id: String,
    /// What became of it.
    pub status: ReceivedStatus,
    /// When it first came.
    #[schema(format = DateTime)]
    pub received_at: String,
    /// When it last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
    /// How often it came again.
    pub duplicates: u64,
    /// How often it was processed.
    pub attempts: u32,
    /// What was done, or why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<WebhookOutcome>,
}

/// An event with what it carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedWebhook {
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: ReceivedWebhookSummary,
    /// Its headers, without signatures and secrets.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Its body as text; what is not UTF-8 is replaced.
    pub raw_body: String,
}

/// What was done about an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookOutcome {
    /// Why nothing was tried, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// One for each action of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<WebhookActionOutcome>,
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookActionOutcome {
    /// `settle`, `start` or `signal`.
    pub action: String,
    /// What came of it.
    pub status: WebhookActionStatus,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The promise that was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise_id: Option<String>,
    /// The run that was started or sent the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// What came of an action, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookActionStatus {
    /// It is done, now or before.
    Applied,
    /// Its `when` does not hold.
    Skipped,
    /// What it is for is not there; a settlement is kept for its promise.
    Unmatched,
    /// It could not be done.
    Failed,
}

/// Processes events once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReprocessWebhooks {
    /// Only those of this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Those with this status.
    pub status: ReceivedStatus,
    /// How many at most: the newest, of which the oldest is processed first.
    #[schema(minimum = 1, maximum = 100)]
    pub limit: u64,
    /// Only those before the ones that an earlier answer told of: its `nextCursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprocessedWebhooks {
    /// Each, as it stands now.
    pub items: Vec<ReceivedWebhookSummary>,
    /// Where those before them are; absent if there are none.
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
