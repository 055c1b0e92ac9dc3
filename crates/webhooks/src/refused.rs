//! Reasons why a webhook is rejected. They are for our own logs: senders get one and the same answer for all of them.

use http::HeaderName;

/// Reason for a rejection. None repeats content of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    /// A header is missing.
    #[error("the header {name} is missing; is the source's scheme the one its sender uses?")]
    MissingHeader {
        /// Its name.
        name: HeaderName,
    },
    /// A single-valued header occurs more than once.
    #[error("the header {name} is there more than once")]
    RepeatedHeader {
        /// Its name.
        name: HeaderName,
    },
    /// A header is too long.
    #[error("the header {name} is longer than {limit} bytes")]
    TooLong {
        /// Its name.
        name: HeaderName,
        /// The limit.
        limit: usize,
    },
    /// A header is malformed.
    #[error("the header {name} cannot be read: {why}")]
    Malformed {
        /// Its name.
        name: HeaderName,
        /// The expected form.
        why: &'static str,
    },
    /// Signed with one of the secrets, but too long ago: a replay, or a clock that is slow.
    #[error("it was signed {seconds} s ago: a replay, or one of the clocks is wrong")]
    Stale {
        /// Age of the signature.
        seconds: u64,
    },
    /// Signed with one of the secrets, but with a future timestamp.
    #[error("it was signed {seconds} s in the future: one of the clocks is wrong")]
    FromTheFuture {
        /// Time until then.
        seconds: u64,
    },
    /// No secret matches the signature: a different secret, different bytes, or another sender.
    #[error(
        "no secret of the source matches the signature: a different secret, different bytes, or a forgery"
    )]
    NoMatch,
}

impl VerificationError {
    /// Short stable name for metrics and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            VerificationError::MissingHeader { .. } => "missing_header",
            VerificationError::RepeatedHeader { .. } => "repeated_header",
            VerificationError::TooLong { .. } => "too_long",
            VerificationError::Malformed { .. } => "malformed",
            VerificationError::Stale { .. } => "stale",
            VerificationError::FromTheFuture { .. } => "from_the_future",
            VerificationError::NoMatch => "no_match",
        }
    }
}
