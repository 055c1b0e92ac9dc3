//! A worker as an SDK is one, small: `order` notes something, wires money once, and returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_api::client::{Client, ClientError};
use hapax_api::{
    Code, CommitWorkerSession, OpenWorkerSession, PollWorkerSession, RawJson, WorkerMessages, WorkerRunItems,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Requests to the provider, by effect key.
#[derive(Default)]
pub struct Provider {
    counts: Mutex<BTreeMap<String, u32>>,
    /// How long it works on a request.
    works_for: Duration,
    /// Until it is opened, no request ends.
    closed: watch::Sender<bool>,
}

impl Provider {
    /// A provider that works this long on each request.
    pub fn new(works_for: Duration) -> Self {
        Provider { works_for, ..Provider::default() }
    }

    /// A provider that ends no request until it is opened.
    pub fn closed() -> Self {
        Provider { closed: watch::Sender::new(true), ..Provider::default() }
    }

    pub fn open(&self) {
        self.closed.send_replace(false);
    }

    async fn perform(&self, key: &str) {
        *self.counts.lock().unwrap().entry(key.to_owned()).or_default() += 1;
        let _ = self.closed.subscribe().wait_for(|closed| !closed).await;
        sleep(self.works_for).await;
    }

    /// Number of times that the effect happened.
    pub fn count(&self, key: &str) -> u32 {
        self.counts.lock().unwrap().get(key).copied().unwrap_or(0)
    }

    /// Number of effects that happened.
    pub fn effects(&self) -> usize {
        self.counts.lock().unwrap().len()
    }
}

pub struct Worker {
    client: Client,
    provider: Arc<Provider>,
    instance: Option<String>,
    concurrency: u32,
    state: Mutex<State>,
    work: Notify,
    held: Notify,
}

#[derive(Default)]
struct State {
    life: u64,
    hold_until: Option<Instant>,
    outbox: Vec<(String, String, Vec<Value>)>,
    /// Effects that happened, and that no commit has confirmed: evidence.
    unconfirmed: BTreeMap<String, Value>,
    late: Vec<Value>,
    known: BTreeSet<String>,
    running: u32,
    attempts: usize,
    requests: u64,
}

/// Why a session ended.
enum End {
    Over,
    Replaced,
}

impl Worker {
    pub fn new(
        url: &str,
        key: &str,
        provider: &Arc<Provider>,
        instance: Option<&str>,
        concurrency: u32,
    ) -> Arc<Self> {
        let client = Client::new(url, &key.to_owned().into()).unwrap().patience(Duration::ZERO);
        Arc::new(Worker {
            client,
            provider: provider.clone(),
            instance: instance.map(str::to_owned),
            concurrency,
            state: Mutex::default(),
            work: Notify::new(),
            held: Notify::new(),
        })
    }

    /// Attempts that were begun.
    pub fn attempts(&self) -> usize {
        self.state.lock().unwrap().attempts
    }

    /// Works until its instance is taken over.
    pub async fn run(self: Arc<Self>) {
        loop {
            let offer: OpenWorkerSession = serde_json::from_value(json!({
                "name": "test", "instance": self.instance, "concurrency": self.concurrency, "workflows": [{ "name": "order" }],
            }))
            .unwrap();
            let Ok(opened) = self.client.open_worker_session(&offer).await else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let mut attempts = JoinSet::new();
            let (start, started) = tokio::sync::mpsc::unbounded_channel();
            let end = tokio::select! {
                end = self.poll(&opened.session_id, &start) => end,
                end = self.commit(&opened.session_id, &start) => end,
                never = self.make_attempts(started, &mut attempts) => never,
            };
            // Attempts under way end, as those of a process that lives on do.
            let left = async { while attempts.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(Duration::from_secs(2), left).await;
            let mut state = self.state.lock().unwrap();
            state.life += 1;
            state.outbox.clear();
            state.known.clear();
            state.hold_until = None;
            state.running = 0;
            let evidence = std::mem::take(&mut state.unconfirmed);
            state.late.extend(evidence.into_values());
            if matches!(end, End::Replaced) {
                return;
            }
        }
    }

    async fn make_attempts(
        self: &Arc<Self>,
        mut started: tokio::sync::mpsc::UnboundedReceiver<Value>,
        attempts: &mut JoinSet<()>,
    ) -> End {
        while let Some(message) = started.recv().await {
            let (worker, life) = (self.clone(), self.state.lock().unwrap().life);
            attempts.spawn(async move { worker.make(life, message).await });
        }
        std::future::pending().await
    }

    fn next_request(&self) -> (u64, u32) {
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        (state.requests, self.concurrency.saturating_sub(state.running))
    }

    async fn poll(&self, session: &str, start: &tokio::sync::mpsc::UnboundedSender<Value>) -> End {
        loop {
            let (sequence, free) = self.next_request();
            let asked = PollWorkerSession { sequence, free };
            let sent_at = Instant::now();
            loop {
                match self.judge(self.client.poll_worker_session(session, &asked).await) {
                    Ok(Some(answer)) => {
                        self.hear(sent_at, answer, start);
                        break;
                    }
                    Ok(None) => sleep(Duration::from_millis(20)).await,
                    Err(end) => return end,
                }
            }
        }
    }

    async fn commit(&self, session: &str, start: &tokio::sync::mpsc::UnboundedSender<Value>) -> End {
        loop {
            let (outbox, late) = {
                let mut state = self.state.lock().unwrap();
                (std::mem::take(&mut state.outbox), std::mem::take(&mut state.late))
            };
            if outbox.is_empty() && late.is_empty() {
                self.work.notified().await;
                continue;
            }
            let mut confirmed = Vec::new();
            let mut runs: Vec<WorkerRunItems> = Vec::new();
            for (run, activation, items) in outbox {
                for item in &items {
                    if let Some(op) = item["outcome"].as_u64() {
                        confirmed.push(format!("{activation}/{op}/{}", item["attempt"]));
                    }
                }
                let items = items.iter().map(|item| RawJson::from_value(item).unwrap());
                match runs.iter_mut().find(|entry| entry.activation == activation) {
                    Some(entry) => entry.items.extend(items),
                    None => runs.push(WorkerRunItems { run, activation, items: items.collect() }),
                }
            }
            let results =
                late.iter().map(|late| RawJson::from_value(&json!({ "late": late })).unwrap()).collect();
            let (sequence, free) = self.next_request();
            let asked = CommitWorkerSession { sequence, free, runs, results };
            let sent_at = Instant::now();
            loop {
                match self.judge(self.client.commit_worker_session(session, &asked).await) {
                    Ok(Some(answer)) => {
                        let mut state = self.state.lock().unwrap();
                        confirmed.iter().for_each(|place| drop(state.unconfirmed.remove(place)));
                        drop(state);
                        self.hear(sent_at, answer, start);
                        break;
                    }
                    Ok(None) => sleep(Duration::from_millis(20)).await,
                    Err(end) => {
                        self.state.lock().unwrap().late.extend(late);
                        return end;
                    }
                }
            }
        }
    }

    /// The answer; nothing if the same request must be sent again.
    fn judge(&self, answer: Result<WorkerMessages, ClientError>) -> Result<Option<WorkerMessages>, End> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => match error.problem().map(|problem| problem.code) {
                Some(Code::SessionUnknown) => Err(End::Over),
                Some(Code::SessionReplaced) => Err(End::Replaced),
                Some(Code::RequestSuperseded) | None => Ok(None),
                Some(_) if error.problem().is_some_and(|problem| problem.retryable) => Ok(None),
                Some(code) => panic!("{code}: {error}"),
            },
        }
    }

    fn hear(
        &self,
        sent_at: Instant,
        answer: WorkerMessages,
        start: &tokio::sync::mpsc::UnboundedSender<Value>,
    ) {
        {
            let mut state = self.state.lock().unwrap();
            let until = sent_at + answer.hold_for.0;
            state.hold_until = Some(state.hold_until.map_or(until, |held| held.max(until)));
        }
        self.held.notify_waiters();
        for message in answer.messages {
            let message: Value = serde_json::from_str(message.text()).unwrap();
            let activation = message["activation"].as_str().unwrap_or_default().to_owned();
            match message["type"].as_str().unwrap() {
                "activate" => {
                    self.state.lock().unwrap().known.insert(activation.clone());
                    let log = message["log"].as_array().unwrap();
                    let done = log.iter().filter(|record| record["status"] == "COMPLETED").count() as u64;
                    let mut items = vec![ask(1)];
                    for op in 1..=done {
                        items.push(json!({ "took": op }));
                        items.push(ask(op + 1));
                    }
                    self.push(&message, items);
                }
                "resolved" => {
                    let op = message["op"].as_u64().unwrap();
                    let items = match message.get("failure") {
                        None => vec![json!({ "took": op }), ask(op + 1)],
                        Some(failure) => vec![json!({ "took": op }), json!({ "throw": failure })],
                    };
                    self.push(&message, items);
                }
                "attempt" => {
                    self.state.lock().unwrap().running += 1;
                    let _ = start.send(message);
                }
                "drop" => {
                    assert_ne!(message["why"], "violation", "{message}");
                    self.state.lock().unwrap().known.remove(&activation);
                }
                "abort" | "stop" => {}
                other => panic!("{other}: {message}"),
            }
        }
    }

    fn push(&self, message: &Value, items: Vec<Value>) {
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        self.state.lock().unwrap().outbox.push((text("run"), text("activation"), items));
        self.work.notify_one();
    }

    async fn make(&self, life: u64, message: Value) {
        let activation = message["activation"].as_str().unwrap().to_owned();
        loop {
            let held = self.held.notified();
            {
                let mut state = self.state.lock().unwrap();
                if state.life != life {
                    return;
                }
                if !state.known.contains(&activation) {
                    state.running -= 1;
                    return;
                }
                if state.hold_until.is_some_and(|until| Instant::now() < until) {
                    break;
                }
            }
            held.await;
        }
        let key = message["key"].as_str().unwrap();
        self.state.lock().unwrap().attempts += 1;
        self.provider.perform(key).await;
        let (op, attempt) = (message["op"].as_u64().unwrap(), &message["attempt"]);
        let mut state = self.state.lock().unwrap();
        let evidence = json!({ "key": key, "attempt": attempt, "fence": message["fence"], "output": key });
        if state.life != life {
            state.late.push(evidence);
            return;
        }
        state.running -= 1;
        state.unconfirmed.insert(format!("{activation}/{op}/{attempt}"), evidence);
        drop(state);
        let items = vec![
            json!({ "outcome": op, "attempt": attempt, "output": key }),
            json!({ "took": op }),
            ask(op + 1),
        ];
        self.push(&message, items);
    }
}

/// Operation `op` of the code.
fn ask(op: u64) -> Value {
    let retry = json!({ "maxAttempts": 1000, "first": "10ms", "cap": "100ms" });
    match op {
        1 => json!({ "op": 1, "do": "step", "name": "note", "retry": retry }),
        2 => json!({ "op": 2, "do": "step", "name": "wire", "claimed": true, "retry": retry }),
        _ => json!({ "return": "done" }),
    }
}
