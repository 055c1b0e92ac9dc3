//! Many connections that are kept, each with one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use indicatif::ProgressBar;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::super::histogram::Histogram;
use super::super::load::{KeySeries, Round};
use super::DELAY;

/// Where runs are created.
pub(super) const RUNS_PATH: &str = "/api/v1/workflow-runs";

/// What each request asks for.
#[derive(Clone)]
pub(super) struct Asking {
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

/// What must come back, or nothing was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// A new run.
    Created,
    /// The stored answer.
    Replayed,
    /// Any body.
    Whatever,
}

/// What the run with this number works on.
pub(super) fn input(nth: u64) -> String {
    format!(r#"{{"order":{nth},"customer":"ada@example.com","amountCents":4999}}"#)
}

impl Asking {
    fn request(&self, nth: u64) -> Result<Request<Full<Bytes>>> {
        let (definition, input, delay) = (&self.definition, input(nth), DELAY.as_millis());
        let mut request = Request::post(RUNS_PATH)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(AUTHORIZATION, &self.authorization);
        let body = match &self.key {
            Key::InBody(keys) => format!(
                r#"{{"definitionId":"{definition}","input":{input},"delayMs":{delay},"idempotencyKey":"{}"}}"#,
                keys.nth(nth)
            ),
            Key::InHeader(keys) => {
                request = request.header("Idempotency-Key", format!("\"{}\"", keys.nth(nth)));
                format!(r#"{{"definitionId":"{definition}","input":{input},"delayMs":{delay}}}"#)
            }
        };
        Ok(request.body(Full::from(body))?)
    }

    fn check(&self, response: &Response<impl Sized>) -> Result<()> {
        let status = response.status();
        let is_replayed = response.headers().contains_key("idempotency-replayed");
        let is_expected = match self.expected {
            Answer::Created => status == StatusCode::CREATED && !is_replayed,
            Answer::Replayed => status == StatusCode::CREATED && is_replayed,
            Answer::Whatever => status == StatusCode::OK,
        };
        ensure!(is_expected, "{:?} was expected, the answer is {status}", self.expected);
        Ok(())
    }
}

/// Connections to one server.
pub(super) struct Connections {
    idle: Vec<SendRequest<Full<Bytes>>>,
}

impl Connections {
    pub(super) async fn open(address: SocketAddr, count: u32) -> Result<Self> {
        let mut idle = Vec::new();
        for _ in 0..count {
            let socket = TcpStream::connect(address).await.context("the server cannot be reached")?;
            socket.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(socket)).await?;
            tokio::spawn(connection);
            idle.push(sender);
        }
        Ok(Connections { idle })
    }

    /// Sends `count` requests, one at a time on each connection.
    pub(super) async fn ask(&mut self, asking: Asking, count: u64, bar: &ProgressBar) -> Result<Round> {
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
    pub(super) async fn ask_once(&mut self, asking: &Asking) -> Result<Bytes> {
        let connection = self.idle.first_mut().context("there is no connection")?;
        send(connection, asking, 0).await
    }
}

async fn ask_in_turn(
    mut connection: SendRequest<Full<Bytes>>,
    asking: Asking,
    next: Arc<AtomicU64>,
    count: u64,
    bar: ProgressBar,
) -> Result<(SendRequest<Full<Bytes>>, Histogram)> {
    let mut times = Histogram::new();
    loop {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        if nth >= count {
            return Ok((connection, times));
        }
        let began = Instant::now();
        send(&mut connection, &asking, nth).await?;
        times.record(began.elapsed());
        bar.inc(1);
    }
}

async fn send(connection: &mut SendRequest<Full<Bytes>>, asking: &Asking, nth: u64) -> Result<Bytes> {
    connection.ready().await?;
    let response = connection.send_request(asking.request(nth)?).await?;
    let checked = asking.check(&response);
    let body = response.into_body().collect().await?.to_bytes();
    checked.with_context(|| String::from_utf8_lossy(&body).into_owned())?;
    Ok(body)
}
