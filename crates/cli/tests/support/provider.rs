//! A provider of HTTP effects that records each request with its effect key.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Longest time that anything at the provider may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request as the provider received it.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub key: String,
}

/// How the provider answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Ok,
    NotFound,
    /// 200, once the provider is open.
    OkWhenOpen,
}

type Rule = dyn Fn(&Received, &[Received]) -> Reply + Send + Sync;

/// Records every request. It does nothing with keys, so each request is an effect.
#[derive(Clone)]
pub struct Provider {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    rule: Arc<Rule>,
    count: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
}

impl Provider {
    /// A provider that is closed. `rule` is given each request and all that were received before.
    pub async fn start(rule: impl Fn(&Received, &[Received]) -> Reply + Send + Sync + 'static) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Provider {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            rule: Arc::new(rule),
            count: watch::Sender::new(0),
            is_open: watch::Sender::new(false),
        };
        let accepting = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let provider = accepting.clone();
                tokio::spawn(async move { provider.serve(stream).await });
            }
        });
        provider
    }

    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(request) = read_request(&mut stream).await {
            let reply = {
                let mut received = self.received.lock().unwrap();
                let reply = (self.rule)(&request, &received);
                received.push(request);
                reply
            };
            self.count.send_modify(|count| *count += 1);
            let status = match reply {
                Reply::NotFound => "404 Not Found",
                Reply::Ok => "200 OK",
                Reply::OkWhenOpen => {
                    let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
                    "200 OK"
                }
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
            );
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// From now on it answers what it held back.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Number of requests to a path.
    pub fn requests(&self, path: &str) -> usize {
        self.received.lock().unwrap().iter().filter(|request| request.path == path).count()
    }

    /// Number of requests to a path by effect key.
    pub fn tally(&self, path: &str) -> HashMap<String, usize> {
        let mut tally = HashMap::new();
        for request in self.received.lock().unwrap().iter().filter(|request| request.path == path) {
            *tally.entry(request.key.clone()).or_default() += 1;
        }
        tally
    }

    /// Waits for so many requests to a path.
    pub async fn until(&self, path: &str, least: usize) {
        let mut changes = self.count.subscribe();
        let enough = changes.wait_for(|_| self.requests(path) >= least);
        let reached = tokio::time::timeout(PATIENCE, enough).await.is_ok();
        assert!(reached, "{path}: {} of {least} requests", self.requests(path));
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let (mut path, mut key, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        } else if let Some((name, value)) = line.split_once(": ") {
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim_matches('"').to_owned(),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Received { path, key })
}
