//! An unverified or unreadable webhook leaves no trace, and strangers learn nothing.

use std::time::Duration;

use hapax_engine::Failure;
use serde_json::{Value, json};

use super::shop::{SOURCES, STRIPE_SOURCE, Shop, payment, send_by, told};
use super::signing::{STRIPE, Webhook, stripe, stripe_text};
use super::support::{Answer, Role};

const CARRIER: &str = include_str!("../../../documents/examples/sources/hmac.yaml");

/// Content of a response, without the parts that differ per request.
fn said(answer: &Answer) -> Value {
    let mut said = answer.json();
    said["traceId"] = Value::Null;
    said
}

/// Issue 6, must hold: wrong signature, stale timestamp, altered byte, foreign source, 10 MiB, bad JSON: 4xx, nothing stored.
/// CONTRACT §9: unsigned is 401.
#[tokio::test]
async fn unverified_webhooks_get_one_response_and_are_not_stored() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let foreign = shop.source(CARRIER).await;
    let nobody_knows =
        "{ name: bare, preset: stripe, secrets: ['secret://nobody'], actions: [{ start: { workflow: w } }] }";
    let without_secret = shop.source(nobody_knows).await;
    let good = shop.paid("evt_1", "ch_1");
    let unsigned = Webhook { headers: Vec::new(), ..good.clone() };
    let mut altered = good.clone();
    *altered.body.iter_mut().find(|byte| **byte == b'4').unwrap() = b'9';
    let mut twice = good.clone();
    twice.headers.push(good.headers[0].clone());
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let stale = stripe(&payment("evt_1", "ch_1"), STRIPE, shop.now().minus(minutes(6)));
    let early = stripe(&payment("evt_1", "ch_1"), STRIPE, shop.now().plus(minutes(6)));
    let wrong = stripe(&payment("evt_1", "ch_1"), "whsec_guess", shop.now());
    let cases = [
        ("unknown id", format!("/api/v1/webhooks/whk_{}", "0".repeat(32)), &good),
        ("no id at all", "/api/v1/webhooks/x".into(), &good),
        ("unknown name", "/api/v1/webhooks/acme/other".into(), &good),
        ("unknown workspace", "/api/v1/webhooks/nowhere/stripe-payments".into(), &good),
        ("foreign source", foreign, &good),
        ("missing secret", without_secret, &good),
        ("unsigned", path.clone(), &unsigned),
        ("wrong signature", path.clone(), &wrong),
        ("altered byte", path.clone(), &altered),
        ("two signatures", path.clone(), &twice),
        ("stale", path.clone(), &stale),
        ("from the future", path.clone(), &early),
    ];
    let mut first = None;
    for (number, (what, path, webhook)) in cases.iter().enumerate() {
        let client = shop.server.client_at(u8::try_from(number + 1).unwrap());
        let answer = send_by(&shop.server, &client, path, webhook).await;
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        assert_eq!(answer.code(), "webhook_signature_invalid", "{what}");
        assert_eq!(said(&answer), *first.get_or_insert(said(&answer)), "{what}");
    }
    // The provider must correct a signed but unreadable body.
    let bad_json = stripe_text("{\"id\": \"evt_1\",}", STRIPE, shop.now());
    let no_id = stripe(&json!({ "type": "charge.succeeded" }), STRIPE, shop.now());
    assert_eq!(shop.send(&path, &bad_json).await.told(), (400, "invalid_json".into()));
    assert_eq!(shop.send(&path, &no_id).await.told(), (400, "invalid_request".into()));
    assert!(shop.events().await.is_empty());
    assert_eq!(told(&shop.send(&path, &good).await).0, 200, "the good one is as good as ever");
}

