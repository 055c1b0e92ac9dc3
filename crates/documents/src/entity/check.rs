//! Checks an entity workflow: returns a usable document, or all of its problems.

use std::collections::BTreeSet;
use std::fmt;

use hapax_engine::model::{Name, canonical_json};

use super::EntityDocument;
use crate::check::DeclaredNames;
use crate::decode::decode_entity;
use crate::node::{Format, Kind, Node, read, text_of};
use crate::problem::{Position, Problem, Problems, Severity};

/// An entity workflow without errors.
#[derive(Clone, PartialEq)]
pub struct CheckedEntity {
    document: EntityDocument,
    canonical: String,
    warnings: Vec<Problem>,
    /// Where the document names its module.
    module_at: Option<Position>,
}

impl CheckedEntity {
    /// The document.
    pub fn document(&self) -> &EntityDocument {
        &self.document
    }

    /// Canonical text of the document. Documents with the same meaning have the same text, whatever their format,
    /// order, spacing and spelling of claims.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Warnings.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }

    /// Returns a problem if no janitor of these modules covers a claim, so that nothing would free it after a crash.
    pub fn check_coverage(&self, modules: &BTreeSet<Name>) -> Option<Problem> {
        let uncovered = self.document.workflow.find_uncovered(modules)?;
        let (path, message) = ("/module".to_string(), uncovered.to_string());
        let code = "uncovered_claim_state";
        Some(Problem { severity: Severity::Error, path, code, message, at: self.module_at })
    }
}

impl fmt::Debug for CheckedEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entity workflow {}", self.document.workflow.name)
    }
}

/// Checks an entity workflow. Returns all errors and warnings if it has errors. The host checks whether a janitor
/// covers its claims ([`hapax_engine::model::EntityWorkflow::find_uncovered`]).
pub fn check_entity(
    text: &str,
    format: Format,
    known: &DeclaredNames,
) -> Result<CheckedEntity, Vec<Problem>> {
    let mut problems = Problems::default();
    let node = read(text, format, &mut problems);
    let document = node.as_ref().and_then(|node| decode_entity(node, known, &mut problems));
    let module_at = node.as_ref().and_then(|node| node.find("module")).and_then(|node| node.at);
    let Some(document) = document.filter(|_| !problems.has_errors()) else {
        return Err(problems.into_vec());
    };
    match serde_json::to_value(&document).map(|value| canonical_json(&value)) {
        Ok(canonical) => Ok(CheckedEntity { document, canonical, warnings: problems.into_vec(), module_at }),
        Err(error) => {
            problems.error("", None, "syntax", format!("it cannot be written as JSON: {error}"));
            Err(problems.into_vec())
        }
    }
}

/// Like [`check_entity`], for bytes that may not be UTF-8.
pub fn check_entity_bytes(
    bytes: &[u8],
    format: Format,
    known: &DeclaredNames,
) -> Result<CheckedEntity, Vec<Problem>> {
    match text_of(bytes) {
        Ok(text) => check_entity(text, format, known),
        Err(problem) => Err(vec![problem]),
    }
}

/// Returns true if the document is an entity workflow: it says so, or has `statusTypes` or steps with a `stepKey`,
/// which no other document has.
pub fn is_entity(bytes: &[u8]) -> bool {
    let Ok(text) = text_of(bytes) else { return false };
    let Some(node) = read(text, Format::Any, &mut Problems::default()) else {
        // The text cannot be parsed, so look at its lines.
        return text.lines().any(|line| {
            let line = line.trim_start_matches(['{', ' ', '"']);
            ["statusTypes", "status_types"].iter().any(|name| line.starts_with(name))
                || line.trim_end() == "kind: entity"
        });
    };
    let says_so = node.find("kind").is_some_and(|kind| kind.kind == Kind::Text("entity".into()));
    let steps = match node.find("steps").map(|steps| &steps.kind) {
        Some(Kind::List(steps)) => steps.as_slice(),
        _ => &[],
    };
    let has = |node: &Node, names: [&str; 2]| names.iter().any(|name| node.find(name).is_some());
    says_so
        || has(&node, ["statusTypes", "status_types"])
        || steps.iter().any(|step| has(step, ["stepKey", "step_key"]))
}
