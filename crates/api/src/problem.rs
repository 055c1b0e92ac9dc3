//! What every refusal looks like: `application/problem+json` (RFC 9457).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::Code;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal. `code` is what programs branch on; `detail` is for people and says what to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where the code is explained: `/errors/<code>`, relative to the server.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words, the same for each occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and what to do next.
    pub detail: String,
    /// The stable code.
    pub code: Code,
    /// May the same request, under the same key, succeed later?
    pub retryable: bool,
    /// Names this request in the server's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// How long to wait before the next try; also sent as `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// What else the code promises.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// Members that every problem has, so that no code may promise one of the same name.
const OWN_MEMBERS: [&str; 8] =
    ["type", "title", "status", "detail", "code", "retryable", "traceId", "retryAfterSeconds"];

impl Problem {
    /// A problem of this code. `detail` should say what to do next.
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
            retry_after_seconds: None,
            more: Map::new(),
        }
    }

    /// Adds a member that the code promises.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        debug_assert!(!OWN_MEMBERS.contains(&member), "{member} would be there twice");
        self.more.insert(member.to_owned(), value.into());
        self
    }

    /// Says how long to wait before the next try.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }
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
        assert_eq!(wire["retryAfterSeconds"], 2);
        assert_eq!(serde_json::from_value::<Problem>(wire).unwrap(), problem);
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
