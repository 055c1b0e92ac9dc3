//! A Stripe of our own. It keeps what matters of the real one: charges are made once per key, webhooks are signed, each is sent again
//! and again until it is answered with a 2xx (and twice more, as a careful sender under load does), and nothing comes in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::task::JoinSet;

/// Signing secret of webhooks, as the dashboard shows it.
pub(crate) const SECRET: &str = "whsec_of_the_example";

/// How often each webhook is delivered.
const DELIVERIES: usize = 3;
/// How often one delivery is tried.
const TRIES: u32 = 20;

#[derive(Clone)]
pub(crate) struct Stripe {
    pub(crate) url: String,
    books: Arc<Mutex<StripeState>>,
    http: reqwest::Client,
}

#[derive(Default)]
struct StripeState {
    /// The charge that each key made.
    by_key: HashMap<String, Value>,
    /// How often each order was charged.
    by_order: HashMap<String, usize>,
    calls: usize,
    early: usize,
    webhooks: JoinSet<bool>,
    received: Webhooks,
    receiver: String,
}

/// Outcomes of webhooks.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Webhooks {
    /// Answered with a 2xx.
    pub(crate) delivered: usize,
    /// Of those, answered as duplicates.
    pub(crate) duplicates: usize,
}

impl Stripe {
    pub(crate) async fn start() -> Result<Self> {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let stripe = Stripe { url, books: Arc::default(), http: reqwest::Client::new() };
        let routes = Router::new().route("/v1/charges", post(charge)).with_state(stripe.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(stripe)
    }

    fn books(&self) -> std::sync::MutexGuard<'_, StripeState> {
        self.books.lock().expect("no holder panics")
    }

    pub(crate) fn send_webhooks_to(&self, url: String) {
        self.books().receiver = url;
    }

    pub(crate) fn calls(&self) -> usize {
        self.books().calls
    }

    pub(crate) fn charges(&self) -> usize {
        self.books().by_key.len()
    }

    pub(crate) fn early(&self) -> usize {
        self.books().early
    }

    pub(crate) fn charged_twice(&self) -> usize {
        self.books().by_order.values().filter(|count| **count > 1).count()
    }

    /// Waits until every webhook is delivered.
    pub(crate) async fn wait_for_webhooks(&self) -> Webhooks {
        let mut webhooks = std::mem::take(&mut self.books().webhooks);
        while webhooks.join_next().await.is_some() {}
        self.books().received
    }

    /// Delivers a webhook once, which may take several tries. Each is signed anew, as of now.
    async fn deliver(&self, event: &Value) -> Result<()> {
        let (url, body) = (self.books().receiver.clone(), event.to_string());
        for _ in 0..TRIES {
            let request = self.http.post(&url).header("stripe-signature", sign(&body));
            let request = request.header("content-type", "application/json").body(body.clone());
            match request.send().await {
                Ok(answer) if answer.status().is_success() => {
                    let receipt: Value = answer.json().await?;
                    let mut books = self.books();
                    books.received.delivered += 1;
                    books.received.duplicates += usize::from(receipt["status"] == "duplicate");
                    return Ok(());
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        anyhow::bail!("the webhook could not be delivered")
    }
}

/// `POST /v1/charges`: charges once per key. Every third charge is made and not answered well the first time, as when a proxy gives up.
async fn charge(
    State(stripe): State<Stripe>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let Some(key) = key.map(str::to_owned) else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "Idempotency-Key" })));
    };
    let (number, event, charge) = {
        let mut books = stripe.books();
        books.calls += 1;
        if let Some(charge) = books.by_key.get(&key) {
            return (StatusCode::OK, Json(charge.clone()));
        }
        let number = books.by_key.len();
        let charge =
            json!({ "id": format!("ch_{number}"), "amount": asked["amount"], "order": asked["order"] });
        let order = asked["order"].as_str().unwrap_or_default().to_owned();
        *books.by_order.entry(order).or_default() += 1;
        books.by_key.insert(key, charge.clone());
        let event = json!({ "id": format!("evt_{number}"), "type": "charge.succeeded", "data": { "object": charge } });
        (number, event, charge)
    };
    // Half of the webhooks overtake the answer: the order cannot know its charge yet.
    let is_early = number % 2 == 0;
    if is_early && stripe.deliver(&event).await.is_ok() {
        stripe.books().early += 1;
    }
    for _ in usize::from(is_early)..DELIVERIES {
        let (sender, event) = (stripe.clone(), event.clone());
        stripe.books().webhooks.spawn(async move { sender.deliver(&event).await.is_ok() });
    }
    match number % 3 {
        0 => (StatusCode::BAD_GATEWAY, Json(json!({ "error": "upstream" }))),
        _ => (StatusCode::OK, Json(charge)),
    }
}

/// `t=<seconds>,v1=<hex>` over `<seconds>.<body>`.
fn sign(body: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("a key of any length is taken");
    mac.update(format!("{now}.{body}").as_bytes());
    let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={now},v1={signature}")
}

/// Behaviour of a caller of [`charge`].
pub(crate) async fn ask_for_charge(
    http: &reqwest::Client,
    url: &str,
    key: &str,
    order: &str,
) -> Result<String> {
    let asked = json!({ "order": order, "amount": 4200 });
    let answer =
        http.post(format!("{url}/v1/charges")).header("idempotency-key", key).json(&asked).send().await?;
    let charge: Value = answer.error_for_status()?.json().await?;
    charge["id"].as_str().map(str::to_owned).context("a charge has an id")
}
