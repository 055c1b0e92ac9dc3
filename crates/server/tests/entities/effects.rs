//! Effects of entity actions: the ledger, the metrics, and unknown outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_engine::Failure;
use hapax_engine::runtime::{ActionAnswer, StepCall};
use serde_json::{Value, json};

use super::invoice_fixture::{make, post_as, upload};
use super::support::{Provider, Role, TestServer};

/// Refunds, whose action is `action`.
fn refunds(effect: &str, action: &Value) -> Value {
    json!({
        "name": "refunds", "module": "billing", "entity": "refund", "status_types": ["ready", "sending", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "ready", "successful_state": "sent", "claim_state": ["sending", "ready"],
            "action": action, "effect": effect,
        }],
    })
}

const SEND: &str = "/api/v1/entities/refund/r-1/steps/send";

/// Every effect of the ledger, page by page.
async fn ledger(server: &TestServer, limit: usize) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/ledger?limit={limit}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        all.extend(page["items"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

async fn metric(server: &TestServer, name: &str, class: &str) -> String {
    let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
    let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
    let line = format!("{name}{{class=\"{class}\"}} ");
    metrics.lines().find_map(|told| told.strip_prefix(&line)).unwrap_or_default().to_owned()
}

/// CONTRACT §6, §13: the ledger has every effect of an entity, and the metrics add up to it.
#[tokio::test]
async fn an_action_that_is_tried_again_is_in_the_ledger_and_in_the_metrics() {
    let server = TestServer::sqlite().await;
    let entered = Arc::new(AtomicUsize::new(0));
    let code = move |_: StepCall| {
        let is_first = entered.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match is_first {
                true => Err(Failure::unknown("the bank hung up")),
                false => ActionAnswer::done("sent"),
            }
        }
    };
    server.engine.register_action("SendRefund", code).unwrap();
    upload(&server, &refunds("idempotent", &json!("SendRefund"))).await;
    make(&server, "refund", "r-1", "ready").await;
    make(&server, "refund", "r-2", "ready").await;
    let done = server.post(SEND, &json!({}), &[]).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let other = server.post("/api/v1/entities/refund/r-2/steps/send", &json!({}), &[]).await;
    assert_eq!(other.status, 200, "{}", other.text());
    for limit in [1, 100] {
        let all = ledger(&server, limit).await;
        assert_eq!(all.len(), 2, "{all:?}");
        let (second, first) = (&all[0], &all[1]);
        assert_eq!(first["effectKey"], done.json()["operation"]["effectKey"]);
        assert_eq!((&first["class"], &first["status"]), (&json!("idempotent"), &json!("COMPLETED")));
        assert_eq!(first["entity"], json!({ "type": "refund", "id": "r-1" }));
        assert_eq!(first["operationId"], done.json()["operation"]["id"]);
        assert_eq!((&first["happened"], &first["mayHaveHappened"]), (&json!(1), &json!(1)), "{first}");
        assert_eq!((&first["happenedTwice"], &first["mayHaveHappenedTwice"]), (&json!(0), &json!(1)));
        let outcomes: Vec<&Value> =
            first["attemptLog"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
        assert_eq!(outcomes, [&json!("unknown"), &json!("completed")]);
        assert_eq!((&second["happened"], &second["mayHaveHappened"]), (&json!(1), &json!(0)), "{second}");
    }
    assert_eq!(metric(&server, "hapax_effects_may_have_happened_twice", "idempotent").await, "1");
    assert_eq!(metric(&server, "hapax_effects_happened_twice", "idempotent").await, "0");
}

/// CONTRACT §8: a 5xx is an unknown outcome, even if the document calls it retryable. It is held,
/// and no response advises a repeat.
#[tokio::test]
async fn a_5xx_that_the_document_calls_retryable_is_held_in_doubt() {
    let (server, provider) = (TestServer::sqlite().await, Provider::start().await);
    let http = json!({ "method": "POST", "url": provider.url("/fail/refund"), "retryable": ["5xx"] });
    upload(&server, &refunds("non_idempotent", &json!({ "http": http }))).await;
    make(&server, "refund", "r-1", "ready").await;
    let doubted = server.post(SEND, &json!({ "idempotencyKey": "first" }), &[]).await;
    assert_eq!(doubted.told(), (409, "operation_in_doubt".into()), "{}", doubted.text());
    assert!(!doubted.text().contains("under a new key"), "{}", doubted.text());
    let again = server.post(SEND, &json!({ "idempotencyKey": "second" }), &[]).await;
    assert_eq!(again.told(), (409, "claim_failed".into()), "{}", again.text());
    assert_eq!(provider.asked().len(), 1, "one request");
    let all = ledger(&server, 100).await;
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0]["class"], &all[0]["status"]), (&json!("claimed"), &json!("IN_DOUBT")));
    assert_eq!((&all[0]["happened"], &all[0]["mayHaveHappened"]), (&json!(0), &json!(1)));

    // A ruling is in the ledger, and the next operation keeps the key.
    let manager = server.key("acme", Role::Manager).await;
    let first = doubted.json()["operation"]["id"].as_str().unwrap().to_owned();
    let ruling = json!({ "resolution": "did_not_happen", "attempt": 1, "reason": "the bank has none" });
    let ruled = post_as(&server, &manager, &format!("/api/v1/operations/{first}/resolve"), ruling).await;
    assert_eq!(ruled.status, 200, "{}", ruled.text());
    let second = server.post(SEND, &json!({ "idempotencyKey": "third" }), &[]).await;
    assert_eq!(second.told(), (409, "operation_in_doubt".into()), "{}", second.text());
    let keys: Vec<_> = provider.asked().into_iter().map(|asked| asked.key).collect();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]), "the same effect key");
    let all = ledger(&server, 100).await;
    assert_eq!(all.len(), 1, "one effect: {all:?}");
    assert_eq!(all[0]["operationId"], second.json()["operation"]["id"], "told by the newest operation");
    assert_eq!((&all[0]["happened"], &all[0]["mayHaveHappened"]), (&json!(0), &json!(1)));
    assert_eq!(all[0]["rulings"][0]["reason"], "the bank has none");
}

