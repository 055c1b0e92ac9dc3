//! One operation: parameters, responses, errors, and an example.

use std::collections::BTreeMap;

use hapax_api::Code;
use serde_json::Value;

use super::markdown::{self, escape, inline};
use super::schema::{render_field, render_fields, type_of};
use super::{Described, list, push, resolve, text};
use crate::openapi;

pub(super) fn render(page: &mut String, description: &Value, operation: &Described<'_>) {
    let (value, method) = (operation.value, operation.method.to_ascii_uppercase());
    let id = text(&value["operationId"]);
    push(
        page,
        format_args!(
            "<article id=\"{id}\" class=\"operation\"><div class=\"told\"><h3><a href=\"#{id}\">{}</a></h3><p class=\"route\">\
             <span class=\"method {}\">{method}</span> <code>{}</code></p>",
            escape(text(&value["summary"])),
            operation.method,
            with_breaks(operation.path),
        ),
    );
    markdown::render(page, text(&value["description"]));
    let role = match text(&value["x-required-role"]) {
        "none" => "No credential needed.".to_owned(),
        role => format!("Needs the role <strong>{}</strong>.", escape(role)),
    };
    push(page, format_args!("<p class=\"role\">{role}</p>"));
    render_parameters(page, description, value);
    render_body(page, description, value);
    render_answers(page, description, value);
    render_errors(page, value);
    page.push_str("</div><div class=\"shown\">");
    render_example(page, operation);
    page.push_str("</div></article>");
}

/// Adds break opportunities after the slashes of a path.
fn with_breaks(path: &str) -> String {
    escape(path).replace('/', "/<wbr>")
}

fn render_parameters(page: &mut String, description: &Value, operation: &Value) {
    let parameters: Vec<&Value> =
        list(&operation["parameters"]).map(|one| resolve(description, one)).collect();
    for (place, title) in [("path", "Path"), ("query", "Query"), ("header", "Headers")] {
        let mut here = parameters.iter().filter(|parameter| parameter["in"] == place).peekable();
        if here.peek().is_none() {
            continue;
        }
        push(page, format_args!("<h4>{title}</h4><dl class=\"fields\">"));
        for parameter in here {
            let is_required = parameter["required"] == true;
            let about = text(&parameter["description"]);
            render_field(page, text(&parameter["name"]), &parameter["schema"], is_required, about);
        }
        page.push_str("</dl>");
    }
}

fn render_body(page: &mut String, description: &Value, operation: &Value) {
    let Some(body) = operation.get("requestBody") else { return };
    let optional = if body["required"] == true { "" } else { " <span class=\"type\">optional</span>" };
    let contents = body["content"].as_object();
    let kinds: Vec<&str> = contents.into_iter().flatten().map(|(kind, _)| kind.as_str()).collect();
    push(page, format_args!("<h4>Body{optional}</h4><p class=\"kinds\">{}</p>", escape(&kinds.join(" or "))));
    markdown::render(page, text(&body["description"]));
    let schema = &body["content"]["application/json"]["schema"];
    render_fields(page, resolve(description, schema));
}

fn render_answers(page: &mut String, description: &Value, operation: &Value) {
    page.push_str("<h4>Responses</h4><dl class=\"answers\">");
    for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
        let answer = resolve(description, answer);
        if answer.get("x-problem-codes").is_some() {
            continue;
        }
        push(page, format_args!("<div><dt>{status}</dt><dd>{}", inline(text(&answer["description"]))));
        for (kind, content) in answer["content"].as_object().into_iter().flatten() {
            match kind.as_str() {
                "application/json" => {
                    push(page, format_args!(" <span class=\"type\">{}</span>", type_of(&content["schema"])));
                }
                kind => push(page, format_args!(" <span class=\"type\">{}</span>", escape(kind))),
            }
        }
        let headers: Vec<String> = answer["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, header)| {
                let about = text(&resolve(description, header)["description"]);
                format!("<li><code>{}</code> {}</li>", escape(name), inline(about))
            })
            .collect();
        if !headers.is_empty() {
            push(
                page,
                format_args!("<details><summary>Headers</summary><ul>{}</ul></details>", headers.concat()),
            );
        }
        page.push_str("</dd></div>");
    }
    page.push_str("</dl>");
}

/// Codes by status, each with its title and a link to its page.
fn render_errors(page: &mut String, operation: &Value) {
    let codes = list(&operation["x-problem-codes"]).filter_map(|code| Code::from_name(text(code)));
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    codes.for_each(|code| by_status.entry(code.kind().status).or_default().push(code));
    if by_status.is_empty() {
        return;
    }
    let statuses: Vec<String> = by_status.keys().map(u16::to_string).collect();
    push(
        page,
        format_args!(
            "<details class=\"errors\"><summary><strong>Errors</strong> <span class=\"type\">{}</span></summary><dl>",
            statuses.join(", ")
        ),
    );
    for (status, codes) in by_status {
        push(page, format_args!("<div><dt>{status}</dt><dd><ul>"));
        for code in codes {
            let kind = code.kind();
            push(
                page,
                format_args!(
                    "<li><a href=\"/errors/{0}\"><code>{0}</code></a> {1}</li>",
                    escape(kind.code),
                    escape(kind.title)
                ),
            );
        }
        page.push_str("</ul></dd></div>");
    }
    page.push_str("</dl></details>");
}

fn render_example(page: &mut String, operation: &Described<'_>) {
    let id = text(&operation.value["operationId"]);
    let examples = openapi::examples_of(id);
    let Some(request) = examples.first().map(|example| &example.request) else { return };
    let mut lines = vec![format!("curl \"$HAPAX_URL{}\"", request.target)];
    if operation.method != "get" {
        lines[0] =
            format!("curl -X {} \"$HAPAX_URL{}\"", operation.method.to_ascii_uppercase(), request.target);
    }
    if !operation.value["security"].as_array().is_none_or(Vec::is_empty) {
        lines.push("  -H \"Authorization: Bearer $HAPAX_API_KEY\"".to_owned());
    }
    for (name, value) in &request.headers {
        lines.push(format!("  -H '{name}: {value}'"));
    }
    if let Some(body) = &request.body {
        lines.push("  -H 'Content-Type: application/json'".to_owned());
        let body = serde_json::to_string_pretty(body).unwrap_or_default().replace('\'', "'\\''");
        lines.push(format!("  -d '{body}'"));
    }
    push(
        page,
        format_args!(
            "<figure><figcaption>Request</figcaption><pre><code>{}</code></pre></figure>",
            escape(&lines.join(" \\\n"))
        ),
    );
    for answer in examples.iter().map(|example| &example.answer) {
        let headers: String =
            answer.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let body = match &answer.body {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(body) => serde_json::to_string_pretty(body).unwrap_or_default(),
        };
        let blank = if headers.is_empty() || body.is_empty() { "" } else { "\n" };
        if headers.is_empty() && body.is_empty() {
            continue;
        }
        push(
            page,
            format_args!(
                "<figure><figcaption>Response <span class=\"status\">{}</span></figcaption><pre><code>{}{blank}{}</code></pre></figure>",
                answer.status,
                escape(&headers),
                escape(&body)
            ),
        );
    }
}
