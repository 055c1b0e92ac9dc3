//! Errors of calls. Each is a problem of the HTTP API, by the one table of codes.

use bytes::Bytes;
use hapax_api::{Code, Problem};
use prost::Message;
use serde_json::Value;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// Largest problem that is sent as a whole, in bytes. Heads of responses are limited.
const MAX_PROBLEM_BYTES: usize = 4 * 1024;
/// Longest message of a status, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// `google.rpc.Status`, the content of `grpc-status-details-bin`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: std::collections::BTreeMap<String, String>,
}

/// The status of a problem. Its code, whether the call may succeed later, and the problem as JSON are metadata.
pub(crate) fn status_of(problem: &Problem) -> Status {
    let code = tonic::Code::from_i32(problem.code.grpc_status() as i32);
    let message = shortened(&problem.detail);
    let facts = problem.more.iter().filter_map(|(name, value)| match value {
        Value::String(text) => Some((name.clone(), text.clone())),
        Value::Number(number) => Some((name.clone(), number.to_string())),
        Value::Bool(value) => Some((name.clone(), value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    });
    let info =
        ErrorInfo { reason: problem.code.as_str().into(), domain: "hapax".into(), metadata: facts.collect() };
    let details = RpcStatus {
        code: code as i32,
        message: message.clone(),
        details: vec![Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
            value: info.encode_to_vec(),
        }],
    };
    let details = details.encode_to_vec();
    let details = if details.len() <= MAX_PROBLEM_BYTES { details } else { Vec::new() };
    let mut metadata = MetadataMap::new();
    metadata.insert("code", MetadataValue::from_static(problem.code.as_str()));
    metadata
        .insert("retryable", MetadataValue::from_static(if problem.retryable { "true" } else { "false" }));
    let json = serde_json::to_vec(problem).unwrap_or_default();
    if json.len() <= MAX_PROBLEM_BYTES {
        metadata.insert_bin("problem-bin", MetadataValue::from_bytes(&json));
    }
    Status::with_details_and_metadata(code, message, Bytes::from(details), metadata)
}

fn shortened(text: &str) -> String {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The problem in the body of an error response.
pub(crate) fn problem_in(body: &[u8]) -> Problem {
    serde_json::from_slice(body).unwrap_or_else(|_| Problem::new(Code::Internal, "The server failed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_becomes_a_status_with_its_code_and_its_facts() {
        let problem = Problem::new(Code::RunEnded, "The run has ended.").with("runStatus", "FAILED");
        let status = status_of(&problem);
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(status.metadata().get("code").unwrap(), "run_ended");
        assert_eq!(status.metadata().get("retryable").unwrap(), "false");
        let whole = status.metadata().get_bin("problem-bin").unwrap().to_bytes().unwrap();
        assert_eq!(problem_in(&whole), problem);
        let details = RpcStatus::decode(status.details()).unwrap();
        let info = ErrorInfo::decode(&*details.details[0].value).unwrap();
        assert_eq!((info.reason.as_str(), info.metadata["runStatus"].as_str()), ("run_ended", "FAILED"));
    }

    #[test]
    fn a_large_problem_leaves_room_in_the_head_of_the_response() {
        let long = "é".repeat(10_000);
        let status = status_of(&Problem::new(Code::InvalidRequest, long.clone()).with("hint", long));
        let mut head = http::HeaderMap::new();
        status.add_header(&mut head).unwrap();
        let bytes: usize = head.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(bytes < 8 * 1024, "{bytes}");
        assert_eq!(head["code"], "invalid_request");
    }
}
