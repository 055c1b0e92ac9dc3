//! Workflows in the console: what they do, and starting a run with a form made from the schema of the input.

use serde_json::json;

use super::browser::Browser;
use super::support::{Role, TestServer};

/// An order whose input has a schema; answers the path of its page.
async fn with_order(server: &TestServer) -> String {
    let document = json!({
        "name": "order", "version": 1, "idempotency": "required", "description": "<b>orders",
        "input": {
            "type": "object", "required": ["order", "cents"], "additionalProperties": false,
            "properties": {
                "order": { "type": "string", "title": "Number <of>" }, "cents": { "type": "integer", "minimum": 1 },
                "gift": { "type": "boolean" }, "currency": { "enum": ["EUR", "USD"] },
                "to": { "type": "object", "required": ["city"], "properties": { "city": { "type": "string" } } },
                "lines": { "type": "array" },
            },
        },
        "steps": [
            { "name": "both", "type": "parallel", "branches": [[{ "name": "say", "type": "task", "task": "echo", "effect": "claimed" }], [{ "name": "rest", "type": "wait", "for": "1ms" }]] },
            { "name": "hear", "type": "signal" },
        ],
    });
    format!("/console/workflows/definitions/{}", server.upload(&document).await)
}

#[tokio::test]
async fn a_run_is_started_with_what_was_filled_in_once_and_byte_for_byte() {
    let server = TestServer::memory().await;
    let page = with_order(&server).await;
    let operator = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let shown = operator.page(&page).await;
    for part in ["claimed", "at once 1", "&lt;b&gt;orders", "<b>hear</b>"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let action = format!("{page}/start");
    let empty = operator.form(&action, &action).await;
    assert!(operator.page(&action).await.contains("Number &lt;of&gt;"));
    let form = empty
        .with("input/order", "4711")
        .with("input/cents", "9007199254740993")
        .with("input/gift", "true")
        .with("input/currency", "\"USD\"")
        .with("input/to/city", "Ulm")
        .with("input/lines", "[1.0]")
        .with("run-key", "order-4711")
        .with("subject", "4711");
    let (first, second) = tokio::join!(operator.submit(&form), operator.submit(&form));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text(), second.text());
    assert_eq!(first.header("location"), second.header("location"), "one run");
    let runs = server.get("/api/v1/workflow-runs").await;
    assert!(
        runs.text().contains("\"cents\":9007199254740993") && runs.text().contains("[1.0]"),
        "{}",
        runs.text()
    );
    let run = &runs.json()["items"][0];
    assert_eq!(run["input"]["currency"], "USD");
    assert_eq!((&run["input"]["gift"], &run["input"]["to"]), (&json!(true), &json!({ "city": "Ulm" })));
    assert_eq!((&run["idempotencyKey"], &run["subject"]), (&json!("order-4711"), &json!("4711")));
    server.until(run["id"].as_str().unwrap(), "WAITING").await;
    assert!(operator.page(&page).await.contains(">1</a>"), "one open run of this version");
}

#[tokio::test]
async fn a_refused_start_keeps_what_was_typed_and_shows_both_requests_of_a_conflict() {
    let server = TestServer::memory().await;
    let page = with_order(&server).await;
    let admin = Browser::admin(&server).await;
    let action = format!("{page}/start");
    let form = admin.form(&action, &action).await.with("input/order", "4711<x>").with("run-key", "k-1");
    let wrong = admin.submit(&form.clone().with("input/cents", "0")).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    assert!(
        wrong.text().contains("/input/cents") && wrong.text().contains("value=\"4711&lt;x&gt;\""),
        "{}",
        wrong.text()
    );
    let no_number = admin.submit(&form.clone().with("input/cents", "five")).await;
    assert_eq!(no_number.status, 400, "{}", no_number.text());
    let raw = form.clone().with("key", "second").with("raw", "{\"order\":\"4711\",\"cents\":5}");
    assert_eq!(admin.submit(&raw).await.status, 303, "raw JSON is always possible");
    let other = form.with("key", "third").with("input/cents", "6").with("input/order", "4711");
    let conflict = admin.submit(&other).await;
    assert_eq!(conflict.status, 422, "{}", conflict.text());
    for part in ["First request, which counts", "This request, which did nothing", "/cents"] {
        assert!(conflict.text().contains(part), "{part}: {}", conflict.text());
    }
    let runs = server.get("/api/v1/workflow-runs").await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "{runs}");
}

#[tokio::test]
async fn an_archived_version_starts_nothing_and_an_old_page_deletes_nothing() {
    let server = TestServer::memory().await;
    let page = with_order(&server).await;
    let admin = Browser::admin(&server).await;
    let old = admin.form(&page, &format!("{page}/delete")).await;
    let archive = admin.form(&page, &format!("{page}/change")).await.with("reason", "replaced");
    assert_eq!(admin.submit(&archive).await.status, 303);
    let start = admin.page(&format!("{page}/start")).await;
    assert!(
        start.contains("It is archived") && !start.contains(&format!("action=\"{page}/start\"")),
        "{start}"
    );
    let late = admin.submit(&old).await;
    assert_eq!(late.status, 409, "{}", late.text());
    let delete = admin.form(&page, &format!("{page}/delete")).await;
    assert_eq!(admin.submit(&delete).await.status, 303);
    assert_eq!(admin.get(&page).await.status, 404);
    let viewer = Browser::signed_in(&server, &server.key("acme", Role::Viewer).await).await;
    let again = with_order_again(&server).await;
    let shown = viewer.page(&again).await;
    assert!(!shown.contains("/start\"") && !shown.contains("Archive"), "{shown}");
}

async fn with_order_again(server: &TestServer) -> String {
    format!("/console/workflows/definitions/{}", server.echo().await)
}

#[tokio::test]
async fn a_workflow_of_entities_is_drawn_with_what_somebody_should_look_at() {
    let server = TestServer::memory().await;
    let workflow = json!({
        "name": "flow", "module": "billing", "entity": "thing", "description": "<i>things",
        "status_types": ["open", "shut", "lost"], "initial": "open",
        "steps": [{ "step_id": 1, "step_key": "shut", "status": "open", "successful_state": "shut" }],
    });
    assert_eq!(server.post("/api/v1/entity-workflows", &workflow, &[]).await.status, 201);
    let page = Browser::admin(&server).await.page("/console/workflows/entities/flow").await;
    for part in ["<svg", "nothing leads to lost", "&lt;i&gt;things"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
