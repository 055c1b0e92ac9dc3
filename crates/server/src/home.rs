//! The start page, with links to everything else.

use axum::Json;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::{HeaderMap, header};
use serde::Serialize;
use utoipa::ToSchema;

use crate::docs_page::PAGE_POLICY;
use crate::negotiate::accepts;

/// Links of the start page.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceIndex {
    /// Name of the program.
    name: &'static str,
    /// Version of the program.
    server_version: &'static str,
    /// Path of the reference, for people.
    docs: &'static str,
    /// Path of the OpenAPI description, for programs.
    openapi: &'static str,
    /// Path of the list of error codes.
    errors: &'static str,
    /// Path of the readiness probe.
    readiness: &'static str,
    /// Path of the liveness probe.
    health: &'static str,
}

const HOME: ServiceIndex = ServiceIndex {
    name: "Hapax",
    server_version: env!("CARGO_PKG_VERSION"),
    docs: "/docs",
    openapi: "/openapi.json",
    errors: "/errors",
    readiness: "/readyz",
    health: "/healthz",
};

/// Redirects browsers to the console, or sends them a page if there is none. Other clients get JSON.
pub(crate) fn answer(headers: &HeaderMap, has_console: bool) -> Response {
    let varies = (header::VARY, "accept");
    match names_html(headers) && accepts(headers, "text", "html") {
        true if has_console => ([varies], Redirect::to(hapax_console::HOME)).into_response(),
        true => ([varies, (header::CONTENT_SECURITY_POLICY, PAGE_POLICY)], Html(page())).into_response(),
        false => ([varies], Json(HOME)).into_response(),
    }
}

/// Returns true if `Accept` names HTML. Programs send only a wildcard.
fn names_html(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| range.trim_start().starts_with("text/html"))
}

fn page() -> String {
    let links = [
        (HOME.docs, "API reference", "Every operation with parameters, bodies, examples and errors."),
        (HOME.errors, "Errors", "Meaning and remedy of every error code."),
        (HOME.openapi, "OpenAPI description", "The same reference for programs."),
        ("/schemas/workflow-definition.json", "Schema of workflow definitions", "For your editor."),
        (HOME.readiness, "Readiness", "Readiness of this server for traffic."),
    ];
    let items: String = links
        .iter()
        .map(|(path, name, about)| format!("<li><a href=\"{path}\">{name}</a><br>{about}</li>"))
        .collect();
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Hapax</title><link rel=\"stylesheet\" href=\"/docs/style.css\">\
         </head><body class=\"home\"><main><h1>Hapax</h1><p>Durable workflows whose effects happen once. This server \
         runs version {}.</p><ul class=\"links\">{items}</ul></main></body></html>",
        HOME.server_version
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(accept: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        let answer = answer(&headers, false);
        answer.headers()[header::CONTENT_TYPE].to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn browsers_get_a_page_and_programs_get_json() {
        assert_eq!(
            kind(Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")),
            "text/html"
        );
        assert_eq!(kind(Some("text/html, application/json")), "text/html");
        for program in [None, Some("*/*"), Some("application/json"), Some("application/*")] {
            assert_eq!(kind(program), "application/json", "{program:?}");
        }
    }
}
