//! `hapax stub`: a payment provider to try workflows against. It honours idempotency keys, lists every call, and fails on request.
//! It keeps everything in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::limits::{MAX_STUB_CALLS, MAX_STUB_CHARGES};
use crate::output;
use crate::parsers::duration;

/// Where a stub listens unless told otherwise.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:7272";

const EXAMPLES: &str = "\
Examples:
  hapax stub                        on http://127.0.0.1:7272
  hapax dev --stub                  the same, beside a server
  hapax stub --fail-first 2         answer 503 to the first two requests for each charge
  hapax stub --ignore-keys          charge on every request, as a bank without idempotency keys does
  curl -s http://127.0.0.1:7272/stub/calls

POST /stub/charges    makes a charge and answers { \"id\": \"ch_1\" }. A second request with the same Idempotency-Key gets the first answer.
GET /stub/charges     lists what was charged. GET /stub/charges/KEY finds a charge by its key (404 if there is none).
GET /stub/calls       lists every request with its key and its answer.

Add these to the URL of a charge to see what a workflow does when its provider misbehaves:
  ?fail=503             answer 503 and charge nothing
  ?delay=5s             answer late
  ?lose=true            charge, and never answer

The paths also work without /stub.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Address to listen on. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    listen: String,
    #[command(flatten)]
    behaviour: Behaviour,
}

/// How a stub answers.
#[derive(Debug, Default, clap::Args)]
struct Behaviour {
    /// Charge on every request, whatever its Idempotency-Key.
    #[arg(long)]
    ignore_keys: bool,
    /// Answer 503 to the first requests for each charge. Nothing is charged.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    fail_first: u32,
    /// Time between a charge and its answer, such as 5s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    delay: Option<Duration>,
}

/// One charge.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Charge {
    id: String,
    idempotency_key: String,
    request: Value,
}

/// One request that came in.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    at: String,
    method: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    status: u16,
    /// The charge that the answer names.
    #[serde(skip_serializing_if = "Option::is_none")]
    charge_id: Option<String>,
    /// Was the answer withheld?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

/// Switches in the query of a charge.
#[derive(Debug, Clone, Default, Deserialize)]
struct ChargeQuery {
    fail: Option<u16>,
    delay: Option<String>,
    #[serde(default)]
    lose: bool,
}

#[derive(Default)]
struct Records {
    charges: Vec<Charge>,
    calls: Vec<Call>,
    /// Requests that were rejected so far, by key.
    rejected: HashMap<String, u32>,
}

struct Stub {
    behaviour: Behaviour,
    records: Mutex<Records>,
}

impl Stub {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a charge, or finds the one under the key.
    fn charge(&self, key: &str, request: Value, switches: &ChargeQuery) -> (StatusCode, Value) {
        let mut records = self.records();
        let earlier = records.charges.iter().find(|charge| charge.idempotency_key == key);
        if let (false, false, Some(charge)) = (self.behaviour.ignore_keys, key.is_empty(), earlier) {
            return (StatusCode::OK, json!({ "id": charge.id }));
        }
        if let Some(status) = switches.fail {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            return (status, json!({ "error": "you asked for this; nothing was charged" }));
        }
        let rejected = records.rejected.entry(key.to_owned()).or_default();
        if *rejected < self.behaviour.fail_first {
            *rejected += 1;
            return (
                StatusCode::SERVICE_UNAVAILABLE,
                json!({ "error": "down for a moment; nothing was charged" }),
            );
        }
        if records.charges.len() >= MAX_STUB_CHARGES {
            return (
                StatusCode::INSUFFICIENT_STORAGE,
                json!({ "error": "the stub is full; start it again" }),
            );
        }
        let id = format!("ch_{}", records.charges.len() + 1);
        records.charges.push(Charge { id: id.clone(), idempotency_key: key.to_owned(), request });
        (StatusCode::CREATED, json!({ "id": id }))
    }

    /// Keeps a call for `GET /stub/calls`. The oldest go first when there are too many.
    fn record(&self, call: Call) {
        let calls = &mut self.records().calls;
        if calls.len() >= MAX_STUB_CALLS {
            calls.drain(..MAX_STUB_CALLS / 2);
        }
        calls.push(call);
    }
}

pub(crate) async fn run(options: Options) -> Result<()> {
    let (listener, address) = bind(&options.listen).await?;
    output::print(&format!(
        "A stub payment provider is ready on http://{address}/stub  (every call: http://{address}/stub/calls)\nCtrl-C stops it.\n"
    ))?;
    axum::serve(listener, routes(options.behaviour)).await.context("the stub stopped")
}

