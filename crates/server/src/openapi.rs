//! The OpenAPI description, put together from two tables: the operations here and the routes of the server.

mod assemble;
mod examples;
mod operation;
mod operations;
mod problems;
mod schemas;
mod shared;

use std::sync::LazyLock;

use hapax_api::Code;
use http::Method;
use serde_json::Value;

pub(crate) use examples::Example;

static DESCRIPTION: LazyLock<Value> = LazyLock::new(assemble::assemble);

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = serde_json::to_string_pretty(&*DESCRIPTION).expect("a description is JSON");
    text.push('\n');
    text
});

/// The description as JSON.
pub fn text() -> &'static str {
    &TEXT
}

/// The description.
pub(crate) fn description() -> &'static Value {
    &DESCRIPTION
}

/// Recorded exchanges of an operation, the usual one first.
pub(crate) fn examples_of(operation: &str) -> &'static [Example] {
    examples::of(operation)
}

/// One entry of the table, for tests that compare the table with the routes.
#[derive(Debug, Clone)]
pub struct OperationEntry {
    /// Method of its route.
    pub method: Method,
    /// Path of its route.
    pub path: &'static str,
    /// Id in the description.
    pub id: &'static str,
    /// File under `src/openapi/examples` with its examples.
    pub examples: &'static str,
}

/// Every operation in the table.
pub fn list_operations() -> Vec<OperationEntry> {
    let of_group = |group: operation::Group| {
        let examples = group.examples;
        let entry = move |operation: operation::Operation| OperationEntry {
            method: operation.method,
            path: operation.path,
            id: operation.id,
            examples,
        };
        group.operations.into_iter().map(entry)
    };
    operations::table().into_iter().flat_map(of_group).collect()
}

/// Codes that any request may get, whatever its operation.
pub fn codes_of_every_request() -> &'static [Code] {
    problems::OF_EVERY_REQUEST
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step may give `null`, and its schema must admit it.
    #[test]
    fn a_value_of_any_kind_is_described_as_one() {
        let output = &description()["components"]["schemas"]["Step"]["properties"]["output"];
        assert_eq!(output["$ref"], "#/components/schemas/RawJson", "{output}");
        assert!(description()["components"]["schemas"]["RawJson"]["type"].is_null());
    }

    #[test]
    fn no_field_is_said_to_be_null() {
        assert!(!text().contains("\"null\""), "optional fields are absent");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(value: &Value) {
            match value {
                Value::Object(members) => {
                    if let Some(Value::String(reference)) = members.get("$ref") {
                        let pointer = reference.strip_prefix('#').expect("it is in the description");
                        assert!(description().pointer(pointer).is_some(), "{reference}");
                    }
                    members.values().for_each(check);
                }
                Value::Array(items) => items.iter().for_each(check),
                _ => {}
            }
        }
        check(description());
    }
}
