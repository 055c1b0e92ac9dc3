//! The input schema, checked together with its document.
//!
//! A schema is data that decides how much work a start costs. So its text, its nesting and the number of schemas after
//! following every `$ref` are bounded. Recursive schemas have no such number and are refused.

use serde_json::Value;

use super::{Decoder, Located, find, nearest};
use crate::input_schema::{DIALECT, InputSchema, describe, is_known_format};
use crate::limits::{
    MAX_INPUT_SCHEMA_BYTES, MAX_INPUT_SCHEMA_DEPTH, MAX_INPUT_SCHEMA_SCHEMAS, MAX_INPUT_SCHEMA_UNEVALUATED,
};
use crate::problem::{below, excerpt};

/// Keywords whose value is one schema.
const ONE: &[&str] = &[
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas that apply on their own.
const MAP: &[&str] = &["dependentSchemas", "patternProperties", "properties"];
/// All other keywords of the draft that an input schema may use.
const PLAIN: &[&str] = &[
    "$comment",
    "$defs",
    "$ref",
    "$schema",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
];
/// Keywords of the draft that refer to schemas by name. `$ref` with a pointer covers everything an input schema needs.
const REFUSED: &[&str] = &["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary"];
/// Keywords of older drafts, with their replacements.
const OUTDATED: &[(&str, &str)] = &[
    ("additionalItems", "`items` beside `prefixItems`"),
    ("definitions", "`$defs`"),
    ("dependencies", "`dependentRequired` or `dependentSchemas`"),
    ("$recursiveAnchor", "`$defs`"),
    ("$recursiveRef", "`$ref`"),
];

impl Decoder<'_> {
    /// The schema, if it has no errors.
    pub(super) fn input_schema(&mut self, place: &Located<'_>) -> Option<InputSchema> {
        let before = self.problems.errors();
        self.object(place)?;
        let schema = place.node.to_value();
        let bytes = schema.to_string().len();
        if bytes > MAX_INPUT_SCHEMA_BYTES {
            let message =
                format!("the input schema has {bytes} bytes of JSON; {MAX_INPUT_SCHEMA_BYTES} are allowed");
            self.error(place, "too_large", message);
            return None;
        }
        self.check_root_type(place, &schema);
        let mut walk =
            SchemaWalk { root: &schema, found: Vec::new(), open: Vec::new(), schemas: 0, unevaluated: 0 };
        walk.schema(&schema, "");
        walk.definitions();
        for Finding { path, code, message, is_error } in walk.found {
            let at = find(place.node, &path).and_then(|node| node.at).or(place.at());
            let path = format!("{}{path}", place.path);
            match is_error {
                true => self.problems.error(&path, at, code, message),
                false => self.problems.warn(&path, at, code, message),
            }
        }
        if self.problems.errors() > before {
            return None;
        }
        self.check_by_meta_schema(place, &schema);
        if self.problems.errors() > before {
            return None;
        }
        match InputSchema::compile(schema) {
            Ok(schema) => Some(schema),
            Err(error) => {
                let path = error.instance_path().as_str().to_string();
                self.schema_error(
                    place,
                    &path,
                    format!("the schema cannot be used: {}", excerpt_long(&error)),
                );
                None
            }
        }
    }

    /// The input of a run is always an object.
    fn check_root_type(&mut self, place: &Located<'_>, schema: &Value) {
        let allows_objects = match schema.get("type") {
            Some(Value::String(one)) => one == "object",
            Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
            _ => true,
        };
        if !allows_objects {
            let message = "the input of a run is an object: write `type: object`";
            self.schema_error(place, "/type", message.into());
        }
    }

    fn check_by_meta_schema(&mut self, place: &Located<'_>, schema: &Value) {
        let validator = jsonschema::draft202012::meta::validator();
        let problems: Vec<_> = validator.iter_errors(schema).flat_map(describe).collect();
        for problem in problems {
            let message = match problem.path.ends_with("/type") {
                true => {
                    "it is not a type: use array, boolean, integer, null, number, object or string".into()
                }
                false => format!("it {}", problem.message),
            };
            self.schema_error(place, &problem.path, message);
        }
    }

    fn schema_error(&mut self, place: &Located<'_>, inside: &str, message: String) {
        let at = find(place.node, inside).and_then(|node| node.at).or(place.at());
        self.problems.error(&format!("{}{inside}", place.path), at, "bad_schema", message);
    }
}

fn excerpt_long(error: &jsonschema::ValidationError<'_>) -> String {
    let text = error.to_string();
    text.chars().take(300).collect()
}

struct Finding {
    path: String,
    code: &'static str,
    message: String,
    is_error: bool,
}

/// Visits every schema as often as it would be applied.
struct SchemaWalk<'s> {
    root: &'s Value,
    found: Vec<Finding>,
    /// Pointers of the schemas around the current one.
    open: Vec<String>,
    schemas: usize,
    unevaluated: usize,
}

impl<'s> SchemaWalk<'s> {
    fn error(&mut self, path: &str, code: &'static str, message: String) {
        // A schema with two references is visited twice and reported once.
        if !self.found.iter().any(|finding| finding.path == path && finding.code == code) {
            self.found.push(Finding { path: path.to_string(), code, message, is_error: true });
        }
    }

