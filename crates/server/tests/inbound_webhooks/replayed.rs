//! A webhook that comes again does nothing again.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::shop::{STRIPE_SOURCE, Shop, told};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// S0.15, S2.45, S4.2, S4.29; issue 6, must hold: a signed webhook replayed 100 times concurrently and again after 24 h has one effect.
#[tokio::test]
async fn a_webhook_replayed_a_hundred_times_at_once_and_a_day_later_has_one_effect() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    let run = shop.order("ch_1").await;
    let paid = shop.paid("evt_1", "ch_1");
    let answers = join_all((0..100).map(|_| shop.send(&path, &paid))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let count = |status: &str| answers.iter().filter(|answer| answer.json()["status"] == status).count();
    assert_eq!((count("applied"), count("duplicate")), (1, 99));
    assert_eq!(run.result::<u64>().await.unwrap(), 4200);
    shop.clock.advance(DAY);
    // Providers sign anew each time they try.
    let again = shop.send(&path, &shop.paid("evt_1", "ch_1")).await;
    assert_eq!(told(&again), (200, "duplicate".into()));
    assert_eq!(shop.packed(), 1);
    let events = shop.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["duplicates"], &events[0]["attempts"]), (&json!(100), &json!(1)));
    assert_eq!(events[0]["status"], "applied");
}

/// S0.15, S0.16, CONTRACT §9: the same for a webhook that starts a run, whatever else it carries the second time.
#[tokio::test]
async fn an_event_starts_one_run_however_often_it_comes() {
    let shop = Shop::open().await;
    let pack = json!({ "name": "pack", "version": 1, "steps": [{ "name": "pack", "type": "task", "task": "pack" }] });
    shop.server.upload(&pack).await;
    let path = shop
        .source("{ name: shop, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: pack } }] }")
        .await;
    let answers = join_all((0..20).map(|n| {
        let paid = shop.paid("evt_1", &format!("ch_{n}"));
        let (shop, path) = (&shop, &path);
        async move { shop.send(path, &paid).await }
    }))
    .await;
    let applied = answers.iter().filter(|answer| answer.json()["status"] == "applied").count();
    assert_eq!(applied, 1, "{answers:?}");
    let runs = shop.server.get("/api/v1/workflow-runs").await.json();
    let runs = runs["items"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["idempotencyKey"], "shop:pack:evt_1");
    shop.server.end(runs[0]["id"].as_str().unwrap()).await;
    assert_eq!(shop.packed(), 1);
}
