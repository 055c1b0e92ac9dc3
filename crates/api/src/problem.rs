//! The error body of every rejection: `application/problem+json` (RFC 9457).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{Code, DurationText};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// An error response. Programs branch on `code`; `detail` tells people what to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Page that explains the code: `/errors/<code>`, relative to the server.
    #[serde(rename = "type")]
    pub kind: String,
    /// Title of the code, the same for each occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Explanation of this occurrence, and the next step.
    pub detail: String,
    /// The stable code.
    pub code: Code,
    /// True if the same request, under the same key, may succeed later.
    pub retryable: bool,
    /// Id of this request in the server's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Wait before the next try; also sent as `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<DurationText>,
    /// Further members of the code.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// Members that every problem has. No code may add another of the same name.
const OWN_MEMBERS: [&str; 8] =
    ["type", "title", "status", "detail", "code", "retryable", "traceId", "retryAfter"];

impl Problem {
    /// Creates a problem with this code. `detail` should say what to do next.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let kind = code.kind();
        Problem {
            kind: format!("/errors/{}", kind.code),
            title: kind.title.to_owned(),
            status: kind.status,
            detail: detail.into(),
            code,
            retryable: kind.retryable,
            trace_id: None,
            retry_after: None,
            more: Map::new(),
        }
    }

    /// Adds a member of the code.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        debug_assert!(!OWN_MEMBERS.contains(&member), "{member} would be there twice");
        debug_assert!(member != "path" || is_place(&value), "{value} is not a place in a request");
        self.more.insert(member.to_owned(), value);
        self
    }

    /// Sets the wait before the next try.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(Duration::from_secs(seconds).into());
        self
    }
}

/// Returns true for what `path` of a problem may be: a JSON Pointer into the body, `header:NAME` or `query:NAME`.
fn is_place(value: &Value) -> bool {
    value.as_str().is_some_and(|place| {
        place.is_empty() || ["/", "header:", "query:"].iter().any(|start| place.starts_with(start))
    })
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.status, self.detail)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_members_of_the_contract_and_survives_the_wire() {
        let problem = Problem::new(Code::RequestInProgress, "Wait, then send the same request again.")
            .with("operationId", "op_1")
            .retry_after(2);
        let wire = serde_json::to_value(&problem).unwrap();
        assert_eq!(wire["type"], "/errors/request_in_progress");
        assert_eq!(wire["status"], 409);
        assert_eq!(wire["code"], "request_in_progress");
        assert_eq!(wire["retryable"], true);
        assert_eq!(wire["operationId"], "op_1");
        assert_eq!(wire["retryAfter"], "2s");
        assert_eq!(serde_json::from_value::<Problem>(wire).unwrap(), problem);
    }

    #[test]
    #[should_panic(expected = "is not a place in a request")]
    fn the_path_of_a_problem_is_a_pointer_a_header_or_a_parameter() {
        for place in ["", "/runs/0/input", "header:If-Match", "query:limit"] {
            assert_eq!(Problem::new(Code::InvalidRequest, "No.").with("path", place).more["path"], place);
        }
        let _ = Problem::new(Code::InvalidRequest, "No.").with("path", "runs[0]");
    }

    #[test]
    fn the_own_members_are_all_that_a_problem_can_have_by_itself() {
        let mut problem = Problem::new(Code::RateLimited, "Wait.").retry_after(2);
        problem.trace_id = Some("trace".into());
        let wire = serde_json::to_value(&problem).unwrap();
        let mut members: Vec<&str> = wire.as_object().unwrap().keys().map(String::as_str).collect();
        let mut own = OWN_MEMBERS;
        members.sort_unstable();
        own.sort_unstable();
        assert_eq!(members, own);
    }
}
