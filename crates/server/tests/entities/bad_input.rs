//! Invalid requests get a clear error and change nothing.

use serde_json::{Value, json};

use super::invoice_fixture::{CLOSE, INVOICE, with_invoice};
use super::support::{Role, TestServer};

/// RELIABILITY, HTTP: unknown fields, wrong types, unknown resources, over-long names.
#[tokio::test]
async fn bad_input_gets_a_clear_error_and_changes_nothing() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let long = "x".repeat(300);
    let (invoices, notes) = ("/api/v1/entities/invoice".to_owned(), format!("{INVOICE}/notes"));
    let long_id = format!("/api/v1/entities/invoice/{long}/steps/close");
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        (&invoices, json!({}), 400, "invalid_request"),
        (&invoices, json!({ "id": "a", "status": "draft", "colour": 1 }), 400, "invalid_request"),
        (&invoices, json!({ "id": 1, "status": "draft" }), 400, "invalid_request"),
        (&invoices, json!({ "id": "", "status": "draft" }), 400, "invalid_request"),
        (&invoices, json!({ "id": long, "status": "draft" }), 400, "invalid_request"),
        (&invoices, json!({ "id": "a", "status": "unknown" }), 400, "invalid_request"),
        (&invoices, json!({ "id": "a", "status": "closing" }), 400, "invalid_request"),
        (&invoices, json!({ "id": "a", "status": "closed" }), 400, "invalid_request"),
        (&invoices, json!({ "id": "a", "status": "draft", "data": [] }), 400, "invalid_request"),
        (&invoices, json!({ "id": "inv-1", "status": "draft" }), 409, "entity_exists"),
        (&invoices, json!({ "id": "inv-1", "status": "approved", "data": { "a": 1 } }), 409, "entity_exists"),
        ("/api/v1/entities/unknown", json!({ "id": "a", "status": "draft" }), 404, "not_found"),
        (CLOSE, json!({ "colour": 1 }), 400, "invalid_request"),
        (CLOSE, json!([]), 400, "invalid_request"),
        (CLOSE, json!({ "input": 1 }), 400, "invalid_request"),
        (CLOSE, json!({ "requester": "" }), 400, "invalid_request"),
        (CLOSE, json!({ "requester": "two words" }), 400, "invalid_request"),
        (CLOSE, json!({ "by": "" }), 400, "invalid_request"),
        (CLOSE, json!({ "idempotencyKey": "" }), 400, "invalid_idempotency_key"),
        (CLOSE, json!({ "idempotencyKey": "caf\u{e9}" }), 400, "invalid_idempotency_key"),
        (&long_id, json!({}), 400, "invalid_request"),
        ("/api/v1/entities/invoice/inv-9/steps/close", json!({}), 404, "not_found"),
        ("/api/v1/entities/invoice/inv-1/steps/unknown", json!({}), 404, "not_found"),
        ("/api/v1/entities/unknown/inv-1/steps/close", json!({}), 404, "not_found"),
        (&notes, json!({ "text": "" }), 400, "invalid_request"),
        (&notes, json!({ "text": "x".repeat(4097) }), 400, "invalid_request"),
        ("/api/v1/entities/invoice/inv-9/notes", json!({ "text": "x" }), 404, "not_found"),
        (
            "/api/v1/operations/op_1/resolve",
            json!({ "resolution": "happened", "attempt": 1, "reason": "x" }),
            404,
            "not_found",
        ),
        (
            "/api/v1/operations/run_1/resolve",
            json!({ "resolution": "abandon", "attempt": 1, "reason": "x" }),
            400,
            "invalid_request",
        ),
    ];
    for (path, body, status, code) in cases {
        let answer = server.post(path, &body, &[]).await;
        assert_eq!(answer.told(), (status, code.into()), "{path} {body}: {}", answer.text());
        assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
    }
    for path in [
        "/api/v1/entities/invoice?cursor=x",
        "/api/v1/operations?cursor=x",
        "/api/v1/entities/invoice/inv-1/operations?cursor=x",
        "/api/v1/entities/invoice/inv-1/notes?cursor=x",
        "/api/v1/entity-workflows?cursor=x",
    ] {
        assert_eq!(server.get(path).await.told(), (400, "invalid_cursor".into()), "{path}");
    }
    for path in [
        "/api/v1/entities/invoice?status=two%20words",
        "/api/v1/entities/invoice?limit=0",
        "/api/v1/entities/invoice?colour=red",
        "/api/v1/entities/invoice/inv-1?requester=two%20words",
        "/api/v1/operations?status=done",
        "/api/v1/operations?type=two%20words",
        "/api/v1/operations?limit=201",
    ] {
        assert_eq!(server.get(path).await.told(), (400, "invalid_request".into()), "{path}");
    }
    for path in [
        "/api/v1/operations/x",
        "/api/v1/entities/invoice/inv-9",
        "/api/v1/entities/invoice/inv-9/operations",
    ] {
        assert_eq!(server.get(path).await.told(), (404, "not_found".into()), "{path}");
    }
    assert_eq!(gate.entered(), 0);
    let shown = server.get(INVOICE).await;
    assert_eq!(
        (shown.header("etag"), &shown.json()["entity"]["status"]),
        (Some("\"1\""), &json!("approved"))
    );
    assert_eq!(server.get(&format!("{INVOICE}/operations")).await.json()["items"], json!([]));
}

