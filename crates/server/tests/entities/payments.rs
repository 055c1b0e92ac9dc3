//! A payment: pending, authorized, captured, settled; or voided; or failed. Each transition says what a retry gets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::invoice_fixture::{Gate, make, upload};
use super::support::{Answer, Provider, TestServer};

struct PaymentProvider {
    server: TestServer,
    provider: Provider,
    capture: Arc<Gate>,
}

/// S2.14, S2.15, S2.17: the states, the transitions, and what a retry does for each, in one document.
async fn till() -> PaymentProvider {
    let (server, provider) = (TestServer::sqlite().await, Provider::start().await);
    let capture = Gate::register(&server.engine, "CapturePayment");
    let request = |path: &str, id: &str| {
        json!({ "http": {
            "method": "POST", "url": provider.url(path), "body": { "payment": "{{ entity.id }}" },
            "output": { id: "{{ response.body.id }}" }, "data": { id: "{{ response.body.id }}" },
        } })
    };
    let document = json!({
        "name": "payments", "module": "billing", "entity": "payment",
        "status_types": ["pending", "authorizing", "authorized", "capturing", "captured", "settled", "voided", "failed"],
        "steps": [
            {
                "step_id": 1, "step_key": "authorize", "status": "pending", "successful_state": "authorized", "retry": "returns",
                "claim_state": ["authorizing", "pending"], "action": request("/authorize", "auth_id"),
            },
            {
                "step_id": 2, "step_key": "capture", "status": "authorized", "successful_state": "captured", "retry": "returns",
                "claim_state": ["capturing", "authorized"], "action": "CapturePayment",
            },
            { "step_id": 3, "step_key": "settle", "status": "captured", "successful_state": "settled" },
            {
                "step_id": 4, "step_key": "void", "status": "authorized", "successful_state": "voided", "retry": "returns",
                "action": request("/void", "void_id"), "effect": "idempotent",
            },
            {
                "step_id": 5, "step_key": "fail", "status": "pending", "successful_state": "failed", "retry": "returns",
                "action": "echo",
                "validation": { "when": "has(input.failure_reason)", "message": "say why", "code": "reason_missing" },
            },
        ],
    });
    upload(&server, &document).await;
    PaymentProvider { server, provider, capture }
}

impl PaymentProvider {
    async fn step(&self, payment: &str, step: &str, input: Value) -> Answer {
        let path = format!("/api/v1/entities/payment/{payment}/steps/{step}");
        self.server.post(&path, &json!({ "input": input }), &[]).await
    }

    /// Takes a step that is done.
    async fn done(&self, payment: &str, step: &str, input: Value) -> Value {
        let answer = self.step(payment, step, input).await;
        assert_eq!(answer.status, 200, "{step}: {}", answer.text());
        answer.json()
    }

    fn asked(&self, path: &str) -> usize {
        self.provider.asked().iter().filter(|asked| asked.path == path).count()
    }
}

/// S2.16, S2.18: a retry of `authorize` returns the same auth_id, and the provider is asked once.
#[tokio::test]
async fn a_retry_of_an_authorization_returns_the_same_auth_id() {
    let till = till().await;
    make(&till.server, "payment", "p1", "pending").await;
    let first = till.done("p1", "authorize", json!({})).await;
    assert_eq!((&first["created"], &first["entity"]["status"]), (&json!(true), &json!("authorized")));
    let auth_id = first["operation"]["result"]["auth_id"].clone();
    assert_eq!(first["entity"]["data"]["auth_id"], auth_id);
    assert!(auth_id.is_string(), "{first}");
    let again = till.done("p1", "authorize", json!({})).await;
    assert_eq!(again["operation"]["result"]["auth_id"], auth_id);
    assert_eq!((&again["created"], &again["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(again["operation"]["id"], first["operation"]["id"]);
    assert_eq!(till.asked("/authorize"), 1);
    let sent = &till.provider.asked()[0];
    assert_eq!(
        sent.key.as_deref(),
        first["operation"]["effectKey"].as_str(),
        "the provider sees the operation's key"
    );
}

/// S2.19, S2.22: while the capture is in progress, a retry and a void get an error; after it, a
/// retry finds the capture, and a void is too late.
#[tokio::test]
async fn a_retry_of_a_capture_waits_for_nobody_and_captures_once() {
    let till = till().await;
    make(&till.server, "payment", "p1", "pending").await;
    till.done("p1", "authorize", json!({})).await;
    let path = "/api/v1/entities/payment/p1/steps/capture";
    let begun = till.server.post(path, &json!({}), &[("prefer", "wait=0")]).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    assert_eq!(
        begun.header("location"),
        Some(&*format!("/api/v1/operations/{}", begun.json()["operation"]["id"].as_str().unwrap()))
    );
    till.capture.arrived().await;
    for step in ["capture", "void"] {
        let meanwhile = till.step("p1", step, json!({})).await;
        assert_eq!(meanwhile.told(), (409, "claim_failed".into()), "{step}");
        assert_eq!(meanwhile.json()["operation"]["id"], begun.json()["operation"]["id"]);
        assert_eq!(meanwhile.json()["operation"]["stepKey"], "capture");
    }
    till.capture.let_through(9);
    let is_captured = |shown: &Value| shown["entity"]["status"] == "captured";
    till.server.until_shown("/api/v1/entities/payment/p1", is_captured).await;
    let again = till.done("p1", "capture", json!({})).await;
    assert_eq!(again["operation"]["id"], begun.json()["operation"]["id"]);
    assert_eq!(again["operation"]["result"]["number"], 1, "the existing capture");
    assert_eq!(till.capture.entered(), 1);
    let late = till.step("p1", "void", json!({})).await;
    assert_eq!(late.told(), (409, "step_not_allowed".into()));
    assert_eq!(
        (&late.json()["entityStatus"], &late.json()["allowedSteps"]),
        (&json!("captured"), &json!(["settle"]))
    );
    till.done("p1", "settle", json!({})).await;
}

/// S2.20: voiding what is voided does nothing.
#[tokio::test]
async fn a_retry_of_a_void_is_a_no_op() {
    let till = till().await;
    make(&till.server, "payment", "p1", "pending").await;
    till.done("p1", "authorize", json!({})).await;
    let first = till.done("p1", "void", json!({})).await;
    let again = till.done("p1", "void", json!({})).await;
    assert_eq!(first["operation"], again["operation"]);
    assert_eq!(again["entity"]["version"], first["entity"]["version"], "nothing changed");
    assert_eq!(till.asked("/void"), 1);
}

/// S2.21: a retry of the failure returns the original failure_reason, whatever it says itself.
#[tokio::test]
async fn a_retry_of_a_failure_returns_the_original_reason() {
    let till = till().await;
    make(&till.server, "payment", "p1", "pending").await;
    let refused = till.step("p1", "fail", json!({})).await;
    assert_eq!(refused.told(), (422, "step_rejected".into()));
    assert_eq!(refused.json()["failure"]["code"], "reason_missing");
    till.done("p1", "fail", json!({ "failure_reason": "card expired" })).await;
    let again = till.done("p1", "fail", json!({ "failure_reason": "something else" })).await;
    assert_eq!(again["operation"]["result"]["failure_reason"], "card expired");
    assert_eq!(again["created"], false);
}