/// A well-signed event is never rejected because of a server error: not if the secret cannot be
/// read (no free file descriptors), not if it is not on this node yet, and not if only one of
/// several cannot be read.
#[tokio::test]
async fn a_webhook_whose_secret_cannot_be_read_is_asked_to_come_again() {
    let (shop, safe) = Shop::with_safe().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let good = shop.paid("evt_1", "ch_1");
    let wrong = stripe(&payment("evt_1", "ch_1"), "whsec_guess", shop.now());
    let old = stripe(&payment("evt_2", "ch_2"), "whsec_that_is_old", shop.now());
    let no_descriptors = || Failure::retryable("Too many open files (os error 24)");
    let absent = || Failure::retryable("there is no such secret").with_code("unknown_secret");
    let asked_again = async |webhook: &Webhook, when: &str| {
        let answer = shop.send(&path, webhook).await;
        assert_eq!(answer.told(), (503, "secret_unavailable".into()), "{when}: {}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("5"), "{when}");
    };
    for why in [no_descriptors(), absent()] {
        safe.jam("stripe-webhook", why.clone());
        safe.jam("stripe-webhook-old", why.clone());
        for _ in 0..25 {
            asked_again(&good, "none can be had").await;
        }
        asked_again(&wrong, "nobody can tell").await;
    }
    safe.mend();
    safe.jam("stripe-webhook", no_descriptors());
    asked_again(&good, "it may be signed with the one that cannot be read").await;
    assert_eq!(shop.send(&path, &old).await.status, 200, "signed with the one that can");
    safe.mend();
    safe.jam("stripe-webhook-old", absent());
    let refused = shop.send(&path, &wrong).await;
    assert_eq!(
        refused.told(),
        (401, "webhook_signature_invalid".into()),
        "one of two was taken away on purpose"
    );
    assert_eq!(shop.send(&path, &good).await.status, 200);
    assert_eq!(shop.events().await.len(), 2);
}

/// A source that another node has just stored is found, and a failed lookup is a server error.
#[tokio::test]
async fn a_source_that_this_node_has_not_heard_of_is_looked_for_in_the_store() {
    let (shop, store) = Shop::planned().await;
    store.set_away(true);
    for path in ["/api/v1/webhooks/whk_00000000000000000000000000000000", "/api/v1/webhooks/acme/other"] {
        let answer = shop.send(path, &shop.paid("evt_1", "ch_1")).await;
        assert_eq!(answer.told(), (503, "store_unavailable".into()), "{path}: {}", answer.text());
        assert!(answer.header("retry-after").is_some());
    }
    store.set_away(false);
    let unknown = shop.send("/api/v1/webhooks/acme/other", &shop.paid("evt_1", "ch_1")).await;
    assert_eq!(unknown.told(), (401, "webhook_signature_invalid".into()));
}

/// RELIABILITY, tenancy: a source names secrets of its own workspace, so a tenant cannot use
/// webhooks that another one signs.
#[tokio::test]
async fn a_source_of_another_workspace_does_not_use_the_secrets_of_this_one() {
    let shop = Shop::open().await;
    let own = shop.source(STRIPE_SOURCE).await;
    let globex = shop.server.key("globex", Role::Admin).await;
    let yaml = [("content-type", "application/yaml")];
    let made = shop.server.send("POST", SOURCES, Some(STRIPE_SOURCE.into()), &globex, &yaml).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let foreign = made.json()["path"].as_str().unwrap().to_owned();
    let paid = shop.paid("evt_1", "ch_1");
    let refused = shop.send(&foreign, &paid).await;
    assert_eq!(refused.told(), (401, "webhook_signature_invalid".into()), "{}", refused.text());
    assert_eq!(shop.send(&own, &paid).await.status, 200);
}

/// Issue 6, must hold: a body of 10 MiB is 413, for every sender.
#[tokio::test]
async fn a_body_of_ten_mebibytes_is_refused_and_nothing_is_stored() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let large = json!({ "id": "evt_1", "type": "charge.succeeded", "pad": "x".repeat(10 << 20) });
    let large = stripe(&large, STRIPE, shop.now());
    // The server may answer before the client has sent everything, and the client may not see it;
    // then the test sends only a head.
    let declared = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nstripe-signature: {}\r\ncontent-length: {}\r\n\r\n",
        large.headers[0].1,
        large.body.len()
    );
    let answer = raw(&shop, &declared).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("payload_too_large"), "{answer}");
    let just_over = json!({ "id": "evt_2", "type": "charge.succeeded", "pad": "x".repeat(1 << 20) });
    let refused = shop.send(&path, &stripe(&just_over, STRIPE, shop.now())).await;
    assert_eq!(refused.status, 413, "{}", refused.text());
    // Sent like Python's clients do; it makes no difference if the source exists.
    for path in [&path, "/api/v1/webhooks/acme/other"] {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/oversized_bodies.py");
        let port = shop.server.address.port().to_string();
        let mut python = tokio::process::Command::new("python3");
        let output = python.args([script, "127.0.0.1", &port, path, "10485760"]).output().await.unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told} {}", String::from_utf8_lossy(&output.stderr));
        assert!(told.lines().all(|line| line.ends_with(" 413 payload_too_large")), "{told}");
        assert!(told.lines().count() >= 3, "{told}");
    }
    assert!(shop.events().await.is_empty());
}

