//! A request that goes out, and the answer that came back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// What to send. Fields of the connection itself (`Host`, `Content-Length`, `Connection`, …) are not the sender's to set.
#[derive(Clone, Debug)]
pub struct Request {
    /// How.
    pub method: Method,
    /// The URL as it was written.
    pub url: String,
    /// With what header fields.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// From the call to the last byte of the answer; what the rules say if absent, and never more than their `longest_timeout`.
    pub timeout: Option<Duration>,
    /// Asked right before bytes are handed to the connection: may it still be sent?
    pub send_check: Option<SendCheck>,
}

/// Answers whether a request may still be sent. Asked before every write of the request, so first after the look-up, the connection and the
/// TLS handshake, with nothing to wait for between the answer and the write.
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
    /// 200 to 599, redirects apart.
    pub status: u16,
    /// As the receiver wrote them.
    pub headers: HeaderMap,
    /// As it came: nothing is decompressed.
    pub body: Bytes,
}

impl Answer {
    /// Returns whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
