//! Checks a source: returns a usable source, or all of its problems.

use std::fmt;

use hapax_engine::model::canonical_json;

use super::Source;
use crate::check::DeclaredNames;
use crate::decode::decode_source;
use crate::node::{Format, read, text_of};
use crate::problem::{Problem, Problems};

/// A source without errors.
#[derive(Clone, PartialEq)]
pub struct CheckedSource {
    source: Source,
    canonical: String,
    warnings: Vec<Problem>,
}

impl CheckedSource {
    /// The source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Canonical text of the source. Sources with the same meaning have the same text, whatever their format, order,
    /// spacing and preset.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Warnings.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

impl fmt::Debug for CheckedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}", self.source.name)
    }
}

/// Checks a source. Returns all errors and warnings if it has errors.
pub fn check_source(
    text: &str,
    format: Format,
    known: &DeclaredNames,
) -> Result<CheckedSource, Vec<Problem>> {
    let mut problems = Problems::default();
    let source =
        read(text, format, &mut problems).and_then(|node| decode_source(&node, known, &mut problems));
    let Some(source) = source.filter(|_| !problems.has_errors()) else {
        return Err(problems.into_vec());
    };
    match serde_json::to_value(&source).map(|value| canonical_json(&value)) {
        Ok(canonical) => Ok(CheckedSource { source, canonical, warnings: problems.into_vec() }),
        Err(error) => {
            problems.error("", None, "syntax", format!("it cannot be written as JSON: {error}"));
            Err(problems.into_vec())
        }
    }
}

/// Like [`check_source`], for bytes that may not be UTF-8.
pub fn check_source_bytes(
    bytes: &[u8],
    format: Format,
    known: &DeclaredNames,
) -> Result<CheckedSource, Vec<Problem>> {
    match text_of(bytes) {
        Ok(text) => check_source(text, format, known),
        Err(problem) => Err(vec![problem]),
    }
}
