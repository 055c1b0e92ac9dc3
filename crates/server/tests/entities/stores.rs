//! The same story on every store, and on a node that learned the document from another.

use serde_json::json;

use super::invoice_fixture::{CLOSE, Gate, INVOICE, action, begin_closing, until_ended, with_invoice};
use super::support::TestServer;

async fn tells_the_story(server: TestServer) -> TestServer {
    let (server, gate) = with_invoice(server).await;
    let operation = begin_closing(&server, &gate).await;
    let lost = server.post(CLOSE, &json!({}), &[]).await;
    assert_eq!(lost.told(), (409, "claim_failed".into()));
    assert_eq!(lost.json()["operation"]["id"], operation.as_str());
    gate.let_through(1);
    until_ended(&server, &operation).await;
    let shown = server.get(INVOICE).await.json();
    assert_eq!(
        (&shown["entity"]["status"], &shown["entity"]["data"]),
        (&json!("closed"), &json!({ "number": 1 }))
    );
    assert_eq!(action(&shown, "close")["code"], "other_status");
    server
}

#[tokio::test]
async fn an_invoice_is_closed_once_on_memory() {
    tells_the_story(TestServer::memory().await).await;
}

#[tokio::test]
async fn an_invoice_is_closed_once_on_sqlite() {
    tells_the_story(TestServer::sqlite().await).await;
}

#[tokio::test]
async fn an_invoice_is_closed_once_on_postgres_and_another_node_knows() {
    let server = tells_the_story(TestServer::postgres().await).await;
    let node = server.another_node().await;
    let gate = Gate::register(&node.engine, "close");
    super::invoice_fixture::make(&node, "invoice", "inv-2", "approved").await;
    gate.let_through(1);
    let done = node.post("/api/v1/entities/invoice/inv-2/steps/close", &json!({}), &[]).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(server.get("/api/v1/entities/invoice/inv-2").await.json()["entity"]["status"], "closed");
    // A change is known there within a moment.
    let mut changed = super::invoice_fixture::billing();
    changed["steps"][0]["successful_state"] = json!("closed");
    let path = "/api/v1/entity-workflows/billing-flow";
    let replaced = server.send("PUT", path, Some(changed.to_string()), &server.admin, &[]).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    super::invoice_fixture::make(&server, "invoice", "inv-3", "draft").await;
    let knows = |shown: &serde_json::Value| action(shown, "approve")["to"] == "closed";
    node.until_shown("/api/v1/entities/invoice/inv-3", knows).await;
}
