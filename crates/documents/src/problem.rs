//! Problems of a document: all at once, each with its position and a remedy.

use std::fmt;

use serde::Serialize;

use crate::limits::MAX_PROBLEMS;

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document can be used, but has a weakness.
    Warning,
}

/// A position in the text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character within the line.
    pub column: u32,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// JSON pointer into the document; empty for the document as a whole.
    pub path: String,
    /// A short stable code.
    pub code: &'static str,
    /// The problem, and what to do about it.
    pub message: String,
    /// Position in the text, if known.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}")?;
        if let Some(at) = self.at {
            write!(f, " at {}:{}", at.line, at.column)?;
        }
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, " in {path}: {} ({})", self.message, self.code)
    }
}

/// Collects problems, up to [`MAX_PROBLEMS`] of them.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    left_off: usize,
    errors: usize,
}

impl Problems {
    pub(crate) fn error(
        &mut self,
        path: &str,
        at: Option<Position>,
        code: &'static str,
        message: impl fmt::Display,
    ) {
        self.errors += 1;
        self.add(Severity::Error, path, at, code, message);
    }

    pub(crate) fn warn(
        &mut self,
        path: &str,
        at: Option<Position>,
        code: &'static str,
        message: impl fmt::Display,
    ) {
        self.add(Severity::Warning, path, at, code, message);
    }

    fn add(
        &mut self,
        severity: Severity,
        path: &str,
        at: Option<Position>,
        code: &'static str,
        message: impl fmt::Display,
    ) {
        debug_assert!(path.is_empty() || path.starts_with('/'), "{path} is no JSON Pointer");
        if self.found.len() >= MAX_PROBLEMS {
            self.left_off += 1;
            return;
        }
        self.found.push(Problem { severity, path: path.to_string(), code, message: message.to_string(), at });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// All problems, in the order of the text.
    pub(crate) fn into_vec(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.at.map_or((0, 0), |at| (at.line, at.column)));
        if self.left_off > 0 {
            self.found.push(Problem {
                severity: if self.has_errors() { Severity::Error } else { Severity::Warning },
                path: String::new(),
                code: "too_many_problems",
                message: format!("{} more are not listed; mend these first", self.left_off),
                at: None,
            });
        }
        self.found
    }
}

/// A JSON pointer extended by one step.
pub(crate) fn below(path: &str, key: impl fmt::Display) -> String {
    format!("{path}/{}", key.to_string().replace('~', "~0").replace('/', "~1"))
}

/// The beginning of a text, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
