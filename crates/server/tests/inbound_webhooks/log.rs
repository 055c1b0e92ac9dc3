//! The log of received events.

use serde_json::json;

use super::shop::{EVENTS, STRIPE_SOURCE, Shop};

/// RELIABILITY, HTTP: pagination.
#[tokio::test]
async fn events_are_listed_newest_first_page_by_page_and_by_what_became_of_them() {
    let shop = Shop::open().await;
    let path = shop.source(STRIPE_SOURCE).await;
    for number in 0..45 {
        let charge = if number % 2 == 0 { "ch_even" } else { "ch_odd" };
        assert_eq!(shop.send(&path, &shop.paid(&format!("evt_{number:02}"), charge)).await.status, 200);
    }
    let mut seen = Vec::new();
    let mut next = format!("{EVENTS}?limit=30");
    loop {
        let page = shop.server.get(&next).await.json();
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["eventId"].as_str().unwrap().to_owned()),
        );
        match page["nextCursor"].as_str() {
            Some(cursor) => next = format!("{EVENTS}?limit=30&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<String> = (0..45).rev().map(|number| format!("evt_{number:02}")).collect();
    assert_eq!(seen, expected);
    let count = async |query: &str| {
        let listed = shop.server.get(&format!("{EVENTS}?limit=200&{query}")).await;
        listed.json()["items"].as_array().map(Vec::len)
    };
    assert_eq!(count("status=unmatched").await, Some(45));
    assert_eq!(count("status=applied").await, Some(0));
    assert_eq!(count("source=stripe-payments").await, Some(45));
    assert_eq!(count("source=other").await, Some(0));
    assert_eq!(
        shop.server.get(&format!("{EVENTS}?status=lost")).await.told(),
        (400, "invalid_request".into())
    );
    let first = shop.server.get(&format!("{EVENTS}?limit=1")).await.json();
    let cursor = first["nextCursor"].as_str().unwrap();
    let elsewhere = shop.server.get(&format!("{EVENTS}?status=applied&cursor={cursor}")).await;
    assert_eq!(elsewhere.told(), (400, "invalid_cursor".into()), "a cursor is good for its own list");
    assert_eq!(shop.server.get(&format!("{EVENTS}/stripe-payments/evt_99")).await.status, 404);
}

/// Issue 6: reprocess by filter with a mandatory limit.
#[tokio::test]
async fn many_are_processed_again_at_once_up_to_a_limit_that_must_be_given() {
    let shop = Shop::open().await;
    let path = shop
        .source("{ name: s, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: later } }] }")
        .await;
    for number in 0..5 {
        assert_eq!(shop.send(&path, &shop.paid(&format!("evt_{number}"), "ch")).await.status, 200);
    }
    let reprocess = format!("{EVENTS}/reprocess");
    for bad in [
        json!({ "status": "failed" }),
        json!({ "status": "failed", "limit": 0 }),
        json!({ "status": "failed", "limit": 101 }),
    ] {
        let refused = shop.server.post(&reprocess, &bad, &[]).await;
        assert_eq!(refused.told(), (400, "invalid_request".into()), "{bad}");
    }
    shop.server.upload(&json!({ "name": "later", "version": 1, "steps": [{ "name": "a", "type": "task", "task": "echo" }] })).await;
    let asked = json!({ "source": "s", "status": "failed", "limit": 3 });
    let done = shop.server.post(&reprocess, &asked, &[]).await;
    let items = done.json()["items"].as_array().unwrap().clone();
    let ids: Vec<&str> = items.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["evt_2", "evt_3", "evt_4"], "{}", done.text());
    assert!(items.iter().all(|event| event["status"] == "applied"), "{}", done.text());
    let failed = shop.server.get(&format!("{EVENTS}?status=failed")).await.json();
    assert_eq!(failed["items"].as_array().unwrap().len(), 2);
}

/// All events of a status can be reached, however many there are.
#[tokio::test]
async fn older_events_are_reprocessed_by_the_next_page() {
    let shop = Shop::open().await;
    let path = shop
        .source("{ name: s, preset: stripe, secrets: ['secret://stripe-webhook'], actions: [{ start: { workflow: never } }] }")
        .await;
    for number in 0..5 {
        assert_eq!(shop.send(&path, &shop.paid(&format!("evt_{number}"), "ch")).await.status, 200);
    }
    let (reprocess, mut cursor, mut pages) = (format!("{EVENTS}/reprocess"), json!(null), Vec::new());
    loop {
        let mut asked = json!({ "status": "failed", "limit": 2 });
        if cursor.is_string() {
            asked["cursor"] = cursor;
        }
        let done = shop.server.post(&reprocess, &asked, &[]).await.json();
        let ids: Vec<String> = done["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["eventId"].as_str().unwrap().to_owned())
            .collect();
        pages.push(ids.join(" "));
        cursor = done["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, ["evt_3 evt_4", "evt_1 evt_2", "evt_0"]);
    let foreign = json!({ "status": "unmatched", "limit": 2, "cursor": "x" });
    assert_eq!(shop.server.post(&reprocess, &foreign, &[]).await.told(), (400, "invalid_cursor".into()));
}