async fn raw(shop: &Shop, head: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(shop.server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&read).contains("payload_too_large") {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// RELIABILITY, webhooks in: a sender with too many failures must wait; well-signed webhooks are
/// not delayed.
#[tokio::test]
async fn too_many_failures_delay_a_sender_but_no_valid_webhook() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let wrong = stripe(&payment("evt_1", "ch_1"), "whsec_guess", shop.now());
    let mut answers = Vec::new();
    for _ in 0..25 {
        answers.push(shop.send(&path, &wrong).await.status);
    }
    assert_eq!(answers.iter().filter(|status| **status == 401).count(), 20, "{answers:?}");
    assert!(answers[20..].iter().all(|status| *status == 429), "{answers:?}");
    assert_eq!(shop.send(&path, &shop.paid("evt_1", "ch_1")).await.status, 200);
}

/// A disabled source looks to strangers, and to its provider, as if it did not exist.
#[tokio::test]
async fn a_disabled_source_rejects_everything_until_it_is_enabled() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let steer = async |status: &str| {
        let change = json!({ "status": status, "reason": "moved" });
        let answer = shop.server.patch(&format!("{SOURCES}/stripe-payments"), &change, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let disabled = steer("disabled").await;
    assert_eq!((&disabled["status"], &disabled["reason"]), (&json!("disabled"), &json!("moved")));
    let refused = shop.send(&path, &shop.paid("evt_1", "ch_1")).await;
    assert_eq!(refused.told(), (401, "webhook_signature_invalid".into()));
    assert!(shop.events().await.is_empty());
    let enabled = steer("enabled").await;
    assert_eq!((&enabled["status"], &enabled["reason"]), (&json!("enabled"), &Value::Null));
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "unmatched".into()));
}

/// Only the log and the metrics contain the reason. CONTRACT §11.
#[tokio::test]
async fn rejected_and_accepted_webhooks_are_counted() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let stale = stripe(&payment("evt_1", "ch_1"), STRIPE, shop.now().minus(Duration::from_secs(3600)));
    shop.send(&path, &stale).await;
    shop.send("/api/v1/webhooks/whk_none", &stale).await;
    let paid = shop.paid("evt_1", "ch_1");
    shop.send(&path, &paid).await;
    shop.send(&path, &paid).await;
    let watcher = shop.server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
    let text = shop.server.send("GET", "/metrics", None, &watcher, &[]).await.text();
    for line in [
        "hapax_webhooks_refused_total{reason=\"stale\"} 1",
        "hapax_webhooks_refused_total{reason=\"unknown_source\"} 1",
        "hapax_webhooks_refused_total{reason=\"no_match\"} 0",
        "hapax_webhook_events_total{workspace=\"acme\",source=\"stripe-payments\",status=\"unmatched\"} 1",
        "hapax_webhook_events_total{workspace=\"acme\",source=\"stripe-payments\",status=\"duplicate\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
