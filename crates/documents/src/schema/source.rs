//! The published JSON Schema of webhook sources.

use serde_json::{Value, json};

use super::{NAME, SPAN, reference, workflow};
use crate::fields;
use crate::limits::{MAX_ACTIONS, MAX_DESCRIPTION_CHARS, MAX_POINTER_BYTES};

/// The schema of webhook sources, in the dialect of 2020-12. Only [`check_source`](crate::check_source) knows all the rules.
pub fn source_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hapax webhook source",
        "description": "Whom to believe, how to tell events apart, and what to do with them. Texts may hold {{ CEL }} where a template is taken.",
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "actions"],
        "anyOf": [{ "required": ["preset"] }, { "required": ["signature", "eventId"] }],
        "properties": {
            "name": reference("name"),
            "description": { "type": "string", "maxLength": MAX_DESCRIPTION_CHARS },
            "preset": { "enum": ["stripe", "github", "shopify", "slack", "standard-webhooks"] },
            "signature": reference("signature"),
            "secrets": {
                "type": "array",
                "minItems": 1,
                "maxItems": hapax_webhooks::limits::MAX_SECRETS,
                "uniqueItems": true,
                "items": { "type": "string", "pattern": "^secret://[A-Za-z0-9._-]{1,128}$" },
            },
            "eventId": { "oneOf": [
                object(json!({ "header": reference("header") }), &["header"]),
                object(json!({ "pointer": { "type": "string", "pattern": "^/", "maxLength": MAX_POINTER_BYTES } }), &["pointer"]),
            ] },
            "filter": reference("expression"),
            "actions": { "type": "array", "minItems": 1, "maxItems": MAX_ACTIONS, "items": reference("action") },
        },
        "$defs": {
            "name": { "type": "string", "pattern": NAME },
            "workflow": workflow(),
            "header": { "type": "string", "minLength": 1, "maxLength": 128 },
            "span": { "type": "string", "minLength": 2, "pattern": SPAN, "examples": ["30s", "5m", "24h", "4d"] },
            "expression": { "type": ["string", "boolean"], "description": "CEL over body, headers and event, as it is." },
            "template": { "description": "Any JSON; texts may hold {{ CEL }} over body, headers and event." },
            "text": { "type": "string", "minLength": 1, "description": "A text; it may hold {{ CEL }} over body, headers and event." },
            "signature": { "type": "object", "oneOf": [
                object(json!({ "scheme": { "enum": ["standard-webhooks", "stripe", "github", "slack"] } }), &["scheme"]),
                object(json!({
                    "scheme": { "const": "hmac" },
                    "header": reference("header"),
                    "algorithm": { "enum": ["sha1", "sha256", "sha512"], "default": "sha256" },
                    "encoding": { "enum": ["hex", "base64"], "default": "hex" },
                    "prefix": { "type": "string", "maxLength": hapax_webhooks::limits::MAX_PREFIX_CHARS },
                }), &["scheme", "header"]),
                object(json!({ "scheme": { "const": "none" }, "allowUnsigned": { "const": true } }), &["scheme", "allowUnsigned"]),
            ] },
            "action": { "type": "object", "oneOf": fields::ACTS.iter().map(|act| action(act)).collect::<Vec<_>>() },
            "settle": either(object(json!({
                "key": reference("text"),
                "value": reference("template"),
                "reject": object(json!({ "message": reference("text"), "code": reference("text") }), &["message"]),
                "keepFor": reference("span"),
            }), &["key"]), ["value", "reject"]),
            "start": object(json!({
                "workflow": reference("workflow"),
                "key": reference("text"),
                "input": { "type": ["object", "string"], "description": "An object, or {{ CEL }} that gives one." },
            }), &["workflow"]),
            "signal": either(object(json!({
                "run": reference("text"),
                "key": reference("text"),
                "name": reference("text"),
                "id": reference("text"),
                "payload": reference("template"),
            }), &["name"]), ["run", "key"]),
        },
    })
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn action(act: &str) -> Value {
    object(json!({ act: reference(act), "when": reference("expression") }), &[act])
}

/// One of the two must be there.
fn either(mut object: Value, fields: [&str; 2]) -> Value {
    object["oneOf"] = Value::from(fields.map(|field| json!({ "required": [field] })).to_vec());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &Value) -> Vec<&str> {
        of["properties"].as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn sorted<'f>(fields: &[&[&'f str]]) -> Vec<&'f str> {
        let mut all: Vec<&str> = fields.iter().flat_map(|names| names.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn every_field_of_a_source_is_described_and_every_reference_leads_somewhere() {
        let schema = source_schema();
        let defs = &schema["$defs"];
        for (described, fields) in [
            (&schema, sorted(&[fields::SOURCE])),
            (&defs["signature"]["oneOf"][1], sorted(&[fields::SIGNATURE, fields::HMAC])),
            (&defs["signature"]["oneOf"][2], sorted(&[fields::SIGNATURE, fields::UNSIGNED])),
            (&defs["settle"], sorted(&[fields::SETTLE])),
            (&defs["settle"]["properties"]["reject"], sorted(&[fields::REJECT])),
            (&defs["start"], sorted(&[fields::START])),
            (&defs["signal"], sorted(&[fields::SIGNAL])),
        ] {
            assert_eq!(names(described), fields);
        }
        let text = schema.to_string();
        for target in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(schema.pointer(target).is_some(), "{target}");
        }
    }
}
