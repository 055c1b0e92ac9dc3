//! Each preset, from the signed bytes to the actions.

use std::time::{Duration, UNIX_EPOCH};

use hapax_engine::Engine;
use hapax_engine::model::WorkspaceId;
use hapax_webhooks::{MessageId, SigningSecret, sign};
use serde_json::{Value, json};

use super::shop::{STRIPE_SOURCE, Shop, acme, told};
use super::signing::{STANDARD_SECRET, STRIPE, Webhook, carrier, github, shopify, slack, standard, stripe};

const GITHUB: &str = include_str!("../../../documents/examples/sources/github.yaml");
const SHOPIFY: &str = include_str!("../../../documents/examples/sources/shopify.yaml");
const SLACK: &str = include_str!("../../../documents/examples/sources/slack.yaml");
const CARRIER: &str = include_str!("../../../documents/examples/sources/hmac.yaml");

/// A document that gives back its input.
fn echo(name: &str, version: u32) -> Value {
    json!({
        "name": name, "version": version,
        "steps": [{ "name": "say", "type": "task", "task": "echo", "input": "{{ input }}" }],
    })
}

/// The only run and its input.
async fn only_run(shop: &Shop) -> Value {
    let runs = shop.server.get("/api/v1/workflow-runs").await.json();
    let runs = runs["items"].as_array().unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    shop.server.get(&format!("/api/v1/workflow-runs/{}", runs[0]["id"].as_str().unwrap())).await.json()
}

fn engine_of(shop: &Shop, workspace: WorkspaceId) -> Engine {
    shop.server.engine.workspace(workspace)
}

#[tokio::test]
async fn stripe_settles_the_promise_of_a_charge_by_either_secret_and_rejects_what_failed() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let (paid, failed) = (shop.order("ch_1").await, shop.order("ch_2").await);
    let old = stripe(&super::shop::payment("evt_1", "ch_1"), "whsec_that_is_old", shop.now());
    assert_eq!(told(&shop.send(&path, &old).await), (200, "applied".into()));
    assert_eq!(paid.result::<u64>().await.unwrap(), 4200);
    let declined = json!({
        "id": "evt_2", "type": "charge.failed",
        "data": { "object": { "id": "ch_2", "failure_message": "Your card was declined.", "failure_code": "card_declined" } },
    });
    let declined = stripe(&declined, STRIPE, shop.now());
    assert_eq!(told(&shop.send(&path, &declined).await), (200, "applied".into()));
    let error = failed.result::<u64>().await.unwrap_err().to_string();
    assert!(error.contains("Your card was declined."), "{error}");
    let other = json!({ "id": "evt_3", "type": "customer.created", "data": {} });
    assert_eq!(told(&shop.send(&path, &stripe(&other, STRIPE, shop.now())).await), (200, "ignored".into()));
}

#[tokio::test]
async fn github_starts_a_roll_out() {
    let shop = Shop::open().await;
    shop.server.upload(&echo("roll-out", 1)).await;
    let path = shop.source(GITHUB).await;
    let secret = "It's a Secret to Everybody";
    let release = json!({
        "action": "published", "release": { "tag_name": "v1.2" }, "repository": { "full_name": "acme/shop" },
    });
    let push = github(&json!({ "ref": "refs/heads/main" }), secret, "push", "d-0");
    assert_eq!(told(&shop.send(&path, &push).await), (200, "ignored".into()));
    let first = github(&release, secret, "release", "d-1");
    assert_eq!(told(&shop.send(&path, &first).await), (200, "applied".into()));
    // A delivery of another webhook reports the same release.
    let second = github(&release, secret, "release", "d-2");
    assert_eq!(told(&shop.send(&path, &second).await), (200, "applied".into()));
    let run = only_run(&shop).await;
    assert_eq!(run["run"]["idempotencyKey"], "release:acme/shop:v1.2");
    assert_eq!(run["run"]["input"], json!({ "repository": "acme/shop", "tag": "v1.2" }));
}

#[tokio::test]
async fn shopify_starts_an_order_and_signals_its_run_by_key() {
    let shop = Shop::open().await;
    let waits =
        json!({ "name": "ship-order", "version": 2, "steps": [{ "name": "cancelled", "type": "signal" }] });
    shop.server.upload(&waits).await;
    let path = shop.source(SHOPIFY).await;
    let cancelled = json!({ "id": 7, "financial_status": "paid", "cancelled_at": "2026-01-01", "cancel_reason": "fraud" });
    let cancelled = shopify(&cancelled, "shpss_of_the_tests_1", "orders/cancelled", "e-2");
    assert_eq!(
        told(&shop.send(&path, &cancelled).await),
        (200, "unmatched".into()),
        "no run has the key yet"
    );
    let paid = shopify(
        &json!({ "id": 7, "financial_status": "paid", "cancelled_at": null, "line_items": [{ "sku": "a" }, { "sku": "b" }] }),
        "shpss_of_the_tests_1",
        "orders/paid",
        "e-1",
    );
    assert_eq!(told(&shop.send(&path, &paid).await), (200, "applied".into()));
    // An attacker who captured it can send it under another id and topic; the body is signed, and
    // decides.
    let mut captured = paid.clone();
    captured.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-shopify-event-id"));
    captured.headers.push(("x-shopify-event-id", "e-3".into()));
    assert_eq!(told(&shop.send(&path, &captured).await), (200, "applied".into()));
    let run = only_run(&shop).await;
    assert_eq!(run["run"]["input"], json!({ "order": 7, "lines": ["a", "b"] }));
    let again =
        shop.server.post("/api/v1/webhook-events/shopify-orders/e-2/reprocess", &json!({}), &[]).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("applied")), "{}", again.text());
    let ended = shop.server.end(run["run"]["id"].as_str().unwrap()).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
}

