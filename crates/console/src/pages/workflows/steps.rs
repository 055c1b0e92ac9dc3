//! The steps of a document, drawn: one under the other, branches side by side.

use maud::{Markup, html};
use serde_json::Value;

use crate::limits::MAX_DRAWN_DEPTH;
use crate::ui;

/// The steps as boxes in the order they run in.
pub(super) fn drawn(document: &Value) -> Markup {
    html! { div.flow tabindex="0" { (list(document.get("steps"), 0)) } }
}

fn list(steps: Option<&Value>, depth: usize) -> Markup {
    let steps = steps.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    html! {
        @if steps.is_empty() { p.dim { "nothing" } }
        @if depth < MAX_DRAWN_DEPTH && !steps.is_empty() { ol.flow-steps { @for step in steps { li { (one(step, depth)) } } } }
    }
}

fn text<'a>(step: &'a Value, name: &str) -> Option<&'a str> {
    step.get(name).and_then(Value::as_str)
}

fn one(step: &Value, depth: usize) -> Markup {
    let kind = text(step, "type").unwrap_or_default();
    html! {
        div.flow-step.(if effect(step).is_some() { "is-effect" } else { "is-plain" }) {
            div.flow-head {
                b { (text(step, "name").unwrap_or_default()) }
                span.dim { (kind.replace('_', " ")) }
                @if let Some(effect) = effect(step) { (ui::tag(effect)) }
                @if step.get("compensate").is_some() { (ui::tag("can be undone")) }
                @if step.get("probe").is_some() { (ui::tag("has a probe")) }
            }
            @if let Some(about) = text(step, "description") { p.dim { (about) } }
            @if let Some(when) = text(step, "when") { p { span.dim { "when " } code { (when) } } }
            @if let Some(told) = told(step, kind) { p { (told) } }
        }
        (inside(step, kind, depth))
    }
}

/// How an effect of the step is kept from happening twice.
fn effect(step: &Value) -> Option<&str> {
    match text(step, "type") {
        Some("http" | "task") => Some(text(step, "effect").unwrap_or("idempotent")),
        _ => None,
    }
}

/// Summary of the step, in one line.
fn told(step: &Value, kind: &str) -> Option<Markup> {
    let code =
        |before: &str, name: &str| text(step, name).map(|it| html! { span.dim { (before) } code { (it) } });
    match kind {
        "http" => {
            text(step, "url").map(|url| html! { code { (text(step, "method").unwrap_or("POST")) " " (url) } })
        }
        "task" => code("", "task"),
        "wait" => code("for ", "for").or_else(|| code("until ", "until")),
        "promise" => code("settled by ", "key"),
        "signal" => code("named ", "signal"),
        "child" => code("runs ", "workflow"),
        "condition" => code("if ", "if"),
        "for_each" => code("each of ", "items"),
        "approval" => Some(html! { span.dim { "asked of " (askees(step)) } }),
        _ => None,
    }
}

fn askees(step: &Value) -> String {
    let names = |pointer: &str| step.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let all = [names("/by/roles"), names("/by/requesters")].concat();
    let all: Vec<_> = all.iter().filter_map(Value::as_str).collect();
    if all.is_empty() { "anybody".to_owned() } else { all.join(", ") }
}

fn inside(step: &Value, kind: &str, depth: usize) -> Markup {
    match kind {
        "condition" => html! {
            div.flow-branches {
                div { span.flow-label { "then" } (list(step.get("then"), depth + 1)) }
                div { span.flow-label { "else" } (list(step.get("else"), depth + 1)) }
            }
        },
        "parallel" => {
            let branches = step.get("branches").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            html! {
                div.flow-branches {
                    @for (place, branch) in branches.iter().enumerate() {
                        div { span.flow-label { "at once " (place + 1) } (list(Some(branch), depth + 1)) }
                    }
                }
            }
        }
        "for_each" => {
            html! { div.flow-branches { div { span.flow-label { "each" } (list(step.get("steps"), depth + 1)) } } }
        }
        _ => html! {},
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_step_is_drawn_wherever_it_stands_and_its_texts_are_escaped() {
        let document = json!({ "steps": [
            { "name": "a<b>", "type": "http", "url": "https://x", "effect": "claimed" },
            { "name": "c", "type": "condition", "if": "true", "then": [{ "name": "d", "type": "parallel", "branches": [[{ "name": "e", "type": "wait", "for": "1h" }], []] }] },
            { "name": "f", "type": "for_each", "items": "{{ input.x }}", "steps": [{ "name": "g", "type": "approval", "by": { "roles": ["manager"] } }] },
        ] });
        let shown = drawn(&document).into_string();
        for name in ["a&lt;b&gt;", "claimed", "<b>d</b>", "<b>e</b>", "<b>g</b>", "asked of manager"] {
            assert!(shown.contains(name), "{name}: {shown}");
        }
        assert!(!shown.contains("a<b>"));
    }
}
