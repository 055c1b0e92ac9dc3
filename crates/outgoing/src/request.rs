//! A request that goes out, and the answer that came back.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

/// What to send. Fields of the connection itself (`Host`, `Content-Length`, `Connection`, …) are not the sender's to set.
#[derive(Clone, Debug)]
pub struct Request {
    /// How.
    pub method: Method,
    /// Where to, as somebody wrote it.
    pub url: String,
    /// With what header fields.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// From the call to the last byte of the answer; what the rules say if absent, and never more than their `longest_timeout`.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A request without header fields or body.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: HeaderMap::new(), body: Bytes::new(), timeout: None }
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

/// What came back, whole, whatever its status.
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
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
