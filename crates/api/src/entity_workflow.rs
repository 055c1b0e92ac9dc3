//! Entity workflows: the statuses of business objects, and the steps between them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;

/// Uploads an entity workflow. The published JSON Schema of entity workflows describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct PutEntityWorkflow(
    /// The document: `{name, module, entity, status_types, steps, …}`.
    pub RawJson,
);

/// A transient status, and the module that frees it after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimCover {
    /// The transient status.
    pub claim_into: String,
    /// Status that a freed claim returns to.
    pub revert_to: String,
    /// The module whose janitor covers it; absent if none does on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_by: Option<String>,
}

/// An entity workflow in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityWorkflowSummary {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The module that owns it.
    pub module: String,
    /// Type of entity that it moves.
    pub entity_type: String,
    /// Table of the operator that holds the entities; absent if Hapax's own table holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Purpose of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its transient statuses.
    pub claims: Vec<ClaimCover>,
    /// Rises with each change, for `If-Match`.
    pub version: u64,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    pub changed_at: String,
}

/// An entity workflow with its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntityWorkflow {
    /// Summary, as in lists.
    #[serde(flatten)]
    pub summary: EntityWorkflowSummary,
    /// The document in its canonical form.
    pub document: RawJson,
    /// Warnings about the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::DefinitionProblem>,
}

/// Format of a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagramFormat {
    /// Mermaid source text.
    #[default]
    Mermaid,
    /// An SVG image.
    Svg,
}

impl DiagramFormat {
    /// Spelling in the query.
    pub const fn as_str(self) -> &'static str {
        match self {
            DiagramFormat::Mermaid => "mermaid",
            DiagramFormat::Svg => "svg",
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            DiagramFormat::Mermaid => "text/vnd.mermaid",
            DiagramFormat::Svg => "image/svg+xml",
        }
    }
}
