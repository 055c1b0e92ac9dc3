//! HTTP/1.1 as far as the storm needs it: one request on one connection, so that a test of lost connections knows what was lost.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limits::MAX_ANSWER_BYTES;

/// A request to a node.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// The business operation it is about, for stories.
    pub op: Option<String>,
}

impl Request {
    pub fn get(path: impl Into<String>) -> Self {
        Request { method: "GET", path: path.into(), headers: Vec::new(), body: String::new(), op: None }
    }

    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Request { method: "POST", path: path.into(), headers: Vec::new(), body: body.to_string(), op: None }
    }

    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Request { method: "PUT", ..Request::post(path, body) }
    }

    /// The same request, as part of a business operation: its answers belong to the story of that operation.
    #[must_use]
    pub fn about(mut self, op: &str) -> Self {
        self.op = Some(op.to_owned());
        self
    }

    /// Short description of the request.
    pub fn tell(&self) -> String {
        let key = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
        let key = key.map_or_else(String::new, |(_, key)| format!(" (key {key})"));
        format!("{} {}{key}", self.method, self.path.trim_start_matches("/api/v1"))
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The head as it came, for stories.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The code of a problem; empty if it has none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The entity tag; empty if it has none.
    pub fn etag(&self) -> String {
        header_of(&self.head, "etag").unwrap_or_default()
    }

    /// False if the server says that it could not keep this answer: the same request again may get another one.
    pub fn is_kept(&self) -> bool {
        header_of(&self.head, "idempotency-stored").as_deref() != Some("false")
    }

    /// Status and code, or status and state in the body, for a log line.
    pub fn brief(&self) -> String {
        let json = self.json();
        let fields = ["code", "status", "pendingRequest", "created", "alreadySettled"];
        let told = [&json, &json["run"], &json["operation"]].into_iter().flat_map(|object| {
            let known = fields.iter().map(move |name| (*name, &object[*name]));
            known.filter(|(_, value)| !value.is_null()).map(|(name, value)| format!(" {name} {value}"))
        });
        format!("{}{}", self.status, told.collect::<String>()).replace('"', "")
    }

    pub fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// Sends a request on a connection of its own and reads the whole answer.
pub async fn send(url: &str, request: &Request, timeout: Duration) -> Result<Answer> {
    tokio::time::timeout(timeout, send_now(url, request)).await.context("no answer in time")?
}

async fn send_now(url: &str, request: &Request) -> Result<Answer> {
    let address = url.strip_prefix("http://").context("nodes speak plain HTTP")?;
    let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
    let mut text = format!("{} {} HTTP/1.1\r\nHost: {address}\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        text.push_str("Content-Type: application/json\r\n");
    }
    let length = request.body.len();
    let _ = write!(text, "Content-Length: {length}\r\nConnection: close\r\n\r\n{}", request.body);
    stream.write_all(text.as_bytes()).await.context("cannot send")?;
    read_answer(&mut stream).await
}

async fn read_answer(stream: &mut TcpStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some((head, rest)) = split_head(&bytes) {
            let length = header_of(&head, "content-length").and_then(|text| text.parse::<usize>().ok());
            if let Some(length) = length
                && rest.len() >= length
            {
                let body = rest[..length].to_vec();
                return Ok(Answer { status: status_of(&head)?, head, body });
            }
        }
        ensure!(bytes.len() <= MAX_ANSWER_BYTES, "the answer is too large");
        let read = stream.read(&mut chunk).await.context("cannot read the answer")?;
        if read == 0 {
            let Some((head, rest)) = split_head(&bytes) else {
                bail!("the connection ended before the answer")
            };
            ensure!(header_of(&head, "content-length").is_none(), "the connection ended within the answer");
            let is_chunked = header_of(&head, "transfer-encoding").is_some();
            let body = if is_chunked { without_chunks(rest)? } else { rest.to_vec() };
            return Ok(Answer { status: status_of(&head)?, head, body });
        }
        bytes.extend_from_slice(&chunk[..read]);
    }
}

/// Decodes the body of a complete chunked response.
fn without_chunks(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").context("a chunk has no size")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end])?.trim(), 16)?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(rest.get(..size).context("a chunk is cut off")?);
        rest = rest.get(size + 2..).context("a chunk is cut off")?;
    }
}

/// The head with its lines, and what follows it; none if the head has not ended.
pub fn split_head(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]))
}

/// The value of a header.
pub fn header_of(head: &str, name: &str) -> Option<String> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

fn status_of(head: &str) -> Result<u16> {
    let status = head.split(' ').nth(1).context("the answer has no status")?;
    status.parse().context("the status is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_put_together() {
        assert_eq!(without_chunks(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap(), b"abcde");
        assert!(without_chunks(b"9\r\nabc").is_err());
    }

    #[test]
    fn an_answer_that_the_server_could_not_keep_is_told_apart() {
        let answer = |head: &str| Answer { status: 201, head: head.into(), body: Vec::new() };
        assert!(!answer("HTTP/1.1 201 Created\r\nIdempotency-Stored: false").is_kept());
        assert!(answer("HTTP/1.1 201 Created\r\nContent-Length: 5").is_kept());
    }

    #[test]
    fn headers_are_found_whatever_their_case() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5";
        assert_eq!(header_of(head, "content-length").as_deref(), Some("5"));
        assert_eq!(status_of(head).unwrap(), 200);
    }
}
