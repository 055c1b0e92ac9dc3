//! Shared code of the tests: a shop that charges, its callers, and stores for their keys.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_engine::model::{IdempotencyKey, RequestId, RequestScope};
use hapax_engine::store::Store;
use hapax_http_idempotency::{ByHeader, IdempotencyLayer, IdentifyCaller, OperationId, Policy, Takeover};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

/// A store with its clock.
pub struct StoreAndClock {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
}

pub fn memory() -> StoreAndClock {
    let clock = Arc::new(ManualClock::default());
    StoreAndClock { store: Arc::new(MemoryStore::new(clock.clone())), clock }
}

/// Runs each test on every store that keeps request keys.
macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(crate::world::memory()).await;
                }
            )*
        }
    };
}
pub(crate) use on_every_store;

type Reply = dyn Fn(u64) -> Response + Send + Sync;

/// A handler that charges on every call and returns a chosen response.
pub struct Shop {
    charges: AtomicU64,
    began: watch::Sender<u64>,
    /// Handlers wait here before they answer.
    pub gate: Semaphore,
    reply: Mutex<Arc<Reply>>,
    seen: Mutex<Vec<(Option<RequestId>, bool, Bytes)>>,
}

impl Shop {
    pub fn charges(&self) -> u64 {
        self.charges.load(Ordering::SeqCst)
    }

    /// Waits until the handler was called this many times.
    pub async fn until_began(&self, times: u64) {
        self.began.subscribe().wait_for(|began| *began >= times).await.unwrap();
    }

    pub fn answers(&self, reply: impl Fn(u64) -> Response + Send + Sync + 'static) {
        *self.reply.lock().unwrap() = Arc::new(reply);
    }

    pub fn answers_status(&self, status: u16) {
        self.answers(move |number| answer(status, &format!("{{\"try\":{number}}}")));
    }

    /// The operation of each call, and whether it was marked as a takeover.
    pub fn operations(&self) -> Vec<(Option<RequestId>, bool)> {
        self.seen.lock().unwrap().iter().map(|(id, is_takeover, _)| (*id, *is_takeover)).collect()
    }

    pub fn bodies(&self) -> Vec<Bytes> {
        self.seen.lock().unwrap().iter().map(|(_, _, body)| body.clone()).collect()
    }
}

pub fn answer(status: u16, body: &str) -> Response {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(body.to_owned())).unwrap()
}

/// The body of the first answer is not canonical JSON, so that bytes are compared, not meanings.
fn charged(number: u64) -> Response {
    let mut response = answer(201, &format!("{{ \"charge\":  {number}, \"at\": \"noon\" }}"));
    response.headers_mut().insert("location", format!("/payments/{number}").parse().unwrap());
    response.headers_mut().insert("set-cookie", "a=b".parse().unwrap());
    response
}

async fn handle(State(shop): State<Arc<Shop>>, request: Request) -> Response {
    let id = request.extensions().get().map(|OperationId(id)| *id);
    let is_takeover = request.extensions().get::<Takeover>().is_some();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    shop.seen.lock().unwrap().push((id, is_takeover, body));
    let number = shop.charges.fetch_add(1, Ordering::SeqCst) + 1;
    shop.began.send_replace(number);
    shop.gate.acquire().await.unwrap().forget();
    let reply = shop.reply.lock().unwrap().clone();
    reply(number)
}

/// A shop with the layer.
pub struct World {
    pub shop: Arc<Shop>,
    pub layer: IdempotencyLayer,
    pub app: Router,
}

impl World {
    pub fn new(stage: &StoreAndClock, policy: Policy) -> Self {
        Self::over(stage.store.clone(), policy)
    }

    pub fn over(store: Arc<dyn Store>, policy: Policy) -> Self {
        let layer = IdempotencyLayer::new(store, policy).unwrap().identified_by(ByHeader::authorization());
        Self::with(layer, Arc::new(Shop::open()))
    }

    pub fn with(layer: IdempotencyLayer, shop: Arc<Shop>) -> Self {
        let app = Router::new().route("/payments", any(handle)).route("/refunds", any(handle));
        let app = app.with_state(shop.clone()).layer(layer.clone());
        World { shop, layer, app }
    }

    /// Another process of the same service, over the same store.
    pub fn other_node(&self, store: Arc<dyn Store>, policy: Policy) -> Self {
        let layer = IdempotencyLayer::new(store, policy).unwrap().identified_by(ByHeader::authorization());
        Self::with(layer, self.shop.clone())
    }

    pub async fn send(&self, request: Request) -> Answer {
        receive(self.app.clone().oneshot(request).await.unwrap()).await
    }

    /// Sends in its own task, as a connection does.
    pub fn send_aside(&self, request: Request) -> tokio::task::JoinHandle<Answer> {
        let app = self.app.clone();
        tokio::spawn(async move { receive(app.oneshot(request).await.unwrap()).await })
    }
}

impl Shop {
    /// A shop whose handlers do not wait.
    pub fn open() -> Self {
        let shop = Self::gated();
        shop.gate.add_permits(Semaphore::MAX_PERMITS / 2);
        shop
    }

    /// A shop whose handlers wait at the gate.
    pub fn gated() -> Self {
        Shop {
            charges: AtomicU64::new(0),
            began: watch::Sender::new(0),
            gate: Semaphore::new(0),
            reply: Mutex::new(Arc::new(charged)),
            seen: Mutex::default(),
        }
    }
}

pub fn gated_world(stage: &StoreAndClock, policy: Policy) -> World {
    let layer = IdempotencyLayer::new(stage.store.clone(), policy).unwrap();
    World::with(layer.identified_by(ByHeader::authorization()), Arc::new(Shop::gated()))
}

/// The response that a caller gets.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn code(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        for member in ["type", "title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        assert!(problem["retryable"].is_boolean());
        problem["code"].as_str().unwrap().to_owned()
    }

    pub fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }
}

pub async fn receive<B>(response: axum::http::Response<B>) -> Answer
where
    B: http_body_util::BodyExt<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// A request of the default caller.
pub fn request(method: &str, path: &str, key: &str, body: &str) -> Request {
    with_headers(method, path, &[("authorization", "Bearer anna"), ("idempotency-key", key)], body)
}

pub fn pay(key: &str, amount: u64) -> Request {
    request("POST", "/payments", key, &json!({ "amount": amount, "to": "bob" }).to_string())
}

pub fn with_headers(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

/// Adds a header.
pub fn also(mut request: Request, name: &'static str, value: &str) -> Request {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// The scope of the default caller.
pub fn anna() -> RequestScope {
    let (parts, _) = pay("k", 1).into_parts();
    ByHeader::authorization().find_scope(&parts).unwrap()
}

pub fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

/// Lets other tasks run until `is_so` holds. On a paused clock no time passes. Panics if it never holds.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed().as_secs() < 30, "it never came to be");
        tokio::task::yield_now().await;
    }
}
