//! Puts the description together from the table of operations and the table of routes.

use std::collections::BTreeSet;

use hapax_api as api;
use http::Method;
use serde_json::{Map, Value, json};

use super::operation::{Group, Operation};
use super::problems::{OF_EVERY_REQUEST, answers_for, codes_of};
use super::schemas::{Schemas, drop_nulls, schema_of};
use super::shared::{header_refs, headers, names_in, parameters, path_parameter};
use super::{examples, operations};
use crate::access::Access;
use crate::routes::{self, Route};

const ABOUT: &str = "\
Hapax runs durable workflows whose effects happen once.

**Authentication.** Send your API key as `Authorization: Bearer hpx_…` or as `x-api-key: hpx_…`. Each operation names the role it needs.

**Idempotency.** Every operation that changes something takes `Idempotency-Key`. Send the same request with the same key again, and you get \
the same response; nothing happens twice. `GET /api/v1/idempotency-policy` shows the rules of this server.

**Errors.** A request that fails is answered with `application/problem+json`. Branch on `code`, not on the text. Each operation lists its \
codes, and `/errors/<code>` explains what to do.

**Lists.** A list returns one page. Send `nextCursor` as `cursor` for the next one.";

/// The whole description.
pub(crate) fn assemble() -> Value {
    let mut parts = Parts::default();
    schema_of::<api::Problem>(&mut parts.schemas);
    describe_members(&mut parts.schemas);
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    let routes = routes::table();
    let mut order = 0;
    for group in operations::table() {
        tags.push(json!({ "name": group.tag, "description": group.about }));
        for operation in &group.operations {
            let route =
                routes.iter().find(|route| route.method == operation.method && route.path == operation.path);
            // A test compares the tables. A description without the route is still a description.
            let Some(route) = route else { continue };
            let path = paths.entry(operation.path).or_insert_with(|| json!({}));
            let mut described = parts.describe(&group, operation, route);
            // The reference reads in the order of the table.
            described["x-order"] = order.into();
            order += 1;
            path[operation.method.as_str().to_ascii_lowercase()] = described;
        }
    }
    let named = |code: &api::Code| format!("[`{0}`](/errors/{0})", code.as_str());
    let of_every_request = OF_EVERY_REQUEST.iter().map(named).collect::<Vec<_>>().join(", ");
    let about = format!("{ABOUT}\n\nAny request can also be answered with {of_every_request}.");
    let mut description = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hapax",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Durable workflows whose effects happen once",
            "description": about,
            "contact": { "name": "The operator of this server" },
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "This server" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "Your API key as a bearer token." },
                "apiKey": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "Your API key." },
            },
            "parameters": parameters(),
            "headers": headers(),
            "responses": parts.responses,
            "schemas": parts.schemas,
        },
    });
    drop_unused(&mut description);
    description
}

/// Members of a problem that only some codes have, and that have a schema of their own.
fn describe_members(schemas: &mut Schemas) {
    let stored = schema_of::<api::StoredRequest>(schemas);
    let problems = json!({ "type": "array", "items": schema_of::<api::DefinitionProblem>(schemas) });
    let members = [
        ("storedRequest", "The first request under the key. Sent with `idempotency_key_conflict`.", stored),
        ("problems", "Every error in the document. Sent when a document is invalid.", problems),
    ];
    let problem = schemas.entry("Problem".to_owned()).or_default();
    for (name, about, mut schema) in members {
        schema["description"] = about.into();
        problem["properties"][name] = schema;
    }
}

/// Parts that operations share.
#[derive(Default)]
struct Parts {
    schemas: Schemas,
    responses: Map<String, Value>,
}

