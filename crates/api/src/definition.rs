//! Workflow definitions: documents with a name, a version and steps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;

/// Idempotency-key requirement of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyRule {
    /// A key is optional.
    #[default]
    Optional,
    /// A key is required.
    Required,
}

/// Status of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionStatus {
    /// It starts runs.
    #[default]
    Active,
    /// It starts no new runs; runs that began with it go on.
    Archived,
}

/// Archives or unarchives a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeDefinition {
    /// `archived` starts no new runs; `active` starts them again.
    pub status: DefinitionStatus,
    /// Why; kept in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub reason: Option<String>,
}

/// Uploads a definition. The published JSON Schema of documents describes `steps` and the other
/// members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct CreateDefinition(
    /// The document: `{name, version, description?, steps, …}`.
    pub RawJson,
);

/// A definition in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionSummary {
    /// Its id, for `definitionId` of a run.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Purpose of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Key requirement of its runs.
    pub idempotency: KeyRule,
    /// Status of the definition.
    pub status: DefinitionStatus,
    /// Rises when the status changes, for `If-Match`. The content never changes.
    pub revision: u64,
    /// When it was uploaded.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// A definition with its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its id, for `definitionId` of a run.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Purpose of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Key requirement of its runs.
    pub idempotency: KeyRule,
    /// The document as uploaded.
    pub document: RawJson,
    /// SHA-256 of the document in canonical form, in hex.
    pub digest: String,
    /// Status of the definition.
    pub status: DefinitionStatus,
    /// Rises when the status changes, for `If-Match`. The content never changes.
    pub revision: u64,
    /// When it was uploaded.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// One error of a document, in `problems` of `definition_invalid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionProblem {
    /// JSON Pointer to the place.
    pub path: String,
    /// Name of the broken rule.
    pub rule: String,
    /// Explanation of the error, and its remedy.
    pub message: String,
}
