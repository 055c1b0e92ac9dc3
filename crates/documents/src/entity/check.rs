//! Checking an entity workflow: text in, and either a document that can be used or everything that is wrong with it.

use std::fmt;

use hapax_engine::model::canonical_json;

use super::EntityDocument;
use crate::check::Known;
use crate::decode::decode_entity;
use crate::node::{Format, Kind, read, text_of};
use crate::problem::{Problem, Problems};

/// An entity workflow in which no error was found.
#[derive(Clone, PartialEq)]
pub struct CheckedEntity {
    document: EntityDocument,
    canonical: String,
    warnings: Vec<Problem>,
}

impl CheckedEntity {
    /// The document.
    pub fn document(&self) -> &EntityDocument {
        &self.document
    }

    /// The document as one text: two that mean the same have the same, whatever their format, order, spacing and spelling of claims.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// What somebody should look at.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

impl fmt::Debug for CheckedEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entity workflow {}", self.document.workflow.name)
    }
}

/// Checks an entity workflow, or tells all that is wrong with it, errors and warnings. Whether a janitor covers its claims is for the
/// host to say ([`hapax_engine::model::EntityWorkflow::find_uncovered`]).
pub fn check_entity(text: &str, format: Format, known: &Known) -> Result<CheckedEntity, Vec<Problem>> {
    let mut problems = Problems::default();
    let document =
        read(text, format, &mut problems).and_then(|node| decode_entity(&node, known, &mut problems));
    let Some(document) = document.filter(|_| !problems.has_errors()) else {
        return Err(problems.into_vec());
    };
    match serde_json::to_value(&document).map(|value| canonical_json(&value)) {
        Ok(canonical) => Ok(CheckedEntity { document, canonical, warnings: problems.into_vec() }),
        Err(error) => {
            problems.error("", None, "syntax", format!("it cannot be written as JSON: {error}"));
            Err(problems.into_vec())
        }
    }
}

/// The same for bytes, which may not be text at all.
pub fn check_entity_bytes(
    bytes: &[u8],
    format: Format,
    known: &Known,
) -> Result<CheckedEntity, Vec<Problem>> {
    match text_of(bytes) {
        Ok(text) => check_entity(text, format, known),
        Err(problem) => Err(vec![problem]),
    }
}

/// Is it meant as an entity workflow? Those say so, or have `status_types` or steps with a `step_key`, as no other document has.
pub fn is_entity(bytes: &[u8]) -> bool {
    let Ok(text) = text_of(bytes) else { return false };
    let node = read(text, Format::Any, &mut Problems::default());
    match node.map(|node| node.kind) {
        Some(Kind::Object(fields)) => {
            let has = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, node)| &node.kind);
            let says_so = matches!(has("kind"), Some(Kind::Text(kind)) if kind == "entity");
            let is_entity_step = |kind: &Kind| matches!(kind, Kind::Object(fields) if fields.iter().any(|(key, _)| key == "step_key"));
            let has_steps = matches!(has("steps"), Some(Kind::List(steps)) if steps.iter().any(|step| is_entity_step(&step.kind)));
            says_so || has("status_types").is_some() || has_steps
        }
        Some(_) => false,
        // It cannot be read; then its lines are all there is to go by.
        None => text.lines().any(|line| {
            let line = line.trim_start_matches(['{', ' ', '"']);
            line.starts_with("status_types") || line == "kind: entity"
        }),
    }
}
