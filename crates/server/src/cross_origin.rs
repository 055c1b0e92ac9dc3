//! Pages of other origins that may use action tokens (CORS). Only the routes that take such tokens, and only for the
//! origins in the settings; cookies are never allowed along.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderValue, Method, StatusCode, Uri};

use crate::app::App;

/// Origins of pages that may use action tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionOrigins(BTreeSet<String>);

impl ActionOrigins {
    /// Adds an origin such as `https://admin.example.com`, as browsers write it. `None` if it is none.
    #[must_use]
    pub fn with(mut self, origin: &str) -> Option<Self> {
        let uri: Uri = origin.parse().ok()?;
        let (scheme, host) = (uri.scheme_str()?, uri.authority()?);
        let is_plain = matches!(scheme, "http" | "https") && !host.as_str().contains('@');
        let written = format!("{scheme}://{}", host.as_str().to_ascii_lowercase());
        (is_plain && written == origin).then(|| {
            self.0.insert(written);
            self
        })
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn allows(&self, origin: &HeaderValue) -> bool {
        origin.to_str().is_ok_and(|origin| self.0.contains(origin))
    }
}

impl fmt::Display for ActionOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    }
}

/// Does this route take action tokens? `path` is a template.
pub(crate) fn takes_action_tokens(method: &Method, path: &str) -> bool {
    match path {
        "/api/v1/entities/{type}/{id}" => method == Method::GET,
        "/api/v1/entities/{type}/{id}/steps/{stepKey}" => method == Method::POST,
        _ => false,
    }
}

/// Method of the route at this path that takes action tokens.
fn method_at(path: &str) -> Option<&'static str> {
    let rest = path.strip_prefix("/api/v1/entities/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        [kind, id] if !kind.is_empty() && !id.is_empty() => Some("GET"),
        [_, _, "steps", step] if !step.is_empty() => Some("POST"),
        _ => None,
    }
}

/// Answers preflights, and marks what pages of the allowed origins may read.
pub(crate) async fn allow_origins(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(method) = method_at(request.uri().path()) else { return next.run(request).await };
    let origin =
        request.headers().get(ORIGIN).filter(|origin| app.options.action_origins.allows(origin)).cloned();
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&origin, is_preflight) {
        (Some(_), true) => StatusCode::NO_CONTENT.into_response(),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = "etag, idempotency-replayed, location, retry-after, x-trace-id";
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
        if is_preflight {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(method));
            let allowed = "authorization, content-type, idempotency-key, if-match, prefer";
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for good in ["https://admin.example.com", "http://127.0.0.1:8080", "http://[::1]:80"] {
            assert!(ActionOrigins::default().with(good).is_some(), "{good}");
        }
        for bad in [
            "*",
            "null",
            "admin.example.com",
            "https://x/",
            "https://X.example",
            "ftp://x",
            "https://a@b",
            "",
        ] {
            assert!(ActionOrigins::default().with(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn only_the_routes_of_tokens_are_open_to_other_origins() {
        assert_eq!(method_at("/api/v1/entities/refund/R1"), Some("GET"));
        assert_eq!(method_at("/api/v1/entities/refund/R1/steps/close"), Some("POST"));
        for other in [
            "/api/v1/entities/refund",
            "/api/v1/entities/refund/R1/steps/close/override",
            "/api/v1/entities/refund/R1/action-tokens",
            "/api/v1/credentials",
            "/console/entities/refund/R1",
        ] {
            assert_eq!(method_at(other), None, "{other}");
        }
    }
}
