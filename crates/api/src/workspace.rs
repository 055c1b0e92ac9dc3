//! Workspaces, which own runs, definitions and credentials.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Creates a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWorkspace {
    /// Its name: letters, digits, `.`, `_`, `-`.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub description: Option<String>,
}

/// One workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub created_at: String,
}
