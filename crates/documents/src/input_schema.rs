//! The input schema of a document: a JSON Schema that the input of every run must match.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use hapax_engine::model::Payload;
use hapax_engine::runtime::{InputCheck, InputProblem};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Draft, JsonType, PatternOptions, ValidationError, Validator};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::limits::{MAX_INPUT_PATTERN_BYTES, MAX_INPUT_PROBLEMS};
use crate::problem::{below, excerpt};

/// The draft that input schemas are written in.
pub(crate) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keyword that marks a property as sensitive.
const SENSITIVE: &str = "x-sensitive";

/// A JSON Schema (draft 2020-12), compiled. Only checking a document creates one.
#[derive(Clone)]
pub struct InputSchema {
    schema: Value,
    validator: Arc<Validator>,
}

impl InputSchema {
    /// Compiles a schema. Patterns are matched in linear time, `format` is checked, and nothing outside the schema is ever loaded.
    pub(crate) fn compile(schema: Value) -> Result<Self, Box<ValidationError<'static>>> {
        let validator = options().build(&schema)?;
        Ok(InputSchema { schema, validator: Arc::new(validator) })
    }

    /// The source text of the schema.
    pub fn as_value(&self) -> &Value {
        &self.schema
    }

    /// Adds the names of properties that are marked with `x-sensitive: true`, at any depth.
    pub(crate) fn find_sensitive(&self, names: &mut BTreeSet<String>) {
        let mut left = vec![&self.schema];
        while let Some(schema) = left.pop() {
            match schema {
                Value::Object(fields) => {
                    for properties in ["properties", "patternProperties"] {
                        let named = fields.get(properties).and_then(Value::as_object).into_iter().flatten();
                        let marked =
                            named.filter(|(_, schema)| schema.get(SENSITIVE) == Some(&Value::Bool(true)));
                        names.extend(marked.map(|(name, _)| name.clone()));
                    }
                    left.extend(fields.values());
                }
                Value::Array(items) => left.extend(items),
                _ => {}
            }
        }
    }

    /// Checks an input. All problems are returned, up to a limit.
    pub fn check(&self, input: &Value) -> Result<(), Vec<InputProblem>> {
        let problems: Vec<InputProblem> =
            self.validator.iter_errors(input).flat_map(describe).take(MAX_INPUT_PROBLEMS).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

impl fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InputSchema").field(&self.schema).finish()
    }
}

impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.schema.serialize(serializer)
    }
}

/// Returns true if `format: name` is checked. Other formats are annotations for people.
pub(crate) fn is_known_format(name: &str) -> bool {
    options().is_known_format(Draft::Draft202012, name)
}

fn options<'i>() -> jsonschema::ValidationOptions<'i> {
    let patterns =
        PatternOptions::regex().size_limit(MAX_INPUT_PATTERN_BYTES).dfa_size_limit(MAX_INPUT_PATTERN_BYTES);
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(patterns)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
}

/// The check of each new run's input: it must be an object, and match the schema if there is one.
pub(crate) fn input_check(schema: Option<InputSchema>) -> InputCheck {
    InputCheck::new(move |input: &Payload| {
        let refused = |rule: &str, message: &str| {
            vec![InputProblem { path: String::new(), rule: rule.into(), message: message.into() }]
        };
        if !input.as_str().trim_start().starts_with('{') {
            return Err(refused("type", "must be an object"));
        }
        let Some(schema) = &schema else { return Ok(()) };
        match input.to::<Value>() {
            Ok(value) => schema.check(&value),
            Err(_) => Err(refused("type", "cannot be read as JSON")),
        }
    })
}

/// The expected values of one error. Values of the input are never repeated, because they may be large or secret.
pub(crate) fn describe(error: ValidationError<'_>) -> Vec<InputProblem> {
    let path = error.instance_path().as_str().to_string();
    let rule = error.kind().keyword().to_string();
    let at = |path: String, message: String| InputProblem { path, rule: rule.clone(), message };
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![at(below(&path, excerpt(name)), "is missing".into())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| at(below(&path, excerpt(name)), "is not a field of the input schema".into()))
            .collect(),
        kind => {
            let message = expected(kind, error.instance());
            vec![at(path, message)]
        }
    }
}

fn expected(kind: &ValidationErrorKind, found: &Value) -> String {
    use ValidationErrorKind as K;
    match kind {
        K::Type { kind: TypeKind::Single(one) } => {
            format!("must be {}, but is {}", type_name(*one), value_name(found))
        }
        K::Type { kind: TypeKind::Multiple(set) } => {
            let names: Vec<&str> = set.iter().map(type_name).collect();
            format!("must be {}, but is {}", names.join(" or "), value_name(found))
        }
        K::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let shown: Vec<String> = options.iter().take(10).map(value_excerpt).collect();
            let more = if options.len() > shown.len() { ", …" } else { "" };
            format!("must be one of {}{more}", shown.join(", "))
        }
        K::Constant { expected_value } => format!("must be {}", value_excerpt(expected_value)),
        K::Minimum { limit } => format!("must be at least {limit}"),
        K::Maximum { limit } => format!("must be at most {limit}"),
        K::ExclusiveMinimum { limit } => format!("must be greater than {limit}"),
        K::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        K::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        K::MinLength { limit } => format!("must have at least {limit} character(s)"),
        K::MaxLength { limit } => format!("must have at most {limit} character(s)"),
        K::MinItems { limit } => format!("must have at least {limit} item(s)"),
        K::MaxItems { limit } => format!("must have at most {limit} item(s)"),
        K::MinProperties { limit } => format!("must have at least {limit} field(s)"),
        K::MaxProperties { limit } => format!("must have at most {limit} field(s)"),
        K::AdditionalItems { limit } => format!("must have at most {limit} item(s)"),
        K::UnevaluatedItems { .. } => "has items that the input schema does not allow".into(),
        K::UniqueItems => "must not have the same item twice".into(),
        K::Contains => "has no item, or not the right number of items, that match `contains`".into(),
        K::Pattern { pattern } => format!("must match the pattern {}", excerpt(pattern)),
        K::Format { format } => format!("must be a valid {}", excerpt(format)),
        K::PropertyNames { .. } => "has a field whose name is not allowed".into(),
        K::AnyOf { .. } => "matches none of the schemas in `anyOf`".into(),
        K::OneOfNotValid { .. } => "matches none of the schemas in `oneOf`".into(),
        K::OneOfMultipleValid { .. } => "matches more than one of the schemas in `oneOf`".into(),
        K::Not { .. } => "matches the schema in `not`".into(),
        K::FalseSchema => "is not allowed".into(),
        K::ContentEncoding { content_encoding } => {
            format!("must be encoded as {}", excerpt(content_encoding))
        }
        K::ContentMediaType { content_media_type } => {
            format!("must hold {}", excerpt(content_media_type))
        }
        other => format!("does not match `{}`", other.keyword()),
    }
}

fn value_excerpt(value: &Value) -> String {
    excerpt(&value.to_string())
}

fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

fn value_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
