//! A service that stores its answer in the write of its effect: nothing is stored under the key before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use hapax_engine::model::{RequestId, RunHead, WorkspaceId};
use hapax_engine::runtime::AnsweredRequest;
use hapax_engine::store::{ListRuns, RunFilter, Store};
use hapax_engine::{Ctx, Engine, EngineOptions, Error};
use hapax_http_idempotency::{
    ByHeader, FreshKey, IdempotencyLayer, IdempotencyStats, OperationId, Outcome, Policy,
};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use crate::faulty_store::{Fault, FaultyStore, Verb};
use crate::world::{Answer, StoreAndClock, also, answer, memory, pay, receive, until};

/// How a call of the service was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    id: RequestId,
    is_fresh: bool,
}

/// A service that starts a run for each request.
struct RunService {
    engine: Engine,
    calls: Mutex<Vec<Call>>,
    began: watch::Sender<usize>,
    /// Calls wait here before they write.
    gate: Semaphore,
    /// The run key of all requests, if there is one.
    run_key: Option<&'static str>,
    /// Panics after this many writes.
    panics: AtomicUsize,
}

async fn handle(State(desk): State<Arc<RunService>>, request: Request) -> Response {
    let fresh = request.extensions().get::<FreshKey>().cloned();
    let OperationId(id) = *request.extensions().get::<OperationId>().expect("it has an operation");
    let began = {
        let mut calls = desk.calls.lock().unwrap();
        calls.push(Call { id, is_fresh: fresh.is_some() });
        calls.len()
    };
    desk.began.send_replace(began);
    desk.gate.acquire().await.unwrap().forget();
    if request.uri().path() == "/refunds" {
        return answer(400, "{}");
    }
    let mut start = desk.engine.start("pay", &1);
    if let Some(key) = desk.run_key {
        start = start.idempotency_key(key);
    }
    let Some(fresh) = fresh else {
        let run = start.run_id(id.as_run()).await.unwrap();
        return answer(if run.created { 201 } else { 200 }, &format!("{{ \"run\":  \"{}\" }}", run.id()));
    };
    let writer = fresh.clone();
    let write = move |head: &RunHead| {
        let body = Bytes::from(format!("{{ \"run\":  \"{}\" }}", head.id()));
        let mut created = http::Response::new(body);
        *created.status_mut() = http::StatusCode::CREATED;
        writer.to_stored(&created)
    };
    let answered = AnsweredRequest {
        request: fresh.request().clone(),
        answer: Arc::new(write),
        keep_for: fresh.keep_for(),
        grace: fresh.grace(),
    };
    let outcome = start.answering(answered).await;
    assert!(
        desk.panics.load(Ordering::SeqCst) == 0 || desk.panics.fetch_sub(1, Ordering::SeqCst) > 1,
        "planned"
    );
    let (outcome, response) = match outcome {
        Ok(Some((_, stored))) => return FreshKey::answer(stored).map(Body::from),
        Ok(None) => (Outcome::Hold, answer(500, "{}")),
        Err(Error::Store(error)) if error.is_retryable() => (Outcome::Unknown, answer(503, "{}")),
        Err(error) => panic!("{error}"),
    };
    let mut response = response;
    response.extensions_mut().insert(outcome);
    response
}

async fn pay_quickly(_: Ctx, amount: u64) -> Result<u64, hapax_engine::model::Failure> {
    Ok(amount)
}

/// A node of the service.
struct Node {
    desk: Arc<RunService>,
    layer: IdempotencyLayer,
    app: Router,
    store: Arc<dyn Store>,
}

impl Node {
    fn new(stage: &StoreAndClock, store: Arc<dyn Store>, run_key: Option<&'static str>) -> Self {
        let engine = Engine::launch(store.clone(), stage.clock.clone(), EngineOptions::default()).unwrap();
        engine.register("pay", pay_quickly).unwrap();
        let layer = IdempotencyLayer::new(store.clone(), Policy::default()).unwrap();
        let layer = layer.identified_by(ByHeader::authorization()).in_one_write();
        let desk = Arc::new(RunService {
            engine,
            calls: Mutex::default(),
            began: watch::Sender::new(0),
            gate: Semaphore::new(0),
            run_key,
            panics: AtomicUsize::new(0),
        });
        let app = Router::new().route("/payments", post(handle)).route("/refunds", post(handle));
        let app = app.with_state(desk.clone()).layer(layer.clone());
        Node { desk, layer, app, store }
    }