#[tokio::test]
async fn slack_is_answered_its_challenge_and_starts_an_answer() {
    let shop = Shop::open().await;
    shop.server.upload(&echo("answer-mention", 1)).await;
    let path = shop.source(SLACK).await;
    let secret = "8f742231b10e8888abcd99yyyzzz85a5";
    let asks = json!({ "type": "url_verification", "challenge": "3eZbrw1aB" });
    let answered = shop.send(&path, &slack(&asks, secret, shop.now())).await;
    assert_eq!((answered.status, answered.json()), (200, json!({ "challenge": "3eZbrw1aB" })));
    let stranger = shop.send(&path, &slack(&asks, "guess", shop.now())).await;
    assert_eq!(stranger.status, 401, "strangers are not told that somebody is there");
    assert!(shop.events().await.is_empty());
    let mention = json!({
        "type": "event_callback", "event_id": "Ev1", "event": { "type": "app_mention", "channel": "C1", "text": "hi" },
    });
    let mention = slack(&mention, secret, shop.now());
    assert_eq!(told(&shop.send(&path, &mention).await), (200, "applied".into()));
    let run = only_run(&shop).await;
    assert_eq!(run["run"]["input"], json!({ "channel": "C1", "text": "hi", "event": "Ev1" }));
}

#[tokio::test]
async fn a_provider_without_a_preset_signals_the_run_that_asked_it() {
    let shop = Shop::open().await;
    let waits =
        json!({ "name": "ship", "version": 1, "steps": [{ "name": "parcel-moved", "type": "signal" }] });
    let ship = shop.server.upload(&waits).await;
    let path = shop.source(CARRIER).await;
    let run = shop.server.start(&ship, json!({})).await;
    let moved = |event: &str, run: &str| {
        carrier(
            &json!({ "reference": run, "event": { "id": event, "at": "depot" } }),
            "secret-of-the-carrier",
        )
    };
    assert_eq!(told(&shop.send(&path, &moved("e-1", &run)).await), (200, "applied".into()));
    let ended = shop.server.end(&run).await;
    assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
    assert_eq!(told(&shop.send(&path, &moved("e-2", &run)).await), (200, "failed".into()), "it has ended");
    let nobodys = format!("run_{:032x}", 7);
    assert_eq!(told(&shop.send(&path, &moved("e-3", &nobodys)).await), (200, "unmatched".into()));
    assert_eq!(told(&shop.send(&path, &moved("e-4", "parcel 9")).await), (200, "unmatched".into()));
}

/// Issue 6: what the official `standardwebhooks` crate signs we accept.
#[tokio::test]
async fn what_the_official_crate_of_standard_webhooks_signs_is_accepted() {
    let shop = Shop::open().await;
    let yaml = "{ name: std, preset: standard-webhooks, secrets: ['secret://standard'], \
                actions: [{ settle: { key: 'std:{{ body.order }}', value: '{{ body.total }}' } }] }";
    let path = shop.source(yaml).await;
    let engine = engine_of(&shop, acme());
    let key = Some("std:9".to_owned());
    let _ =
        engine.create_promise(hapax_engine::runtime::NewPromise { key, ..Default::default() }).await.unwrap();
    let paid = standard(&json!({ "order": 9, "total": 12 }), STANDARD_SECRET, "msg_1", shop.now());
    assert_eq!(told(&shop.send(&path, &paid).await), (200, "applied".into()));
    let by_name = shop.send("/api/v1/webhooks/acme/std", &paid).await;
    assert_eq!(told(&by_name), (200, "duplicate".into()), "the other address is the same source");
    let other = shop.server.key("globex", super::support::Role::Admin).await;
    let seen = shop.server.send("GET", "/api/v1/webhook-events/std/msg_1", None, &other, &[]).await;
    assert_eq!(seen.status, 404, "another workspace sees nothing");
}

/// RELIABILITY, webhooks: Ed25519. The public key of a source cannot sign webhooks.
#[tokio::test]
async fn a_sender_that_signs_with_a_private_key_is_known_by_its_public_one() {
    let shop = Shop::open().await;
    shop.server.upload(&echo("told", 1)).await;
    let path = shop
        .source("{ name: signed, preset: standard-webhooks, secrets: ['secret://standard-public'], actions: [{ start: { workflow: told } }] }")
        .await;
    let private =
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(shop.now().as_millis()).unwrap());
    let signed_with = |secret: &str, id: &str| {
        let secret = SigningSecret::parse(secret).unwrap();
        let signed = sign(&[secret], &MessageId::new(id).unwrap(), now, b"{}").unwrap();
        let headers = vec![
            ("webhook-id", signed.id.to_string()),
            ("webhook-timestamp", signed.timestamp.to_string()),
            ("webhook-signature", signed.signature),
        ];
        Webhook { headers, body: b"{}".to_vec() }
    };
    assert_eq!(told(&shop.send(&path, &signed_with(private, "msg_1")).await), (200, "applied".into()));
    let forged = signed_with("whsec_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "msg_2");
    assert_eq!(shop.send(&path, &forged).await.told(), (401, "webhook_signature_invalid".into()));
}
