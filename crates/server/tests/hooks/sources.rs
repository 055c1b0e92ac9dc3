//! Sources are set up, looked at and changed over HTTP.

use serde_json::{Value, json};

use super::shop::{SOURCES, STRIPE_SOURCE, Shop, hands, send, told};
use super::support::{Kept, Setup, TestServer};

const YAML: [(&str, &str); 1] = [("content-type", "application/yaml")];

fn minimal(name: &str) -> Value {
    json!({
        "name": name, "preset": "stripe", "secrets": ["secret://stripe-webhook"],
        "actions": [{ "start": { "workflow": "w" } }],
    })
}

#[tokio::test]
async fn a_source_is_made_once_and_replaced_only_by_whoever_saw_it() {
    let shop = Shop::open().await;
    let server = &shop.server;
    let path = shop.source(STRIPE_SOURCE).await;
    assert!(
        path.starts_with("/api/v1/webhooks/whk_") && path.len() == "/api/v1/webhooks/whk_".len() + 32,
        "{path}"
    );
    let again = server.send("POST", SOURCES, Some(STRIPE_SOURCE.into()), &server.admin, &YAML).await;
    assert_eq!((again.status, &again.json()["path"]), (200, &json!(path)), "the same is found");
    let named = format!("{SOURCES}/stripe-payments");
    let shown = server.get(&named).await;
    assert_eq!(shown.header("etag"), Some("\"1\""));
    assert_eq!(shown.json()["document"]["signature"], json!({ "scheme": "stripe" }));
    let other = minimal("stripe-payments");
    let taken = server.post(SOURCES, &other, &[]).await;
    assert_eq!((taken.told(), &taken.json()["version"]), ((409, "name_taken".into()), &json!(1)));
    let replaced = server.post(&named, &other, &[("if-match", "\"1\"")]).await;
    assert_eq!((replaced.status, &replaced.json()["version"]), (200, &json!(2)), "{}", replaced.text());
    assert_eq!(replaced.json()["path"], json!(path), "its address stays");
    let stale = server.post(&named, &minimal("stripe-payments"), &[("if-match", "\"1\"")]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    let elsewhere = server.post(&named, &minimal("other"), &[]).await;
    assert_eq!(elsewhere.told(), (400, "invalid_request".into()));
    assert_eq!(server.post(&format!("{SOURCES}/other"), &minimal("other"), &[]).await.status, 404);
    let audit = server.get("/api/v1/audit").await.text();
    assert!(audit.contains("created") && audit.contains("replaced"), "{audit}");
    let schema = server.send("GET", "/schemas/webhook-source.json", None, "", &[]).await;
    assert_eq!(schema.json()["title"], "Hapax webhook source");
}

/// All problems at once, and nothing is kept.
#[tokio::test]
async fn a_bad_source_is_told_all_that_is_wrong_with_it() {
    let shop = Shop::open().await;
    let bad = json!({ "name": "a b", "preset": "paypal", "secrets": ["whsec_inline"], "actions": [{ "start": {} }] });
    let refused = shop.server.post(SOURCES, &bad, &[]).await;
    assert_eq!(refused.told(), (422, "source_invalid".into()), "{}", refused.text());
    let paths: Vec<Value> = refused.json()["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["path"].clone())
        .collect();
    for path in ["/name", "/preset", "/secrets/0", "/actions/0/start"] {
        assert!(paths.iter().any(|found| found.as_str().unwrap().starts_with(path)), "{path}: {paths:?}");
    }
    assert!(!refused.text().contains("whsec_inline"), "a secret is not repeated: {}", refused.text());
    let text = shop
        .server
        .send("POST", SOURCES, Some("x".into()), &shop.server.admin, &[("content-type", "text/plain")])
        .await;
    assert_eq!(text.status, 415);
    assert_eq!(shop.server.get(SOURCES).await.json()["items"], json!([]));
}

/// What one node is told counts on another within five seconds.
#[tokio::test]
async fn a_source_is_known_on_other_nodes_soon() {
    let shop = Shop::open().await;
    let setup = Setup { hands: hands(&shop.packed), clock: shop.clock.clone(), ..Setup::default() };
    let other = TestServer::over(shop.server.store.clone(), Kept::Elsewhere, setup).await;
    let path = shop.source(STRIPE_SOURCE).await;
    let since = std::time::Instant::now();
    let paid = shop.paid("evt_1", "ch_1");
    let taken = loop {
        let client = other.client_at(200);
        let answer = super::shop::send_by(&other, &client, &path, &paid).await;
        if answer.status == 200 || since.elapsed().as_secs() >= 5 {
            break answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    };
    assert_eq!(told(&taken), (200, "unmatched".into()));
    assert_eq!(told(&send(&shop.server, &path, &paid).await), (200, "duplicate".into()));
}

#[tokio::test]
async fn sources_are_listed_page_by_page_without_their_documents() {
    let shop = Shop::open().await;
    for number in 0..5 {
        assert_eq!(shop.server.post(SOURCES, &minimal(&format!("s{number}")), &[]).await.status, 201);
    }
    let first = shop.server.get(&format!("{SOURCES}?limit=3")).await.json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = shop.server.get(&format!("{SOURCES}?limit=3&cursor={cursor}")).await.json();
    let mut names: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|source| source["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4"]);
    assert!(first["items"][0]["document"].is_null());
}
