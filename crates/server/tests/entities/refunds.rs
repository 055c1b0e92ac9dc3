//! The refund that is pending, and what support sees of it.

use serde_json::json;

use super::invoice_fixture::{Gate, action, make, post_as, told, until_ended, upload};
use super::support::{Role, TestServer};

const ORDER: &str = "/api/v1/entities/order/order-7";

/// S2.2, S2.3, S2.48: the button is disabled, the refund's id is shown, support may add a note, and cannot create a second refund.
#[tokio::test]
async fn while_a_refund_is_pending_support_sees_it_notes_on_it_and_cannot_make_a_second() {
    let server = TestServer::sqlite().await;
    let provider = Gate::register(&server.engine, "RefundAtProvider");
    upload(
        &server,
        &json!({
            "name": "orders", "module": "billing", "entity": "order", "status_types": ["paid", "refunding", "refunded"],
            "steps": [{
                "step_id": 1, "step_key": "refund", "status": "paid", "successful_state": "refunded",
                "claim_state": ["refunding", "paid"], "action": "RefundAtProvider", "irreversible": true, "recovery": "hold",
            }],
        }),
    )
    .await;
    make(&server, "order", "order-7", "paid").await;
    let support = server.key("acme", Role::Operator).await;
    let refund = format!("{ORDER}/steps/refund");
    let asked = json!({ "idempotencyKey": "R123", "input": { "amount": 12 } });
    let begun =
        server.send("POST", &refund, Some(asked.to_string()), &support, &[("prefer", "wait=0")]).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    assert_eq!(begun.json()["operation"]["status"], "PENDING");
    provider.arrived().await;
    let id = begun.json()["operation"]["id"].as_str().unwrap().to_owned();

    let page = server.send("GET", ORDER, None, &support, &[]).await.json();
    assert_eq!(page["pendingOperation"]["id"], id.as_str());
    assert_eq!(
        (&page["pendingOperation"]["stepKey"], &page["entity"]["status"]),
        (&json!("refund"), &json!("refunding"))
    );
    let button = action(&page, "refund");
    assert_eq!((&button["enabled"], &button["code"]), (&json!(false), &json!("operation_pending")));
    assert_eq!((&button["operationId"], &button["irreversible"]), (&json!(id), &json!(true)));
    assert!(button["reason"].as_str().unwrap().contains(&id), "{button}");

    let note =
        post_as(&server, &support, &format!("{ORDER}/notes"), json!({ "text": "customer called twice" }))
            .await;
    assert_eq!(note.status, 201, "{}", note.text());
    let again = post_as(&server, &support, &refund, json!({ "idempotencyKey": "R124" })).await;
    assert_eq!(again.told(), (409, "claim_failed".into()));
    assert_eq!(again.json()["operation"]["id"], id.as_str());
    assert!(again.json()["detail"].as_str().unwrap().contains("nother operation is already in progress"));

    provider.let_through(9);
    let ended = until_ended(&server, &id).await;
    assert_eq!(ended["operation"]["status"], "DONE");
    assert_eq!(ended["operation"]["idempotencyKey"], "R123");
    assert_eq!(told(&ended["history"]), ["began", "ended"]);
    assert_eq!(provider.entered(), 1, "one refund");
    let notes = server.get(&format!("{ORDER}/notes")).await.json();
    assert_eq!(notes["items"][0]["reason"], "customer called twice");
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let noted = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["reason"] == "customer called twice")
        .unwrap();
    assert_eq!(noted["entity"], json!({ "type": "order", "id": "order-7" }));
    assert_eq!((&noted["what"], &noted["actor"]["role"]), (&json!("noted"), &json!("operator")));
    let by_key = server.get("/api/v1/operations?idempotencyKey=R123").await.json();
    assert_eq!(by_key["items"][0]["id"], id.as_str());
    assert_eq!(server.get("/api/v1/operations?idempotencyKey=R124").await.json()["items"], json!([]));
}
