//! Action tokens, and the element that uses them on a page of another origin.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_server::ActionOrigins;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::super::entities::invoice_fixture::{CLOSE, INVOICE, action, make, post_as, with_invoice};
use super::support::{Answer, Role, Setup, TestServer};
use super::webdriver::{BrowserSettings, Chromium};

const TOKENS: &str = "/api/v1/entities/invoice/inv-1/action-tokens";

async fn token(server: &TestServer, key: &str, asked: Value) -> Answer {
    post_as(server, key, TOKENS, asked).await
}

async fn get_as(server: &TestServer, token: &str, path: &str) -> Answer {
    server.send("GET", path, None, token, &[]).await
}

#[tokio::test]
async fn a_token_sees_and_moves_its_entity_and_nothing_else() {
    let (server, gate) = with_invoice(TestServer::memory().await).await;
    make(&server, "invoice", "inv-2", "approved").await;
    let key = server.key("acme", Role::Operator).await;
    let issued = token(&server, &key, json!({ "by": "anna", "expiresIn": "5m" })).await;
    assert_eq!(issued.status, 201, "{}", issued.text());
    let issued = issued.json();
    assert_eq!(issued["role"], "operator");
    let anna = issued["token"].as_str().unwrap();
    assert!(anna.starts_with("hpa_"), "{anna}");
    assert_eq!(action(&get_as(&server, anna, INVOICE).await.json(), "close")["enabled"], true);
    for (path, status) in [
        ("/api/v1/entities/invoice/inv-2", 403),
        ("/api/v1/entities/invoice", 401),
        ("/api/v1/entities/invoice/inv-1/notes", 401),
        ("/api/v1/workflow-runs", 401),
        ("/api/v1/credentials", 401),
    ] {
        assert_eq!(get_as(&server, anna, path).await.status, status, "{path}");
    }
    for path in [TOKENS, "/api/v1/entities/invoice/inv-1/steps/close/override", "/api/v1/workflow-runs"] {
        assert_eq!(post_as(&server, anna, path, json!({})).await.status, 401, "{path}");
    }
    assert_eq!(get_as(&server, &format!("{anna}x"), INVOICE).await.status, 401);
    gate.let_through(1);
    let taken = post_as(&server, anna, CLOSE, json!({ "by": "somebody else" })).await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    let by = &taken.json()["operation"]["actor"];
    assert_eq!(by["person"], "anna", "the token names the person, whatever the page says: {by}");
}

#[tokio::test]
async fn a_token_has_no_more_rights_than_its_credential_and_ends_with_it() {
    let (server, _gate) = with_invoice(TestServer::memory().await).await;
    let key = server.key("acme", Role::Operator).await;
    assert_eq!(token(&server, &key, json!({ "role": "manager" })).await.status, 403);
    assert_eq!(token(&server, &key, json!({ "role": "admin" })).await.status, 400);
    for wrong in
        [json!({ "expiresIn": "0s" }), json!({ "expiresIn": "2h" }), json!({ "by": "" }), json!({ "x": 1 })]
    {
        assert_eq!(token(&server, &key, wrong.clone()).await.status, 400, "{wrong}");
    }
    let viewer = server.key("acme", Role::Viewer).await;
    assert_eq!(token(&server, &viewer, json!({})).await.status, 403);
    let absent = post_as(&server, &key, "/api/v1/entities/invoice/none/action-tokens", json!({})).await;
    assert_eq!(absent.status, 404);
    let watch =
        token(&server, &key, json!({ "role": "viewer" })).await.json()["token"].as_str().unwrap().to_owned();
    let seen = get_as(&server, &watch, INVOICE).await.json();
    let close = action(&seen, "close");
    assert_eq!((&close["enabled"], &close["code"]), (&json!(false), &json!("forbidden")), "{seen}");
    assert_eq!(post_as(&server, &watch, CLOSE, json!({})).await.status, 403);
    let id = format!("cred_{}", key.split('_').nth(1).unwrap());
    let reason = json!({ "reason": "left" });
    assert_eq!(server.post(&format!("/api/v1/credentials/{id}/revoke"), &reason, &[]).await.status, 200);
    assert_eq!(get_as(&server, &watch, INVOICE).await.status, 401, "its credential is gone");
}

#[tokio::test]
async fn a_token_is_over_after_its_time() {
    let clock = Arc::new(ManualClock::default());
    let (server, _gate) = with_invoice(TestServer::memory_at(clock.clone()).await).await;
    let key = server.key("acme", Role::Operator).await;
    let short =
        token(&server, &key, json!({ "expiresIn": "1m" })).await.json()["token"].as_str().unwrap().to_owned();
    clock.advance(Duration::from_secs(59));
    assert_eq!(get_as(&server, &short, INVOICE).await.status, 200);
    clock.advance(Duration::from_secs(1));
    let over = get_as(&server, &short, INVOICE).await;
    assert_eq!(over.status, 401);
    assert!(over.text().contains("Ask your server for another one"), "{}", over.text());
}

async fn with_origin(origin: &str) -> TestServer {
    let action_origins = ActionOrigins::default().with(origin).unwrap();
    TestServer::memory_with(Setup { action_origins, ..Setup::default() }).await
}

