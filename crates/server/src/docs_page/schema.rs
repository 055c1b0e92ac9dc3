//! Schemas as tables of fields.

use serde_json::Value;

use super::markdown::{escape, inline};
use super::{list, push, text};

/// The type of a value, with a link if it has a section of its own.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return match name {
            "RawJson" => "any JSON".to_owned(),
            name => format!("<a href=\"#schema-{0}\">{0}</a>", escape(name)),
        };
    }
    if let Some(either) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        return either.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().map(type_of).collect::<Vec<_>>().join(" and ");
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&schema["additionalProperties"]))
        }
        Some(kind) => match schema["format"].as_str() {
            Some("date-time") => "timestamp".to_owned(),
            _ => escape(kind),
        },
        None => "any JSON".to_owned(),
    }
}

/// Limits on a value, in words.
fn limits_of(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_u64();
    let mut limits = Vec::new();
    match (number("minLength"), number("maxLength")) {
        (Some(least), Some(most)) => limits.push(format!("{least} to {most} characters")),
        (None, Some(most)) => limits.push(format!("at most {most} characters")),
        _ => {}
    }
    match (number("minItems"), number("maxItems")) {
        (Some(least), Some(most)) => limits.push(format!("{least} to {most} items")),
        (None, Some(most)) => limits.push(format!("at most {most} items")),
        _ => {}
    }
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => limits.push(format!("{least} to {most}")),
        (None, Some(most)) => limits.push(format!("at most {most}")),
        _ => {}
    }
    let default = &schema["default"];
    if !default.is_null() {
        limits.push(format!("default {}", escape(&default.to_string())));
    }
    let values: Vec<String> = list(&schema["enum"])
        .filter_map(Value::as_str)
        .map(|value| format!("<code>{}</code>", escape(value)))
        .collect();
    if !values.is_empty() && values.len() <= 12 {
        limits.push(format!("one of {}", values.join(", ")));
    }
    match limits.is_empty() {
        true => String::new(),
        false => format!(" <span class=\"limits\">{}</span>", limits.join("; ")),
    }
}

/// One row: name, type, whether it is required, what it means.
pub(super) fn render_field(page: &mut String, name: &str, schema: &Value, is_required: bool, about: &str) {
    let required = if is_required { " <span class=\"required\">required</span>" } else { "" };
    push(
        page,
        format_args!(
            "<div class=\"field\"><dt><code>{}</code> <span class=\"type\">{}</span>{required}</dt><dd>{}{}</dd></div>",
            escape(name),
            type_of(schema),
            inline(about),
            limits_of(schema),
        ),
    );
}

/// Fields of an object; nothing for anything else.
pub(super) fn render_fields(page: &mut String, schema: &Value) {
    let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) else { return };
    let is_required = |name: &str| list(&schema["required"]).any(|required| required == name);
    page.push_str("<dl class=\"fields\">");
    // Required fields come first.
    let (first, then): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| is_required(name));
    for (name, field) in first.into_iter().chain(then) {
        render_field(page, name, field, is_required(name), text(&field["description"]));
    }
    page.push_str("</dl>");
}

/// The section of a shared schema.
pub(super) fn render_section(page: &mut String, name: &str, schema: &Value) {
    push(page, format_args!("<article class=\"schema\" id=\"schema-{0}\"><h3>{0}</h3>", escape(name)));
    super::markdown::render(page, text(&schema["description"]));
    let values: Vec<&str> = list(&schema["enum"]).filter_map(Value::as_str).collect();
    if !values.is_empty() {
        page.push_str("<p class=\"values\">");
        for value in values {
            push(page, format_args!("<code>{}</code> ", escape(value)));
        }
        page.push_str("</p>");
    }
    let variants = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    for variant in variants.into_iter().flatten() {
        push(page, format_args!("<p>{}: {}</p>", type_of(variant), inline(text(&variant["description"]))));
        render_fields(page, variant);
    }
    for part in list(&schema["allOf"]) {
        push(page, format_args!("<p>All of {}.</p>", type_of(part)));
        render_fields(page, part);
    }
    render_fields(page, schema);
    page.push_str("</article>");
}