impl Parts {
    fn describe(&mut self, group: &Group, operation: &Operation, route: &Route) -> Value {
        self.schemas.extend(operation.schemas.clone());
        let codes = codes_of(operation, route);
        let mut answers = answers_for(&codes, &mut self.responses);
        for answer in &operation.answers {
            answers.insert(answer.status.to_string(), describe_answer(operation, answer, route));
        }
        let (security, role) = match route.access {
            Access::Open => (json!([]), "none"),
            access => (json!([{ "bearer": [] }, { "apiKey": [] }]), access.least_role()),
        };
        let names: BTreeSet<&str> = codes.iter().map(|code| code.as_str()).collect();
        let mut described = json!({
            "operationId": operation.id,
            "tags": [group.tag],
            "summary": operation.summary,
            "description": operation.about,
            "security": security,
            "x-required-role": role,
            "x-problem-codes": names,
            "responses": answers,
        });
        let parameters = parameters_of(operation, route);
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if let Some(body) = describe_body(operation) {
            described["requestBody"] = body;
        }
        described
    }
}

fn parameters_of(operation: &Operation, route: &Route) -> Vec<Value> {
    let shared = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
    let in_path =
        names_in(operation.path).filter_map(|name| path_parameter(operation.path, name)).map(shared);
    let mut parameters: Vec<Value> = in_path.collect();
    for parameter in &operation.parameters {
        let told = match parameter["name"].as_str() {
            Some("limit") => shared("Limit"),
            Some("cursor") => shared("Cursor"),
            _ => {
                let mut told = parameter.clone();
                drop_nulls(&mut told);
                told
            }
        };
        parameters.push(told);
    }
    if route.is_versioned {
        parameters.push(shared("IfMatch"));
    }
    if route.takes_keys {
        parameters.push(shared("IdempotencyKey"));
    }
    parameters
}

fn describe_body(operation: &Operation) -> Option<Value> {
    let body = operation.body.as_ref()?;
    let example = examples::of(operation.id).iter().find_map(|example| example.request.body.as_ref());
    let contents: Map<String, Value> = body
        .contents
        .iter()
        .enumerate()
        .map(|(place, (kind, schema))| {
            let mut content = json!({ "schema": schema });
            if let Some(example) = example.filter(|_| place == 0) {
                content["example"] = example.clone();
            }
            ((*kind).to_owned(), content)
        })
        .collect();
    let mut described = json!({ "required": body.is_required, "content": contents });
    if !body.about.is_empty() {
        described["description"] = body.about.into();
    }
    Some(described)
}

fn describe_answer(operation: &Operation, answer: &super::operation::Answer, route: &Route) -> Value {
    let example = examples::of(operation.id).iter().find(|example| example.answer.status == answer.status);
    let contents: Map<String, Value> = answer
        .contents
        .iter()
        .enumerate()
        .map(|(place, (kind, schema))| {
            let mut content = json!({ "schema": schema });
            let body = example.and_then(|example| example.answer.body.as_ref());
            if let Some(body) = body.filter(|_| place == 0) {
                content["example"] = body.clone();
            }
            ((*kind).to_owned(), content)
        })
        .collect();
    let mut described = json!({ "description": answer.about });
    if !contents.is_empty() {
        described["content"] = contents.into();
    }
    let mut headers = answer.headers.clone();
    if route.takes_keys && operation.method != Method::GET {
        headers.extend(["Idempotency-Replayed", "Idempotency-Expires", "Idempotency-Stored"]);
    }
    if !headers.is_empty() {
        described["headers"] = header_refs(headers).into();
    }
    described
}

/// Shared parts that no operation refers to are left out.
fn drop_unused(description: &mut Value) {
    loop {
        let mut used = BTreeSet::new();
        find_references(description, &mut used);
        let mut dropped = false;
        for kind in ["parameters", "headers", "responses", "schemas"] {
            let Some(parts) = description["components"][kind].as_object_mut() else { continue };
            let before = parts.len();
            parts.retain(|name, _| used.contains(&format!("#/components/{kind}/{name}")));
            dropped |= parts.len() != before;
        }
        if !dropped {
            return;
        }
    }
}

fn find_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found.insert(reference.clone());
            }
            members.values().for_each(|member| find_references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_references(item, found)),
        _ => {}
    }
}
