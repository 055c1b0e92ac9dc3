//! Many connections that are kept, each with one request at a time.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::super::histogram::Histogram;
use super::super::load::{KeySeries, Round};
use super::DELAY;

/// Where runs are created.
pub(super) const RUNS_PATH: &str = "/api/v1/workflow-runs";
/// Most headers of an answer.
const MAX_HEADERS: usize = 32;

/// Body of each request.
#[derive(Clone)]
pub(super) struct RequestBody {
    pub(super) authorization: String,
    pub(super) definition: String,
    pub(super) key: Key,
    pub(super) expected: Answer,
}

/// Which of the two kinds of keys a request has.
#[derive(Clone)]
pub(super) enum Key {
    /// A business key, which names the run.
    InBody(Arc<KeySeries>),
    /// `Idempotency-Key`, which names the request.
    InHeader(Arc<KeySeries>),
}

/// The expected response. Any other one fails the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// A new run.
    Created,
    /// The stored answer.
    Replayed,
    /// Any body.
    Whatever,
}

/// Input of the run with this number.
pub(super) fn input(nth: u64) -> String {
    format!(r#"{{"order":{nth},"customer":"ada@example.com","amountCents":4999}}"#)
}

impl RequestBody {
    /// The request with this number, as it is sent.
    fn write(&self, nth: u64, out: &mut String) -> Result<()> {
        let (definition, input, delay) = (&self.definition, input(nth), DELAY.as_millis());
        let mut body = format!(r#"{{"definitionId":"{definition}","input":{input},"delay":"{delay}ms""#);
        out.clear();
        write!(
            out,
            "POST {RUNS_PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: {}\r\n",
            self.authorization
        )?;
        match &self.key {
            Key::InBody(keys) => write!(body, r#","idempotencyKey":"{}""#, keys.nth(nth))?,
            Key::InHeader(keys) => write!(out, "idempotency-key: \"{}\"\r\n", keys.nth(nth))?,
        }
        body.push('}');
        write!(out, "content-length: {}\r\n\r\n{body}", body.len())?;
        Ok(())
    }

    fn check(&self, status: u16, is_replayed: bool) -> Result<()> {
        let is_expected = match self.expected {
            Answer::Created => status == 201 && !is_replayed,
            Answer::Replayed => status == 201 && is_replayed,
            Answer::Whatever => status == 200,
        };
        ensure!(is_expected, "{:?} was expected, the answer is {status}", self.expected);
        Ok(())
    }
}

/// One connection. It takes as little of the cores as it can, because the server that is measured runs on the same ones.
struct Connection {
    socket: TcpStream,
    request: String,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await.context("the server cannot be reached")?;
        socket.set_nodelay(true)?;
        Ok(Connection { socket, request: String::new(), answer: Vec::new() })
    }

    /// Sends one request and returns the response body.
    async fn send(&mut self, asking: &RequestBody, nth: u64) -> Result<&[u8]> {
        asking.write(nth, &mut self.request)?;
        self.socket.write_all(self.request.as_bytes()).await?;
        self.answer.clear();
        let head = loop {
            let read = self.socket.read_buf(&mut self.answer).await?;
            ensure!(read > 0, "the server closed the connection");
            if let Some(head) = read_head(&self.answer)? {
                break head;
            }
        };
        let end = head.bytes + head.content_length;
        while self.answer.len() < end {
            let read = self.socket.read_buf(&mut self.answer).await?;
            ensure!(read > 0, "the server closed the connection");
        }
        let body = &self.answer[head.bytes..end];
        asking
            .check(head.status, head.is_replayed)
            .with_context(|| String::from_utf8_lossy(body).into_owned())?;
        Ok(body)
    }
}

/// Head of a response.
struct Head {
    bytes: usize,
    status: u16,
    content_length: usize,
    is_replayed: bool,
}

/// The head, once all of it is there.
fn read_head(answer: &[u8]) -> Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(bytes) = parsed.parse(answer)? else { return Ok(None) };
    let find = |name: &str| parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    let Some(length) = find("content-length") else { bail!("the answer does not say how long it is") };
    Ok(Some(Head {
        bytes,
        status: parsed.code.context("the answer has no status")?,
        content_length: std::str::from_utf8(length.value)?.parse()?,
        is_replayed: find("idempotency-replayed").is_some(),
    }))
}

/// Connections to one server.
pub(super) struct Connections {
    idle: Vec<Connection>,
}

impl Connections {
    pub(super) async fn open(address: SocketAddr, count: u32) -> Result<Self> {
        let mut idle = Vec::new();
        for _ in 0..count {
            idle.push(Connection::open(address).await?);
        }
        Ok(Connections { idle })
    }

    /// Sends `count` requests, one at a time on each connection.
    pub(super) async fn ask(&mut self, asking: RequestBody, count: u64, bar: &ProgressBar) -> Result<Round> {
        let next = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        let began = Instant::now();
        for connection in self.idle.drain(..) {
            callers.spawn(ask_in_turn(connection, asking.clone(), next.clone(), count, bar.clone()));
        }
        let mut per_run = Histogram::new();
        while let Some(done) = callers.join_next().await {
            let (connection, times) = done??;
            self.idle.push(connection);
            per_run.add(&times);
        }
        ensure!(per_run.count() == count, "{} of {count} requests were answered", per_run.count());
        Ok(Round { took: began.elapsed(), per_run })
    }

    /// The body of the answer to one request.
    pub(super) async fn ask_once(&mut self, asking: &RequestBody) -> Result<Vec<u8>> {
        let connection = self.idle.first_mut().context("there is no connection")?;
        Ok(connection.send(asking, 0).await?.to_vec())
    }
}

async fn ask_in_turn(
    mut connection: Connection,
    asking: RequestBody,
    next: Arc<AtomicU64>,
    count: u64,
    bar: ProgressBar,
) -> Result<(Connection, Histogram)> {
    let mut times = Histogram::new();
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= count {
            return Ok((connection, times));
        }
        let began = Instant::now();
        connection.send(&asking, nth).await?;
        times.record(began.elapsed());
        bar.inc(1);
    }
}
