//! Webhooks in the console: received events, reprocessing, sources and subscriptions.

use serde_json::json;

use super::browser::Browser;
use super::support::{Receiver, Role, TestServer};

const EVENTS: &str = "/console/webhooks";
const SUBSCRIPTIONS: &str = "/console/webhooks/subscriptions";

/// A source that believes everybody and starts runs of `later`; answers the path that it is sent webhooks to.
async fn with_source(server: &TestServer) -> String {
    let source = json!({
        "name": "shop", "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "later", "input": "{{ body }}" } }],
    });
    let made = server.post("/api/v1/webhook-sources", &source, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["path"].as_str().unwrap().to_owned()
}

async fn deliver(server: &TestServer, path: &str, id: &str) {
    let body = json!({ "id": id, "note": "<img src=x>" }).to_string();
    let answer = server.send("POST", path, Some(body), "", &[]).await;
    assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
}

async fn upload_later(server: &TestServer) {
    let document = json!({ "name": "later", "version": 1, "steps": [{ "name": "say", "type": "task", "task": "echo" }] });
    server.upload(&document).await;
}

#[tokio::test]
async fn a_webhook_that_failed_says_why_and_is_processed_again_once_it_can_be() {
    let server = TestServer::memory().await;
    let path = with_source(&server).await;
    deliver(&server, &path, "evt_1").await;
    let api = "/api/v1/webhook-events/shop/evt_1";
    server.until_shown(api, |event| event["status"] == "failed").await;
    let operator = Browser::signed_in(&server, &server.key("acme", Role::Operator).await).await;
    let list = operator.page(&format!("{EVENTS}?status=failed")).await;
    assert!(list.contains(">evt_1</a>") && list.contains("Failed") && list.contains("later"), "{list}");
    assert!(!operator.page(&format!("{EVENTS}?status=applied")).await.contains("evt_1"));
    let page = format!("{EVENTS}/events/shop/evt_1");
    let shown = operator.page(&page).await;
    assert!(shown.contains("Unsigned") && shown.contains("&lt;img src=x&gt;"), "{shown}");
    assert!(!shown.contains("<img"));
    upload_later(&server).await;
    let form = operator.form(&page, &format!("{page}/reprocess")).await;
    let (first, second) = tokio::join!(operator.submit(&form), operator.submit(&form));
    assert_eq!((first.status, second.status), (303, 303), "{} {}", first.text(), second.text());
    assert!(operator.page(&page).await.contains("Applied"));
    let again = operator.form(&page, &format!("{page}/reprocess")).await;
    assert_eq!(operator.submit(&again).await.status, 303);
    let runs = server.get("/api/v1/workflow-runs?workflow=later").await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 1, "one event starts one run: {runs}");
}

#[tokio::test]
async fn many_webhooks_are_processed_again_up_to_the_limit_and_the_page_tells_what_became_of_each() {
    let server = TestServer::memory().await;
    let path = with_source(&server).await;
    for id in ["evt_1", "evt_2", "evt_3"] {
        deliver(&server, &path, id).await;
        let api = format!("/api/v1/webhook-events/shop/{id}");
        server.until_shown(&api, |event| event["status"] == "failed").await;
    }
    upload_later(&server).await;
    let admin = Browser::admin(&server).await;
    let form = admin.form(EVENTS, &format!("{EVENTS}/reprocess")).await;
    let form = form.with("status", "failed").with("limit", "2").with("source", "shop");
    let done = admin.submit(&form).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(
        done.text().contains("<b>2</b> processed again") && !done.text().contains(">evt_1</a>"),
        "{}",
        done.text()
    );
    let left = server.get("/api/v1/webhook-events?status=failed").await.json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    let refused = admin.submit(&form.clone().with("limit", "many").with("key", "another")).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[tokio::test]
async fn the_secret_of_a_subscription_is_shown_once_and_an_old_page_changes_nothing() {
    let server = TestServer::memory().await;
    let receiver = Receiver::start().await;
    let admin = Browser::admin(&server).await;
    let form = admin.form(SUBSCRIPTIONS, SUBSCRIPTIONS).await;
    let form = form.with("name", "billing <b>").with("url", &receiver.url()).with("event", "run.completed");
    let made = admin.submit(&form.with("signing", "hmac")).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let secret = made.text().split("value=\"whsec_").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let listed = server.get("/api/v1/webhook-subscriptions").await.json();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let page = format!("{SUBSCRIPTIONS}/{id}");
    let shown = admin.page(&page).await;
    assert!(!shown.contains(&secret) && shown.contains("billing &lt;b&gt;"), "{shown}");
    let old = admin.form(&page, &format!("{page}/switch")).await;
    let edit = admin.form(&page, &format!("{page}/change")).await;
    let edit = edit.with("name", "accounting").with("url", &receiver.url()).with("event", "run.failed");
    assert_eq!(admin.submit(&edit).await.status, 303);
    let late = admin.submit(&old).await;
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("no longer up to date"), "{}", late.text());
    let now = server.get(&format!("/api/v1/webhook-subscriptions/{id}")).await.json();
    assert_eq!((&now["name"], &now["status"]), (&json!("accounting"), &json!("enabled")), "{now}");
    assert_eq!(now["events"], json!(["run.failed"]));
    let off = admin.form(&page, &format!("{page}/switch")).await.with("reason", "moving house");
    assert_eq!(admin.submit(&off).await.status, 303);
    assert!(admin.page(&page).await.contains("Disabled"));
    let gone = admin.form(&page, &format!("{page}/delete")).await.with("reason", "moved");
    assert_eq!(admin.submit(&gone).await.status, 303);
    assert!(admin.page("/console/admin/audit?action=subscription_changed").await.contains("moved"));
}

#[tokio::test]
async fn a_source_is_made_from_its_document_and_its_errors_are_listed() {
    let server = TestServer::memory().await;
    let admin = Browser::admin(&server).await;
    let path = "/console/webhooks/sources";
    let form = admin.form(path, path).await;
    let refused = admin.submit(&form.clone().with("document", "{\"name\":\"shop\"}")).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("/actions") && refused.text().contains("/eventId"), "{}", refused.text());
    let source = json!({
        "name": "shop", "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "later", "input": {} } }],
    });
    let form = admin.form(path, path).await.with("document", &source.to_string());
    let made = admin.submit(&form).await;
    assert_eq!(
        (made.status, made.header("location")),
        (303, Some("/console/webhooks/sources/shop")),
        "{}",
        made.text()
    );
    assert!(admin.page("/console/webhooks/sources/shop").await.contains("Not at all"), "it is not signed");
}
