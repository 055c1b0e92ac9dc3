//! The kind of a document, read from its fields.

use hapax_documents::is_entity;
use serde::Serialize;

/// Kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DocumentKind {
    Workflow,
    Source,
    Entity,
}

impl DocumentKind {
    /// Kind of the document in `bytes`. What has no telling field is taken for a workflow.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match (is_entity(bytes), is_source(bytes)) {
            (true, _) => DocumentKind::Entity,
            (false, true) => DocumentKind::Source,
            (false, false) => DocumentKind::Workflow,
        }
    }
}

/// A webhook source has `actions` where the others have `steps`.
fn is_source(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let has = |field: &str| match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(document) => document.get(field).is_some(),
        Err(_) => {
            text.lines().any(|line| line.trim_start_matches(['{', ' ']).starts_with(&format!("{field}:")))
        }
    };
    has("actions") && !has("steps")
}
