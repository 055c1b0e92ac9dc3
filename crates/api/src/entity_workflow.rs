//! Entity workflows: which statuses business objects know, and which steps move them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RawJson;

/// Uploads an entity workflow. What it may hold is said by the published JSON Schema of entity workflows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct PutEntityWorkflow(
    /// The document: `{name, module, entity, status_types, steps, …}`.
    pub RawJson,
);

/// A status that claims lead into, and who frees what a crash leaves there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimCover {
    /// The transient status.
    pub claim_into: String,
    /// Where it goes back to.
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
    /// What type of entity it moves.
    pub entity_type: String,
    /// The table of the operator's that the entities live in; absent if they live in Hapax's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// What it is for.
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
    /// What lists show of it.
    #[serde(flatten)]
    pub summary: EntityWorkflowSummary,
    /// The document in its canonical form.
    pub document: RawJson,
    /// What somebody should look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<crate::DefinitionProblem>,
}

/// In what an entity workflow is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagramFormat {
    /// As text that Mermaid draws.
    #[default]
    Mermaid,
    /// As a picture.
    Svg,
}

impl DiagramFormat {
    /// As the query spells it.
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
