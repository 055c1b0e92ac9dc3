//! Sources are set up, looked at and changed over HTTP.

use std::time::{Duration, Instant};

use hapax_engine::model::{CatalogKind, Name, Payload};
use hapax_engine::store::{PutCatalogItem, PutOutcome};
use hapax_server::limits::MAX_SOURCE_NAMES_PER_WORKSPACE;
use serde_json::{Value, json};

use super::shop::{SOURCES, STRIPE_SOURCE, Shop, send, services, told};
use super::support::{PATIENCE, PlannedStore, Setup, StoreKind, TestServer};

const YAML: [(&str, &str); 1] = [("content-type", "application/yaml")];

fn minimal(name: &str) -> Value {
    json!({
        "name": name, "preset": "stripe", "secrets": ["secret://stripe-webhook"],
        "actions": [{ "start": { "workflow": "w" } }],
    })
}

#[tokio::test]
async fn a_source_is_created_once_and_replaced_only_at_the_version_seen() {
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
    let replaced = server.put(&named, &other, &[("if-match", "\"1\"")]).await;
    assert_eq!((replaced.status, &replaced.json()["version"]), (200, &json!(2)), "{}", replaced.text());
    assert_eq!(replaced.json()["path"], json!(path), "its address stays");
    let stale = server.put(&named, &minimal("stripe-payments"), &[("if-match", "\"1\"")]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    let elsewhere = server.put(&named, &minimal("other"), &[]).await;
    assert_eq!(elsewhere.told(), (400, "invalid_request".into()));
    assert_eq!(server.put(&format!("{SOURCES}/other"), &minimal("other"), &[]).await.status, 404);
    let audit = server.get("/api/v1/audit").await.text();
    assert!(audit.contains("created") && audit.contains("replaced"), "{audit}");
    let schema = server.send("GET", "/schemas/webhook-source.json", None, "", &[]).await;
    assert_eq!(schema.json()["title"], "Hapax webhook source");
}

/// All problems are reported at once, and nothing is stored.
#[tokio::test]
async fn a_bad_source_gets_all_its_errors_at_once() {
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

/// A deleted source looks as if it did not exist. Its events stay, and a new source of that name
/// does not accept them again.
#[tokio::test]
async fn a_deleted_source_is_gone_and_what_came_to_it_stays() {
    let shop = Shop::open().await;
    let (server, named) = (&shop.server, format!("{SOURCES}/stripe-payments"));
    let path = shop.source(STRIPE_SOURCE).await;
    let order = shop.order("ch_1").await;
    let paid = shop.paid("evt_1", "ch_1");
    assert_eq!(told(&shop.send(&path, &paid).await), (200, "applied".into()));
    order.result::<Value>().await.unwrap();
    let late = server.delete(&named, &[("if-match", "\"7\"")]).await;
    assert_eq!(late.told(), (409, "CONCURRENCY_ERROR".into()));
    for _ in 0..2 {
        let deleted = server.delete(&format!("{named}?reason=we%20moved"), &[]).await;
        let shown = deleted.json();
        assert_eq!(deleted.status, 200, "the same again changes nothing: {}", deleted.text());
        assert_eq!(
            (&shown["status"], &shown["reason"], &shown["version"]),
            (&json!("deleted"), &json!("we moved"), &json!(2))
        );
    }
    let document = json!({ "name": "stripe-payments", "preset": "stripe" });
    assert_eq!(server.get(&named).await.status, 404);
    assert_eq!(server.get(SOURCES).await.json()["items"], json!([]));
    for status in ["enabled", "disabled"] {
        let refused = server.patch(&named, &json!({ "status": status }), &[]).await;
        assert_eq!(refused.status, 404, "{status}");
    }
    let replaced = server.send("PUT", &named, Some(document.to_string()), &server.admin, &[]).await;
    assert_ne!(replaced.status, 200);
    let same = server.send("PUT", &named, Some(STRIPE_SOURCE.into()), &server.admin, &YAML).await;
    assert_eq!(same.status, 404, "not even what it said brings it back there: {}", same.text());
    for to in [path.as_str(), "/api/v1/webhooks/acme/stripe-payments"] {
        let refused = shop.send(to, &shop.paid("evt_2", "ch_2")).await;
        assert_eq!(refused.told(), (401, "webhook_signature_invalid".into()), "{to}");
    }
    assert_eq!(shop.events().await.len(), 1, "what came is shown");

    assert_eq!(shop.source(STRIPE_SOURCE).await, path, "it is made again at its address");
    assert_eq!(server.get(&named).await.json()["status"], "enabled");
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "duplicate".into()));
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_2", "ch_2")).await), (200, "unmatched".into()));
    assert_eq!(shop.packed(), 1);
    let audit = server.get("/api/v1/audit").await.text();
    assert!(audit.contains("deleted: we moved") && audit.contains("created again"), "{audit}");
}

