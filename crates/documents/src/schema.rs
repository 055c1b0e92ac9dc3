//! The published JSON Schema of documents, for editors. It describes the fields and their types; only
//! [`check`](crate::check) knows all the rules.

mod entity;
mod source;

use serde_json::{Map, Value, json};

use crate::fields;
use crate::limits::{
    MAX_BRANCHES, MAX_CONCURRENCY, MAX_DESCRIPTION_CHARS, MAX_HOSTS, MAX_ITEMS, MAX_KEPT_RESPONSE_CHARS,
    MAX_STEPS,
};

pub use entity::entity_schema;
pub use source::source_schema;

const SPAN: &str = "^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$";
const NAME: &str = "^[A-Za-z0-9._-]{1,128}$";
const WORKFLOW: &str = "^[A-Za-z0-9._-]{1,128}(@[1-9][0-9]{0,9})?$";

/// The schema, in the dialect of 2020-12.
pub fn json_schema() -> Value {
    let steps: Vec<Value> = fields::KINDS.iter().map(|(kind, own)| step(kind, own)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hapax document",
        "description": "A step workflow. Texts may hold {{ CEL }} where a template is taken.",
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "version", "steps"],
        "properties": {
            "name": reference("name"),
            "version": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
            "description": reference("description"),
            "idempotency": { "enum": ["optional", "required"], "default": "optional" },
            "retention": reference("span"),
            "onFailure": { "enum": ["keep", "release"], "default": "keep" },
            "fingerprint": {
                "type": "object",
                "additionalProperties": false,
                "required": ["ignore"],
                "properties": { "ignore": { "type": "array", "items": { "type": "string", "pattern": "^/" } } },
            },
            "input": {
                "type": "object",
                "description": "JSON Schema (draft 2020-12) that the input of every run must match. $ref leads only inside it.",
            },
            "output": reference("template"),
            "sensitive": {
                "type": "array",
                "description": "Names of fields that are masked wherever they are in what a run takes and gives.",
                "items": { "type": "string", "minLength": 1 },
            },
            "steps": reference("steps"),
        },
        "$defs": {
            "name": { "type": "string", "pattern": NAME },
            "workflow": workflow(),
            "description": { "type": "string", "maxLength": MAX_DESCRIPTION_CHARS },
            "span": { "type": "string", "minLength": 2, "pattern": SPAN, "examples": ["30s", "5m", "24h", "3d", "1h30m"] },
            "expression": { "type": ["string", "boolean"], "description": "CEL, as it is." },
            "template": { "description": "Any JSON; texts may hold {{ CEL }}." },
            "steps": { "type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": reference("step") },
            "step": { "type": "object", "oneOf": steps },
            "statuses": {
                "type": "array",
                "items": { "anyOf": [
                    { "type": "integer", "minimum": 100, "maximum": 599 },
                    { "type": "string", "pattern": "^[1-5]xx$" },
                ] },
            },
            "retry": object("retry", &[fields::RETRY], &[]),
            "probe": object("probe", &[fields::REQUEST, fields::PROBE], &["method", "url", "happened"]),
            "compensate": { "oneOf": [
                kind_of(object("undo", &[fields::UNDO_TASK], &["type", "task"]), "task"),
                kind_of(object("undo", &[fields::UNDO_HTTP, fields::REQUEST], &["type", "method", "url"]), "http"),
            ] },
            "by": object("by", &[fields::DECIDERS], &[]),
        },
    })
}

