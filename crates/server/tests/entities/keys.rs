//! Double clicks and retries: by the key of the operation, and by the key of the request.

use serde_json::json;

use super::invoice_fixture::{
    CLOSE, Gate, INVOICE, begin_closing, billing, make, until_ended, upload, with_invoice,
};
use super::support::{Role, TestServer};

/// S2.44: the same key gives the original result and no second record; a new key is refused while the first is pending.
#[tokio::test]
async fn a_double_click_is_one_operation_and_a_new_key_is_refused_while_it_is_pending() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let asked = json!({ "idempotencyKey": "click-1", "input": { "note": "x" } });
    let (first, second) = tokio::join!(server.post(CLOSE, &asked, &[]), async {
        gate.arrived().await;
        let refused = server.post(CLOSE, &json!({ "idempotencyKey": "click-2" }), &[]).await;
        assert_eq!(refused.told(), (409, "claim_failed".into()));
        let second = server.post(CLOSE, &asked, &[]);
        gate.let_through(9);
        second.await
    });
    assert_eq!((first.status, second.status), (200, 200), "{} {}", first.text(), second.text());
    assert_eq!(first.json()["operation"], second.json()["operation"]);
    assert_eq!((&first.json()["created"], &second.json()["created"]), (&json!(true), &json!(false)));
    assert_eq!(gate.entered(), 1);
    let all = server.get(&format!("{INVOICE}/operations")).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "no second record: {all}");
    let other =
        server.post(CLOSE, &json!({ "idempotencyKey": "click-1", "input": { "note": "y" } }), &[]).await;
    assert_eq!(other.told(), (422, "idempotency_key_conflict".into()));
    let stored = &other.json()["storedRequest"];
    assert_eq!((&stored["kind"], &stored["id"]), (&json!("operation"), &first.json()["operation"]["id"]));
    assert_eq!(stored["differingPaths"], json!(["/input/note"]));
}

/// S2.44, CONTRACT §3: under one request key the answer is the same, byte for byte.
#[tokio::test]
async fn a_step_that_is_sent_again_under_its_request_key_is_answered_from_the_record() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    gate.let_through(9);
    let key = [("idempotency-key", "req-1")];
    let first = server.post(CLOSE, &json!({}), &key).await;
    let again = server.post(CLOSE, &json!({}), &key).await;
    assert_eq!((first.status, again.status), (200, 200), "{}", first.text());
    assert_eq!(first.bytes, again.bytes);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(gate.entered(), 1);
}

/// CONTRACT §3: what is still under way is not the answer; sent again under its key the request gets the end of the operation that it began, and
/// the action is not entered again.
#[tokio::test]
async fn a_step_that_was_under_way_is_found_again_under_its_request_key() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let begun = server.post(CLOSE, &json!({}), &[("idempotency-key", "req-1"), ("prefer", "wait=0")]).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    gate.arrived().await;
    let impatient =
        server.post(CLOSE, &json!({}), &[("idempotency-key", "req-1"), ("prefer", "wait=0")]).await;
    assert_eq!(impatient.status, 202, "{}", impatient.text());
    assert_eq!((&begun.json()["created"], &begun.json()["replayed"]), (&json!(true), &json!(null)));
    let told = impatient.json();
    assert_eq!((&told["created"], &told["replayed"]), (&json!(false), &json!(true)), "the first made it");
    let asked = async { server.post(CLOSE, &json!({}), &[("idempotency-key", "req-1")]).await };
    let (again, ()) = tokio::join!(asked, async { gate.let_through(9) });
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.json()["operation"]["id"], begun.json()["operation"]["id"]);
    assert_eq!(gate.entered(), 1, "one body, however often it was asked for");
    let replayed = server.post(CLOSE, &json!({}), &[("idempotency-key", "req-1")]).await;
    assert_eq!((replayed.bytes, replayed.status), (again.bytes, 200));
}

/// `retry: returns` gives later callers the recorded outcome for any key, since they gave no key
/// that could conflict.
#[tokio::test]
async fn a_step_with_retry_returns_ignores_later_keys_and_inputs() {
    let server = TestServer::sqlite().await;
    let gate = Gate::register(&server.engine, "close");
    let mut document = billing();
    document["steps"][1]["retry"] = json!("returns");
    upload(&server, &document).await;
    make(&server, "invoice", "inv-1", "approved").await;
    gate.let_through(9);
    let first = server.post(CLOSE, &json!({ "idempotencyKey": "k-1", "input": { "note": "x" } }), &[]).await;
    assert_eq!(first.status, 200, "{}", first.text());
    for asked in [
        json!({ "input": { "note": "y" } }),
        json!({ "idempotencyKey": "k-2", "input": { "note": "y" } }),
        json!({ "idempotencyKey": "k-1", "input": { "note": "x" } }),
    ] {
        let again = server.post(CLOSE, &asked, &[]).await;
        assert_eq!(again.status, 200, "{asked}: {}", again.text());
        assert_eq!(again.json()["operation"]["id"], first.json()["operation"]["id"], "{asked}");
        assert_eq!(again.json()["created"], json!(false), "{asked}");
    }
    let other = json!({ "idempotencyKey": "k-1", "input": { "note": "y" } });
    assert_eq!(server.post(CLOSE, &other, &[]).await.told(), (422, "idempotency_key_conflict".into()));
    assert_eq!(gate.entered(), 1);
}

