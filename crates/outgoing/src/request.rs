//! An outgoing request, and its answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// A request. Callers cannot set the connection's own fields (`Host`, `Content-Length`, `Connection`, …).
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// URL as written.
    pub url: String,
    /// Header fields.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// Time from the call to the last byte of the answer; the rules' default if absent, and at most their
    /// `longest_timeout`.
    pub timeout: Option<Duration>,
    /// Check made right before bytes are written to the connection.
    pub send_check: Option<SendCheck>,
}

/// Decides whether a request may still be sent. It is called before every write of the request, so first after name
/// lookup, connection and TLS handshake. Nothing waits between the check and the write.
#[derive(Clone)]
pub struct SendCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl SendCheck {
    /// Wraps `may_send`, which must not block.
    pub fn new(may_send: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        SendCheck(Arc::new(may_send))
    }

    pub(crate) fn allows(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for SendCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendCheck")
    }
}

impl Request {
    /// A request without header fields or body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: None,
            send_check: None,
        }
    }

    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    /// A POST with a body.
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url) }
    }
}

/// A complete response with any status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 200 to 599, except redirects.
    pub status: u16,
    /// Header fields as the receiver sent them.
    pub headers: HeaderMap,
    /// Body as received: nothing is decompressed.
    pub body: Bytes,
}

impl Answer {
    /// Returns whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
