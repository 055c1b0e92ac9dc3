//! A payment API that becomes safe to retry with three lines.
//!
//! `cargo run -p hapax-http-idempotency --example payments`, then twice:
//! `curl -i localhost:8080/payments -H 'authorization: Bearer me' -H 'idempotency-key: abc' --json '{"amount": 5}'`

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Json, Router};
use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use hapax_http_idempotency::{ByHeader, IdempotencyLayer, OperationId, Policy};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Payment {
    amount: u64,
}

/// Charges a card. The provider gets the operation's id as its key, which is the same again after a crash.
async fn pay(
    State(charges): State<Arc<AtomicU64>>,
    Extension(OperationId(id)): Extension<OperationId>,
    Json(payment): Json<Payment>,
) -> (StatusCode, Json<Value>) {
    let number = charges.fetch_add(1, Ordering::Relaxed) + 1;
    let charge = json!({ "charge": number, "amount": payment.amount, "providerKey": id.to_string() });
    (StatusCode::CREATED, Json(charge))
}

/// The API, with a counter of the charges it made.
pub fn payments() -> Result<(Router, Arc<AtomicU64>), Box<dyn std::error::Error>> {
    let charges = Arc::new(AtomicU64::new(0));
    let app = Router::new().route("/payments", post(pay)).with_state(charges.clone());

    // The three lines. In production the store is one that outlives the process.
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let layer = IdempotencyLayer::new(store, Policy::money())?.identified_by(ByHeader::authorization());
    let app = app.layer(layer);

    Ok((app, charges))
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test includes this file for what it serves")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (app, _) = payments()?;
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 8080))).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
