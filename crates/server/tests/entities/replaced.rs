//! A document stored on one node takes effect on another at once.

use serde_json::{Value, json};

use super::invoice_fixture::{make, upload};
use super::support::{Provider, TestServer};

/// So many callers ask at once.
const CALLERS: usize = 20;

fn orders(provider: &Provider, path: &str, is_claimed: bool) -> Value {
    let mut document = json!({
        "name": "orders", "module": "billing", "entity": "order", "status_types": ["new", "paying", "paid"],
        "steps": [{
            "step_id": 1, "step_key": "pay", "status": "new", "successful_state": "paid",
            "action": { "http": { "method": "POST", "url": provider.url(path) } },
        }],
    });
    match is_claimed {
        true => document["steps"][0]["claim_state"] = json!(["paying", "new"]),
        false => document["status_types"] = json!(["new", "paid"]),
    }
    document
}

/// CONTRACT §8: once a new document is acknowledged, no node begins an action under the old one.
#[tokio::test]
async fn a_claim_that_one_node_was_given_holds_on_another_at_once() {
    let (first, provider) = (TestServer::postgres().await, Provider::start().await);
    let second = first.another_node().await;
    upload(&first, &orders(&provider, "/before", false)).await;
    make(&second, "order", "o-1", "new").await;
    make(&second, "order", "o-2", "new").await;
    // The second node knows the old document.
    let paid = second.post("/api/v1/entities/order/o-1/steps/pay", &json!({}), &[]).await;
    assert_eq!(paid.status, 200, "{}", paid.text());

    let replaced = orders(&provider, "/held/after", true).to_string();
    let path = "/api/v1/entity-workflows/orders";
    let replaced = first.send("PUT", path, Some(replaced), &first.admin, &[]).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    let call = |n: usize| {
        let asked = json!({ "idempotencyKey": format!("caller-{n}") });
        let second = &second;
        async move {
            let wait = [("prefer", "wait=0")];
            second.post("/api/v1/entities/order/o-2/steps/pay", &asked, &wait).await.told()
        }
    };
    let mut told = futures_util::future::join_all((0..CALLERS).map(call)).await;
    told.sort();
    let mut expected = vec![(202, String::new())];
    expected.extend(vec![(409, "claim_failed".to_owned()); CALLERS - 1]);
    assert_eq!(told, expected);
    provider.until_asked("/held/after", 1).await;
    provider.release();
    second.until_shown("/api/v1/entities/order/o-2", |shown| shown["entity"]["status"] == "paid").await;
    let paths: Vec<String> = provider.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/before", "/held/after"], "one action body for each order");
}

/// A workflow that is brand new is known on every node as soon as its upload is answered.
#[tokio::test]
async fn a_new_workflow_is_usable_on_another_node_at_once() {
    let (first, provider) = (TestServer::postgres().await, Provider::start().await);
    let second = first.another_node().await;
    upload(&first, &orders(&provider, "/pay", true)).await;
    make(&second, "order", "o-1", "new").await;
    let paid = second.post("/api/v1/entities/order/o-1/steps/pay", &json!({}), &[]).await;
    assert_eq!((paid.status, &paid.json()["entity"]["status"]), (200, &json!("paid")), "{}", paid.text());
}
