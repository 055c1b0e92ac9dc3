//! Problems that replace the service's response, in one table of codes.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Extensions, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::BoxError;

/// Reason why a request did not get an answer from the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The key is empty, too long, not printable, or sent twice.
    InvalidKey,
    /// The key is missing and required.
    KeyMissing,
    /// The time of first sending is not an HTTP date.
    InvalidFirstSent,
    /// The request does not identify its caller.
    CallerUnknown,
    /// The body ended early.
    BodyUnreadable,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// The key belongs to a different request.
    KeyConflict,
    /// An identical request is in progress.
    InProgress,
    /// The first attempt crashed, and its outcome is unknown.
    InDoubt,
    /// The request was answered, but the answer was not stored: it was too large or contains a secret.
    AnswerNotKept,
    /// The answer has expired, and the key is not free yet.
    KeyExpired,
    /// The key is unknown, and the request is so old that its key would have been purged.
    WindowPassed,
    /// The store is unreachable, so nothing began.
    StoreUnavailable,
    /// The service failed while it processed the request.
    HandlerFailed,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 14] = [
        Code::InvalidKey,
        Code::KeyMissing,
        Code::InvalidFirstSent,
        Code::CallerUnknown,
        Code::BodyUnreadable,
        Code::BodyTooLarge,
        Code::KeyConflict,
        Code::InProgress,
        Code::InDoubt,
        Code::AnswerNotKept,
        Code::KeyExpired,
        Code::WindowPassed,
        Code::StoreUnavailable,
        Code::HandlerFailed,
    ];

    /// The code in responses.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        self.row().1
    }

    /// Returns true if the same request may succeed later under the same key.
    pub const fn is_retryable(self) -> bool {
        self.row().2
    }

    /// Title.
    pub const fn title(self) -> &'static str {
        self.row().3
    }

    const fn row(self) -> (&'static str, StatusCode, bool, &'static str) {
        use StatusCode as S;
        match self {
            Code::InvalidKey => {
                ("invalid_idempotency_key", S::BAD_REQUEST, false, "The idempotency key is not valid")
            }
            Code::KeyMissing => {
                ("idempotency_key_missing", S::BAD_REQUEST, false, "An idempotency key is needed")
            }
            Code::InvalidFirstSent => {
                ("invalid_first_sent", S::BAD_REQUEST, false, "The time of the first sending is not valid")
            }
            Code::CallerUnknown => ("caller_unknown", S::UNAUTHORIZED, false, "The caller is not known"),
            Code::BodyUnreadable => ("body_unreadable", S::BAD_REQUEST, true, "The body broke off"),
            Code::BodyTooLarge => ("body_too_large", S::PAYLOAD_TOO_LARGE, false, "The body is too large"),
            Code::KeyConflict => (
                "idempotency_key_conflict",
                S::UNPROCESSABLE_ENTITY,
                false,
                "The key was used for another request",
            ),
            Code::InProgress => ("request_in_progress", S::CONFLICT, true, "The request is in progress"),
            Code::InDoubt => {
                ("request_in_doubt", S::CONFLICT, false, "Nobody knows whether the request happened")
            }
            Code::AnswerNotKept => ("answer_not_kept", S::CONFLICT, false, "The answer was not kept"),
            Code::KeyExpired => ("idempotency_key_expired", S::GONE, false, "The key has expired"),
            Code::WindowPassed => {
                ("idempotency_window_passed", S::PRECONDITION_FAILED, false, "The retry comes too late")
            }
            Code::StoreUnavailable => {
                ("store_unavailable", S::SERVICE_UNAVAILABLE, true, "The store cannot be reached")
            }
            Code::HandlerFailed => {
                ("handler_failed", S::INTERNAL_SERVER_ERROR, false, "The service failed at the request")
            }
        }
    }
}

/// One refusal, before it is rendered.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What it is.
    pub code: Code,
    /// Detail: what to do next.
    pub detail: String,
    /// Suggested pause before a retry.
    pub retry_after: Option<Duration>,
    /// Additional members, such as `storedRequest`.
    pub members: Map<String, Value>,
    /// Underlying error, for renderers that can report more, for example that a body arrived too slowly.
    pub cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), retry_after: None, members: Map::new(), cause: None }
    }

    pub(crate) fn retry_after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self
    }

    pub(crate) fn caused_by(mut self, cause: BoxError) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }
}

/// Renders problems as responses, in the style of the service.
pub trait Problems: Send + Sync + 'static {
    /// Returns the response for `problem`. `extensions` are the request's, with data of other layers such as a trace
    /// id.
    fn write(&self, problem: &Problem, extensions: &Extensions) -> Response<Bytes>;
}

/// Renders problem details (RFC 9457) with `code` and `retryable`. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainProblems;

impl Problems for PlainProblems {
    fn write(&self, problem: &Problem, _: &Extensions) -> Response<Bytes> {
        let Problem { code, detail, retry_after, members, cause: _ } = problem;
        let mut body = Map::new();
        body.insert("type".into(), json!(format!("urn:hapax:problem:{}", code.as_str())));
        body.insert("title".into(), json!(code.title()));
        body.insert("status".into(), json!(code.status().as_u16()));
        body.insert("detail".into(), json!(detail));
        body.insert("code".into(), json!(code.as_str()));
        body.insert("retryable".into(), json!(code.is_retryable()));
        body.extend(members.clone());
        let mut response = Response::new(Bytes::from(Value::Object(body).to_string()));
        *response.status_mut() = code.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(span) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(span.as_secs().max(1)));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_written_with_its_row() {
        let mut seen = BTreeSet::new();
        for code in Code::ALL {
            let problem = Problem::new(code, "do this").retry_after(Duration::from_millis(1)).with("x", 1);
            let response = PlainProblems.write(&problem, &Extensions::new());
            assert_eq!(response.status(), code.status());
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            assert_eq!(response.headers()["retry-after"], "1");
            let body: Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["code"], code.as_str());
            assert_eq!(body["status"], code.status().as_u16());
            assert_eq!(body["retryable"], code.is_retryable());
            assert_eq!(body["x"], 1);
            assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(seen.insert(code.as_str()), "{} is there twice", code.as_str());
        }
    }
}
