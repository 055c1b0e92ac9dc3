//! One name, one type: every field of the API has the same type wherever it stands.

use std::collections::{BTreeMap, BTreeSet};

use hapax_server::openapi;
use serde_json::Value;

/// Schemas that are specified elsewhere and keep the types of their specification: problems (RFC 9457), durable promises, and what
/// the worker protocol carries.
const SPECIFIED_ELSEWHERE: [&str; 12] = [
    "Problem",
    "CreateDurablePromise",
    "CompleteDurablePromise",
    "DurablePromise",
    "DurableValue",
    "OpenWorkerSession",
    "WorkerSession",
    "WorkerSessionPage",
    "WorkerRunItems",
    "CommitWorkerSession",
    "WorkerWorkflow",
    "OfferedNames",
];

/// JSON of users: any value where it is shown, an object where it is sent.
const USER_JSON: [&str; 2] = ["data", "input"];

/// Fields whose name says a unit, because a seed spells them so.
const WITH_A_UNIT: [&str; 1] = ["idempotencyKeyTtlSeconds"];

fn schemas() -> BTreeMap<String, Value> {
    let described: Value = serde_json::from_str(openapi::text()).unwrap();
    let all = described["components"]["schemas"].as_object().unwrap().clone();
    all.into_iter().filter(|(name, _)| !SPECIFIED_ELSEWHERE.contains(&name.as_str())).collect()
}

/// The type of a schema in one word; `null` does not count.
fn type_of(schemas: &BTreeMap<String, Value>, schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap();
        return schemas.get(name).map_or("elsewhere".into(), |schema| type_of(schemas, schema));
    }
    for together in ["oneOf", "anyOf"] {
        if let Some(parts) = schema[together].as_array() {
            let mut types: BTreeSet<String> = parts.iter().map(|part| type_of(schemas, part)).collect();
            types.remove("null");
            return types.into_iter().collect::<Vec<_>>().join(" or ");
        }
    }
    if schema["allOf"].is_array() {
        return "object".into();
    }
    let named = match &schema["type"] {
        Value::String(named) => named.clone(),
        Value::Array(several) => {
            let named = several.iter().filter_map(Value::as_str).filter(|named| *named != "null");
            named.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".into(),
    };
    match named.as_str() {
        "array" => format!("list of {}", type_of(schemas, &schema["items"])),
        _ => named,
    }
}

/// Every field, with each of its types and the schemas that give it that type.
fn fields() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    fn collect(
        schemas: &BTreeMap<String, Value>,
        name: &str,
        schema: &Value,
        found: &mut BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    ) {
        for (field, of) in schema["properties"].as_object().into_iter().flatten() {
            let types = found.entry(field.clone()).or_default();
            types.entry(type_of(schemas, of)).or_default().insert(name.to_owned());
        }
        for part in ["allOf", "oneOf", "anyOf"].iter().filter_map(|part| schema[part].as_array()).flatten() {
            collect(schemas, name, part, found);
        }
    }
    let (schemas, mut found) = (schemas(), BTreeMap::new());
    for (name, schema) in &schemas {
        collect(&schemas, name, schema, &mut found);
    }
    found
}

/// CONTRACT §11
#[test]
fn every_field_has_one_type_wherever_it_stands() {
    let fields = fields();
    assert!(fields.len() > 100, "{}", fields.len());
    for (field, types) in fields {
        let is_user_json = USER_JSON.contains(&field.as_str());
        assert!(types.len() == 1 || is_user_json, "`{field}` has several types: {types:#?}");
    }
}

/// CONTRACT §11: durations are text, so no field names a unit, except where a seed does.
#[test]
fn no_field_says_a_unit_of_time() {
    let units = ["Ms", "Millis", "Seconds", "Minutes", "Hours", "Days"];
    for (field, types) in fields() {
        let says_a_unit = units.iter().any(|unit| field.ends_with(unit));
        assert!(!says_a_unit || WITH_A_UNIT.contains(&field.as_str()), "{field}: {types:?}");
    }
}

/// One word for the status of a resource, one for the person who acted.
#[test]
fn fields_have_the_words_of_the_api() {
    let fields = fields();
    for retired in ["state", "standing", "asked", "step", "workflowName", "delayMs"] {
        assert!(!fields.contains_key(retired), "{retired}: {:?}", fields.get(retired));
    }
}

/// The table itself, for a new field: run with HAPAX_UPDATE=1 to accept a change.
#[test]
fn the_table_of_field_names_is_the_one_on_file() {
    let lines = fields().into_iter().map(|(field, types)| {
        let types: Vec<String> = types.into_keys().collect();
        format!("{field}: {}\n", types.join(" | "))
    });
    let table: String = lines.collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/field_names.txt");
    if std::env::var_os("HAPAX_UPDATE").is_some() {
        std::fs::write(file, &table).unwrap();
    }
    let on_file = std::fs::read_to_string(file).unwrap_or_default();
    assert!(on_file == table, "the fields of the API changed; look at them, then run with HAPAX_UPDATE=1");
}
