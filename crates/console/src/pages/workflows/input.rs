//! Fields for the input of a run, made from its JSON Schema, and the JSON that was filled in.
//!
//! What the schema says with other keywords than these, a field of JSON takes. The server checks all of it in the end.

use maud::{Markup, html};
use serde_json::Value;

use crate::form;
use crate::limits::MAX_INPUT_DEPTH;

/// One field, named by its JSON Pointer.
#[derive(Debug)]
pub(super) struct Field {
    name: String,
    key: String,
    label: String,
    about: Option<String>,
    is_required: bool,
    kind: Kind,
    default: Option<Value>,
}

#[derive(Debug)]
enum Kind {
    Text(&'static str),
    Number,
    Flag,
    Choice(Vec<Value>),
    Object(Vec<Field>),
    Json,
}

/// Text of a field by its name; `None` before the form was sent.
pub(super) type Typed<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The fields of an object, the required ones first; none if the schema names no properties.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    members(schema, schema, "input", 0)
}

fn members(root: &Value, schema: &Value, prefix: &str, depth: usize) -> Vec<Field> {
    let schema = followed(root, schema);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|names| names.iter().any(|name| name == key));
    let mut fields: Vec<_> = properties
        .iter()
        .map(|(key, schema)| field(root, schema, prefix, key, is_required(key), depth))
        .collect();
    fields.sort_by_key(|field| !field.is_required);
    fields
}

fn field(root: &Value, given: &Value, prefix: &str, key: &str, is_required: bool, depth: usize) -> Field {
    let schema = followed(root, given);
    let text = |name: &str| schema.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let name = format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
    let kind = kind(root, schema, &name, depth);
    Field {
        kind,
        key: key.to_owned(),
        label: text("title").unwrap_or_else(|| key.to_owned()),
        about: text("description"),
        is_required,
        default: schema.get("default").cloned(),
        name,
    }
}

/// The schema that a reference within the document leads to.
fn followed<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_INPUT_DEPTH {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

fn kind(root: &Value, schema: &Value, name: &str, depth: usize) -> Kind {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Kind::Choice(values.clone());
    }
    if let Some(value) = schema.get("const") {
        return Kind::Choice(vec![value.clone()]);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Kind::Text(match schema.get("format").and_then(Value::as_str) {
            Some("email") => "email",
            Some("date") => "date",
            Some("uri") => "url",
            _ => "text",
        }),
        Some("number" | "integer") => Kind::Number,
        Some("boolean") => Kind::Flag,
        Some("object") if depth < MAX_INPUT_DEPTH => match members(root, schema, name, depth + 1) {
            fields if fields.is_empty() => Kind::Json,
            fields => Kind::Object(fields),
        },
        _ => Kind::Json,
    }
}

/// The fields, with what was typed before, or else their defaults.
pub(super) fn render(fields: &[Field], typed: Typed<'_>, is_demanded: bool) -> Markup {
    html! { @for field in fields { (one(field, typed, is_demanded && field.is_required)) } }
}

fn one(field: &Field, typed: Typed<'_>, is_demanded: bool) -> Markup {
    let value = typed(&field.name).unwrap_or_else(|| default(field));
    let about = field.about.as_deref();
    let optional = html! { @if !field.is_required { small { " (optional)" } } };
    let hint = html! { @if let Some(about) = about { small { (about) } } };
    match &field.kind {
        Kind::Text(kind) => html! {
            label.field { span { (field.label) (optional) }
                input type=(kind) name=(field.name) value=(value) required[is_demanded] autocomplete="off"; (hint) }
        },
        Kind::Number => html! {
            label.field { span { (field.label) (optional) }
                input type="text" inputmode="decimal" name=(field.name) value=(value) required[is_demanded] autocomplete="off" placeholder="a number"; (hint) }
        },
        Kind::Flag => chosen(
            field,
            &value,
            &[("true".into(), "yes".into()), ("false".into(), "no".into())],
            is_demanded,
        ),
        Kind::Choice(values) => {
            let options: Vec<_> = values
                .iter()
                .map(|it| (it.to_string(), it.as_str().map_or_else(|| it.to_string(), ToOwned::to_owned)))
                .collect();
            chosen(field, &value, &options, is_demanded)
        }
        Kind::Object(fields) => html! {
            fieldset { legend { (field.label) (optional) } (hint) (render(fields, typed, is_demanded)) }
        },
        Kind::Json => form::code_area(
            &field.name,
            &format!("{}{}", field.label, if field.is_required { "" } else { " (optional)" }),
            &value,
            Some(about.unwrap_or("One JSON value.")),
            3,
        ),
    }
}

/// Initial text of the field.
fn default(field: &Field) -> String {
    match (&field.kind, &field.default) {
        (_, None) => String::new(),
        (Kind::Text(_), Some(Value::String(text))) => text.clone(),
        (_, Some(value)) => value.to_string(),
    }
}

