//! Outgoing responses: errors as problems, a trace id and security headers on everything, and no
//! panic that escapes.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hapax_api::{Code, PROBLEM_JSON, Problem};
use hapax_http_idempotency::Outcome;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::connection::Peer;
use crate::limits::MAX_ECHO_CHARS;
use crate::trace::TraceId;

/// An error response. Handlers answer `Result<_, Refused>`, and `?` turns a [`Problem`] into one.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused(Box<Problem>);

impl Refused {
    /// Creates an error with this code. `detail` should say what to do next.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    /// The problem that is sent.
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    /// Adds a member of the code.
    #[must_use]
    pub fn with(self, member: &str, value: impl Into<serde_json::Value>) -> Self {
        Refused(Box::new((*self.0).with(member, value)))
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Refused(Box::new(problem))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut problem = *self.0;
        if problem.trace_id.is_none() {
            problem.trace_id = TraceId::current().map(|id| id.to_string());
        }
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(outcome_of(problem.code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = problem.retry_after.map(|wait| wait.0.as_secs()) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"hapax\""));
        }
        response
    }
}

/// Decides if an error is stored under the request's key. An error that changed nothing releases
/// the key, so the caller can correct or repeat the request under the same key. A failure of the
/// server counts as the answer.
fn outcome_of(code: Code) -> Outcome {
    match code {
        Code::OutcomeUnknown => Outcome::Unknown,
        Code::StoreUnavailable
        | Code::ShuttingDown
        | Code::TooManyConnections
        | Code::BodyMemoryFull
        | Code::NodeUnreachable
        | Code::SecretUnavailable => Outcome::Release,
        code if code.kind().status < 500 => Outcome::Release,
        _ => Outcome::Store,
    }
}

/// Excerpt of a request, safe to repeat in a response: short, and without control characters.
pub fn echo(text: &str) -> String {
    let mut echoed: String =
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_ECHO_CHARS).collect();
    if text.chars().nth(MAX_ECHO_CHARS).is_some() {
        echoed.push('…');
    }
    echoed
}

/// Wraps `routes` in the layers that every route has. Call it last, after all routes and their own
/// layers are added.
pub fn with_response_layers(routes: Router) -> Router {
    add_response_layers(refuse_all_else(routes))
}

/// Like `with_response_layers`, for routes that handle unknown paths and methods by themselves.
pub(crate) fn add_response_layers(routes: Router) -> Router {
    let answer = async |request: Request, next: Next| {
        let (id, is_tls) = (TraceId::from_request(request.headers()), Peer::is_tls(&request));
        with_response_headers(id, is_tls, next.run(request).map(Ok)).await
    };
    routes.layer(from_fn(answer))
}

/// Rejects unknown paths and methods in the same way as all other errors.
pub(crate) fn refuse_all_else(routes: Router) -> Router {
    routes.fallback(refuse_unknown_path).method_not_allowed_fallback(refuse_method)
}

/// Adds the common parts of a response: a trace id, which log lines and errors get too, security
/// headers, and a 500 instead of a panic. One layer does all of it, because each layer of a router
/// is copied and boxed for every request.
pub(crate) async fn with_response_headers(
    id: TraceId,
    is_tls: bool,
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> Response {
    let mut response = id.scope(catch_panics(answer)).await;
    add_security_headers(response.headers_mut(), is_tls);
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        response.headers_mut().insert(HeaderName::from_static("x-trace-id"), value);
    }
    response
}

async fn refuse_unknown_path(request: Request) -> Refused {
    let path = echo(request.uri().path());
    Refused::new(Code::NotFound, format!("There is no route {path}. See /openapi.json for all routes."))
}

async fn refuse_method(request: Request) -> Refused {
    let (method, path) = (echo(request.method().as_str()), echo(request.uri().path()));
    Refused::new(
        Code::MethodNotAllowed,
        format!("{path} does not take {method}; `Allow` lists the methods it takes."),
    )
}

/// Turns a handler's panic into a 500 without details. The connection stays open.
async fn catch_panics(work: impl Future<Output = Result<Response, Infallible>>) -> Response {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => {
            // The panic's text may hold anything; the hook (`logging::log_panics`) has already
            // logged it.
            tracing::error!(trace_id = ?TraceId::current(), "a handler panicked");
            let detail = "The server failed; its logs have the cause under this traceId. If the request had an \
                          idempotency key, send it again under the same key.";
            Refused::new(Code::Internal, detail).into_response()
        }
    }
}

const ALWAYS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const UNLESS_SET: [(HeaderName, &str); 2] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
];

/// Forbids sniffing and framing, and caching unless a handler allowed it. There are no CORS
/// headers: browsers of other origins are not allowed.
fn add_security_headers(headers: &mut HeaderMap, is_tls: bool) {
    headers.reserve(ALWAYS.len() + UNLESS_SET.len());
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in UNLESS_SET {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    async fn ask(method: &str, path: &str) -> (Response, serde_json::Value) {
        let routes = Router::new()
            .route("/fine", get(|| async { "fine" }))
            .route("/cached", get(|| async { ([("cache-control", "max-age=60")], "kept") }))
            .route("/panics", get(|| async { panic!("canary-secret") as &'static str }))
            .route("/busy", get(|| async { Err::<(), _>(Refused::from(busy())) }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            .body(Body::empty())
            .unwrap();
        let (parts, body) = with_response_layers(routes).oneshot(request).await.unwrap().into_parts();
        let bytes = axum::body::to_bytes(body, 65_536).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(serde_json::Value::Null);
        (Response::from_parts(parts, Body::empty()), json)
    }

    fn busy() -> Problem {
        Problem::new(Code::RateLimited, "Wait.").retry_after(7)
    }

    #[tokio::test]
    async fn an_unknown_path_and_a_wrong_method_are_problems() {
        let (response, problem) = ask("GET", "/nothing").await;
        assert_eq!((response.status(), &problem["code"]), (StatusCode::NOT_FOUND, &"not_found".into()));
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        for method in ["DELETE", "BREW"] {
            let (response, problem) = ask(method, "/fine").await;
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(problem["code"], "method_not_allowed");
            assert_eq!(response.headers()[header::ALLOW], "GET,HEAD");
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_500_without_details() {
        let (response, problem) = ask("GET", "/panics").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(problem["code"], "internal");
        assert!(!problem.to_string().contains("canary-secret"));
    }

    #[tokio::test]
    async fn a_refusal_carries_the_trace_and_when_to_come_back() {
        let (response, problem) = ask("GET", "/busy").await;
        assert_eq!(problem["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(response.headers()["x-trace-id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    }

    #[tokio::test]
    async fn every_answer_has_the_security_headers_and_none_speaks_of_cors() {
        for path in ["/fine", "/cached", "/panics", "/nothing"] {
            let (response, _) = ask("GET", path).await;
            assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
            assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY), "{path}");
            assert!(!response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{path}");
            let cache = if path == "/cached" { "max-age=60" } else { "no-store" };
            assert_eq!(response.headers()[header::CACHE_CONTROL], cache, "{path}");
        }
    }

    #[test]
    fn echoed_text_is_short_and_harmless() {
        let echoed = echo(&format!("a\u{1b}[31m\n{}", "x".repeat(10_000)));
        assert!(echoed.chars().count() <= MAX_ECHO_CHARS + 1);
        assert!(!echoed.contains('\u{1b}') && !echoed.contains('\n'));
    }
}
