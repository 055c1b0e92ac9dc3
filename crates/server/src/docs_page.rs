//! The reference at `/docs`: a web page rendered from the OpenAPI description. It needs nothing from elsewhere, and works without its
//! script, which only filters.

mod markdown;
mod operation;
mod schema;

use std::fmt::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::header;
use serde_json::Value;

use crate::openapi;

/// Pages load their own style and script, and nothing else.
pub(crate) const PAGE_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; \
                                      form-action 'none'; frame-ancestors 'none'";

/// Where the style and the script are.
pub(crate) const ASSET_PATHS: [&str; 2] = ["/docs/style.css", "/docs/search.js"];

const STYLE: &str = include_str!("docs_page/style.css");
const SCRIPT: &str = include_str!("docs_page/search.js");

/// The reference.
pub(crate) fn answer() -> Response {
    static PAGE: LazyLock<String> = LazyLock::new(|| render(openapi::description()));
    let headers = [(header::CONTENT_SECURITY_POLICY, PAGE_POLICY), (header::CACHE_CONTROL, "max-age=300")];
    (headers, Html(PAGE.as_str())).into_response()
}

/// Routes of the style and the script. They need no credential, because they hold no data.
pub(crate) fn assets() -> Router {
    let asset = |kind: &'static str, text: &'static str| {
        get(
            move || async move { ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "max-age=300")], text) },
        )
    };
    Router::new()
        .route(ASSET_PATHS[0], asset("text/css; charset=utf-8", STYLE))
        .route(ASSET_PATHS[1], asset("text/javascript; charset=utf-8", SCRIPT))
}

/// One operation as the description has it.
struct Described<'a> {
    path: &'a str,
    method: &'a str,
    value: &'a Value,
}

fn render(description: &Value) -> String {
    let mut page = String::with_capacity(1 << 20);
    let info = &description["info"];
    let version = markdown::escape(text(&info["version"]));
    push(
        &mut page,
        format_args!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width\"><title>Hapax API reference</title><link rel=\"stylesheet\" \
             href=\"/docs/style.css\"><script type=\"module\" src=\"/docs/search.js\"></script></head><body>\
             <a class=\"skip\" href=\"#main\">Skip to the reference</a><header><a class=\"brand\" href=\"/\">Hapax</a>\
             <span class=\"version\">API {version}</span><label class=\"search\" hidden><span>Search</span>\
             <input id=\"search\" type=\"search\" placeholder=\"Search operations\" autocomplete=\"off\"></label>\
             </header><div class=\"columns\">"
        ),
    );
    render_navigation(&mut page, description);
    push(&mut page, format_args!("<main id=\"main\"><section class=\"intro\"><h1>API reference</h1>"));
    markdown::render(&mut page, text(&info["description"]));
    push(
        &mut page,
        format_args!(
            "<p>For programs: <a href=\"/openapi.json\">OpenAPI description</a>. Schemas of documents: \
             <a href=\"/schemas/workflow-definition.json\">workflow definitions</a>, \
             <a href=\"/schemas/entity-workflow.json\">entity workflows</a>, \
             <a href=\"/schemas/webhook-source.json\">webhook sources</a>.</p></section>\
             <p id=\"nothing\" hidden>No operation matches. Try fewer letters.</p>"
        ),
    );
    for tag in list(&description["tags"]) {
        let name = text(&tag["name"]);
        push(
            &mut page,
            format_args!(
                "<section class=\"chapter\" id=\"{}\"><h2>{}</h2>",
                slug(name),
                markdown::escape(name)
            ),
        );
        markdown::render(&mut page, text(&tag["description"]));
        for operation in operations_of(description, name) {
            operation::render(&mut page, description, &operation);
        }
        page.push_str("</section>");
    }
    page.push_str("<section class=\"chapter schemas\" id=\"schemas\"><h2>Schemas</h2><p>Shapes of requests and responses.</p>");
    for (name, schema) in description["components"]["schemas"].as_object().into_iter().flatten() {
        schema::render_section(&mut page, name, schema);
    }
    page.push_str("</section></main></div></body></html>");
    page
}

/// Chapters with their operations. A narrow screen shows the chapters only.
fn render_navigation(page: &mut String, description: &Value) {
    page.push_str("<nav aria-label=\"Operations\"><ul>");
    for tag in list(&description["tags"]) {
        let name = text(&tag["name"]);
        push(
            page,
            format_args!(
                "<li><a class=\"chapter-link\" href=\"#{}\">{}</a><ul>",
                slug(name),
                markdown::escape(name)
            ),
        );
        for operation in operations_of(description, name) {
            push(
                page,
                format_args!(
                    "<li data-for=\"{id}\"><a href=\"#{id}\">{}</a></li>",
                    markdown::escape(text(&operation.value["summary"])),
                    id = text(&operation.value["operationId"]),
                ),
            );
        }
        page.push_str("</ul></li>");
    }
    page.push_str("<li><a class=\"chapter-link\" href=\"#schemas\">Schemas</a></li></ul></nav>");
}

/// Operations of a chapter. For one path, reads come before writes.
fn operations_of<'a>(description: &'a Value, tag: &str) -> Vec<Described<'a>> {
    let paths = description["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        let of_path = methods.as_object().into_iter().flatten();
        of_path.map(move |(method, value)| Described { path, method, value })
    });
    let mut found: Vec<_> = all.filter(|operation| operation.value["tags"][0] == tag).collect();
    found.sort_by_key(|operation| operation.value["x-order"].as_u64());
    found
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(text);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Target of a reference in the description, or the value itself.
fn resolve<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| description.pointer(pointer)).unwrap_or(value)
}

/// URL fragment for a name.
fn slug(name: &str) -> String {
    name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_operation_with_its_parameters_bodies_answers_and_errors() {
        let page = render(openapi::description());
        for methods in openapi::description()["paths"].as_object().unwrap().values() {
            for operation in methods.as_object().unwrap().values() {
                let id = text(&operation["operationId"]);
                assert!(page.contains(&format!("<article id=\"{id}\"")), "{id}");
            }
        }
        let of_cancel =
            page.split("<article id=\"cancel_run\"").nth(1).unwrap().split("</article>").next().unwrap();
        for expected in [
            "If-Match",
            "Idempotency-Key",
            "descendants",
            "/errors/run_ended",
            "#schema-Run",
            "ETag",
            "operator",
        ] {
            assert!(of_cancel.contains(expected), "{expected}: {of_cancel}");
        }
    }

    #[test]
    fn the_page_has_no_inline_script_or_style_and_every_link_into_it_leads_somewhere() {
        let page = render(openapi::description());
        assert!(!page.contains("style=\"") && !page.contains("<style"), "no inline code");
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "#{target}");
        }
        for link in page.split("href=\"/errors/").skip(1) {
            let code = link.split('"').next().unwrap();
            assert!(hapax_api::Code::from_name(code).is_some(), "{code}");
        }
    }
}
