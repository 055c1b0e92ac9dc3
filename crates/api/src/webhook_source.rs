//! Webhook sources: whom to believe, how to tell events apart, and what to do with them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ActivationStatus, RawJson};

/// Uploads a source. What it may hold is said by the published JSON Schema of webhook sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct PutWebhookSource(
    /// The document: `{name, preset?, signature?, secrets?, eventId?, filter?, actions}`.
    pub RawJson,
);

/// Whether webhooks of a source are taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SourceStatus {
    /// They are.
    Enabled,
    /// They are refused, as those of a source that does not exist; what came before is still processed.
    Disabled,
    /// The same, and it is not shown any more. One that is made under its name has its address, and remembers what came.
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
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How its webhooks are signed.
    pub scheme: String,
    /// Are its webhooks taken in?
    pub status: SourceStatus,
    /// Why it is disabled, or was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Rises with each change, for `If-Match`.
    pub version: u64,
    /// Where the provider sends its webhooks, below the address of the server.
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
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: WebhookSourceSummary,
    /// The document, with what its preset stands for in place of the preset.
    pub document: RawJson,
    /// What somebody should look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::DefinitionProblem>,
}

/// Enables or disables a source. To replace what it says, send its document with `PUT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeWebhookSource {
    /// `disabled` refuses its webhooks; what was accepted before is still processed. `enabled` accepts them again.
    pub status: ActivationStatus,
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}
