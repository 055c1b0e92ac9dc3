//! Reasons why a request got no response, sorted by what the sender must do.

use crate::address::Kind;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The rules forbid it. Nothing was sent, and nothing will be until the request or the rules change.
    #[error("refused: {why}")]
    Refused {
        /// The rule.
        why: Refusal,
    },
    /// Not one byte of it left: nothing happened, and it may be sent again.
    #[error("not sent: {why}")]
    NotSent {
        /// The obstacle.
        why: String,
    },
    /// Its sender lost the right to send it before the first byte left ([`SendCheck`](crate::SendCheck)). Nothing was sent, and this sender must not
    /// send it again.
    #[error("not sent: its sender no longer holds the right to send it")]
    NoLongerHeld,
    /// It was sent, or part of it, and no whole answer came back: it may have happened. Send it again only under the same
    /// key, or ask the receiver.
    #[error("the outcome is unknown: {why}")]
    Unknown {
        /// The cause.
        why: String,
        /// The status, if the answer was cut after it.
        status: Option<u16>,
    },
    /// The answer is larger than it may be. The request has arrived; its status is known unless the head was too large.
    #[error("the {part} of the answer is larger than {limit}")]
    TooLarge {
        /// The part that is too large.
        part: Part,
        /// How large it may be.
        limit: usize,
        /// The status, if it was read.
        status: Option<u16>,
    },
    /// The receiver sends us elsewhere. Redirects are not followed: call the place itself, if it is the right one.
    #[error("answered {status}, a redirect to `{location}`, which is not followed; use the final address")]
    Redirected {
        /// 3xx.
        status: u16,
        /// Where to, in the receiver's words, cut where it is overlong.
        location: String,
    },
}

/// A part of an answer that has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Status line and header fields; its limits are in fields and in bytes.
    Head,
    /// The body, in bytes.
    Body,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Head => "head",
            Part::Body => "body",
        })
    }
}

/// The rule that forbids a request. None tells an address that a name stands for: that would make error texts a map of
/// the network we stand in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The URL cannot be read.
    #[error("the URL cannot be read ({detail}); write it whole, as in https://api.example.com/path")]
    BadUrl {
        /// The problem.
        detail: String,
    },
    /// Neither http nor https.
    #[error("`{scheme}` is not spoken; use https or http")]
    Scheme {
        /// The one asked for.
        scheme: String,
    },
    /// User and password in the URL.
    #[error("a user or password in a URL ends up in logs; send an Authorization header")]
    Credentials,
    /// A port of something that is not HTTP.
    #[error("port {port} is not open to outgoing requests; allow `{host}:{port}` if it is meant")]
    Port {
        /// The host asked for.
        host: String,
        /// The port.
        port: u16,
    },
    /// The place is in the deny list, or is one of our own.
    #[error("`{host}` is closed to outgoing requests")]
    Denied {
        /// The host asked for.
        host: String,
    },
    /// Only allowed places may be called, and this is none.
    #[error("`{host}` is not among the allowed places; add it to the allow list")]
    NotAllowed {
        /// The host asked for.
        host: String,
    },
    /// The host is, or stands for, an address that is not on the public internet.
    #[error(
        "`{host}` is at a {kind} address; only public addresses are called unless the allow list says otherwise"
    )]
    Address {
        /// The host asked for.
        host: String,
        /// Kind of address.
        kind: Kind,
    },
    /// A method that is not for requests.
    #[error("the method {method} cannot be sent")]
    Method {
        /// The method asked for.
        method: String,
    },
    /// A header field that is ours to set, because it decides where a request ends or who receives it.
    #[error("the header `{name}` is set by the connection; leave it out")]
    Header {
        /// Its name.
        name: String,
    },
    /// A part of the request is too large.
    #[error("the {what} of the request is larger than {limit}")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// How large it may be.
        limit: usize,
    },
}

impl Fault {
    /// Returns whether the request cannot have taken effect.
    pub fn is_harmless(&self) -> bool {
        match self {
            Fault::Refused { .. } | Fault::NotSent { .. } | Fault::NoLongerHeld => true,
            Fault::Unknown { .. } | Fault::TooLarge { .. } | Fault::Redirected { .. } => false,
        }
    }
}

impl From<Refusal> for Fault {
    fn from(why: Refusal) -> Self {
        Fault::Refused { why }
    }
}
