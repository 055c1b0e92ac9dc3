//! The page of each error code, at `/errors/<code>`: what a [`hapax_api::Problem`] points to in its `type`.

use axum::Router;
use axum::extract::Path;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use hapax_api::{Code, ERRORS, ErrorKind};
use http::header;

use crate::answer::Refused;

/// Pages have no scripts, no images and no external resources; the hash allows only their own style
/// element.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#222;\
    background:#fff}code{background:#f2f2f2;padding:.1em .3em}td,th{text-align:left;padding:.2rem 1rem .2rem 0;\
    vertical-align:top}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}code{background:#2a2a2a}a{color:#8bf}}";

/// Paths of the pages.
pub const PATHS: [&str; 2] = ["/errors", "/errors/{code}"];

/// The routes of the pages. They need no credential, because they hold no data.
pub fn routes() -> Router {
    Router::new().route(PATHS[0], get(index)).route(PATHS[1], get(page))
}

async fn index() -> impl IntoResponse {
    html("Errors", &render_index())
}

async fn page(Path(code): Path<String>) -> Result<impl IntoResponse, Refused> {
    let code = Code::from_name(&code).ok_or_else(|| {
        Refused::new(Code::NotFound, "There is no such error code; see /errors for all codes.")
    })?;
    Ok(html(code.as_str(), &render_page(code.kind())))
}

fn html(title: &str, body: &str) -> impl IntoResponse + use<> {
    let title = escape(title);
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title} - Hapax</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>"
    );
    ([(header::CONTENT_SECURITY_POLICY, PAGE_POLICY), (header::CACHE_CONTROL, "max-age=3600")], Html(page))
}

fn render_index() -> String {
    let rows: String = ERRORS
        .iter()
        .map(|kind| {
            let code = escape(kind.code);
            let title = escape(kind.title);
            format!("<tr><td><a href=\"/errors/{code}\"><code>{code}</code></a></td><td>{}</td><td>{title}</td></tr>", kind.status)
        })
        .collect();
    format!("<h1>Errors</h1><table><tr><th>code</th><th>status</th><th>meaning</th></tr>{rows}</table>")
}

fn render_page(kind: &ErrorKind) -> String {
    let again = match kind.retryable {
        true => "The same request, under the same idempotency key, may succeed later.",
        false => "The same request will not succeed later; change something first.",
    };
    format!(
        "<p><a href=\"/errors\">All errors</a></p><h1><code>{}</code></h1><p><strong>{}</strong> (HTTP {})</p><h2>What to \
         do</h2><p>{}</p><p>{again}</p>",
        escape(kind.code),
        escape(kind.title),
        kind.status,
        with_code_spans(&escape(kind.remedy)),
    )
}

/// Text for HTML, in elements and quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Shows text between backquotes as code. `text` is already escaped.
fn with_code_spans(text: &str) -> String {
    let mut is_code = false;
    let mut shown = String::with_capacity(text.len());
    for (i, part) in text.split('`').enumerate() {
        if i > 0 {
            is_code = !is_code;
            shown.push_str(if is_code { "<code>" } else { "</code>" });
        }
        shown.push_str(part);
    }
    shown
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::{Request, StatusCode};
    use tower::ServiceExt;

    use super::*;

    async fn get_page(path: &str) -> (StatusCode, http::HeaderMap, String) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let (parts, body) =
            crate::answer::with_response_layers(routes()).oneshot(request).await.unwrap().into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn every_problem_points_to_a_page_that_says_what_to_do() {
        for kind in ERRORS {
            let problem = hapax_api::Problem::new(Code::from_name(kind.code).unwrap(), "");
            let (status, headers, page) = get_page(&problem.kind).await;
            assert_eq!(status, StatusCode::OK, "{}", kind.code);
            assert!(
                headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none'")
            );
            assert!(page.contains(kind.code) && page.contains(&escape(kind.title)), "{}", kind.code);
            assert_eq!(page.matches("<code>").count(), page.matches("</code>").count(), "{}", kind.code);
        }
        assert!(get_page("/errors").await.2.contains("/errors/claim_failed"));
    }

    #[tokio::test]
    async fn an_unknown_code_is_not_echoed() {
        let (status, _, page) = get_page("/errors/%3Cscript%3Ealert(1)").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(!page.contains("script"));
    }

    #[test]
    fn html_is_escaped() {
        assert_eq!(escape(r#"<a href="x">'&"#), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }
}
