//! Lists of deliveries.

use std::collections::BTreeSet;

use hapax_engine::Ctx;
use serde_json::{Value, json};

use super::DELIVERIES;
use super::out::{acme, end_a_run, subscribe};
use super::support::{Receiver, Role, TestServer};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn deliveries_are_listed_by_subscription_and_status_page_by_page() {
    let (server, receiver) = (TestServer::memory().await, Receiver::start().await);
    let (one, _) = subscribe(&server, &receiver.url(), &["run.completed"]).await;
    let (other, _) = subscribe(&server, &receiver.url(), &["run.completed", "run.failed"]).await;
    // What a workflow leaves for another target is none of them.
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