    /// Visits a schema. Stops for good when a limit is reached.
    fn schema(&mut self, schema: &'s Value, path: &str) {
        let Value::Object(keywords) = schema else { return };
        self.schemas += 1;
        if self.schemas > MAX_INPUT_SCHEMA_SCHEMAS {
            let message = format!(
                "it has more than {MAX_INPUT_SCHEMA_SCHEMAS} schemas once every $ref is followed; make it simpler"
            );
            return self.error("", "too_large", message);
        }
        if self.open.len() >= MAX_INPUT_SCHEMA_DEPTH {
            let message = format!(
                "schemas lie more than {MAX_INPUT_SCHEMA_DEPTH} deep inside one another, counting those that $ref leads to"
            );
            return self.error(path, "too_deep", message);
        }
        self.open.push(path.to_string());
        for (keyword, value) in keywords {
            let inside = below(path, keyword);
            match keyword.as_str() {
                "$ref" => self.reference(value, &inside),
                "$schema" => self.dialect(value, &inside, path),
                "format" => self.format(value, &inside),
                keyword if ONE.contains(&keyword) => {
                    if keyword.starts_with("unevaluated") {
                        self.unevaluated(&inside);
                    }
                    self.schema(value, &inside);
                }
                keyword if LIST.contains(&keyword) => {
                    for (place, one) in value.as_array().into_iter().flatten().enumerate() {
                        self.schema(one, &below(&inside, place));
                    }
                }
                keyword if MAP.contains(&keyword) => {
                    for (name, one) in value.as_object().into_iter().flatten() {
                        self.schema(one, &below(&inside, name));
                    }
                }
                keyword if REFUSED.contains(&keyword) => {
                    let message = format!(
                        "input schemas have no {keyword}: put shared schemas into `$defs` and name them by pointer, such as \"#/$defs/address\""
                    );
                    self.error(&inside, "bad_schema", message);
                }
                keyword if PLAIN.contains(&keyword) || keyword.starts_with("x-") => {}
                other => match OUTDATED.iter().find(|(keyword, _)| *keyword == other) {
                    Some((_, instead)) => {
                        let message = format!("{other} is of an older draft; use {instead}");
                        self.error(&inside, "bad_schema", message);
                    }
                    None => self.unknown(other, &inside),
                },
            }
        }
        self.open.pop();
    }

    /// Visits shared schemas that nothing refers to, to report their mistakes as well.
    fn definitions(&mut self) {
        let shared = self.root.get("$defs").and_then(Value::as_object);
        for (name, one) in shared.into_iter().flatten() {
            (self.schemas, self.unevaluated) = (0, 0);
            self.schema(one, &below("/$defs", name));
        }
    }

    fn reference(&mut self, value: &'s Value, path: &str) {
        let Some(text) = value.as_str() else {
            return self.error(path, "bad_schema", "it must be a string such as \"#/$defs/address\"".into());
        };
        let Some(pointer) = text.strip_prefix('#') else {
            let message = format!(
                "{:?} is outside the document, and nothing outside is loaded: copy the schema into `$defs` and name it as \"#/$defs/name\"",
                excerpt(text)
            );
            return self.error(path, "external_ref", message);
        };
        let decoded = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy().into_owned();
        let target = match decoded.as_str() {
            "" => Some(self.root),
            pointer if pointer.starts_with('/') => self.root.pointer(pointer),
            _ => None,
        };
        match target {
            Some(_) if self.open.contains(&decoded) => {
                let message = format!(
                    "{:?} leads back to a schema around it; input schemas cannot be recursive",
                    excerpt(text)
                );
                self.error(path, "recursive_schema", message);
            }
            Some(target @ (Value::Object(_) | Value::Bool(_))) => self.schema(target, &decoded),
            Some(_) | None => {
                let message = format!(
                    "{:?} leads to no schema in `input`; pointers begin at the schema, as in \"#/$defs/address\"",
                    excerpt(text)
                );
                self.error(path, "unknown_ref", message);
            }
        }
    }

    fn dialect(&mut self, value: &Value, inside: &str, path: &str) {
        let is_right = value.as_str().is_some_and(|text| text.trim_end_matches('#') == DIALECT);
        if !is_right || !path.is_empty() {
            let message =
                format!("input schemas are written in {DIALECT:?}: leave $schema away, or give this");
            self.error(inside, "bad_schema", message);
        }
    }

    fn format(&mut self, value: &Value, path: &str) {
        if let Some(name) = value.as_str().filter(|name| !is_known_format(name)) {
            let message = format!("the format {:?} is not known, so it is not checked", excerpt(name));
            self.warn(path, "unknown_format", message);
        }
    }

    fn unevaluated(&mut self, path: &str) {
        self.unevaluated += 1;
        if self.unevaluated > MAX_INPUT_SCHEMA_UNEVALUATED {
            let message = format!(
                "an input schema has at most {MAX_INPUT_SCHEMA_UNEVALUATED} `unevaluated…`; use `additionalProperties` or `items`"
            );
            self.error(path, "too_large", message);
        }
    }

    fn unknown(&mut self, keyword: &str, path: &str) {
        let all: Vec<&str> = [ONE, LIST, MAP, PLAIN].concat();
        let meant = nearest::find_nearest(keyword, &all);
        let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        let message =
            format!("{:?} is no keyword of JSON Schema 2020-12 and checks nothing{meant}", excerpt(keyword));
        self.warn(path, "unknown_keyword", message);
    }

    fn warn(&mut self, path: &str, code: &'static str, message: String) {
        if !self.found.iter().any(|finding| finding.path == path && finding.code == code) {
            self.found.push(Finding { path: path.to_string(), code, message, is_error: false });
        }
    }
}
