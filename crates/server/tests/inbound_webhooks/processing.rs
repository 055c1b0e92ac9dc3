//! Processing of events: early, late, repeated, after a crash, and by hand.

use std::time::Duration;

use hapax_engine::model::{InboundEventId, Name, Payload};
use hapax_engine::store::{NewInboundEvent, ReceiveOutcome};
use serde_json::{Value, json};

use super::shop::{EVENTS, SOURCES, STRIPE_SOURCE, Shop, acme, payment, told};
use super::signing::{STRIPE, stripe};
use super::support::{Setup, StoreKind, TestServer};

/// Longer than the receiving task needs to process a webhook.
const LATER: Duration = Duration::from_secs(11);
/// How long the key of a promise lives once that is settled.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// G4.1, CONTRACT §7: a webhook that comes before its promise is kept, seen, and used when the promise is made.
#[tokio::test]
async fn a_webhook_that_comes_early_is_kept_for_its_promise_and_used_once() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let early = shop.send(&path, &shop.paid("evt_1", "ch_1")).await;
    assert_eq!(told(&early), (200, "unmatched".into()));
    let events = shop.events().await;
    let said = events[0]["outcome"]["actions"][0]["detail"].as_str().unwrap();
    assert!(said.contains("kept for it until 2026-01-05T12:00:00"), "{said}");
    let run = shop.order("ch_1").await;
    assert_eq!(run.result::<u64>().await.unwrap(), 4200);
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "duplicate".into()));
    // Stripe reports the same charge by another event: the promise already has this settlement.
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_2", "ch_1")).await), (200, "applied".into()));
    assert_eq!(shop.packed(), 1);
}

/// An event whose receiver stored it and died.
async fn left_behind(shop: &Shop, event: &str, charge: &str) {
    let source = Name::new("source", "stripe-payments").unwrap();
    let id = InboundEventId { workspace: acme(), source, event: event.into() };
    let headers = Payload::of(&json!({})).unwrap();
    let new = NewInboundEvent { id, headers, body: payment(event, charge).to_string().into() };
    let book = shop.server.store.webhook_store().unwrap();
    assert!(matches!(book.receive_event(new).await.unwrap(), ReceiveOutcome::New(_)));
}

/// RELIABILITY, lesson 12: if a process dies between storing an event and its actions, other nodes
/// finish the work.
#[tokio::test]
async fn an_event_whose_taker_died_before_processing_it_is_swept_up() {
    let shop = Shop::open().await;
    shop.source(STRIPE_SOURCE).await;
    let run = shop.order("ch_1").await;
    left_behind(&shop, "evt_1", "ch_1").await;
    assert_eq!(shop.server.server.sweep_webhooks().await.unwrap(), 0, "whoever took it in may be at it");
    shop.clock.advance(LATER);
    shop.server.server.sweep_webhooks().await.unwrap();
    assert_eq!(shop.events().await[0]["status"], "applied");
    assert_eq!(run.result::<u64>().await.unwrap(), 4200);
    assert_eq!(shop.packed(), 1);
}

/// The same for a crash after the action and before its record: the action is repeated and has one
/// effect.
#[tokio::test]
async fn a_crash_between_the_effect_and_its_record_makes_no_second_effect() {
    let (shop, store) = Shop::planned().await;
    let pack = json!({ "name": "pack", "version": 1, "steps": [{ "name": "pack", "type": "task", "task": "pack" }] });
    shop.server.upload(&pack).await;
    let waits = json!({ "name": "waits", "version": 1, "steps": [{ "name": "told", "type": "signal" }] });
    let waits = shop.server.upload(&waits).await;
    let waiting = shop.server.start(&waits, json!({})).await;
    let yaml = format!(
        "{{ name: all, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [\
           {{ start: {{ workflow: pack }} }}, \
           {{ signal: {{ run: {waiting}, name: told, payload: 1 }} }}, \
           {{ settle: {{ key: 'stripe:{{{{ body.data.object.id }}}}', value: '{{{{ body.data.object }}}}' }} }}] }}"
    );
    let path = shop.source(&yaml).await;
    let run = shop.order("ch_1").await;
    store.lose_outcomes(true);
    let taken = shop.send(&path, &shop.paid("evt_1", "ch_1")).await;
    assert_eq!(told(&taken), (202, "received".into()), "it is durable, and nothing more is known");
    assert_eq!(run.result::<u64>().await.unwrap(), 4200, "what it asks for was done all the same");
    store.lose_outcomes(false);
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "duplicate".into()));
    shop.clock.advance(LATER);
    shop.server.server.sweep_webhooks().await.unwrap();
    let event = shop.events().await[0].clone();
    assert_eq!(event["status"], "applied", "{event}");
    let details: Vec<_> = event["outcome"]["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|action| action["detail"].clone())
        .collect();
    assert_eq!(details, ["it was started before", "it was sent before", "it already had this settlement"]);
    let runs = shop.server.get("/api/v1/workflow-runs").await.json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 3, "{runs}");
    for run in runs["items"].as_array().unwrap() {
        let ended = shop.server.end(run["id"].as_str().unwrap()).await;
        assert_eq!(ended["run"]["status"], "COMPLETED", "{ended}");
    }
    assert_eq!(shop.packed(), 2, "one by the order, one by the run that the event started");
}

