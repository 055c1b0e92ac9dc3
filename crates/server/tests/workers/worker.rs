//! A worker that the test plays, message by message.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::support::{Answer, PATIENCE, Role, TestServer};

pub const SESSIONS: &str = "/api/v1/worker-sessions";

/// One session, and the messages that it got.
pub struct TestWorker<'a> {
    pub server: &'a TestServer,
    /// Nodes that its calls go to, in turns.
    pub nodes: Vec<&'a TestServer>,
    calls: AtomicUsize,
    pub key: String,
    pub session: String,
    pub messages: Mutex<VecDeque<Value>>,
    requests: AtomicU64,
}

/// A run that the worker has the code of.
#[derive(Debug, Clone)]
pub struct Activation {
    pub run: String,
    pub id: String,
    pub message: Value,
}

impl<'a> TestWorker<'a> {
    /// A worker with the code of `order`.
    pub async fn open(server: &'a TestServer) -> Self {
        Self::with(server, json!({ "workflows": [{ "name": "order", "version": 1 }] })).await
    }

    /// A worker with these members in its request to open a session.
    pub async fn with(server: &'a TestServer, members: Value) -> Self {
        let key = server.key("acme", Role::Worker).await;
        Self::with_key(server, vec![server], key, members).await
    }

    /// A worker whose calls go to `nodes` in turns.
    pub async fn among(nodes: Vec<&'a TestServer>, members: Value) -> Self {
        let key = nodes[0].key("acme", Role::Worker).await;
        Self::with_key(nodes[0], nodes, key, members).await
    }

    /// A worker with this key, which opens its session on `server`.
    pub async fn with_key(
        server: &'a TestServer,
        nodes: Vec<&'a TestServer>,
        key: String,
        members: Value,
    ) -> Self {
        let mut asked = json!({ "name": "test", "concurrency": 64 });
        asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let opened = server.send("POST", SESSIONS, Some(asked.to_string()), &key, &[]).await;
        assert_eq!(opened.status, 201, "{}", opened.text());
        let session = opened.json()["sessionId"].as_str().unwrap().to_owned();
        let (messages, requests, calls) = (Mutex::default(), AtomicU64::new(0), AtomicUsize::new(1));
        TestWorker { server, nodes, calls, key, session, messages, requests }
    }

    pub fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub async fn send(&self, verb: &str, body: &Value) -> Answer {
        let path = format!("{SESSIONS}/{}/{verb}", self.session);
        self.node().send("POST", &path, Some(body.to_string()), &self.key, &[]).await
    }

    /// The node whose turn it is.
    pub fn node(&self) -> &'a TestServer {
        self.nodes[self.calls.fetch_add(1, Ordering::Relaxed) % self.nodes.len()]
    }

    fn keep(&self, answer: &Answer) -> Vec<Value> {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let messages = answer.json()["messages"].as_array().unwrap().clone();
        self.messages.lock().unwrap().extend(messages.clone());
        messages
    }

    /// One poll.
    pub async fn poll(&self) -> Vec<Value> {
        self.keep(&self.send("poll", &json!({ "sequence": self.next_request(), "free": 64 })).await)
    }

    /// Hands in the items of one run.
    pub async fn commit(&self, activation: &Activation, items: Value) -> Vec<Value> {
        let run = json!({ "run": activation.run, "activation": activation.id, "items": items });
        self.keep(
            &self
                .send("commit", &json!({ "sequence": self.next_request(), "free": 64, "runs": [run] }))
                .await,
        )
    }

    fn find(&self, fits: &impl Fn(&Value) -> bool) -> Option<Value> {
        let mut messages = self.messages.lock().unwrap();
        let place = messages.iter().position(fits)?;
        messages.remove(place)
    }

    /// Was a message of this type received that nobody asked for yet?
    pub fn has_message(&self, kind: &str) -> bool {
        self.messages.lock().unwrap().iter().any(|message| message["type"] == kind)
    }

    /// The next message that fits; polls until it is there.
    pub async fn next(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            if let Some(found) = self.find(&fits) {
                return found;
            }
            assert!(since.elapsed() < PATIENCE, "no {what}, but {:?}", self.messages.lock().unwrap());
            self.poll().await;
        }
    }

    /// The next activation.
    pub async fn activated(&self) -> Activation {
        let message = self.next("activate", |message| message["type"] == "activate").await;
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        Activation { run: text("run"), id: text("activation"), message }
    }

    /// Starts a run of `order`, and waits for its activation.
    pub async fn start(&self, input: Value) -> Activation {
        start(self.server, input).await;
        self.activated().await
    }

    /// The next message of this type about the run.
    pub async fn told(&self, activation: &Activation, kind: &str) -> Value {
        let fits =
            |message: &Value| message["type"] == kind && message["activation"] == activation.id.as_str();
        self.next(kind, fits).await
    }

    /// The next attempt at `op`.
    pub async fn attempt(&self, activation: &Activation, op: u32) -> Value {
        let attempt = self.told(activation, "attempt").await;
        assert_eq!(attempt["op"], op, "{attempt}");
        attempt
    }

    /// The outcome of `op`.
    pub async fn resolved(&self, activation: &Activation, op: u32) -> Value {
        let resolved = self.told(activation, "resolved").await;
        assert_eq!(resolved["op"], op, "{resolved}");
        resolved
    }

    /// Reason to forget the activation.
    pub async fn dropped(&self, activation: &Activation) -> String {
        self.told(activation, "drop").await["why"].as_str().unwrap().to_owned()
    }

    /// Ends the session.
    pub async fn close(&self) -> Answer {
        let path = format!("{SESSIONS}/{}", self.session);
        self.node().send("DELETE", &path, None, &self.key, &[]).await
    }
}

/// Starts a run of `order`; answers its id.
pub async fn start(server: &TestServer, input: Value) -> String {
    // An input is an object.
    let input = if input.is_object() { input } else { json!({ "of": input }) };
    let asked = json!({ "workflow": "order", "input": input });
    let answer = server.post("/api/v1/workflow-runs", &asked, &[]).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["run"]["id"].as_str().unwrap().to_owned()
}
