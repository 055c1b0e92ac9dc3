//! Promises of the API, and promises as other specifications define them.

use serde_json::json;

use super::recorder::{Recorder, call};
use super::support::TestServer;

#[tokio::test]
async fn the_examples_of_promises_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "promises");
    let promise =
        json!({ "id": "parcel-19", "idempotencyKey": "carrier:ch_19", "about": { "order": "4711" } });
    examples.send(call("create_promise").body(promise)).await;
    examples.send(call("list_promises").query("status=PENDING&limit=1")).await;
    examples.send(call("get_promise").at("key:carrier:ch_19")).await;
    let token = examples.send(call("create_settle_token").at("id:parcel-19").body(json!({}))).await;
    let token = token["token"].as_str().unwrap();
    examples.send(call("explain_settle_token").at(token).by("")).await;
    examples
        .send(call("settle_by_token").at(token).by("").body(json!({ "value": { "signedBy": "M. Curie" } })))
        .await;
    let value = json!({ "value": { "signedBy": "M. Curie" } });
    examples.send(call("resolve_promise").at("id:parcel-19").body(value)).await;
    let early = json!({ "value": { "signedBy": "L. Meitner" } });
    examples.send(call("resolve_promise").at("key:carrier:ch_20").body(early)).await;
    server.post("/api/v1/promises", &json!({ "id": "parcel-21" }), &[]).await;
    let rejection = json!({ "message": "The parcel was lost.", "code": "lost" });
    examples.send(call("reject_promise").at("id:parcel-21").body(rejection)).await;
    examples.send(call("list_early_settlements")).await;
    examples.send(call("get_early_settlement").at("carrier:ch_20")).await;
    examples.finish();
}

#[tokio::test]
async fn the_examples_of_compatible_endpoints_are_what_a_server_answers() {
    let server = TestServer::memory().await;
    let mut examples = Recorder::new(&server, "compatibility");
    let promise = json!({
        "id": "invoice-4711", "timeout": 4_102_444_800_000_u64, "param": { "data": "paid?" }, "tags": { "team": "billing" },
    });
    let create =
        || call("create_durable_promise").header("idempotency-key", "create-4711").body(promise.clone());
    examples.send(create()).await;
    examples.send(create().header("strict", "false")).await;
    examples.send(call("get_durable_promise").at("invoice-4711")).await;
    let completion = json!({ "state": "RESOLVED", "value": { "data": "yes" } });
    let complete =
        call("complete_durable_promise").at("invoice-4711").header("idempotency-key", "complete-4711");
    examples.send(complete.body(completion)).await;
    for id in ["parcel-19", "parcel-20"] {
        server.post("/api/v1/promises", &json!({ "id": id }), &[]).await;
    }
    examples.send(call("get_promise_of_tenant").at("acme").at("id:parcel-19")).await;
    let value = json!({ "value": { "signedBy": "M. Curie" } });
    examples.send(call("resolve_promise_of_tenant").at("acme").at("id:parcel-19").body(value)).await;
    let rejection = json!({ "message": "The parcel was lost." });
    examples.send(call("reject_promise_of_tenant").at("acme").at("id:parcel-20").body(rejection)).await;
    examples.finish();
}
