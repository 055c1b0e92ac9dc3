//! Deleted entity workflows: refused while open operations need them, and created again.

use serde_json::json;

use super::invoice_fixture::{
    CLOSE, Gate, INVOICE, begin_closing, billing, until_ended, upload, with_invoice,
};
use super::support::TestServer;

const WORKFLOWS: &str = "/api/v1/entity-workflows";
const BILLING: &str = "/api/v1/entity-workflows/billing-flow";

#[tokio::test]
async fn a_workflow_with_an_open_operation_is_not_deleted() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    let operation = begin_closing(&server, &gate).await;
    let refused = server.delete(BILLING, &[]).await;
    assert_eq!(refused.told(), (409, "entity_workflow_in_use".into()));
    assert_eq!(refused.json()["operationId"], json!(operation));
    assert_eq!(server.get(BILLING).await.header("etag"), Some("\"1\""), "nothing was written");
    gate.let_through(1);
    until_ended(&server, &operation).await;
    let stale = server.delete(BILLING, &[("if-match", "\"7\"")]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    let path = format!("{BILLING}?reason=invoices%20moved");
    let deleted = server.delete(&path, &[("if-match", "\"1\"")]).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(server.get(BILLING).await.told(), (404, "not_found".into()));
    assert_eq!(server.get(WORKFLOWS).await.json()["items"], json!([]));
    assert_eq!(server.delete(BILLING, &[]).await.told(), (404, "not_found".into()));
    let audit = server.get("/api/v1/audit?action=entity_workflow_changed").await.json();
    let last = audit["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["command"], "deleted: invoices moved", "{last}");
}

#[tokio::test]
async fn no_step_begins_under_a_deleted_workflow_until_it_is_uploaded_again() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    assert_eq!(server.delete(BILLING, &[]).await.status, 200);
    let refused = server.post(CLOSE, &json!({}), &[]).await;
    assert_eq!((refused.status, gate.entered()), (404, 0), "{}", refused.text());
    // The name and the type are free, also for other content.
    let mut other = billing();
    other["description"] = json!("the second one");
    assert_eq!(upload(&server, &other).await["version"], json!(3));
    assert_eq!(
        server.get(INVOICE).await.json()["entity"]["status"],
        json!("approved"),
        "it stayed as it was"
    );
    gate.let_through(1);
    let closed = server.post(CLOSE, &json!({}), &[]).await;
    assert_eq!(closed.status, 200, "{}", closed.text());
    let mut renamed = billing();
    renamed["name"] = json!("invoicing");
    renamed["entity"] = json!("bill");
    assert_eq!(server.delete(BILLING, &[]).await.status, 200);
    renamed["name"] = json!("billing-flow");
    assert_eq!(upload(&server, &renamed).await["entityType"], json!("bill"), "the name is free as well");
}

/// CONTRACT 8: a deletion that one node acknowledged is a new document for all others.
#[tokio::test]
async fn another_node_begins_no_step_under_a_deleted_workflow() {
    let (first, gate) = with_invoice(TestServer::postgres().await).await;
    let second = first.another_node().await;
    let elsewhere = Gate::register(&second.engine, "close");
    assert_eq!(second.get(INVOICE).await.status, 200, "it knows the workflow");
    assert_eq!(first.delete(BILLING, &[]).await.status, 200);
    let refused = second.post(CLOSE, &json!({}), &[]).await;
    assert_eq!((refused.status, gate.entered(), elsewhere.entered()), (404, 0, 0), "{}", refused.text());
}
