//! Making, changing and ending subscriptions.

use std::time::Duration;

use hapax_engine::Failure;
use hapax_engine::model::OutboxStatus;
use hapax_engine::runtime::Delivery;
use hapax_server::sealing::SealingKey;
use serde_json::{Value, json};

use super::fixture::{acme, end_a_run, subscribe, until_post};
use super::support::{PATIENCE, Receiver, Role, Setup, TestServer};
use super::{DELIVERIES, SUBSCRIPTIONS};

#[tokio::test]
async fn a_subscription_is_made_shown_listed_and_deleted() {
    let server = TestServer::memory().await;
    let url = "https://example.com/hooks";
    let asked = json!({
        "name": "billing", "url": url, "description": "invoices",
        "events": ["run.failed", "run.completed", "run.failed"],
    });
    let made = server.post(SUBSCRIPTIONS, &asked, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"), "{made}");
    let subscription = &made["subscription"];
    assert_eq!(subscription["events"], json!(["run.completed", "run.failed"]));
    assert_eq!((&subscription["status"], &subscription["url"]), (&json!("enabled"), &json!(url)));
    let id = subscription["id"].as_str().unwrap();
    let path = format!("{SUBSCRIPTIONS}/{id}");
    let shown = server.get(&path).await;
    assert_eq!(shown.json(), *subscription);
    assert!(!shown.text().contains("whsec_"), "the secret is shown once");
    let again = server.post(SUBSCRIPTIONS, &asked, &[]).await;
    assert_eq!(again.told(), (409, "name_taken".into()));
    assert_eq!(again.json()["subscriptionId"], id);

    let disabled =
        server.patch(&path, &json!({ "status": "disabled", "reason": "moving house" }), &[]).await.json();
    assert_eq!((&disabled["status"], &disabled["reason"]), (&json!("disabled"), &json!("moving house")));
    let twice = server.patch(&path, &json!({ "status": "disabled", "reason": "other" }), &[]).await.json();
    assert_eq!(twice, disabled, "the same again changes nothing");
    assert_eq!(server.patch(&path, &json!({ "status": "enabled" }), &[]).await.json()["status"], "enabled");

    let deleted = server.delete(&format!("{path}?reason=done"), &[]).await.json();
    assert_eq!(deleted["status"], "deleted");
    assert_eq!(server.get(SUBSCRIPTIONS).await.json()["items"], json!([]));
    assert_eq!(server.get(&path).await.json()["status"], "deleted", "it is kept for its deliveries");
    for status in ["enabled", "disabled"] {
        let refused = server.patch(&path, &json!({ "status": status }), &[]).await;
        let is_refused = refused.told() == (404, "not_found".into());
        assert!(is_refused, "{status}: {}", refused.text());
    }
    for verb in ["rotate", "test"] {
        let refused = server.post(&format!("{path}/{verb}"), &json!({}), &[]).await;
        assert_eq!(refused.told(), (404, "not_found".into()), "{verb}");
    }
    assert_eq!(server.post(SUBSCRIPTIONS, &asked, &[]).await.status, 201, "its name is free");
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let entries = audit["items"].as_array().unwrap().iter().filter(|entry| entry["target"] == id);
    let changes: Vec<&str> = entries.map(|entry| entry["command"].as_str().unwrap()).collect();
    assert_eq!(changes, ["created", "disabled: moving house", "enabled", "deleted: done"]);
}

/// Unnamed fields stay; a concurrent change is not lost.
#[tokio::test]
async fn a_subscription_is_changed_field_by_field_on_the_version_seen() {
    let server = TestServer::memory().await;
    let (id, _) = subscribe(&server, "https://example.com/old", &["run.failed"]).await;
    let path = format!("{SUBSCRIPTIONS}/{id}");
    let shown = server.get(&path).await;
    assert_eq!((shown.header("etag"), &shown.json()["version"]), (Some("\"1\""), &json!(1)));
    let change =
        json!({ "url": "https://example.com/new", "events": ["run.completed"], "description": "moved" });
    let changed = server.patch(&path, &change, &[("if-match", "\"1\"")]).await;
    assert_eq!((changed.status, changed.header("etag")), (200, Some("\"2\"")), "{}", changed.text());
    let now = changed.json();
    assert_eq!((&now["url"], &now["events"]), (&json!("https://example.com/new"), &json!(["run.completed"])));
    assert_eq!((&now["name"], &now["status"]), (&shown.json()["name"], &json!("enabled")), "these stay");
    let stale =
        server.patch(&path, &json!({ "url": "https://example.com/x" }), &[("if-match", "\"1\"")]).await;
    assert_eq!((stale.told(), &stale.json()["version"]), ((409, "CONCURRENCY_ERROR".into()), &json!(2)));
    let stale = server.delete(&path, &[("if-match", "\"1\"")]).await;
    assert_eq!(stale.told(), (409, "CONCURRENCY_ERROR".into()));
    assert_eq!(server.get(&path).await.json(), now, "what is refused changes nothing");
    let same = server.patch(&path, &change, &[]).await.json();
    assert_eq!(same, now, "the same again changes nothing");
    for (bad, place) in [
        (json!({ "url": "ftp://example.com" }), "/url"),
        (json!({ "events": [] }), "/events"),
        (json!({ "name": "" }), "/name"),
        (json!({ "status": "deleted" }), "/status"),
        (json!({ "secret": "whsec_mine" }), "/secret"),
    ] {
        let refused = server.patch(&path, &bad, &[]).await;
        assert_eq!(
            (refused.status, &refused.json()["path"]),
            (400, &json!(place)),
            "{bad}: {}",
            refused.text()
        );
    }
    let emptied = server.patch(&path, &json!({ "description": "" }), &[]).await.json();
    assert_eq!(emptied["description"], Value::Null);
    let other = json!({ "name": "other", "url": "https://example.com/", "events": ["run.failed"] });
    assert_eq!(server.post(SUBSCRIPTIONS, &other, &[]).await.status, 201);
    let taken = server.patch(&path, &json!({ "name": "other" }), &[]).await;
    assert_eq!(taken.told(), (409, "name_taken".into()));
}

/// RELIABILITY, HTTP: an invalid request is rejected with its place, and nothing is stored.
#[tokio::test]
async fn an_invalid_subscription_is_rejected_with_the_place_of_the_error() {
    let server = TestServer::memory().await;
    let fine = json!({ "name": "a", "url": "https://example.com/", "events": ["run.failed"] });
    let bad = [
        (json!({ "name": "" }), "name"),
        (json!({ "name": "n".repeat(129) }), "name"),
        (json!({ "url": format!("https://example.com/{}", "u".repeat(2_048)) }), "url"),
        (json!({ "events": [] }), "events"),
        (json!({ "events": vec!["run.failed"; 17] }), "events"),
        (json!({ "events": ["run.started"] }), "events"),
        (json!({ "events": "run.failed" }), "events"),
        (json!({ "description": "" }), "description"),
        (json!({ "description": "d".repeat(1_025) }), "description"),
        (json!({ "secret": "whsec_mine" }), "secret"),
        (json!({ "status": "disabled" }), "status"),
    ];
    for (change, field) in bad {
        let mut asked = fine.clone();
        asked.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let refused = server.post(SUBSCRIPTIONS, &asked, &[]).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{asked}: {}", refused.text());
        let named = refused.json()["path"].as_str().unwrap_or_default().to_owned();
        assert!(named.contains(field) || refused.text().contains(field), "{asked}: {}", refused.text());
    }
    assert_eq!(server.get(SUBSCRIPTIONS).await.json()["items"], json!([]));
    let (id, _) = subscribe(&server, "https://example.com/", &["run.failed"]).await;
    let overlap = json!({ "overlap": "31d" });
    let refused = server.post(&format!("{SUBSCRIPTIONS}/{id}/rotate"), &overlap, &[]).await;
    assert_eq!((refused.status, refused.json()["path"].clone()), (400, json!("/overlap")));
    for made in 1..50 {
        let asked =
            json!({ "name": format!("n{made}"), "url": "https://example.com/", "events": ["run.failed"] });
        assert_eq!(server.post(SUBSCRIPTIONS, &asked, &[]).await.status, 201);
    }
    let refused = server.post(SUBSCRIPTIONS, &fine, &[]).await;
    assert_eq!(refused.told(), (429, "quota_exceeded".into()));
}

/// While a secret is rotated both sign, so a receiver with either is served.
#[tokio::test]
async fn while_a_secret_is_rotated_both_sign() {
    let ((server, clock), receiver) = (TestServer::timed().await, Receiver::start().await);
    let (id, old) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let path = format!("{SUBSCRIPTIONS}/{id}/rotate");
    let rotated = server.post(&path, &json!({ "overlap": "1h" }), &[]).await.json();
    let new = rotated["secret"].as_str().unwrap().to_owned();
    assert!(rotated["subscription"]["oldSecretUntil"].is_string(), "{rotated}");
    let signs = async |count: usize| {
        end_a_run(&server).await;
        let received = receiver.until(count).await.remove(count - 1);
        [&old, &new].map(|secret| received.is_signed_with(secret))
    };
    assert_eq!(signs(1).await, [true, true]);
    clock.advance(Duration::from_secs(3_601));
    assert_eq!(signs(2).await, [false, true]);
    let at_once = server.post(&path, &json!({ "overlap": "0s" }), &[]).await.json();
    assert_eq!(at_once["subscription"]["oldSecretUntil"], Value::Null);
    assert_eq!(signs(3).await, [false, false], "a rotation without overlap ends the old one at once");
}

#[tokio::test]
async fn a_test_is_sent_now_and_counts_for_nothing() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (id, secret) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let path = format!("{SUBSCRIPTIONS}/{id}/test");
    let tested = server.post(&path, &json!({}), &[]).await.json();
    assert_eq!((&tested["delivered"], &tested["responseStatus"]), (&json!(true), &json!(204)), "{tested}");
    let ping = receiver.until(1).await.remove(0);
    standardwebhooks::Webhook::new(&secret).unwrap().verify(&ping.body, &ping.headers).unwrap();
    assert_eq!(ping.header("webhook-id"), tested["webhookId"].as_str().unwrap());
    assert_eq!(ping.json()["type"], "test.ping");
    receiver.plan(410, &[]);
    let tested = server.post(&path, &json!({}), &[]).await.json();
    assert_eq!((&tested["delivered"], &tested["responseStatus"]), (&json!(false), &json!(410)), "{tested}");
    assert!(tested["detail"].as_str().unwrap().contains("410"), "{tested}");
    assert_eq!(server.get(&format!("{SUBSCRIPTIONS}/{id}")).await.json()["status"], "enabled");
    assert_eq!(server.get(DELIVERIES).await.json()["items"], json!([]));
}