/// Did nobody change any of the fields?
fn is_untouched(fields: &[Field], typed: Typed<'_>) -> bool {
    fields.iter().all(|field| match &field.kind {
        Kind::Object(fields) => is_untouched(fields, typed),
        _ => typed(&field.name).is_none_or(|text| text == default(field)),
    })
}

fn chosen(field: &Field, value: &str, options: &[(String, String)], is_demanded: bool) -> Markup {
    html! {
        label.field {
            span { (field.label) @if !field.is_required { small { " (optional)" } } }
            select name=(field.name) required[is_demanded] {
                option value="" { "not given" }
                @for (json, text) in options { option value=(json) selected[json == value] { (text) } }
            }
            @if let Some(about) = &field.about { small { (about) } }
        }
    }
}

/// The JSON object that was filled in. What was left empty is left out. Numbers stay as they were typed.
pub(super) fn read(fields: &[Field], typed: Typed<'_>) -> Result<String, String> {
    Ok(object(fields, typed)?.unwrap_or_else(|| "{}".to_owned()))
}

/// `None` if nothing was given.
fn object(fields: &[Field], typed: Typed<'_>) -> Result<Option<String>, String> {
    let mut members = Vec::new();
    for field in fields {
        if let Some(value) = filled(field, typed)? {
            members.push(format!("{}:{value}", Value::from(field.key.as_str())));
        }
    }
    Ok((!members.is_empty()).then(|| format!("{{{}}}", members.join(","))))
}

fn filled(field: &Field, typed: Typed<'_>) -> Result<Option<String>, String> {
    if let Kind::Object(fields) = &field.kind {
        // Defaults alone do not ask for an object that may be left out.
        if !field.is_required && is_untouched(fields, typed) {
            return Ok(None);
        }
        let given = object(fields, typed)?;
        return Ok(given.or_else(|| field.is_required.then(|| "{}".to_owned())));
    }
    let text = typed(&field.name).unwrap_or_default();
    if text.trim().is_empty() {
        return Ok(None);
    }
    if let Kind::Text(_) = field.kind {
        return Ok(Some(Value::from(text).to_string()));
    }
    let text = text.trim();
    let json = hapax_api::RawJson::from_text(text.to_owned());
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match (&field.kind, json) {
        (Kind::Number, Ok(_)) if is_number => Ok(Some(text.to_owned())),
        (Kind::Number, _) => Err(format!("`{}` is a number, such as 12 or 1.5.", field.label)),
        (_, Ok(json)) => Ok(Some(json.into_text())),
        (_, Err(error)) => Err(format!("`{}` is one JSON value: {error}.", field.label)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["order", "to"],
            "$defs": { "place": { "type": "object", "required": ["city"], "properties": { "city": { "type": "string" }, "zip": { "type": "string", "default": "89073" } } } },
            "properties": {
                "order": { "type": "string" }, "cents": { "type": "integer" }, "gift": { "type": "boolean" },
                "currency": { "enum": ["EUR", 7] }, "lines": { "type": "array" },
                "to": { "$ref": "#/$defs/place" }, "from": { "$ref": "#/$defs/place" }, "a/b": { "type": "string" },
            },
        })
    }

    fn filled_in(given: &[(&str, &str)]) -> Result<String, String> {
        let typed =
            |name: &str| given.iter().find(|(field, _)| *field == name).map(|(_, value)| (*value).to_owned());
        read(&fields(&schema()), &typed)
    }

    #[test]
    fn what_was_typed_becomes_json_and_numbers_stay_as_they_are() {
        let json = filled_in(&[
            ("input/order", "47\"11"),
            ("input/cents", "9007199254740993"),
            ("input/gift", "false"),
            ("input/currency", "7"),
            ("input/lines", "[1, 1.0]"),
            ("input/to/city", "Ulm"),
            ("input/from/city", ""),
            ("input/from/zip", "89073"),
            ("input/a~1b", "x"),
        ]);
        let json = json.unwrap();
        assert!(
            json.contains(r#""cents":9007199254740993"#) && json.contains(r#""lines":[1, 1.0]"#),
            "{json}"
        );
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["order"], "47\"11");
        assert_eq!(
            (&value["gift"], &value["currency"], &value["a/b"]),
            (&json!(false), &json!(7), &json!("x"))
        );
        assert_eq!(
            (&value["to"], value.get("from")),
            (&json!({ "city": "Ulm" }), None),
            "an optional object is left out"
        );
    }

    #[test]
    fn what_is_required_is_there_even_if_it_is_empty_and_wrong_values_are_told() {
        assert_eq!(filled_in(&[]).unwrap(), r#"{"to":{}}"#);
        assert!(filled_in(&[("input/cents", "twelve")]).unwrap_err().contains("cents"));
        assert!(filled_in(&[("input/lines", "[")]).unwrap_err().contains("lines"));
    }

    #[test]
    fn texts_of_a_schema_are_escaped_and_a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "properties": { "<b>": { "$ref": "#/properties/<b>" }, "x": { "type": "object", "$ref": "#" } } });
        let shown = render(&fields(&schema), &|_| None, true).into_string();
        assert!(!shown.contains("<b>"), "{shown}");
    }
}
