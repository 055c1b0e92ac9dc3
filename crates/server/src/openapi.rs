//! The description of the API: for programs, and for people.

use std::sync::LazyLock;

use serde_json::Value;
use utoipa::OpenApi;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::routes;

/// What a key may be made of.
const PRINTABLE_ASCII: &str = "^[ -~]+$";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hapax",
        description = "Durable workflows whose effects happen once. Every mutating request takes `Idempotency-Key`; `/api/v1/idempotency-policy` tells the contract in force.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    paths(
        routes::definitions::upload, routes::definitions::list, routes::definitions::show,
        routes::runs::starting::create, routes::runs::starting::create_batch, routes::runs::showing::list, routes::runs::showing::show,
        routes::runs::steering::cancel, routes::runs::steering::pause, routes::runs::steering::resume, routes::runs::steering::retry, routes::runs::retry_plan::show,
        routes::runs::steering::signal, routes::approvals::answer, routes::runs::showing::result,
        routes::events::list, routes::events::stream,
        routes::evidence::ledger_of_run, routes::evidence::notes, routes::evidence::add_note,
        routes::evidence::ledger, routes::audit::list,
        routes::keys::show, routes::keys::release,
        routes::doubts::list, routes::doubts::resolve,
        routes::setup::create_workspace, routes::setup::list_workspaces, routes::setup::show_workspace,
        routes::setup::create_credential, routes::setup::list_credentials, routes::setup::show_credential,
        routes::setup::rotate_credential, routes::setup::revoke_credential,
        routes::promises::create, routes::promises::list, routes::promises::show, routes::promises::resolve,
        routes::promises::reject, routes::promises::list_early, routes::promises::show_of_tenant,
        routes::promises::resolve_of_tenant, routes::promises::reject_of_tenant,
        routes::settle_links::issue, routes::settle_links::settle, routes::settle_links::explain,
        routes::durable_promises::create, routes::durable_promises::show, routes::durable_promises::complete,
        routes::meta::policy, routes::meta::health, routes::meta::readiness, routes::meta::metrics,
        routes::meta::openapi, routes::meta::document_schema, routes::meta::docs,
        routes::subscriptions::create, routes::subscriptions::list, routes::subscriptions::show,
        routes::subscriptions::rotate, routes::subscriptions::change,
        routes::subscriptions::delete, routes::subscriptions::test,
        routes::deliveries::list, routes::deliveries::redeliver, routes::deliveries::redeliver_many,
        routes::deliveries::discard,
        routes::webhook_sources::create, routes::webhook_sources::list, routes::webhook_sources::show,
        routes::webhook_sources::replace, routes::webhook_sources::delete,
        routes::webhook_sources::change,
        routes::webhooks::take_in, routes::webhooks::take_in_by_name,
        routes::webhook_events::list, routes::webhook_events::reprocess_many, routes::webhook_events::show,
        routes::webhook_events::reprocess, routes::meta::source_schema,
        routes::entity_workflows::create, routes::entity_workflows::list, routes::entity_workflows::show,
        routes::entity_workflows::replace, routes::entity_workflows::draw,
        routes::entities::create, routes::entities::list, routes::entities::show, routes::entities::notes,
        routes::entities::add_note, routes::entities::operations,
        routes::entity_steps::take, routes::entity_steps::take_overriding,
        routes::operations::list, routes::operations::show, routes::operations::resolve,
        routes::meta::entity_schema,
    ),
    components(schemas(hapax_api::StoredRequest, hapax_api::DefinitionProblem)),
    tags(
        (name = "runs", description = "Start, look, steer"),
        (name = "definitions", description = "Documents that can be run"),
        (name = "entities", description = "Business objects, the steps that move them, and what became of each request to"),
        (name = "doubts", description = "Effects of which nobody knows whether they happened"),
        (name = "keys", description = "Idempotency keys"),
        (name = "promises", description = "Values that somebody outside supplies, once"),
        (name = "durable promises", description = "The same, for clients of the public specification of durable promises"),
        (name = "evidence", description = "What happened, for people and auditors"),
        (name = "setup", description = "Workspaces and credentials"),
        (name = "webhooks", description = "Webhooks: who is told, who is believed, and what became of it"),
        (name = "about", description = "The server itself"),
    ),
)]
struct Described;

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut api = Described::openapi();
    let schemes = &mut api.components.get_or_insert_default().security_schemes;
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    schemes.insert("bearer".into(), SecurityScheme::Http(bearer).into());
    schemes.insert(
        "apiKey".into(),
        SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key"))).into(),
    );
    let mut value = serde_json::to_value(&api).expect("a description is JSON");
    // Who may call it: the same table that admits callers.
    for route in crate::routes::table() {
        let method = route.method.as_str().to_ascii_lowercase();
        let Some(operation) = value
            .pointer_mut(&format!("/paths/{}/{method}", route.path.replace('~', "~0").replace('/', "~1")))
        else {
            continue;
        };
        let (security, role) = match route.access {
            crate::access::Access::Open => (serde_json::json!([]), "nobody in particular"),
            access => (serde_json::json!([{"bearer": []}, {"apiKey": []}]), access.least_role()),
        };
        take_nulls_out(operation);
        operation["security"] = security;
        operation["x-required-role"] = role.into();
    }
    let schemas = value.pointer_mut("/components/schemas");
    schemas.into_iter().for_each(take_any_or_null_for_any);
    let mut text = serde_json::to_string_pretty(&value).expect("a description is JSON");
    text.push('\n');
    text
});

