//! Reasons why a request got no response, sorted by what the sender must do.

use crate::address::Kind;

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The rules forbid it. Nothing was sent, and nothing will be until the request or the rules change.
    #[error("refused: {why}")]
    Refused {
        /// The rule.
        why: Refusal,
    },
    /// No byte left this process: nothing happened, and the request may be sent again.
    #[error("not sent: {why}")]
    NotSent {
        /// The obstacle.
        why: String,
    },
    /// The sender lost the right to send it before the first byte left ([`SendCheck`](crate::SendCheck)). Nothing was
    /// sent, and this sender must not send it again.
    #[error("not sent: its sender no longer holds the right to send it")]
    NoLongerHeld,
    /// All or part of it was sent, and no complete answer arrived: it may have happened. Send it again only under the
    /// same key, or ask the receiver.
    #[error("the outcome is unknown: {why}")]
    Unknown {
        /// The cause.
        why: String,
        /// The status, if the answer ended after it.
        status: Option<u16>,
    },
    /// The answer exceeds a limit. The request has arrived; its status is known unless the head was too large.
    #[error("the {part} of the answer is larger than {limit}")]
    TooLarge {
        /// The part that is too large.
        part: Part,
        /// The limit.
        limit: usize,
        /// The status, if it was read.
        status: Option<u16>,
    },
    /// The receiver answered with a redirect. Redirects are not followed: call the new address directly if it is the
    /// right one.
    #[error("answered {status}, a redirect to `{location}`, which is not followed; use the final address")]
    Redirected {
        /// 3xx.
        status: u16,
        /// The address in the receiver's words, truncated if it is too long.
        location: String,
    },
}

/// A limited part of an answer.
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

/// The rule that forbids a request. The text never shows the address behind a name: error texts would otherwise map our
/// network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The URL cannot be parsed.
    #[error("the URL cannot be parsed ({detail}); write a full URL, such as https://api.example.com/path")]
    BadUrl {
        /// The problem.
        detail: String,
    },
    /// The scheme is neither http nor https.
    #[error("the scheme `{scheme}` is not supported; use https or http")]
    Scheme {
        /// The requested scheme.
        scheme: String,
    },
    /// The URL contains a user or password.
    #[error("a user or password in a URL ends up in logs; send an Authorization header")]
    Credentials,
    /// The port belongs to a protocol other than HTTP.
    #[error("port {port} is not open to outgoing requests; add `{host}:{port}` to the allow list to use it")]
    Port {
        /// The requested host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The destination is in the deny list, or is one of our own addresses.
    #[error("`{host}` is closed to outgoing requests")]
    Denied {
        /// The requested host.
        host: String,
    },
    /// Only listed destinations are allowed, and this one is not listed.
    #[error("`{host}` is not in the allow list; add it there to use it")]
    NotAllowed {
        /// The requested host.
        host: String,
    },
    /// The host is, or resolves to, an address that is not on the public internet.
    #[error(
        "`{host}` is at a {kind} address; only public addresses are called unless the allow list says otherwise"
    )]
    Address {
        /// The requested host.
        host: String,
        /// Kind of address.
        kind: Kind,
    },
    /// The method is not valid for requests.
    #[error("the method {method} cannot be sent")]
    Method {
        /// The requested method.
        method: String,
    },
    /// A header field that only the connection may set, because it decides where a request ends or who receives it.
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
        /// The limit.
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
