//! The JSON Schema of entity workflows.

use serde_json::{Map, Value, json};

use super::{NAME, SPAN, reference};
use crate::fields;
use crate::limits::{
    MAX_DESCRIPTION_CHARS, MAX_ENTITY_STEPS, MAX_REQUESTERS, MAX_STATUSES, MAX_STEP_ID, MAX_VALIDATIONS,
};

const IDENTIFIER: &str = "^[A-Za-z_][A-Za-z0-9_]{0,62}$";
const TABLE: &str = "^[A-Za-z_][A-Za-z0-9_]{0,62}(\\.[A-Za-z_][A-Za-z0-9_]{0,62})?$";

/// The schema of entity workflows, in the dialect of 2020-12; only [`check_entity`](crate::check_entity) knows all the rules.
pub fn entity_schema() -> Value {
    let column = json!({ "type": "string", "pattern": IDENTIFIER });
    let name_of_table = json!({ "type": "string", "pattern": TABLE });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hapax entity workflow",
        "description": "Which statuses a business object knows, and which steps move it between them. Texts may hold {{ CEL }} where a template is taken.",
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "module", "entity", "statusTypes", "steps"],
        "properties": {
            "name": reference("name"),
            "kind": { "const": "entity" },
            "description": { "type": "string", "maxLength": MAX_DESCRIPTION_CHARS },
            "module": reference("name"),
            "entity": reference("name"),
            "table": { "oneOf": [
                name_of_table,
                object(json!({
                    "name": name_of_table,
                    "id": column,
                    "status": column,
                    "version": column,
                    "updatedAt": column,
                    "data": { "type": "array", "items": column, "uniqueItems": true },
                }), &["name"]),
            ] },
            "statusTypes": statuses(),
            "initial": reference("statuses"),
            "claims": object(json!({ "revertTo": { "enum": ["declared", "recorded"], "default": "declared" } }), &[]),
            "steps": { "type": "array", "minItems": 1, "maxItems": MAX_ENTITY_STEPS, "items": reference("step") },
        },
        "$defs": {
            "name": { "type": "string", "pattern": NAME },
            "statuses": { "oneOf": [reference("name"), statuses()] },
            "span": { "type": "string", "minLength": 2, "pattern": SPAN, "examples": ["30s", "5m"] },
            "expression": { "type": ["string", "boolean"], "description": "CEL over entity, input, requester and operation, as it is." },
            "template": { "description": "Any JSON; texts may hold {{ CEL }}." },
            "claim": { "type": "array", "minItems": 2, "maxItems": 2, "items": reference("name"), "description": "[the status held meanwhile, the status it goes back to]" },
            "step": step(),
            "validation": object(json!({
                "when": reference("expression"),
                "message": { "type": "string", "minLength": 1 },
                "code": reference("name"),
            }), &["when", "message"]),
            "validations": { "oneOf": [
                reference("validation"),
                { "type": "array", "minItems": 1, "maxItems": MAX_VALIDATIONS, "items": reference("validation") },
            ] },
            "action": { "oneOf": [
                reference("name"),
                object(json!({ "handler": reference("name"), "transaction": { "type": "boolean", "default": false } }), &["handler"]),
                reference("run"),
                object(json!({ "http": request(fields::ACTION_REQUEST) }), &["http"]),
            ] },
            "afterEffect": { "oneOf": [
                reference("name"),
                object(json!({ "target": reference("name") }), &["target"]),
                reference("run"),
                object(json!({ "http": request(fields::AFTER_REQUEST) }), &["http"]),
            ] },
            "run": object(json!({
                "workflow": reference("name"),
                "input": { "type": ["object", "string"], "description": "An object, or {{ CEL }} that gives one." },
            }), &["workflow"]),
            "answers": { "type": "array", "items": { "anyOf": [
                { "type": "integer", "minimum": 100, "maximum": 599 },
                { "type": "string", "pattern": "^[1-5]xx$" },
            ] } },
        },
    })
}