/// RELIABILITY 54: entities of another workspace are "not found".
#[tokio::test]
async fn another_workspace_has_entities_of_its_own() {
    let (server, gate) = with_invoice(TestServer::sqlite().await).await;
    let stranger = server.key("globex", Role::Admin).await;
    let send = async |method: &str, path: &str, body: Option<Value>| {
        server.send(method, path, body.map(|body| body.to_string()), &stranger, &[]).await
    };
    assert_eq!(send("POST", CLOSE, Some(json!({}))).await.status, 404);
    assert_eq!(
        send("POST", "/api/v1/entity-workflows", Some(super::invoice_fixture::billing())).await.status,
        201
    );
    assert_eq!(send("GET", INVOICE, None).await.status, 404, "the same type, another invoice");
    assert_eq!(send("POST", CLOSE, Some(json!({}))).await.status, 404);
    assert_eq!(send("GET", "/api/v1/entities/invoice", None).await.json()["items"], json!([]));
    gate.let_through(1);
    let done = server.post(CLOSE, &json!({ "idempotencyKey": "k" }), &[]).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let operation = format!("/api/v1/operations/{}", done.json()["operation"]["id"].as_str().unwrap());
    assert_eq!(send("GET", &operation, None).await.told(), (404, "not_found".into()));
    for list in
        ["/api/v1/operations?idempotencyKey=k", "/api/v1/operations", "/api/v1/operations?type=invoice"]
    {
        let found = send("GET", list, None).await.json();
        assert_eq!(found["items"], json!([]), "{list}");
    }
    for about in ["operations", "notes"] {
        let refused = send("GET", &format!("{INVOICE}/{about}"), None).await;
        assert_eq!(refused.told(), (404, "not_found".into()), "{about}");
    }
    let noted = send("POST", &format!("{INVOICE}/notes"), Some(json!({ "text": "hello" }))).await;
    assert_eq!(noted.told(), (404, "not_found".into()));
}

/// Pages lead to each other, and the body of a step is optional.
#[tokio::test]
async fn lists_are_read_page_by_page_and_a_step_needs_no_body() {
    let (server, _) = with_invoice(TestServer::sqlite().await).await;
    for number in 2..=5 {
        super::invoice_fixture::make(&server, "invoice", &format!("inv-{number}"), "draft").await;
        let path = format!("/api/v1/entities/invoice/inv-{number}/steps/approve");
        let bare = server.send("POST", &path, None, &server.admin, &[]).await;
        assert_eq!(bare.status, 200, "{}", bare.text());
    }
    for (list, id) in [
        ("/api/v1/entities/invoice?status=approved", "id"),
        ("/api/v1/operations?stepKey=approve", "entityId"),
    ] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{list}&limit=2{cursor}")).await.json();
            seen.extend(
                page["items"].as_array().unwrap().iter().map(|item| item[id].as_str().unwrap().to_owned()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        seen.sort();
        let all = if id == "id" { 1..=5 } else { 2..=5 };
        assert_eq!(seen, all.map(|number| format!("inv-{number}")).collect::<Vec<_>>(), "{list}");
    }
    let again =
        server.post("/api/v1/entities/invoice", &json!({ "id": "inv-1", "status": "approved" }), &[]).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)), "the same again is found");
}