/// Events that always meet a broken store do not block later ones, and fail in the end with a
/// reason.
#[tokio::test]
async fn events_that_cannot_be_processed_are_put_off_and_given_up_and_are_in_nobodys_way() {
    let (shop, _store) = Shop::planned().await;
    let path = shop.source(STRIPE_SOURCE).await;
    for number in 0..55 {
        let broken = shop.send(&path, &shop.paid(&format!("evt_{number:02}"), "ch_broken")).await;
        assert_eq!(told(&broken), (202, "received".into()));
    }
    shop.order("ch_1").await;
    left_behind(&shop, "evt_last", "ch_1").await;
    shop.clock.advance(LATER);
    for _ in 0..2 {
        shop.server.server.sweep_webhooks().await.unwrap();
    }
    assert_eq!(shop.events().await[0]["status"], "applied", "the one behind them is processed");
    let first = shop.server.get(&format!("{EVENTS}/stripe-payments/evt_00")).await.json();
    assert_eq!((&first["status"], &first["attempts"]), (&json!("received"), &json!(1)), "{first}");
    let attempts = async || {
        let events = shop.events().await;
        events.iter().map(|event| event["attempts"].as_u64().unwrap()).sum::<u64>()
    };
    let before = attempts().await;
    shop.server.server.sweep_webhooks().await.unwrap();
    assert_eq!(attempts().await, before, "they are not tried again at once");
    for _ in 0..20 {
        shop.clock.advance(Duration::from_secs(600));
        for _ in 0..2 {
            shop.server.server.sweep_webhooks().await.unwrap();
        }
    }
    let events = shop.events().await;
    let failed = events.iter().filter(|event| event["status"] == "failed").count();
    assert_eq!((events.len(), failed), (56, 55), "{events:?}");
    let said = events.last().unwrap()["outcome"]["detail"].as_str().unwrap();
    assert!(said.contains("18 times") && said.contains("store"), "{said}");
}

/// Two nodes that take up the same event do one thing.
#[tokio::test]
async fn two_nodes_that_sweep_at_once_do_it_once() {
    let (shop, store) = Shop::planned().await;
    let pack = json!({ "name": "pack", "version": 1, "steps": [{ "name": "pack", "type": "task", "task": "pack" }] });
    shop.server.upload(&pack).await;
    let path = shop
        .source("{ name: s, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: pack } }] }")
        .await;
    let setup = Setup {
        services: super::shop::services(&shop.packed),
        clock: shop.clock.clone(),
        ..Setup::default()
    };
    let other = TestServer::over(store.clone(), StoreKind::Elsewhere, setup).await;
    store.lose_outcomes(true);
    for event in 0..5 {
        assert_eq!(shop.send(&path, &shop.paid(&format!("evt_{event}"), "ch_1")).await.status, 202);
    }
    store.lose_outcomes(false);
    shop.clock.advance(LATER);
    let (one, two) = tokio::join!(shop.server.server.sweep_webhooks(), other.server.sweep_webhooks());
    assert!(one.unwrap() + two.unwrap() >= 5);
    let events = shop.events().await;
    assert!(events.iter().all(|event| event["status"] == "applied" && event["attempts"] == 1), "{events:?}");
    let runs = shop.server.get("/api/v1/workflow-runs").await.json()["items"].as_array().unwrap().len();
    assert_eq!(runs, 5);
}

