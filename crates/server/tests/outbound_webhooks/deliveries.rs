//! Lists of deliveries.

use std::collections::BTreeSet;
use std::time::Duration;

use hapax_engine::Ctx;
use serde_json::{Value, json};

use super::fixture::{acme, end_a_run, subscribe};
use super::support::{Receiver, Role, TestServer};
use super::{DELIVERIES, SUBSCRIPTIONS};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn deliveries_are_listed_by_subscription_and_status_page_by_page() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (one, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let (other, _) = subscribe(&server, &receiver.url(), &["run.completed", "run.failed"]).await;
    // A message for another target is not a webhook delivery.
    server
        .engine
        .register("mails", |ctx: Ctx, (): ()| async move { ctx.after_effect("mail", "hello").await })
        .unwrap();
    let mails = acme(&server).start("mails", &()).await.unwrap();
    mails.result::<String>().await.unwrap();
    for _ in 0..2 {
        end_a_run(&server).await;
    }
    receiver.until(6).await;
    let path = format!("{DELIVERIES}?status=delivered");
    server.until_shown(&path, |page| page["items"].as_array().is_some_and(|items| items.len() == 6)).await;
    for id in [&one, &other] {
        let page = server.get(&format!("{DELIVERIES}?subscription={id}")).await.json();
        assert_eq!(ids(&page).len(), 3);
        assert!(page["items"].as_array().unwrap().iter().all(|item| item["subscriptionId"] == **id));
        let none = server.get(&format!("{DELIVERIES}?subscription={id}&status=dead")).await.json();
        assert_eq!(none["items"], json!([]));
    }
    for filter in [String::new(), format!("&subscription={one}")] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{DELIVERIES}?limit=2{filter}{cursor}")).await;
            assert_eq!(page.status, 200, "{}", page.text());
            let page = page.json();
            assert!(ids(&page).len() <= 2);
            seen.extend(ids(&page));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), once.len()), if filter.is_empty() { (6, 6) } else { (3, 3) }, "{filter}");
    }
    for (query, told) in [
        ("status=lost", (400, "invalid_request")),
        ("limit=0", (400, "invalid_request")),
        ("cursor=x", (400, "invalid_cursor")),
        ("colour=red", (400, "invalid_request")),
        ("subscription=sub_nobodys", (404, "not_found")),
    ] {
        let refused = server.get(&format!("{DELIVERIES}?{query}")).await;
        assert_eq!(refused.told(), (told.0, told.1.to_owned()), "{query}");
    }
    let stranger = server.key("globex", Role::Admin).await;
    let shown = server.send("GET", DELIVERIES, None, &stranger, &[]).await;
    assert_eq!(shown.json()["items"], json!([]));
    let path = format!("{DELIVERIES}?subscription={one}");
    assert_eq!(server.send("GET", &path, None, &stranger, &[]).await.status, 404);
    // An after-effect that is no webhook is not redelivered here.
    let mail = acme(&server).list_after_effects_to("mail", None, None, 1).await.unwrap().remove(0);
    let refused =
        server.post(&format!("{DELIVERIES}/{}/redeliver", mail.id), &json!({ "reason": "x" }), &[]).await;
    assert_eq!(refused.told(), (404, "not_found".into()));
}