    fn open(stage: &StoreAndClock, store: Arc<dyn Store>) -> Self {
        let node = Node::new(stage, store, None);
        node.let_through(1_000_000);
        node
    }

    fn let_through(&self, calls: usize) {
        self.desk.gate.add_permits(calls);
    }

    fn calls(&self) -> Vec<bool> {
        self.desk.calls.lock().unwrap().iter().map(|call| call.is_fresh).collect()
    }

    async fn until_began(&self, calls: usize) {
        self.desk.began.subscribe().wait_for(|began| *began >= calls).await.unwrap();
    }

    async fn send(&self, request: Request) -> Answer {
        receive(self.app.clone().oneshot(request).await.unwrap()).await
    }

    fn send_aside(&self, request: Request) -> tokio::task::JoinHandle<Answer> {
        let app = self.app.clone();
        tokio::spawn(async move { receive(app.oneshot(request).await.unwrap()).await })
    }

    async fn runs(&self) -> usize {
        let all = ListRuns {
            workspace: Some(WorkspaceId::default()),
            statuses: Vec::new(),
            workflow: None,
            filter: RunFilter::default(),
            before: None,
            limit: 100,
        };
        self.store.list_runs(all).await.unwrap().runs.len()
    }

    fn stats(&self) -> IdempotencyStats {
        self.layer.stats()
    }
}

/// One write of the store for a new request, none for the replay, and the same bytes.
#[tokio::test]
async fn a_request_is_one_write_and_is_replayed_byte_for_byte() {
    let stage = memory();
    let store = FaultyStore::over(stage.store.clone());
    let node = Node::open(&stage, store.clone());
    let first = node.send(pay("abc", 5)).await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replayed());
    let again = node.send(pay("abc", 5)).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert!(again.is_replayed());
    let writes = [Verb::Start, Verb::Begin, Verb::Finish].map(|verb| store.calls(verb));
    assert_eq!((writes, node.calls()), ([1, 0, 0], vec![true]), "the replay writes nothing");
    assert_eq!(node.send(pay("abc", 6)).await.code(), "idempotency_key_conflict");
    assert_eq!(node.runs().await, 1);
    assert_eq!((node.stats().new, node.layer.in_flight()), (1, 0));
}

/// A process that dies before the write leaves nothing behind: the retry need not wait for a hold.
#[test]
fn a_crash_before_the_write_leaves_the_key_free() {
    let stage = memory();
    let on_runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let died = on_runtime();
    died.block_on(async {
        let node = Node::new(&stage, stage.store.clone(), None);
        node.send_aside(pay("abc", 5));
        node.until_began(1).await;
    });
    drop(died);
    on_runtime().block_on(async {
        let node = Node::open(&stage, stage.store.clone());
        assert_eq!(node.send(also(pay("abc", 5), "prefer", "wait=0")).await.status, 201);
        assert_eq!((node.calls(), node.runs().await), (vec![true], 1));
    });
}

/// The caller that disconnects stops nothing, and others wait for its answer.
#[tokio::test]
async fn others_wait_for_the_write_although_its_caller_left() {
    let stage = memory();
    let node = Node::new(&stage, stage.store.clone(), None);
    let first = node.send_aside(pay("abc", 5));
    node.until_began(1).await;
    first.abort();
    let refused = node.send(also(pay("abc", 5), "prefer", "wait=0")).await;
    assert_eq!(refused.code(), "request_in_progress");
    let other = node.send(pay("abc", 6)).await;
    assert_eq!(other.code(), "idempotency_key_conflict");
    assert_eq!(other.json()["storedRequest"]["differingPaths"], serde_json::json!(["/amount"]));
    let all: Vec<_> = (0..100).map(|_| node.send_aside(pay("abc", 5))).collect();
    until(|| node.stats().waits == 100).await;
    node.let_through(1);
    for waiting in all {
        let waiting = waiting.await.unwrap();
        assert!(waiting.status == 201 && waiting.is_replayed());
    }
    assert_eq!((node.calls(), node.runs().await), (vec![true], 1));
}