/// A failed event is visible, and is processed once the source is repaired.
#[tokio::test]
async fn a_failed_event_is_visible_and_reprocessed_with_the_current_source() {
    let shop = Shop::open().await;
    let yaml = |workflow: &str| {
        format!(
            "{{ name: s, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{{ start: {{ workflow: {workflow}, \
             input: {{ charge: '{{{{ body.data.object.id }}}}' }} }} }}] }}"
        )
    };
    let path = shop.source(&yaml("oder")).await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "failed".into()));
    let event = shop.server.get(&format!("{EVENTS}/s/evt_1")).await.json();
    let said = event["outcome"]["actions"][0]["detail"].as_str().unwrap();
    assert!(said.contains("\"oder\""), "{said}");
    assert_eq!(
        serde_json::from_str::<Value>(event["rawBody"].as_str().unwrap()).unwrap(),
        payment("evt_1", "ch_1")
    );
    assert!(event["headers"]["content-type"].is_string() && event["headers"]["stripe-signature"].is_null());
    let kind = [("content-type", "application/yaml")];
    let mended = shop
        .server
        .send("PUT", &format!("{SOURCES}/s"), Some(yaml("order")), &shop.server.admin, &kind)
        .await;
    assert_eq!(mended.status, 200, "{}", mended.text());
    let again = shop.server.post(&format!("{EVENTS}/s/evt_1/reprocess"), &json!({}), &[]).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("applied")), "{}", again.text());
    assert_eq!(again.json()["attempts"], 2);
    let audit = shop.server.get("/api/v1/audit").await.text();
    assert!(audit.contains("reprocessed"), "{audit}");
}

/// Processes one event once more; answers its status.
async fn reprocess(shop: &Shop, event: &str) -> String {
    let again =
        shop.server.post(&format!("{EVENTS}/stripe-payments/{event}/reprocess"), &json!({}), &[]).await;
    assert_eq!(again.status, 200, "{}", again.text());
    again.json()["status"].as_str().unwrap().to_owned()
}

/// Is there a promise of this charge that nobody has settled?
async fn is_waiting(shop: &Shop, charge: &str) -> bool {
    let promise = shop.server.get(&format!("/api/v1/promises/key:stripe:{charge}")).await;
    assert_eq!(promise.status, 200, "{}", promise.text());
    promise.json()["status"] == "PENDING"
}

/// A finished action is not repeated, even when its key is free again.
#[tokio::test]
async fn an_event_that_settled_its_promise_settles_no_later_one() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let run = shop.order("ch_1").await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "applied".into()));
    run.result::<u64>().await.unwrap();
    shop.clock.advance(A_DAY + LATER);
    assert_eq!(reprocess(&shop, "evt_1").await, "applied", "it does not get worse");
    shop.order("ch_1").await;
    shop.server
        .until_shown("/api/v1/promises/key:stripe:ch_1", |shown| shown["idempotencyKey"].is_string())
        .await;
    assert_eq!(reprocess(&shop, "evt_1").await, "applied");
    assert!(is_waiting(&shop, "ch_1").await, "the second order waits for its own payment");
    assert_eq!(shop.packed(), 1);
}

/// The same for one that came early, was kept, and was used.
#[tokio::test]
async fn an_early_event_that_was_used_is_applied_and_settles_no_later_promise() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    for event in ["evt_1", "evt_2"] {
        let charge = event.replace("evt", "ch");
        assert_eq!(told(&shop.send(&path, &shop.paid(event, &charge)).await), (200, "unmatched".into()));
    }
    shop.order("ch_1").await.result::<u64>().await.unwrap();
    shop.clock.advance(A_DAY + LATER);
    shop.order("ch_1").await;
    shop.server
        .until_shown("/api/v1/promises/key:stripe:ch_1", |shown| shown["idempotencyKey"].is_string())
        .await;
    let asked = json!({ "status": "unmatched", "limit": 10 });
    let done = shop.server.post(&format!("{EVENTS}/reprocess"), &asked, &[]).await.json();
    let statuses: Vec<&Value> =
        done["items"].as_array().unwrap().iter().map(|event| &event["status"]).collect();
    assert_eq!(statuses, ["applied", "unmatched"], "{done}");
    assert!(is_waiting(&shop, "ch_1").await, "the second order waits for its own payment");
    assert_eq!(shop.packed(), 1);
    let said = done["items"][1]["outcome"]["actions"][0]["detail"].as_str().unwrap();
    assert!(
        said.contains("kept for it until 2026-01-05T12:00:00"),
        "it is kept no longer than before: {said}"
    );
    assert_eq!(shop.order("ch_2").await.result::<u64>().await.unwrap(), 4200, "and is still kept");
}

