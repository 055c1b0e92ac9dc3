//! Checks a document: returns a runnable document, or all of its problems.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hapax_engine::model::canonical_json;

use crate::decode::decode;
use crate::model::Document;
use crate::node::{Format, read, text_of};
use crate::problem::{Problem, Problems};

type TextCheck = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// Check of the fixed part of a request's address; returns the reason if no request may go there.
#[derive(Clone)]
pub struct JudgeAddress(Arc<TextCheck>);

impl JudgeAddress {
    /// Wraps a function.
    pub fn new(judge: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        JudgeAddress(Arc::new(judge))
    }

    pub(crate) fn judge(&self, url: &str) -> Result<(), String> {
        (self.0)(url)
    }
}

impl fmt::Debug for JudgeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JudgeAddress")
    }
}

/// Names and addresses that documents may use. A field that is `None` is not checked.
#[derive(Debug, Clone, Default)]
pub struct DeclaredNames {
    /// Names of tasks that have a handler. Any other name is an error.
    pub tasks: Option<BTreeSet<String>>,
    /// Names of workflows that can be started. Any other name is a warning, because the workflow may be added later.
    pub workflows: Option<BTreeSet<String>>,
    /// Names of secrets. Any other name is a warning, because the secret may be added later.
    pub secrets: Option<BTreeSet<String>>,
    /// Rules for the destinations of requests. A forbidden address is an error if the document states it instead of
    /// computing it.
    pub addresses: Option<JudgeAddress>,
}

/// A document without errors.
#[derive(Clone, PartialEq)]
pub struct Checked {
    document: Document,
    canonical: String,
    warnings: Vec<Problem>,
}

impl Checked {
    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Canonical text of the document. Documents with the same meaning have the same text, whatever their format, order and spacing.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Warnings.
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.document.name, self.document.version)
    }
}

/// Checks a document. Returns all errors and warnings if it has errors.
pub fn check(text: &str, format: Format, known: &DeclaredNames) -> Result<Checked, Vec<Problem>> {
    let mut problems = Problems::default();
    let document = read(text, format, &mut problems).and_then(|node| decode(&node, known, &mut problems));
    let Some(document) = document.filter(|_| !problems.has_errors()) else {
        return Err(problems.into_vec());
    };
    let canonical = serde_json::to_value(&document).map(|value| canonical_json(&value));
    match canonical {
        Ok(canonical) => Ok(Checked { document, canonical, warnings: problems.into_vec() }),
        Err(error) => {
            problems.error("", None, "syntax", format!("it cannot be written as JSON: {error}"));
            Err(problems.into_vec())
        }
    }
}

/// Like [`check`], for bytes that may not be UTF-8.
pub fn check_bytes(bytes: &[u8], format: Format, known: &DeclaredNames) -> Result<Checked, Vec<Problem>> {
    match text_of(bytes) {
        Ok(text) => check(text, format, known),
        Err(problem) => Err(vec![problem]),
    }
}