fn statuses() -> Value {
    json!({ "type": "array", "minItems": 1, "maxItems": MAX_STATUSES, "uniqueItems": true, "items": reference("name") })
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn request(more: &[&str]) -> Value {
    let fields = fields::REQUEST.iter().chain(more);
    let properties: Map<String, Value> = fields
        .map(|name| {
            let described = match *name {
                "success" | "retryable" => reference("answers"),
                "timeout" => reference("span"),
                "data" => json!({ "type": ["object", "string"] }),
                name => super::field("http", name),
            };
            (name.to_string(), described)
        })
        .collect();
    object(Value::Object(properties), &["method", "url"])
}

fn probe() -> Value {
    let fields = fields::REQUEST.iter().chain(fields::PROBE);
    let described = |name: &&str| match *name {
        "success" | "retryable" => reference("answers"),
        name => super::field("probe", name),
    };
    let properties: Map<String, Value> = fields.map(|name| (name.to_string(), described(name))).collect();
    object(Value::Object(properties), fields::PROBES)
}

/// One value, or one for each requester.
fn per_requester(value: Value) -> Value {
    json!({ "anyOf": [value, {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_REQUESTERS,
        "propertyNames": { "pattern": NAME, "not": { "enum": fields::NO_REQUESTERS } },
        "additionalProperties": value,
    }] })
}

fn step() -> Value {
    let mut step = object(
        json!({
            "stepId": { "type": "integer", "minimum": 0, "maximum": MAX_STEP_ID },
            "stepKey": reference("name"),
            "status": per_requester(reference("statuses")),
            "claimState": per_requester(reference("claim")),
            "successfulClaimState": per_requester(reference("claim")),
            "successfulState": per_requester(reference("name")),
            "action": per_requester(reference("action")),
            "validation": per_requester(reference("validations")),
            "effect": per_requester(json!({ "enum": ["idempotent", "non_idempotent"] })),
            "recovery": per_requester(json!({ "enum": ["revert", "hold"] })),
            "irreversible": per_requester(json!({ "enum": [false, true, "once", "each"], "default": false })),
            "idempotency": per_requester(json!({ "enum": ["optional", "required"], "default": "optional" })),
            "probe": per_requester(probe()),
            "retry": per_requester(json!({ "enum": ["refused", "returns"] })),
            "successAfterEffect": per_requester(reference("afterEffect")),
            "failureAfterEffect": per_requester(reference("afterEffect")),
        }),
        &["stepId", "stepKey", "status", "successfulState"],
    );
    step["not"] = json!({ "required": ["claimState", "successfulClaimState"] });
    step
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
    fn every_field_of_an_entity_workflow_is_described_and_every_reference_leads_somewhere() {
        let schema = entity_schema();
        let defs = &schema["$defs"];
        for (described, fields) in [
            (&schema, sorted(&[fields::ENTITY])),
            (&schema["properties"]["table"]["oneOf"][1], sorted(&[fields::TABLE])),
            (&schema["properties"]["claims"], sorted(&[fields::CLAIMS])),
            (&defs["step"], sorted(&[fields::ENTITY_STEP])),
            (&defs["validation"], sorted(&[fields::VALIDATION])),
            (&defs["action"]["oneOf"][1], sorted(&[fields::HANDLER])),
            (&defs["run"], sorted(&[fields::RUN_OF])),
            (
                &defs["action"]["oneOf"][3]["properties"]["http"],
                sorted(&[fields::REQUEST, fields::ACTION_REQUEST]),
            ),
            (
                &defs["afterEffect"]["oneOf"][3]["properties"]["http"],
                sorted(&[fields::REQUEST, fields::AFTER_REQUEST]),
            ),
        ] {
            assert_eq!(names(described), fields);
            for field in described["properties"].as_object().unwrap().values() {
                assert!(!field.as_object().unwrap().is_empty(), "{field}");
            }
        }
        let text = schema.to_string();
        for target in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(schema.pointer(target).is_some(), "{target}");
        }
    }
}
