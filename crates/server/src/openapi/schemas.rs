//! Shared schemas, taken from the types on the wire.

use std::collections::BTreeMap;

use hapax_api::Page;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

/// Schemas by name.
pub(crate) type Schemas = BTreeMap<String, Value>;

/// A reference to the schema of `T`, which goes into `schemas` with everything it refers to.
pub(crate) fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> Value {
    schema_named::<T>(T::name().into_owned(), schemas)
}

/// A reference to the schema of a page of `T`. The type names every page the same.
pub(crate) fn page_of<T: ToSchema>(schemas: &mut Schemas) -> Value {
    schema_of::<T>(schemas);
    schema_named::<Page<T>>(format!("{}Page", T::name()), schemas)
}

fn schema_named<T: ToSchema>(name: String, schemas: &mut Schemas) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut found: Vec<(String, RefOr<Schema>)> = vec![(name, T::schema())];
    T::schemas(&mut found);
    for (name, schema) in found {
        let mut schema = serde_json::to_value(schema).expect("a schema is JSON");
        drop_nulls(&mut schema);
        schemas.insert(name, schema);
    }
    reference
}

/// Removes `null` from optional fields. A field without a value is absent, and `null` is never
/// sent.
pub(crate) fn drop_nulls(schema: &mut Value) {
    let either = schema["oneOf"].as_array();
    let is_optional = either.is_some_and(|either| either.iter().any(|one| one["type"] == "null"));
    if is_optional
        && let Some(taken) = either.and_then(|either| either.iter().find(|one| one["type"] != "null"))
    {
        *schema = taken.clone();
    }
    let types = schema["type"].as_array();
    if let Some(taken) = types.and_then(|types| types.iter().find(|one| *one != "null")) {
        schema["type"] = taken.clone();
    }
    match schema {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