/// A server whose only subscription failed to receive three events, and was then disabled; returns
/// its id.
async fn with_three_dead(receiver: &Receiver) -> (TestServer, String) {
    let (server, clock) = TestServer::timed().await;
    let (id, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    receiver.usually(500);
    for _ in 0..3 {
        end_a_run(&server).await;
    }
    let path = format!("{DELIVERIES}?subscription={id}");
    let is_tried = |page: &Value| {
        page["items"].as_array().is_some_and(|items| {
            items.len() == 3 && items.iter().all(|item| item["failure"]["message"].is_string())
        })
    };
    server.until_shown(&path, is_tried).await;
    server.patch(&format!("{SUBSCRIPTIONS}/{id}"), &json!({ "status": "disabled" }), &[]).await;
    clock.advance(Duration::from_secs(60));
    server.until_shown(&format!("{path}&status=dead"), |page| ids(page).len() == 3).await;
    (server, id)
}

/// After an outage everything that was due is dead: one request has it sent again, and says which.
#[tokio::test]
async fn many_are_redelivered_by_one_request_up_to_a_limit_that_must_be_given() {
    let receiver = Receiver::start().await;
    let (server, id) = with_three_dead(&receiver).await;
    let path = format!("{DELIVERIES}/redeliver");
    let asked = json!({ "subscriptionId": id, "status": "dead", "limit": 2, "reason": "it is up again", "by": "ada" });
    let disabled = server.post(&path, &asked, &[]).await;
    assert_eq!(disabled.told(), (409, "subscription_disabled".into()));
    server.patch(&format!("{SUBSCRIPTIONS}/{id}"), &json!({ "status": "enabled" }), &[]).await;
    for (field, bad, told) in [
        ("limit", json!(0), (400, "invalid_request")),
        ("limit", json!(101), (400, "invalid_request")),
        ("limit", Value::Null, (400, "invalid_request")),
        ("status", json!("due"), (400, "invalid_request")),
        ("reason", json!(" "), (400, "ruling_incomplete")),
        ("subscriptionId", json!("sub_nobodys"), (404, "not_found")),
        ("cursor", json!("x"), (400, "invalid_cursor")),
    ] {
        let mut asked = asked.clone();
        asked[field] = bad;
        let refused = server.post(&path, &asked, &[]).await;
        assert_eq!(refused.told(), (told.0, told.1.to_owned()), "{asked}: {}", refused.text());
    }
    receiver.usually(200);
    let before = receiver.received().len();
    let first = server.post(&path, &asked, &[]).await;
    assert_eq!((first.status, ids(&first.json()).len()), (200, 2), "{}", first.text());
    let mut rest = asked.clone();
    rest["cursor"] = first.json()["nextCursor"].clone();
    let second = server.post(&path, &rest, &[]).await.json();
    assert_eq!((ids(&second).len(), &second["nextCursor"]), (1, &Value::Null), "{second}");
    receiver.until(before + 3).await;
    let delivered = format!("{DELIVERIES}?subscription={id}&status=delivered");
    server.until_shown(&delivered, |page| ids(page).len() == 3).await;
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let by_ada = |entry: &&Value| {
        entry["what"] == "redelivered"
            && entry["reason"] == "it is up again"
            && entry["actor"]["name"].as_str().unwrap().starts_with("ada")
    };
    assert_eq!(audit["items"].as_array().unwrap().iter().filter(by_ada).count(), 3, "{audit}");
}

/// Unwanted deliveries are discarded under a person's name; otherwise they would count as dead
/// permanently.
#[tokio::test]
async fn the_dead_of_a_deleted_subscription_are_discarded_and_that_is_audited() {
    let receiver = Receiver::start().await;
    let (server, id) = with_three_dead(&receiver).await;
    server.delete(&format!("{SUBSCRIPTIONS}/{id}"), &[]).await;
    let path = format!("{DELIVERIES}/discard");
    let asked = json!({ "subscriptionId": id, "limit": 2, "reason": "nobody listens there", "by": "ada" });
    let stranger = server.key("globex", Role::Admin).await;
    let refused = server.send("POST", &path, Some(asked.to_string()), &stranger, &[]).await;
    assert_eq!(refused.told(), (404, "not_found".into()));
    let mut unreasoned = asked.clone();
    unreasoned["reason"] = json!("");
    assert_eq!(server.post(&path, &unreasoned, &[]).await.told(), (400, "ruling_incomplete".into()));
    for left in [1, 0, 0] {
        let gone = server.post(&path, &asked, &[]).await;
        assert_eq!(gone.status, 200, "{}", gone.text());
        let page = server.get(&format!("{DELIVERIES}?subscription={id}")).await.json();
        assert_eq!(ids(&page).len(), left, "{page}");
    }
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let said = |entry: &&Value| entry.to_string().contains("discarded: nobody listens there");
    assert_eq!(audit["items"].as_array().unwrap().iter().filter(said).count(), 3, "{audit}");
}
