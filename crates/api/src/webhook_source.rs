//! Webhook sources: who signs, how to tell events apart, and what to do with them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ActivationStatus, RawJson};

/// Uploads a source. The published JSON Schema of webhook sources describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct PutWebhookSource(
    /// The document: `{name, preset?, signature?, secrets?, eventId?, filter?, actions}`.
    pub RawJson,
);

/// Status of a webhook source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// Its webhooks are accepted.
    Enabled,
    /// Its webhooks are rejected as if the source did not exist; earlier events are still
    /// processed.
    Disabled,
    /// Like disabled, and no longer listed. A new source with this name gets the same address and
    /// the same events.
    Deleted,
}

/// A source in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSourceSummary {
    /// Its id, which is in its address.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Purpose of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How its webhooks are signed.
    pub scheme: String,
    /// Status of the source.
    pub status: SourceStatus,
    /// Why it is disabled, or was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Rises with each change, for `If-Match`.
    pub version: u64,
    /// Path that the provider sends its webhooks to, below the address of the server.
    pub path: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
}

/// A source with its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSource {
    /// Summary, as in lists.
    #[serde(flatten)]
    pub summary: WebhookSourceSummary,
    /// The document, with its preset expanded.
    pub document: RawJson,
    /// Warnings about the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::DefinitionProblem>,
}

/// Enables or disables a source. To replace its document, use `PUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeWebhookSource {
    /// `disabled` rejects its webhooks; earlier events are still processed. `enabled` accepts them
    /// again.
    pub status: ActivationStatus,
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}
