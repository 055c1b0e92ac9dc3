//! Entities in a table of the user's, moved over HTTP: rows are the user's, status and version are moved in place.

use std::sync::Arc;

use hapax_engine::model::WorkspaceId;
use hapax_engine::runtime::ActionAnswer;
use hapax_server::EntityTables;
use hapax_store_sqlite::rusqlite::Connection;
use hapax_store_sqlite::{SqliteOptions, SqliteStore, TransactionAction};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use super::invoice_fixture::{action, told, until_ended, upload};
use super::support::{PATIENCE, Setup, StoreKind, TestServer};

const TABLES: &str = "
    CREATE TABLE invoices (invoice_id TEXT PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, updated_at INTEGER NOT NULL,
        total_cents INTEGER NOT NULL);
    CREATE TABLE payments (id TEXT NOT NULL, invoice TEXT NOT NULL, cents INTEGER NOT NULL);
    INSERT INTO invoices VALUES ('inv-1', 'approved', 4, 0, 1200)";

/// A table that is no longer allowed is not changed, although the document was accepted while it
/// was.
#[tokio::test]
async fn a_table_that_the_operator_no_longer_allows_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hapax.db");
    let store = Arc::new(SqliteStore::open(&path, SqliteOptions::default()).await.unwrap());
    let table = Connection::open(&path).unwrap();
    table.execute_batch(TABLES).unwrap();
    let mut entity_tables = EntityTables::default();
    entity_tables.allow(WorkspaceId::new("acme").unwrap(), "invoices");
    let setup = Setup { entity_tables, ..Setup::default() };
    let server = TestServer::over(store.clone(), StoreKind::Sqlite(folder), setup).await;
    let document = json!({
        "name": "billing-flow", "module": "billing", "entity": "invoice",
        "table": { "name": "invoices", "id": "invoice_id" }, "status_types": ["approved", "closed"],
        "steps": [{ "step_id": 10, "step_key": "close", "status": "approved", "successful_state": "closed" }],
    });
    upload(&server, &document).await;
    let close = "/api/v1/entities/invoice/inv-1/steps/close";
    let stricter = TestServer::over(store, StoreKind::Elsewhere, Setup::default()).await;
    assert_eq!(stricter.post(close, &json!({}), &[]).await.told(), (404, "not_found".into()));
    let select = "SELECT status FROM invoices WHERE invoice_id = 'inv-1'";
    let status = || table.query_row(select, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(status(), "approved");
    assert_eq!(server.post(close, &json!({}), &[]).await.status, 200, "where it is allowed");
    assert_eq!(status(), "closed");
}

/// S1.3, S1.10, S1.24, S1.27, S1.28: claimed and flipped in the row itself; the payment shares the commit of the flip to `paid`.
#[tokio::test]
async fn an_invoice_in_a_table_of_the_users_is_closed_and_paid_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hapax.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await.unwrap();
    let table = Connection::open(&path).unwrap();
    table.execute_batch(TABLES).unwrap();
    let row = || -> (String, i64) {
        let select = "SELECT status, version FROM invoices WHERE invoice_id = 'inv-1'";
        table.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let mut entity_tables = EntityTables::default();
    entity_tables.allow(WorkspaceId::new("acme").unwrap(), "invoices");
    let setup = Setup { entity_tables, ..Setup::default() };
    let server = TestServer::over(Arc::new(store), StoreKind::Sqlite(folder), setup).await;

    let (arrived, door) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let (arrives, waits) = (arrived.clone(), door.clone());
    let close = move |_| {
        let (arrives, waits) = (arrives.clone(), waits.clone());
        async move {
            arrives.notify_one();
            waits.acquire().await.unwrap().forget();
            ActionAnswer::done(json!({ "closed": true }))
        }
    };
    server.engine.register_action("close", close).unwrap();
    let pay = |connection: &Connection, call: &hapax_engine::runtime::StepCall| {
        let known: serde_json::Value = call.data()?;
        let put = "INSERT INTO payments VALUES (?1, ?2, ?3)";
        let (id, cents) = (call.entity.entity.id.as_str(), known["total_cents"].as_i64());
        connection.execute(put, ("pay-1", id, cents))?;
        ActionAnswer::done(json!({ "payment": "pay-1" }))
    };
    server.engine.register_action_in_transaction("ApplyPaymentUseCase", pay).unwrap();
    let document = json!({
        "name": "billing-flow", "module": "billing", "entity": "invoice",
        "table": { "name": "invoices", "id": "invoice_id", "data": ["total_cents"] },
        "status_types": ["approved", "closing", "closed", "applying_payment_from_closed", "paid"],
        "steps": [
            {
                "step_id": 10, "step_key": "close", "status": "approved", "successful_state": "closed",
                "claim_state": ["closing", "approved"], "action": "close",
            },
            {
                "step_id": 20, "step_key": "apply_payment", "status": "closed", "successful_state": "paid",
                "claim_state": ["applying_payment_from_closed", "closed"],
                "action": { "handler": "ApplyPaymentUseCase", "transaction": true },
            },
        ],
    });
    upload(&server, &document).await;
    let invoice = "/api/v1/entities/invoice/inv-1";
    let another = json!({ "id": "inv-2", "status": "approved" });
    let made = server.post("/api/v1/entities/invoice", &another, &[]).await;
    assert_eq!(made.told(), (409, "entity_elsewhere".into()), "rows are the user's to insert");

    let begun = server.post(&format!("{invoice}/steps/close"), &json!({}), &[("prefer", "wait=0")]).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    let operation = begun.json()["operation"]["id"].as_str().unwrap().to_owned();
    tokio::time::timeout(PATIENCE, arrived.notified()).await.expect("the action is entered");
    assert_eq!(row(), ("closing".into(), 5));
    let lost = server.post(&format!("{invoice}/steps/close"), &json!({}), &[]).await;
    assert_eq!(lost.told(), (409, "claim_failed".into()));
    assert_eq!(lost.json()["operation"]["id"], operation.as_str());
    door.add_permits(1);
    until_ended(&server, &operation).await;
    assert_eq!(row(), ("closed".into(), 6));

    let shown = server.get(invoice).await;
    assert_eq!(shown.header("etag"), Some("\"6\""));
    assert_eq!(shown.json()["entity"]["data"], json!({ "total_cents": 1200 }));
    assert_eq!(action(&shown.json(), "apply_payment")["enabled"], true);
    let paid = server.post(&format!("{invoice}/steps/apply_payment"), &json!({}), &[]).await;
    assert_eq!((paid.status, &paid.json()["entity"]["status"]), (200, &json!("paid")), "{}", paid.text());
    assert_eq!(paid.json()["operation"]["result"], json!({ "payment": "pay-1" }));
    assert_eq!(row(), ("paid".into(), 8));
    let again = server.post(&format!("{invoice}/steps/apply_payment"), &json!({}), &[]).await;
    assert_eq!(again.told(), (409, "step_not_allowed".into()));
    let payments: Vec<(String, i64)> = {
        let mut select = table.prepare("SELECT invoice, cents FROM payments").unwrap();
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(payments, [("inv-1".to_owned(), 1200)]);
    let listed = server.get("/api/v1/entities/invoice?status=paid").await.json();
    assert_eq!(listed["items"][0]["id"], "inv-1");
    let id = paid.json()["operation"]["id"].as_str().unwrap().to_owned();
    let shown = server.get(&format!("/api/v1/operations/{id}")).await.json();
    assert_eq!(told(&shown["history"]), ["began", "ended"]);
}
