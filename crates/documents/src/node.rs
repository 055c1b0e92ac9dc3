//! The parsed text of a document: values with their positions, independent of the format.

use serde_json::Value;

use crate::problem::{Position, Problem, Problems, Severity};

mod json;
mod yaml;

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// JSON if it begins with a brace, YAML otherwise.
    #[default]
    Any,
    /// JSON.
    Json,
    /// YAML 1.2, one document, without merge keys and tags.
    Yaml,
}

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<Position>,
    pub(crate) kind: Kind,
}

/// Its content. Objects keep their order, and no key occurs twice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Object(_) => "an object",
        }
    }

    /// The field of this name, if the value is an object that has it.
    pub(crate) fn find(&self, field: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Object(fields) => fields.iter().find(|(key, _)| key == field).map(|(_, node)| node),
            _ => None,
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(flag) => Value::Bool(*flag),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Kind::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), value.to_value())).collect())
            }
        }
    }
}

/// Reads text into a tree. Reports all duplicate keys and disallowed values together if the format allows it.
pub(crate) fn read(text: &str, format: Format, problems: &mut Problems) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > crate::limits::MAX_DOCUMENT_BYTES {
        let limit = crate::limits::MAX_DOCUMENT_BYTES;
        let message = format!("the document has {} bytes; {limit} are allowed: split it", text.len());
        problems.error("", None, "too_large", message);
        return None;
    }
    if text.trim().is_empty() {
        problems.error("", None, "empty", "there is nothing in it; a document has at least a name");
        return None;
    }
    let is_json = match format {
        Format::Json => true,
        Format::Yaml => false,
        Format::Any => text.trim_start().starts_with('{'),
    };
    match is_json {
        true => json::read(text, problems),
        false => yaml::read(text, problems),
    }
}

/// Reads JSON from outside by the same rules: no duplicate key, no excessive depth or size, no number that would lose precision.
pub(crate) fn read_json(text: &str) -> Result<Value, Problem> {
    let mut problems = Problems::default();
    let node = json::read(text, &mut problems);
    let found = problems.into_vec().into_iter().next();
    match (node, found) {
        (Some(node), None) => Ok(node.to_value()),
        (_, Some(problem)) => Err(problem),
        (None, None) => Err(Problem {
            severity: Severity::Error,
            path: String::new(),
            code: "syntax",
            message: "it is not JSON".to_string(),
            at: None,
        }),
    }
}

/// Checks that bytes are UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| Problem {
        severity: Severity::Error,
        path: String::new(),
        code: "not_utf8",
        message: format!("byte {} is not UTF-8: save the document as UTF-8", error.valid_up_to()),
        at: None,
    })
}

/// Not every store can hold NUL.
fn check_text(text: &str, path: &str, at: Option<Position>, problems: &mut Problems) {
    if text.contains('\0') {
        problems.error(path, at, "nul", "a text holds NUL (\\u0000), which not every store can keep");
    }
}