/// An event is kept for a promise once. After that time it settles an existing promise on request,
/// and never a later one.
#[tokio::test]
async fn an_event_that_was_kept_in_vain_is_not_kept_again() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "unmatched".into()));
    shop.clock.advance(4 * A_DAY + LATER);
    assert_eq!(reprocess(&shop, "evt_1").await, "unmatched");
    let run = shop.order("ch_1").await;
    shop.server
        .until_shown("/api/v1/promises/key:stripe:ch_1", |shown| shown["idempotencyKey"].is_string())
        .await;
    assert!(is_waiting(&shop, "ch_1").await, "it was not kept for it");
    assert_eq!(reprocess(&shop, "evt_1").await, "applied");
    assert_eq!(run.result::<u64>().await.unwrap(), 4200);
}

/// The same for a run whose key its definition does not keep.
#[tokio::test]
async fn an_event_that_started_a_run_starts_no_second_one_when_the_key_is_free_again() {
    let shop = Shop::open().await;
    let short = json!({
        "name": "short", "version": 1, "retention": "1h",
        "steps": [{ "name": "pack", "type": "task", "task": "pack" }],
    });
    shop.server.upload(&short).await;
    let path = shop
        .source("{ name: stripe-payments, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: short } }] }")
        .await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "applied".into()));
    let event = shop.events().await[0].clone();
    let run = event["outcome"]["actions"][0]["runId"].as_str().unwrap().to_owned();
    shop.server.end(&run).await;
    shop.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(reprocess(&shop, "evt_1").await, "applied");
    assert_eq!(shop.packed(), 1);
    assert_eq!(shop.events().await[0]["outcome"]["actions"][0]["runId"], json!(run));
}

/// Recorded values are not overwritten: another value for a settled promise, another input under a
/// run's key.
#[tokio::test]
async fn an_event_that_contradicts_a_record_fails_and_changes_nothing() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let run = shop.order("ch_1").await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_1", "ch_1")).await), (200, "applied".into()));
    let mut other = payment("evt_2", "ch_1");
    other["data"]["object"]["amount"] = json!(1);
    let other = stripe(&other, STRIPE, shop.now());
    assert_eq!(told(&shop.send(&path, &other).await), (200, "failed".into()));
    assert_eq!(run.result::<u64>().await.unwrap(), 4200);
    let starts = "{ name: s, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: order, \
                  key: same, input: { charge: '{{ body.data.object.id }}' } } }] }";
    let path = shop.source(starts).await;
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_3", "ch_3")).await), (200, "applied".into()));
    assert_eq!(told(&shop.send(&path, &shop.paid("evt_4", "ch_4")).await), (200, "failed".into()));
    let events = shop.events().await;
    let said = events[0]["outcome"]["actions"][0]["detail"].as_str().unwrap();
    assert!(said.contains("another input"), "{said}");
}

/// A 2xx is sent only after the event is stored.
#[tokio::test]
async fn with_the_store_out_of_reach_the_provider_is_asked_to_send_it_again() {
    let (shop, store) = Shop::planned().await;
    let path = shop.source(STRIPE_SOURCE).await;
    store.set_away(true);
    let paid = shop.paid("evt_1", "ch_1");
    let refused = shop.send(&path, &paid).await;
    assert_eq!(refused.told(), (503, "store_unavailable".into()));
    store.set_away(false);
    assert_eq!(told(&shop.send(&path, &paid).await), (200, "unmatched".into()));
}