/// CONTRACT §8: `once` is once for each entity, also where the step leads back to where it applies; `each` is not.
#[tokio::test]
async fn an_irreversible_step_that_leads_back_is_done_once_or_each_time() {
    for (irreversible, second) in
        [(json!(true), 403), (json!("once"), 403), (json!("each"), 200), (json!(false), 200)]
    {
        let (server, provider) = (TestServer::sqlite().await, Provider::start().await);
        let document = json!({
            "name": "subscriptions", "module": "billing", "entity": "subscription", "status_types": ["paid", "paying"],
            "steps": [{
                "step_id": 1, "step_key": "pay", "status": "paid", "successful_state": "paid", "claim_state": ["paying", "paid"],
                "action": { "http": { "method": "POST", "url": provider.url("/pay") } }, "irreversible": irreversible,
            }],
        });
        upload(&server, &document).await;
        make(&server, "subscription", "s-1", "paid").await;
        let pay = "/api/v1/entities/subscription/s-1/steps/pay";
        let operator = server.key("acme", Role::Operator).await;
        let first = post_as(&server, &operator, pay, json!({ "idempotencyKey": "january" })).await;
        assert_eq!(
            (first.status, &first.json()["entity"]["status"]),
            (200, &json!("paid")),
            "{}",
            first.text()
        );
        let again = post_as(&server, &operator, pay, json!({ "idempotencyKey": "february" })).await;
        assert_eq!(again.status, second, "{irreversible}: {}", again.text());
        assert_eq!(provider.asked().len(), if second == 200 { 2 } else { 1 }, "{irreversible}");
        if second == 403 {
            assert_eq!(again.code(), "override_required");
            let manager = server.key("acme", Role::Manager).await;
            let reason = json!({ "reason": "february is due", "idempotencyKey": "march" });
            let over = post_as(&server, &manager, &format!("{pay}/override"), reason).await;
            assert_eq!(over.status, 200, "{}", over.text());
        }
        let keys: Vec<_> = provider.asked().into_iter().map(|asked| asked.key).collect();
        assert_eq!(keys.len(), 2);
        assert_ne!(keys[0], keys[1], "two effects");
        let all = ledger(&server, 100).await;
        let happened: Vec<&Value> = all.iter().map(|entry| &entry["happened"]).collect();
        assert_eq!(happened, [&json!(1), &json!(1)], "{all:?}");
    }
}