/// Waiting deliveries of a disabled subscription are given up, visibly; none waits without end.
#[tokio::test]
async fn what_waits_for_a_disabled_subscription_is_given_up_with_the_reason() {
    let ((server, clock), receiver) = (TestServer::timed().await, Receiver::start().await);
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.usually(500);
    end_a_run(&server).await;
    until_post(&server, "it waits", |post| post.failure.is_some()).await;
    server
        .patch(
            &format!("{SUBSCRIPTIONS}/{id}"),
            &json!({ "status": "disabled", "reason": "moving house" }),
            &[],
        )
        .await;
    clock.advance(Duration::from_secs(60));
    let dead = until_post(&server, "it is given up", |post| post.state.status() == OutboxStatus::Dead).await;
    assert_eq!(dead.failure.unwrap().message(), "the subscription is disabled: moving house");
    assert_eq!(receiver.received().len(), 1);
}

/// Waiting deliveries of a deleted subscription are given up too. Days later, when none can be
/// left, the node stops looking for them.
#[tokio::test]
async fn a_deleted_subscription_is_served_until_nothing_can_wait_for_it() {
    let ((server, clock), receiver) = (TestServer::timed().await, Receiver::start().await);
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.usually(500);
    end_a_run(&server).await;
    until_post(&server, "it waits", |post| post.failure.is_some()).await;
    server.delete(&format!("{SUBSCRIPTIONS}/{id}"), &[]).await;
    clock.advance(Duration::from_secs(60));
    let dead = until_post(&server, "it is given up", |post| post.state.status() == OutboxStatus::Dead).await;
    assert_eq!(dead.failure.unwrap().message(), "the subscription is deleted");
    let is_free = || {
        let nobody = |_: Delivery, _: Value| async { Ok::<_, Failure>(()) };
        server.engine.register_target(&format!("webhook.{id}"), nobody).is_ok()
    };
    assert!(!is_free());
    clock.advance(Duration::from_secs(4 * 86_400));
    let since = std::time::Instant::now();
    while !is_free() {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let shown = server.get(&format!("{DELIVERIES}?subscription={id}")).await.json();
    assert_eq!(shown["items"].as_array().unwrap().len(), 1, "its deliveries are still told");
}

/// A subscription created on one node takes effect on the others within five seconds.
#[tokio::test]
async fn a_subscription_made_on_one_node_is_told_by_another() {
    let (server, receiver) = (TestServer::postgres().await, Receiver::start().await);
    let node = server.another_node().await;
    let (id, secret) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let since = std::time::Instant::now();
    let told = async |node: &TestServer| {
        let echo = node.echo().await;
        let run = node.start(&echo, json!({})).await;
        node.end(&run).await;
        acme(node).list_after_effects(None, None, 100).await.unwrap().len()
    };
    // Any node may drive the run, and every ended run must be announced.
    while told(&node).await == 0 {
        assert!(since.elapsed() < Duration::from_secs(5), "a change counts everywhere within five seconds");
    }
    let received = receiver.until(1).await.remove(0);
    assert!(received.is_signed_with(&secret));
    server.delete(&format!("{SUBSCRIPTIONS}/{id}"), &[]).await;
    let since = std::time::Instant::now();
    loop {
        let before = acme(&node).list_after_effects(None, None, 100).await.unwrap().len();
        if told(&node).await == before {
            break;
        }
        assert!(since.elapsed() < PATIENCE);
    }
}

/// A server with the operator's key seals with it, and still opens secrets that were sealed
/// earlier.
#[tokio::test]
async fn secrets_sealed_with_an_older_key_are_still_opened() {
    let receiver = Receiver::start().await;
    let server = TestServer::memory().await;
    let (id, secret) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let sealing_keys = vec![SealingKey::from_secret(&[7; 32]).unwrap()];
    let setup = Setup { sealing_keys, ..Setup::default() };
    let kept = super::support::StoreKind::Elsewhere;
    let next = TestServer::over(server.store.clone(), kept, setup).await;
    let test = async |server: &TestServer| {
        server.post(&format!("{SUBSCRIPTIONS}/{id}/test"), &json!({}), &[]).await.json()
    };
    assert_eq!(test(&next).await["delivered"], true);
    let rotated = next.post(&format!("{SUBSCRIPTIONS}/{id}/rotate"), &json!({}), &[]).await.json();
    assert_eq!(test(&next).await["delivered"], true);
    let last = receiver.until(2).await.remove(1);
    assert!(last.is_signed_with(&secret) && last.is_signed_with(rotated["secret"].as_str().unwrap()));
    // A server without the key reports that, and sends nothing.
    let tested = test(&server).await;
    assert_eq!(tested["delivered"], false);
    assert!(tested["detail"].as_str().unwrap().contains("cannot be opened"), "{tested}");
    assert_eq!(receiver.received().len(), 2);
    let viewer = server.key("acme", Role::Viewer).await;
    let refused = server.send("POST", SUBSCRIPTIONS, Some("{}".into()), &viewer, &[]).await;
    assert_eq!(refused.told(), (403, "forbidden".into()));
}