#[tokio::test]
async fn only_listed_origins_may_use_the_routes_of_tokens() {
    let (server, _gate) = with_invoice(with_origin("https://admin.shop.example").await).await;
    let good = ("origin", "https://admin.shop.example");
    let asks = ("access-control-request-method", "POST");
    let preflight = server.send("OPTIONS", CLOSE, None, "", &[good, asks]).await;
    assert_eq!(preflight.status, 204, "{}", preflight.text());
    assert_eq!(preflight.header("access-control-allow-origin"), Some(good.1));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("POST"));
    let allowed = preflight.header("access-control-allow-headers").unwrap();
    for name in ["authorization", "idempotency-key", "if-match"] {
        assert!(allowed.contains(name), "{allowed}");
    }
    assert_eq!(preflight.header("access-control-allow-credentials"), None, "no cookies");
    let key = server.key("acme", Role::Operator).await;
    let anna = token(&server, &key, json!({})).await.json()["token"].as_str().unwrap().to_owned();
    let shown = server.send("GET", INVOICE, None, &anna, &[good]).await;
    assert_eq!((shown.status, shown.header("access-control-allow-origin")), (200, Some(good.1)));
    assert!(shown.header("vary").unwrap().contains("origin"));
    for (path, origin) in [
        (INVOICE, "https://evil.example"),
        (INVOICE, "null"),
        ("/api/v1/workflow-runs", good.1),
        ("/console/runs", good.1),
    ] {
        let asked = [("origin", origin), ("access-control-request-method", "GET")];
        for method in ["OPTIONS", "GET"] {
            let answer = server.send(method, path, None, &anna, &asked).await;
            assert_eq!(answer.header("access-control-allow-origin"), None, "{method} {path} {origin}");
        }
    }
    let plain = TestServer::memory().await;
    let refused = plain.send("OPTIONS", CLOSE, None, "", &[good, asks]).await;
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (405, None),
        "off unless it is set"
    );
}

/// The admin page of a shop, on an origin of its own. It passes nothing on: its server only asks Hapax for tokens, at
/// `/token`, with a key that never leaves it.
async fn shop(listener: TcpListener, server: &TestServer, key: String) -> String {
    use axum::response::{Html, IntoResponse};
    use axum::routing::get;
    let (http, hapax) = (server.http.clone(), server.url.clone());
    let page = format!(
        "<!doctype html><title>Shop</title><script type=module src={hapax}/console/hapax-actions.js></script>\
         <h1>Invoice 1</h1><hapax-actions type=invoice id=inv-1 token-url=/token label-close=\"Close the invoice\"></hapax-actions>"
    );
    let tokens = async move || {
        let asked = http.post(format!("{hapax}{TOKENS}")).bearer_auth(key).json(&json!({ "by": "anna" }));
        let answer = asked.send().await.unwrap();
        ([("content-type", "application/json")], answer.text().await.unwrap()).into_response()
    };
    let routes = axum::Router::new()
        .route("/", get(move || async move { Html(page) }))
        .route("/token", get(move || tokens.clone()()));
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    url
}

/// S2.3 on a page of the user's own, without a proxy: two lines, a token of minutes, and one operation for two clicks.
#[tokio::test]
async fn the_element_works_on_a_page_of_another_origin_with_a_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let (server, gate) = with_invoice(with_origin(&origin).await).await;
    let url = shop(listener, &server, server.key("acme", Role::Operator).await).await;
    let page = Chromium::start(BrowserSettings::DESK).await;
    page.open(&url).await;
    page.until_says("Close the invoice").await;
    let twice = "const element = document.querySelector('hapax-actions'); \
                 element.shadowRoot.querySelector('button[data-step=close]').click(); element.take('close');";
    page.run(twice).await;
    gate.arrived().await;
    let other = Chromium::start(BrowserSettings::DESK).await;
    other.open(&url).await;
    let said = other.until_says("close is in progress: op_").await;
    assert!(said.contains("another operation is already in progress"), "{said}");
    let is_disabled = "return document.querySelector('hapax-actions').shadowRoot.querySelector('button[data-step=close]').disabled";
    assert_eq!(other.run(is_disabled).await, json!(true));
    other.keep_picture("element-of-another-origin").await;
    gate.let_through(1);
    other.until_says("the entity is closed; this step applies to").await;
    page.until_says("the entity is closed; this step applies to").await;
    assert_eq!(gate.entered(), 1);
    let alert = "return document.querySelector('hapax-actions').shadowRoot.querySelector('[role=alert]')?.textContent ?? ''";
    assert_eq!(page.run(alert).await, json!(""), "both clicks were one request: none was refused");
    let operations = server.get("/api/v1/entities/invoice/inv-1/operations").await.json();
    let items = operations["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["actor"]["person"]), (1, &json!("anna")), "{operations}");

    let (closed, _gate) = with_invoice(TestServer::memory().await).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = shop(listener, &closed, closed.key("acme", Role::Operator).await).await;
    page.open(&url).await;
    let said = page.until_says("Hapax cannot be reached.").await;
    assert!(!said.contains("Close the invoice"), "an origin that is not listed sees nothing: {said}");
}