/// Two nodes find the key free at the same time. One write wins, and the other node's caller gets its answer.
#[tokio::test]
async fn of_two_nodes_one_writes_and_both_give_its_answer() {
    let stage = memory();
    let nodes = [0, 1].map(|_| Node::new(&stage, stage.store.clone(), None));
    let sent = nodes.each_ref().map(|node| node.send_aside(pay("abc", 5)));
    for node in &nodes {
        node.until_began(1).await;
    }
    nodes[0].let_through(1);
    let [first, second] = sent;
    let first = first.await.unwrap();
    nodes[1].let_through(1);
    let second = second.await.unwrap();
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    assert!(second.is_replayed() && !first.is_replayed());
    assert_eq!(nodes[0].runs().await, 1);
}

/// Its own run key is taken: the layer holds the request key, and the second call answers as it would have.
#[tokio::test]
async fn what_cannot_be_one_write_is_done_under_a_hold() {
    let stage = memory();
    let node = Node::new(&stage, stage.store.clone(), Some("order-1"));
    node.let_through(1_000);
    let first = node.send(pay("a", 5)).await;
    let second = node.send(pay("b", 5)).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (201, 200));
    assert_eq!(node.calls(), [true, true, false]);
    let ids: Vec<_> = node.desk.calls.lock().unwrap().iter().map(|call| call.id).collect();
    assert_eq!(ids[1], ids[2], "both calls are one operation");
    let again = node.send(pay("b", 5)).await;
    assert!(again.is_replayed() && again.body == second.body);
}

/// The acknowledgement of the write is lost, twice: the same write is sent again and finds itself.
#[tokio::test]
async fn a_lost_acknowledgement_is_recognised() {
    let stage = memory();
    let store = FaultyStore::over(stage.store.clone());
    let node = Node::open(&stage, store.clone());
    store.plan(Verb::Start, [Fault::LostAfter, Fault::LostBefore]);
    // The engine pauses between the tries, on the clock of the store.
    let sent = node.send_aside(pay("abc", 5));
    until(|| {
        stage.clock.advance(std::time::Duration::from_millis(10));
        sent.is_finished()
    })
    .await;
    assert_eq!(sent.await.unwrap().status, 201);
    assert_eq!(store.calls(Verb::Start), 3);
    assert!(node.send(pay("abc", 5)).await.is_replayed());
    assert_eq!((node.runs().await, node.stats().new), (1, 1));
}

/// A service that fails after its write is found out under the hold: its answer stands.
#[tokio::test]
async fn a_panic_after_the_write_is_answered_with_what_was_written() {
    let stage = memory();
    let node = Node::open(&stage, stage.store.clone());
    node.desk.panics.store(1, Ordering::SeqCst);
    let first = node.send(pay("abc", 5)).await;
    assert_eq!(first.status, 201);
    assert!(first.is_replayed(), "it is the stored answer");
    assert_eq!((node.calls(), node.runs().await), (vec![true], 1));
}

/// A refusal stores nothing, and its key is free at once.
#[tokio::test]
async fn a_refusal_writes_nothing() {
    let stage = memory();
    let store = FaultyStore::over(stage.store.clone());
    let node = Node::open(&stage, store.clone());
    let refused = crate::world::request("POST", "/refunds", "abc", "{}");
    assert_eq!(node.send(refused).await.status, 400);
    assert_eq!([Verb::Start, Verb::Begin, Verb::Finish].map(|verb| store.calls(verb)), [0, 0, 0]);
    assert_eq!(node.send(pay("abc", 5)).await.status, 201);
    assert_eq!(node.stats().released, 1);
}

/// A store that is away refuses before anything began.
#[tokio::test]
async fn a_store_that_is_away_is_no_free_key() {
    let stage = memory();
    let store = FaultyStore::over(stage.store.clone());
    let node = Node::open(&stage, store.clone());
    store.plan(Verb::Find, [Fault::Away]);
    assert_eq!(node.send(pay("abc", 5)).await.code(), "store_unavailable");
    assert_eq!(node.calls(), [false; 0]);
    assert_eq!(node.send(pay("abc", 5)).await.status, 201);
}
