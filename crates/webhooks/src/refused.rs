//! Why a webhook is not believed. For our own logs: strangers get one and the same answer for all of it.

use http::HeaderName;

/// What is wrong. None of it repeats what was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A header is not there.
    #[error("the header {name} is missing; is the source's scheme the one its sender uses?")]
    MissingHeader {
        /// Which.
        name: HeaderName,
    },
    /// A header that says something once is there more than once.
    #[error("the header {name} is there more than once")]
    RepeatedHeader {
        /// Which.
        name: HeaderName,
    },
    /// A header is longer than any honest one.
    #[error("the header {name} is longer than {limit} bytes")]
    TooLong {
        /// Which.
        name: HeaderName,
        /// How long it may be.
        limit: usize,
    },
    /// A header does not say what it should.
    #[error("the header {name} cannot be read: {why}")]
    Malformed {
        /// Which.
        name: HeaderName,
        /// The expected form.
        why: &'static str,
    },
    /// Signed with one of the secrets, but too long ago: a replay, or a clock that is behind.
    #[error("it was signed {seconds} s ago: a replay, or one of the clocks is wrong")]
    Stale {
        /// How long ago.
        seconds: u64,
    },
    /// Signed with one of the secrets, but for a time that is to come.
    #[error("it was signed {seconds} s in the future: one of the clocks is wrong")]
    FromTheFuture {
        /// How far.
        seconds: u64,
    },
    /// No secret matches the signature: another secret, other bytes, or another sender.
    #[error("no secret of the source matches the signature: a different secret, different bytes, or a forgery")]
    NoMatch,
}

impl Refused {
    /// A short stable word for metrics and logs.
    pub const fn code(&self) -> &'static str {
        match self {
            Refused::MissingHeader { .. } => "missing_header",
            Refused::RepeatedHeader { .. } => "repeated_header",
            Refused::TooLong { .. } => "too_long",
            Refused::Malformed { .. } => "malformed",
            Refused::Stale { .. } => "stale",
            Refused::FromTheFuture { .. } => "from_the_future",
            Refused::NoMatch => "no_match",
        }
    }
}