/// When two callers recreate the same source at once, one creates it and the other finds it.
#[tokio::test]
async fn of_two_who_make_a_deleted_source_again_one_makes_it_and_the_other_finds_it() {
    let server = TestServer::sqlite().await;
    let again = async || server.post(SOURCES, &minimal("again"), &[]).await;
    let path = again().await.json()["path"].clone();
    for round in 0..10 {
        let deleted = server.delete(&format!("{SOURCES}/again"), &[]).await;
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        let made = futures_util::future::join_all((0..4).map(|_| again())).await;
        let mut statuses: Vec<u16> = made.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 201], "in round {round}: {made:?}");
        assert!(made.iter().all(|answer| answer.json()["path"] == path), "{made:?}");
    }
}

/// Names of deleted sources stay taken, so they are limited.
#[tokio::test]
async fn a_workspace_has_room_for_so_many_names_of_sources_deleted_ones_included() {
    let shop = Shop::open().await;
    let catalog = shop.server.store.catalog().unwrap();
    for number in 0..MAX_SOURCE_NAMES_PER_WORKSPACE {
        let deleted = json!({ "state": "deleted", "document": minimal(&format!("s{number}")) });
        let request = PutCatalogItem {
            workspace: super::shop::acme(),
            kind: CatalogKind::Source,
            id: Name::new("id", &format!("whk_{number:032}")).unwrap(),
            name: format!("s{number}"),
            body: Payload::of(&deleted).unwrap(),
            expected: None,
            note: None,
        };
        assert!(matches!(catalog.put_item(request).await.unwrap(), PutOutcome::Put(_)));
    }
    let refused = shop.server.post(SOURCES, &minimal("one-more"), &[]).await;
    assert_eq!(refused.code(), "quota_exceeded", "{}", refused.text());
    assert_eq!(refused.json()["quota"], "webhookSourceNames");
}

/// The server has promised to process accepted events.
#[tokio::test]
async fn events_of_a_deleted_source_are_still_processed() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "unmatched".into()));
    shop.server.delete(&format!("{SOURCES}/stripe-payments"), &[]).await;
    let again = shop
        .server
        .post("/api/v1/webhook-events/stripe-payments/evt_1/reprocess", &json!({}), &[])
        .await
        .json();
    assert_eq!((&again["attempts"], &again["status"]), (&json!(2), &json!("unmatched")), "{again}");
}

/// A change on one node takes effect on another within five seconds.
#[tokio::test]
async fn a_source_is_known_on_other_nodes_soon() {
    let shop = Shop::open().await;
    let setup = Setup { services: services(&shop.packed), clock: shop.clock.clone(), ..Setup::default() };
    let other = TestServer::over(shop.server.store.clone(), StoreKind::Elsewhere, setup).await;
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

/// A source is deleted because its secret leaked, while another node cannot reach the store for
/// longer than any overlap. That node still learns of the deletion, and of all other changes.
#[tokio::test]
async fn a_node_that_could_not_look_for_two_minutes_misses_no_change() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let store = PlannedStore::over(shop.server.store.clone());
    let setup = Setup { services: services(&shop.packed), clock: shop.clock.clone(), ..Setup::default() };
    let other = TestServer::over(store.clone(), StoreKind::Elsewhere, setup).await;
    assert_eq!(told(&send(&other, &path, &shop.paid("evt_1", "ch_1")).await), (200, "unmatched".into()));
    store.set_away(true);
    let deleted = shop.server.delete(&format!("{SOURCES}/stripe-payments?reason=it%20leaked"), &[]).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    shop.server.echo().await;
    shop.clock.advance(Duration::from_secs(120));
    store.set_away(false);
    let since = Instant::now();
    loop {
        let answer = send(&other, &path, &shop.paid("evt_1", "ch_1")).await;
        let definitions = other.server.definitions().count();
        if (answer.status, definitions) == (401, 1) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{} {definitions}", answer.status);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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

/// Whoever knows the address of an unsigned source may send to it: its name can be guessed, its id cannot.
#[tokio::test]
async fn an_unsigned_source_is_reached_by_its_id_and_not_by_its_name() {
    let shop = Shop::open().await;
    let document = json!({
        "name": "open", "signature": { "scheme": "none", "allowUnsigned": true }, "eventId": { "pointer": "/id" },
        "actions": [{ "signal": { "run": "{{ body.run }}", "name": "paid" } }],
    });
    let made = shop.server.post(SOURCES, &document, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let path = made.json()["path"].as_str().unwrap().to_owned();
    let event = json!({ "id": "e-1", "run": "none" });
    let by_name =
        shop.server.send("POST", "/api/v1/webhooks/acme/open", Some(event.to_string()), "", &[]).await;
    assert_eq!(by_name.told(), (401, "webhook_signature_invalid".into()), "as if there were none");
    assert_eq!(shop.events().await.len(), 0, "nothing is stored");
    let by_id = shop.server.send("POST", &path, Some(event.to_string()), "", &[]).await;
    assert_eq!(by_id.status, 200, "{}", by_id.text());
}
