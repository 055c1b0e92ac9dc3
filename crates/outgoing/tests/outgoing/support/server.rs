//! A raw byte server that counts its connections, and a resolver with planned answers.
#![allow(dead_code)]

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hapax_outgoing::{Answers, Lookup, Rules};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Server {
    pub at: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Runs the script on each connection, after reading the request.
    pub async fn after_reading<F, Fut>(script: F) -> Server
    where
        F: Fn(TcpStream) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let mut server = Self::raw("127.0.0.1:0", move |mut stream| {
            let (script, kept) = (script.clone(), kept.clone());
            async move {
                let request = read_request(&mut stream).await;
                kept.lock().unwrap().push(request);
                script(stream).await;
            }
        })
        .await;
        server.seen = seen;
        server
    }

    /// Sends these bytes and closes.
    pub async fn answering(bytes: impl Into<Vec<u8>>) -> Server {
        let bytes = Arc::new(bytes.into());
        Self::after_reading(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                let _ = stream.write_all(&bytes).await;
            }
        })
        .await
    }

    /// Runs the script on each connection without reading first.
    pub async fn raw<F, Fut>(listen: &str, script: F) -> Server
    where
        F: Fn(TcpStream) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let listener = TcpListener::bind(listen).await.unwrap();
        let at = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                let script = script.clone();
                tokio::spawn(async move { script(stream).await });
            }
        });
        Server { at, connections, seen: Arc::default(), task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn connections_counter(&self) -> Arc<AtomicUsize> {
        self.connections.clone()
    }

    /// Waits until this many connections were read to the end of the request or stream.
    pub async fn wait_for_seen(&self, count: usize) {
        while self.seen().len() < count {
            tokio::task::yield_now().await;
        }
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = stream.read(&mut chunk).await.unwrap_or(0);
        all.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            body.len() >= length.map_or(0, |length| length.parse().unwrap())
        });
        if whole || read == 0 {
            return text;
        }
    }
}

/// Returns planned answers, one per call; the last one repeats.
#[derive(Clone, Default)]
pub struct PlannedDns {
    answers: Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>,
    calls: Arc<AtomicUsize>,
}

impl PlannedDns {
    pub fn name(self, name: &str, calls: &[&[&str]]) -> Self {
        let parse = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.into(), calls.iter().map(parse).collect());
        self
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Lookup for PlannedDns {
    fn lookup<'a>(&'a self, name: &'a str) -> Answers<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(name) {
            Some(calls) if calls.len() > 1 => Ok(calls.remove(0)),
            Some(calls) => Ok(calls[0].clone()),
            None => Err(io::Error::other("no such name")),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Rules for development: this machine may be called.
pub fn dev() -> Rules {
    Rules { allow_loopback: true, ..Rules::default() }
}
