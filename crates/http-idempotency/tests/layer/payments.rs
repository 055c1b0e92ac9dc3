//! The example, used as its readers would.

use std::sync::atomic::Ordering;

use tower::ServiceExt;

use crate::world::{pay, receive, with_headers};

#[path = "../../examples/payments.rs"]
mod example;

/// S2.31, S2.32, S2.8, S2.34.
#[tokio::test]
async fn the_payment_api_of_the_example_is_safe_to_retry() {
    let (app, charges) = example::payments().unwrap();
    let send = async |request| receive(app.clone().oneshot(request).await.unwrap()).await;
    let first = send(as_json(pay("abc", 5))).await;
    assert_eq!(first.status, 201, "{first:?}");
    assert!(first.json()["providerKey"].as_str().unwrap().starts_with("req_"));
    let again = send(as_json(pay("abc", 5))).await;
    assert_eq!(again.body, first.body);
    assert_eq!(send(as_json(pay("abc", 6))).await.code(), "idempotency_key_conflict");
    let keyless = with_headers("POST", "/payments", &[("authorization", "Bearer anna")], "{}");
    assert_eq!(send(keyless).await.code(), "idempotency_key_missing");
    assert_eq!(charges.load(Ordering::Relaxed), 1);
}

fn as_json(request: axum::extract::Request) -> axum::extract::Request {
    crate::world::also(request, "content-type", "application/json")
}