/// An optional body or parameter may be absent; `null` is what utoipa says of it, and what a strict reader refuses.
fn take_nulls_out(operation: &mut Value) {
    let bodies = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
    for content in bodies.into_iter().flat_map(|bodies| bodies.values_mut()) {
        let either = content["schema"]["oneOf"].as_array();
        if let Some(taken) = either.and_then(|either| either.iter().find(|one| one["type"] != "null")) {
            content["schema"] = taken.clone();
        }
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        let types = parameter["schema"]["type"].as_array();
        if let Some(taken) = types.and_then(|types| types.iter().find(|one| *one != "null")) {
            parameter["schema"]["type"] = taken.clone();
        }
        if parameter["name"] == "Idempotency-Key" {
            parameter["schema"]["minLength"] = 1.into();
            parameter["schema"]["maxLength"] = hapax_engine::limits::MAX_KEY_CHARS.into();
            parameter["schema"]["pattern"] = PRINTABLE_ASCII.into();
        }
    }
}

/// A value of any kind may be `null` too, so that "one of any value and null" would be both, and so neither.
fn take_any_or_null_for_any(schema: &mut Value) {
    let either = schema["oneOf"].as_array();
    let any = |one: &&Value| one["$ref"] == "#/components/schemas/RawJson";
    if let Some(any) = either.and_then(|either| either.iter().find(any)) {
        *schema = any.clone();
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(take_any_or_null_for_any),
        Value::Array(items) => items.iter_mut().for_each(take_any_or_null_for_any),
        _ => {}
    }
}

/// The description as JSON.
pub fn text() -> &'static str {
    &TEXT
}

/// The description as a page, without anything from elsewhere.
pub fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(render_page);
    &PAGE
}

fn render_page() -> String {
    let value: Value = serde_json::from_str(text()).expect("just written");
    let mut body = String::new();
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text_of = |value: &Value| escaped(value.as_str().unwrap_or_default());
    for tag in value["tags"].as_array().into_iter().flatten() {
        body.push_str(&format!("<h2>{}</h2><p>{}</p>", text_of(&tag["name"]), text_of(&tag["description"])));
        for (path, methods) in value["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if operation["tags"][0] != tag["name"] {
                    continue;
                }
                let summary =
                    operation["summary"].as_str().or(operation["description"].as_str()).unwrap_or_default();
                body.push_str(&format!(
                    "<section><h3><code>{} {}</code></h3><p>{}</p><p>Needs: {}.</p><ul>",
                    method.to_ascii_uppercase(),
                    escaped(path),
                    escaped(summary),
                    text_of(&operation["x-required-role"]),
                ));
                for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                    body.push_str(&format!(
                        "<li><code>{status}</code> {}</li>",
                        text_of(&answer["description"])
                    ));
                }
                body.push_str("</ul></section>");
            }
        }
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hapax API</title></head><body><main><h1>Hapax API</h1>\
         <p>{}</p><p>For programs: <a href=\"/openapi.json\">/openapi.json</a>. The schema of documents: \
         <a href=\"/schemas/workflow-definition.json\">/schemas/workflow-definition.json</a>. What went wrong: \
         <a href=\"/errors\">/errors</a>.</p>{body}</main></body></html>",
        text_of(&value["info"]["description"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_sent_is_said_to_be_null_and_keys_tell_what_they_are_made_of() {
        let value: Value = serde_json::from_str(text()).unwrap();
        let mut keys = 0;
        for operation in
            value["paths"].as_object().unwrap().values().flat_map(|it| it.as_object().unwrap().values())
        {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["schema"]["type"].as_array().is_none(), "{parameter}");
                if parameter["name"] == "Idempotency-Key" {
                    assert_eq!(parameter["schema"]["pattern"], PRINTABLE_ASCII);
                    keys += 1;
                }
            }
            if let Some(body) = operation.get("requestBody") {
                assert!(!body["content"].is_null() && !body.to_string().contains("null"), "{body}");
            }
        }
        assert!(keys > 5, "only {keys} operations take a key");
    }

    /// A step may give `null`, and that must fit what is said of it.
    #[test]
    fn a_value_of_any_kind_is_said_to_be_that_and_nothing_else() {
        let value: Value = serde_json::from_str(text()).unwrap();
        let output = &value["components"]["schemas"]["Step"]["properties"]["output"];
        assert_eq!(output["$ref"], "#/components/schemas/RawJson", "{output}");
    }
}