/// Listens on `address`; `serve` does the rest.
pub(crate) async fn bind(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("the stub cannot listen on {address}; give it another address"))?;
    let address = listener.local_addr().context("the address of the stub is not known")?;
    Ok((listener, address))
}

/// Serves a well-behaved stub until the process ends.
pub(crate) async fn serve(listener: TcpListener) {
    let _ = axum::serve(listener, routes(Behaviour::default())).await;
}

fn routes(behaviour: Behaviour) -> Router {
    let stub = Arc::new(Stub { behaviour, records: Mutex::default() });
    let routes = Router::new()
        .route("/charges", post(create_charge).get(list_charges))
        .route("/charges/{key}", get(find_charge))
        .route("/calls", get(list_calls));
    Router::new().nest("/stub", routes.clone()).merge(routes).with_state(stub)
}

async fn create_charge(
    State(stub): State<Arc<Stub>>,
    Query(switches): Query<ChargeQuery>,
    headers: HeaderMap,
    body: Option<Json<Value>>,
) -> (StatusCode, Json<Value>) {
    let delay = match switches.delay.as_deref().map(duration).transpose() {
        Ok(delay) => delay.or(stub.behaviour.delay),
        Err(why) => return (StatusCode::BAD_REQUEST, Json(json!({ "error": why }))),
    };
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let key = key.trim_matches('"');
    let (status, answer) = stub.charge(key, body.map_or(Value::Null, |Json(body)| body), &switches);
    stub.record(Call {
        at: jiff::Timestamp::now().to_string(),
        method: "POST",
        path: "/charges".into(),
        idempotency_key: Some(key.to_owned()).filter(|key| !key.is_empty()),
        status: status.as_u16(),
        charge_id: answer["id"].as_str().map(str::to_owned),
        lost: switches.lose,
    });
    if switches.lose {
        std::future::pending::<()>().await;
    }
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    (status, Json(answer))
}

async fn list_charges(State(stub): State<Arc<Stub>>) -> Json<Value> {
    Json(json!({ "items": stub.records().charges }))
}

async fn list_calls(State(stub): State<Arc<Stub>>) -> Json<Value> {
    Json(json!({ "items": stub.records().calls }))
}

async fn find_charge(State(stub): State<Arc<Stub>>, Path(key): Path<String>) -> (StatusCode, Json<Value>) {
    let found = stub.records().charges.iter().find(|charge| charge.idempotency_key == key).cloned();
    let status = if found.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    stub.record(Call {
        at: jiff::Timestamp::now().to_string(),
        method: "GET",
        path: format!("/charges/{key}"),
        idempotency_key: Some(key),
        status: status.as_u16(),
        charge_id: found.as_ref().map(|charge| charge.id.clone()),
        lost: false,
    });
    match found {
        Some(charge) => (status, Json(json!(charge))),
        None => (status, Json(json!({ "error": "no charge under this key" }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(ignore_keys: bool, fail_first: u32) -> Stub {
        Stub { behaviour: Behaviour { ignore_keys, fail_first, delay: None }, records: Mutex::default() }
    }

    fn charge(stub: &Stub, key: &str) -> (StatusCode, Value) {
        stub.charge(key, Value::Null, &ChargeQuery::default())
    }

    #[test]
    fn a_key_that_comes_twice_is_charged_once() {
        let stub = stub(false, 0);
        assert_eq!(charge(&stub, "a"), (StatusCode::CREATED, json!({ "id": "ch_1" })));
        assert_eq!(charge(&stub, "a"), (StatusCode::OK, json!({ "id": "ch_1" })));
        assert_eq!(charge(&stub, "b"), (StatusCode::CREATED, json!({ "id": "ch_2" })));
    }

    #[test]
    fn a_stub_that_ignores_keys_charges_on_every_request() {
        let stub = stub(true, 0);
        assert_eq!(charge(&stub, "a").1, json!({ "id": "ch_1" }));
        assert_eq!(charge(&stub, "a").1, json!({ "id": "ch_2" }));
    }

    #[test]
    fn a_request_that_is_told_to_fail_charges_nothing() {
        let first = stub(false, 2);
        assert_eq!(charge(&first, "a").0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(charge(&first, "a").0, StatusCode::SERVICE_UNAVAILABLE);
        assert!(first.records().charges.is_empty());
        assert_eq!(charge(&first, "a").0, StatusCode::CREATED);

        let switched = stub(false, 0);
        let fail = ChargeQuery { fail: Some(500), ..ChargeQuery::default() };
        assert_eq!(switched.charge("a", Value::Null, &fail).0, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(switched.records().charges.is_empty());
    }
}
