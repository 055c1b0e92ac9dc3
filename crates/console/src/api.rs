//! How pages ask the API: in this process, through the same routes as everybody else.

use axum::Router;
use axum::body::Body;
use hapax_api::{Code, Problem};
use http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH};
use http::{Extensions, HeaderName, Request, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use crate::limits::{MAX_ANSWER_BYTES, MAX_STEP_WAIT};
use crate::ops::Op;
use crate::{ops, text};

/// The API, as one caller asks it.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) routes: Router,
    /// Identity and address of the caller.
    pub(crate) marks: Extensions,
}

/// A successful answer of the API.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The body, byte for byte.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.bytes).map_err(|error| unreadable(&error))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Guards of a change: an idempotency key, and the version that the page showed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guards<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
}

impl Api {
    /// Reads: `arguments` fill the braces of the path, `query` is what [`text::query`] makes.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<T, Problem> {
        self.ask(op, arguments, query).await?.read()
    }

    /// Reads, and gives the body as it is.
    pub(crate) async fn ask(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<Answer, Problem> {
        let path = text::fill(op.path, arguments) + &text::query(query);
        self.call(op, &path, Guards::default(), None).await
    }

    /// Reads; `None` if there is no such thing.
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        op: &Op,
        arguments: &[&str],
    ) -> Result<Option<T>, Problem> {
        match self.read(op, arguments, &[]).await {
            Ok(found) => Ok(Some(found)),
            Err(problem) if problem.status == 404 => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Changes something.
    pub(crate) async fn send<T: Serialize>(
        &self,
        op: &Op,
        arguments: &[&str],
        guards: Guards<'_>,
        body: &T,
    ) -> Result<Answer, Problem> {
        self.send_with(op, arguments, &[], guards, Some(body)).await
    }

    /// Changes something by an operation that takes a query, or no body.
    pub(crate) async fn send_with<T: Serialize>(
        &self,
        op: &Op,
        arguments: &[&str],
        query: &[(&str, Option<&str>)],
        guards: Guards<'_>,
        body: Option<&T>,
    ) -> Result<Answer, Problem> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|error| unreadable(&error))?;
        let path = text::fill(op.path, arguments) + &text::query(query);
        self.call(op, &path, guards, body).await
    }

    /// Follows what happens after the event `seen`; the body is a stream of server-sent events.
    pub(crate) async fn follow(&self, op: &Op, arguments: &[&str], seen: &str) -> Result<Body, Problem> {
        let mut request = Request::builder().method(op.method.clone()).uri(text::fill(op.path, arguments));
        if !seen.is_empty() {
            request = request.header("last-event-id", seen);
        }
        let mut request = request.body(Body::empty()).map_err(|error| unreadable(&error))?;
        request.extensions_mut().extend(self.marks.clone());
        let Ok(answer) = self.routes.clone().oneshot(request).await;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let bytes = axum::body::to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await;
        let bytes = bytes.map_err(|error| unreadable(&error))?;
        Err(serde_json::from_slice(&bytes).unwrap_or_else(|error| unreadable(&error)))
    }

    async fn call(
        &self,
        op: &Op,
        path: &str,
        guards: Guards<'_>,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, Problem> {
        let mut request = Request::builder().method(op.method.clone()).uri(path);
        if op.path != crate::ops::SHOW_METRICS.path {
            request = request.header(ACCEPT, "application/json");
        }
        if let Some(key) = guards.key {
            request = request.header(HeaderName::from_static("idempotency-key"), key);
        }
        if let Some(version) = guards.version {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if [ops::TAKE_STEP.path, ops::OVERRIDE_STEP.path].contains(&op.path) {
            // Its page says that it is in progress, and follows it.
            request = request.header("prefer", format!("wait={}", MAX_STEP_WAIT.as_secs()));
        }
        let body = body.map_or_else(Body::empty, Body::from);
        let mut request = request.body(body).map_err(|error| {
            Problem::new(Code::InvalidRequest, format!("The request cannot be made: {error}."))
        })?;
        request.extensions_mut().extend(self.marks.clone());
        let Ok(answer) = self.routes.clone().oneshot(request).await;
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await;
        let bytes = bytes.map_err(|error| unreadable(&error))?;
        match parts.status {
            status if status.is_success() => Ok(Answer { bytes: bytes.into() }),
            // A node that is not ready answers 503, with its checks in the body.
            StatusCode::SERVICE_UNAVAILABLE if op.path == crate::ops::SHOW_READINESS.path => {
                Ok(Answer { bytes: bytes.into() })
            }
            _ => Err(serde_json::from_slice(&bytes).unwrap_or_else(|error| unreadable(&error))),
        }
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "the console cannot read an answer of the API");
    Problem::new(Code::Internal, "An answer of the API cannot be read. The server's logs have the cause.")
}
