//! Errors of the client, sorted by what the caller should do.

use std::error::Error;
use std::io;

use crate::{Code, Problem};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The client cannot be used as it was set up; nothing was sent.
    #[error("{0}")]
    Setup(String),
    /// The server rejected the request and says why.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The server was not reached, or the connection was cut before it answered.
    #[error("{detail}")]
    Unreachable {
        /// Cause of the failure.
        detail: String,
        /// Was the request sent? Then it may have been done; under the same key it can be sent again.
        was_sent: bool,
    },
    /// The server could not prove its identity, or TLS negotiation failed.
    #[error("no secure connection: {0}")]
    Tls(String),
    /// The server redirects. The client does not follow, because the API key would go along.
    #[error(
        "the server answered {status} and points to {location}; if that is correct, use it as the server"
    )]
    Redirected {
        /// The status.
        status: u16,
        /// Target of the redirect.
        location: String,
    },
    /// The response is not one that a Hapax server sends.
    #[error("{detail}")]
    Protocol {
        /// The status, if there was one.
        status: Option<u16>,
        /// Description of the response.
        detail: String,
    },
}

impl ClientError {
    /// The refusal, if it is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// The status that was answered, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            ClientError::Refused(problem) => Some(problem.status),
            ClientError::Redirected { status, .. } => Some(*status),
            ClientError::Protocol { status, .. } => *status,
            ClientError::Setup(_) | ClientError::Unreachable { .. } | ClientError::Tls(_) => None,
        }
    }

    /// Returns true if the same request, under the same key, may succeed in a moment. The client
    /// does not wait for a server that was never reached, unless an earlier try reached it.
    pub(super) fn is_passing(&self, was_sent_before: bool) -> bool {
        match self {
            ClientError::Refused(problem) => problem.status == 503 || problem.code == Code::RequestInProgress,
            ClientError::Unreachable { was_sent, .. } => *was_sent || was_sent_before,
            ClientError::Protocol { status, .. } => matches!(status, Some(502..=504)),
            ClientError::Setup(_) | ClientError::Tls(_) | ClientError::Redirected { .. } => false,
        }
    }

    pub(super) fn from_transport(error: &reqwest::Error) -> Self {
        let causes = || std::iter::successors(error.source(), |cause| (*cause).source());
        if let Some(refused) = causes().find_map(tls_error) {
            return ClientError::Tls(refused.to_string());
        }
        let is_no_http =
            causes().filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_parse);
        if is_no_http {
            let detail = "the server at this address does not speak HTTP; if it speaks TLS, write the address as https://…";
            return ClientError::Protocol { status: None, detail: detail.into() };
        }
        let detail = match (error.is_connect(), error.is_timeout()) {
            (true, true) => "the server cannot be reached: it did not accept the connection in time".into(),
            (true, false) => format!("the server cannot be reached: {}", chain(error)),
            (false, true) => "the server did not answer in time".into(),
            (false, false) => format!("the connection was cut: {}", chain(error)),
        };
        ClientError::Unreachable { detail, was_sent: !error.is_connect() }
    }
}

/// TLS errors come wrapped in I/O errors.
fn tls_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match cause.downcast_ref::<io::Error>() {
        // One layer for each library that passed the error on.
        Some(wrapper) => wrapper.get_ref().and_then(|inner| tls_error(inner)),
        None => cause.downcast_ref(),
    }
}

/// Text of the innermost cause. The outer causes say only that something failed, and repeat the
/// address.
pub(super) fn chain(error: &dyn Error) -> String {
    let innermost = std::iter::successors(Some(error), |cause| (*cause).source()).last();
    innermost.map(ToString::to_string).unwrap_or_default()
}