/// The workflow to start.
fn workflow() -> Value {
    json!({
        "type": "string",
        "pattern": WORKFLOW,
        "description": "A workflow: `order` is its latest version, `order@2` version 2.",
        "examples": ["order", "order@2"],
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn step(kind: &str, own: &[&[&str]]) -> Value {
    let required: &[&str] = match kind {
        "task" => &["task"],
        "http" => &["method", "url"],
        "condition" => &["if", "then"],
        "child" => &["workflow"],
        "parallel" => &["branches"],
        "for_each" => &["items", "steps"],
        _ => &[],
    };
    let required: Vec<&str> = ["name", "type"].iter().chain(required).copied().collect();
    let fields: Vec<&[&str]> = [fields::STEP].iter().chain(own).copied().collect();
    let mut step = kind_of(object(kind, &fields, &required), kind);
    if kind == "wait" {
        step["oneOf"] = json!([{ "required": ["for"] }, { "required": ["until"] }]);
    }
    step
}

fn kind_of(mut object: Value, kind: &str) -> Value {
    object["properties"]["type"] = json!({ "const": kind });
    object
}

fn object(of: &str, fields: &[&[&str]], required: &[&str]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .flat_map(|names| names.iter())
        .map(|name| (name.to_string(), field(of, name)))
        .collect();
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

/// Schema of a field that is the same in every object.
fn field(of: &str, name: &str) -> Value {
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    match (of, name) {
        (_, "name" | "task" | "signal") => reference("name"),
        (_, "workflow") => reference("workflow"),
        (_, "description") => reference("description"),
        (_, "when" | "if" | "happened" | "didNotHappen") => reference("expression"),
        (_, "output" | "input" | "body" | "items" | "result" | "show" | "key" | "until") => {
            reference("template")
        }
        (_, "for" | "timeout" | "settle" | "first" | "cap" | "keyTtl") => reference("span"),
        (_, "then" | "else" | "steps") => reference("steps"),
        (_, "effect") => json!({ "enum": ["idempotent", "claimed"], "default": "idempotent" }),
        (_, "onDoubt") => json!({ "enum": ["hold", "retry", "fail"], "default": "hold" }),
        (_, "onExhausted") => json!({ "enum": ["fail", "pause"], "default": "fail" }),
        (_, "nonIdempotent" | "rejectsStaleFences" | "selfApproval") => {
            json!({ "type": "boolean", "default": false })
        }
        (_, "retry" | "probe" | "compensate" | "by") => reference(name),
        (_, "method") => json!({ "enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] }),
        (_, "url" | "keyHeader") => json!({ "type": "string", "minLength": 1 }),
        (_, "hostFromData") => json!({ "anyOf": [
            { "const": true },
            { "type": "array", "minItems": 1, "maxItems": MAX_HOSTS, "items": { "type": "string", "minLength": 1 } },
        ] }),
        (_, "keepResponse") => json!({ "anyOf": [
            { "type": "boolean", "default": true },
            { "type": "integer", "minimum": 0, "maximum": MAX_KEPT_RESPONSE_CHARS },
        ] }),
        (_, "headers") => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        (_, "success" | "retryable") => reference("statuses"),
        (_, "branches") => {
            json!({ "type": "array", "minItems": 1, "maxItems": MAX_BRANCHES, "items": reference("steps") })
        }
        (_, "concurrency") => {
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_CONCURRENCY, "default": 1 })
        }
        (_, "maxItems") => {
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_ITEMS, "default": MAX_ITEMS })
        }
        (_, "maxAttempts") => {
            json!({ "type": "integer", "minimum": 1, "maximum": hapax_engine::limits::MAX_ATTEMPTS })
        }
        (_, "factor") => json!({ "type": "number", "minimum": 1, "maximum": 100 }),
        (_, "decisions") => {
            json!({ "type": "array", "minItems": 1, "items": { "enum": ["approve", "reject", "edit"] } })
        }
        (_, "fields" | "roles" | "requesters") => texts(),
        (_, "onReject" | "onTimeout") => json!({ "enum": ["fail", "continue"], "default": "fail" }),
        (_, "onClose") => json!({ "enum": ["cancel", "abandon"], "default": "cancel" }),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks all objects of the schema.
    fn objects<'s>(value: &'s Value, found: &mut Vec<&'s Map<String, Value>>) {
        match value {
            Value::Object(fields) => {
                found.push(fields);
                fields.values().for_each(|value| objects(value, found));
            }
            Value::Array(items) => items.iter().for_each(|item| objects(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_described_and_every_reference_leads_somewhere() {
        let schema = json_schema();
        let mut all = Vec::new();
        objects(&schema, &mut all);
        for object in &all {
            if let Some(target) = object.get("$ref").and_then(Value::as_str) {
                assert!(schema.pointer(target.trim_start_matches('#')).is_some(), "{target}");
            }
            if let Some(Value::Object(properties)) = object.get("properties") {
                for (name, field) in properties {
                    assert!(!field.as_object().unwrap().is_empty(), "{name} is not described");
                }
                for required in object.get("required").and_then(Value::as_array).into_iter().flatten() {
                    assert!(properties.contains_key(required.as_str().unwrap()), "{required}");
                }
            }
        }
        let document: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut fields = fields::DOCUMENT.to_vec();
        fields.sort_unstable();
        assert_eq!(document, fields);
    }
}