/// CONTRACT §3: a refusal says that nothing was done, and frees the request key; what began and was rejected keeps it.
#[tokio::test]
async fn refusals_free_the_request_key_and_what_began_keeps_it() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let operation = begin_closing(&server, &gate).await;
    let key = [("idempotency-key", "later")];
    let refused = server.post(CLOSE, &json!({}), &key).await;
    assert_eq!(refused.told(), (409, "claim_failed".into()));
    gate.let_through(9);
    until_ended(&server, &operation).await;
    let now = server.post(CLOSE, &json!({}), &key).await;
    assert_eq!(now.told(), (409, "step_not_allowed".into()), "it was judged anew");

    server
        .engine
        .register_action("refuse", |_| async {
            Ok(hapax_engine::runtime::ActionAnswer::rejected("the period is closed"))
        })
        .unwrap();
    let document = json!({
        "name": "periods", "module": "billing", "entity": "period", "status_types": ["open", "booking", "booked"],
        "steps": [{
            "step_id": 1, "step_key": "book", "status": "open", "successful_state": "booked", "action": "refuse",
            "claim_state": ["booking", "open"],
        }],
    });
    super::invoice_fixture::upload(&server, &document).await;
    super::invoice_fixture::make(&server, "period", "2026-11", "open").await;
    let book = "/api/v1/entities/period/2026-11/steps/book";
    let rejected = server.post(book, &json!({}), &key).await;
    assert_eq!(rejected.told(), (422, "step_rejected".into()), "{}", rejected.text());
    assert_eq!(rejected.json()["operation"]["status"], "REJECTED");
    let again = server.post(book, &json!({}), &key).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.bytes, rejected.bytes);
    let shown = server.get("/api/v1/entities/period/2026-11").await.json();
    assert_eq!(shown["entity"]["status"], "open", "S1.29, S1.32: released at once");
}

/// The response to a step has the entity's version, for the next change. A retry gets the current
/// version.
#[tokio::test]
async fn the_answer_of_a_step_bears_the_version_of_its_entity() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    super::invoice_fixture::make(&server, "invoice", "inv-2", "draft").await;
    let (approve, close) =
        ("/api/v1/entities/invoice/inv-2/steps/approve", "/api/v1/entities/invoice/inv-2/steps/close");
    let asked = json!({ "idempotencyKey": "approve-2" });
    let approved = server.post(approve, &asked, &[]).await;
    assert_eq!((approved.status, &approved.json()["entity"]["version"]), (200, &json!(2)));
    assert_eq!(approved.header("etag"), Some("\"2\""));
    gate.let_through(1);
    let closed = server.post(close, &json!({}), &[]).await;
    assert_eq!(closed.status, 200, "{}", closed.text());
    let version = format!("\"{}\"", closed.json()["entity"]["version"]);
    assert_eq!(closed.header("etag"), Some(version.as_str()));
    assert_eq!(server.get("/api/v1/entities/invoice/inv-2").await.header("etag"), Some(version.as_str()));
    let again = server.post(approve, &asked, &[]).await;
    assert_eq!((&again.json()["replayed"], again.header("etag")), (&json!(true), Some(version.as_str())));
}

/// CONTRACT §5: a step on another version than the one that was seen is refused, and changes nothing.
#[tokio::test]
async fn a_step_is_taken_on_the_version_that_was_seen() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    gate.let_through(1);
    super::invoice_fixture::make(&server, "invoice", "inv-2", "approved").await;
    let (invoice, close) = ("/api/v1/entities/invoice/inv-2", "/api/v1/entities/invoice/inv-2/steps/close");
    for step in [close.to_owned(), format!("{close}/override")] {
        let asked = json!({ "reason": "asked the bank" });
        let asked = if step == close { json!({}) } else { asked };
        let stale = server.post(&step, &asked, &[("if-match", "\"7\"")]).await;
        assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()), "{}", stale.text());
        assert_eq!(stale.json()["version"], 1);
        let odd = server.post(&step, &asked, &[("if-match", "seven")]).await;
        assert_eq!(odd.told(), (400, "invalid_request".into()));
    }
    assert_eq!(gate.entered(), 0);
    let seen = server.get(invoice).await.header("etag").unwrap().to_owned();
    let closed = server.post(close, &json!({}), &[("if-match", &seen)]).await;
    assert_eq!((closed.status, gate.entered()), (200, 1), "{}", closed.text());
}

/// S2.46: the key of an operation shows who took the step, and cannot be released.
#[tokio::test]
async fn the_key_of_an_operation_tells_who_used_it() {
    let (server, _) = with_invoice(TestServer::memory().await).await;
    super::invoice_fixture::make(&server, "invoice", "inv-2", "draft").await;
    let asked = json!({ "idempotencyKey": "approve-2", "by": "Ann" });
    let taken = server.post("/api/v1/entities/invoice/inv-2/steps/approve", &asked, &[]).await.json();
    let shown = server.get("/api/v1/keys/operation/approve-2").await;
    assert_eq!(shown.status, 200, "{}", shown.text());
    let shown = shown.json();
    assert_eq!(shown["holder"], json!({ "kind": "operation", "id": taken["operation"]["id"] }));
    assert_eq!((&shown["actor"]["name"], &shown["status"]), (&json!("Ann (admin of acme)"), &json!("live")));
    assert_eq!(server.get("/api/v1/keys/operation/none").await.status, 404);
    let stranger = server.key("globex", Role::Admin).await;
    let refused = server.send("GET", "/api/v1/keys/operation/approve-2", None, &stranger, &[]).await;
    assert_eq!(refused.status, 404);
    let release = "/api/v1/keys/operation/approve-2/release";
    let refused = server.post(release, &json!({ "reason": "again" }), &[]).await;
    assert_eq!(refused.told(), (400, "invalid_request".into()));
}
