//! Errors of the idempotency layer, in the same form as all others.

use bytes::Bytes;
use hapax_api::{Code, PROBLEM_JSON, Problem};
use hapax_http_idempotency as keys;
use hapax_http_idempotency::Problems;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Extensions, HeaderValue, Response, StatusCode};

use crate::strict_json::unreadable;
use crate::trace::TraceId;

/// Renders them with the server's codes and trace id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerProblems;

impl Problems for ServerProblems {
    fn write(&self, refusal: &keys::Problem, extensions: &Extensions) -> Response<Bytes> {
        let mut problem = match &refusal.cause {
            // The same error as for a request without a key.
            Some(cause) if refusal.code == keys::Code::BodyUnreadable => {
                unreadable(&**cause).problem().clone()
            }
            _ => Problem::new(code_of(refusal.code), refusal.detail.clone()),
        };
        problem.more.extend(refusal.members.clone());
        problem.trace_id = extensions.get::<TraceId>().map(ToString::to_string);
        if let Some(span) = refusal.retry_after {
            problem = problem.retry_after(span.as_secs().max(1));
        }
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = problem.retry_after.map(|wait| wait.0.as_secs()) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn code_of(code: keys::Code) -> Code {
    match code {
        keys::Code::InvalidKey => Code::InvalidIdempotencyKey,
        keys::Code::KeyMissing => Code::IdempotencyKeyMissing,
        keys::Code::InvalidFirstSent | keys::Code::BodyUnreadable => Code::InvalidRequest,
        keys::Code::CallerUnknown => Code::Unauthorized,
        keys::Code::BodyTooLarge => Code::PayloadTooLarge,
        keys::Code::KeyConflict => Code::IdempotencyKeyConflict,
        keys::Code::InProgress => Code::RequestInProgress,
        keys::Code::InDoubt => Code::RequestInDoubt,
        keys::Code::AnswerNotKept => Code::AnswerNotKept,
        keys::Code::KeyExpired => Code::IdempotencyKeyExpired,
        keys::Code::WindowPassed => Code::IdempotencyWindowPassed,
        keys::Code::StoreUnavailable => Code::StoreUnavailable,
        keys::Code::HandlerFailed => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_the_layer_keeps_its_status() {
        for code in keys::Code::ALL {
            assert_eq!(code_of(code).kind().status, code.status().as_u16(), "{}", code.as_str());
            assert_eq!(
                code_of(code).kind().retryable,
                code.is_retryable() && code != keys::Code::BodyUnreadable,
                "{}",
                code.as_str()
            );
        }
    }
}
