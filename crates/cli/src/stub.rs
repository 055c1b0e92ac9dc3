//! `hapax stub`: a payment provider to try workflows against. It honours idempotency keys, and shows every charge it made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use hapax_documents::Span;
use serde::Serialize;
use serde_json::{Value, json};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  hapax stub                        on http://127.0.0.1:7272
  hapax stub --fail-first 2         its first two requests for each charge answer 503, and nothing is charged
  hapax stub --ignore-keys          every request is a charge, as at a bank without idempotency keys
  curl -s http://127.0.0.1:7272/charges

POST /charges makes a charge and answers { \"id\": \"ch_1\" }. A second request with the same Idempotency-Key gets the first
answer. GET /charges lists what was charged; GET /charges/KEY finds a charge by its key (404 if there is none).";

/// Charges that a stub keeps. Past it, requests answer 507.
const MAX_CHARGES: usize = 100_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Address to listen on. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7272")]
    listen: String,
    /// Charge on every request, whatever its Idempotency-Key.
    #[arg(long)]
    ignore_keys: bool,
    /// Answer 503 to the first requests for each charge. Nothing is charged.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    fail_first: u32,
    /// Time between a charge and its answer, such as 5s.
    #[arg(long, value_name = "DURATION", value_parser = read_delay)]
    delay: Option<Duration>,
}

fn read_delay(text: &str) -> Result<Duration, String> {
    Span::parse(text).map(Span::get)
}

/// One charge.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Charge {
    id: String,
    idempotency_key: String,
    request: Value,
}

#[derive(Default)]
struct Books {
    charges: Vec<Charge>,
    /// Requests refused so far, by key.
    refused: HashMap<String, u32>,
}

struct Stub {
    options: Options,
    books: Mutex<Books>,
}

impl Stub {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a charge, or finds the one that stands under the key.
    fn charge(&self, key: &str, request: Value) -> (StatusCode, Value) {
        let mut books = self.books();
        let earlier = books.charges.iter().find(|charge| charge.idempotency_key == key);
        if let (false, false, Some(charge)) = (self.options.ignore_keys, key.is_empty(), earlier) {
            return (StatusCode::OK, json!({ "id": charge.id }));
        }
        let refused = books.refused.entry(key.to_owned()).or_default();
        if *refused < self.options.fail_first {
            *refused += 1;
            return (
                StatusCode::SERVICE_UNAVAILABLE,
                json!({ "error": "down for a moment; nothing was charged" }),
            );
        }
        if books.charges.len() >= MAX_CHARGES {
            return (
                StatusCode::INSUFFICIENT_STORAGE,
                json!({ "error": "the stub is full; start it again" }),
            );
        }
        let id = format!("ch_{}", books.charges.len() + 1);
        books.charges.push(Charge { id: id.clone(), idempotency_key: key.to_owned(), request });
        (StatusCode::CREATED, json!({ "id": id }))
    }
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(&options.listen).await;
    let listener = listener.with_context(|| {
        format!("cannot listen on {}; give another address with --listen", options.listen)
    })?;
    let address = listener.local_addr().context("the address of the stub is not known")?;
    output::print(&format!("A stub payment provider is ready on http://{address}\nCtrl-C stops it.\n"))?;
    axum::serve(listener, routes(options)).await.context("the stub stopped")
}

fn routes(options: Options) -> Router {
    let stub = Arc::new(Stub { options, books: Mutex::default() });
    Router::new()
        .route("/charges", post(create_charge).get(list_charges))
        .route("/charges/{key}", get(find_charge))
        .with_state(stub)
}

async fn create_charge(
    State(stub): State<Arc<Stub>>,
    headers: HeaderMap,
    body: Option<Json<Value>>,
) -> (StatusCode, Json<Value>) {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let (status, answer) = stub.charge(key.trim_matches('"'), body.map_or(Value::Null, |Json(body)| body));
    if let Some(delay) = stub.options.delay {
        tokio::time::sleep(delay).await;
    }
    (status, Json(answer))
}

async fn list_charges(State(stub): State<Arc<Stub>>) -> Json<Value> {
    Json(json!({ "items": stub.books().charges }))
}

async fn find_charge(State(stub): State<Arc<Stub>>, Path(key): Path<String>) -> (StatusCode, Json<Value>) {
    match stub.books().charges.iter().find(|charge| charge.idempotency_key == key) {
        Some(charge) => (StatusCode::OK, Json(json!(charge))),
        None => (StatusCode::NOT_FOUND, Json(json!({ "error": "no charge under this key" }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(ignore_keys: bool, fail_first: u32) -> Stub {
        let options = Options { listen: String::new(), ignore_keys, fail_first, delay: None };
        Stub { options, books: Mutex::default() }
    }

    #[test]
    fn a_key_that_comes_twice_is_charged_once() {
        let stub = stub(false, 0);
        assert_eq!(stub.charge("a", Value::Null), (StatusCode::CREATED, json!({ "id": "ch_1" })));
        assert_eq!(stub.charge("a", Value::Null), (StatusCode::OK, json!({ "id": "ch_1" })));
        assert_eq!(stub.charge("b", Value::Null), (StatusCode::CREATED, json!({ "id": "ch_2" })));
    }

    #[test]
    fn a_stub_that_ignores_keys_charges_on_every_request() {
        let stub = stub(true, 0);
        assert_eq!(stub.charge("a", Value::Null).1, json!({ "id": "ch_1" }));
        assert_eq!(stub.charge("a", Value::Null).1, json!({ "id": "ch_2" }));
    }

    #[test]
    fn the_first_requests_for_a_charge_fail_and_charge_nothing() {
        let stub = stub(false, 2);
        assert_eq!(stub.charge("a", Value::Null).0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(stub.charge("a", Value::Null).0, StatusCode::SERVICE_UNAVAILABLE);
        assert!(stub.books().charges.is_empty());
        assert_eq!(stub.charge("a", Value::Null).0, StatusCode::CREATED);
    }
}
