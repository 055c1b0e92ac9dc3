//! Workflow definitions: documents with a name, a version and steps.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;

/// Must a run of the definition be named by a key?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyRule {
    /// It may be.
    #[default]
    Optional,
    /// It must be.
    Required,
}

/// Whether a definition starts new runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionStatus {
    /// It starts runs.
    #[default]
    Active,
    /// It starts no new runs; runs that began with it go on.
    Archived,
}

/// Archives a definition, or takes it out of the archive.
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

/// Uploads a definition. What `steps` and the other members may hold is said by the published JSON Schema of documents.
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
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Must a run be named by a key?
    pub idempotency: KeyRule,
    /// Whether it starts new runs.
    pub status: DefinitionStatus,
    /// Rises when its status changes, for `If-Match`. What it says never changes.
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
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Must a run be named by a key?
    pub idempotency: KeyRule,
    /// The document as uploaded.
    pub document: RawJson,
    /// SHA-256 of the document in canonical form, in hex.
    pub digest: String,
    /// Whether it starts new runs.
    pub status: DefinitionStatus,
    /// Rises when its status changes, for `If-Match`. What it says never changes.
    pub revision: u64,
    /// When it was uploaded.
    #[schema(format = DateTime)]
    pub created_at: String,
}

/// One error of a document, in `problems` of `definition_invalid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionProblem {
    /// Where, as a JSON pointer.
    pub path: String,
    /// Which rule, in one word.
    pub rule: String,
    /// What is wrong and what to do.
    pub message: String,
}
