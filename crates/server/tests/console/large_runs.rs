//! A run with many steps and events: its page shows a bounded part, at once.

use std::time::Instant;

use serde_json::json;

use super::browser::Browser;
use super::support::{HUGE_EVENTS, HUGE_STEPS, TestServer};

/// Far more than the page takes, and far less than a page that has everything in it.
const PAGE_BYTES: usize = 512 << 10;
/// Logs that a page reads: one for the steps, one for what the run waits for.
const LOGS: usize = 3;
/// Rows of events that a page reads; the run has 100,000.
const EVENTS: usize = 2_000;

#[tokio::test]
async fn a_run_of_ten_thousand_steps_and_a_hundred_thousand_events_opens_at_once() {
    let (server, store) = TestServer::planned().await;
    let definition = server.echo().await;
    let asked = json!({ "definitionId": definition, "input": {}, "subject": "huge" });
    let run = server.post("/api/v1/workflow-runs", &asked, &[]).await.json()["run"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.end(&run).await;
    let admin = Browser::admin(&server).await;
    let path = format!("/console/runs/{run}");
    let whole = server.get(&format!("/api/v1/workflow-runs/{run}")).await.json();
    assert!(whole["steps"].as_array().unwrap().len() > HUGE_STEPS, "the fixture has {HUGE_STEPS} steps");
    assert!(whole["run"]["version"].as_u64().unwrap() > HUGE_EVENTS as u64);
    let head = server.get(&format!("/api/v1/workflow-runs/{run}?steps=false")).await.json();
    assert_eq!((&head["run"], &head["steps"]), (&whole["run"], &json!([])));
    store.take_reads();
    server.get(&format!("/api/v1/workflow-runs/{run}/ledger")).await.json();
    assert!(store.take_reads().1 > HUGE_EVENTS, "what reads every event is counted");

    // What a page takes is bounded by what it shows. How long it took is printed for docs/performance.md.
    let open = async |address: &str| {
        store.take_reads();
        let since = Instant::now();
        let page = admin.page(address).await;
        let (logs, events) = store.take_reads();
        println!("{address}: {:?}, {} bytes, {logs} logs, {events} events", since.elapsed(), page.len());
        assert!(page.len() < PAGE_BYTES, "{address}: {} bytes", page.len());
        assert!(logs <= LOGS && events <= EVENTS, "{address}: {logs} logs, {events} events");
        page
    };
    for (address, first, last) in [
        (path.clone(), "step-step-00000", "step-step-00150"),
        (format!("{path}?order=desc"), "step-step-09999", "step-step-09900"),
    ] {
        let page = open(&address).await;
        assert_eq!(page.matches("class=\"step\"").count(), 200);
        assert!(page.contains(first) && page.contains(last), "{address}");
    }
    // Page by page, each step comes once.
    let (mut seen, mut address) = (0, path.clone());
    for _ in 0..3 {
        let page = open(&address).await;
        seen += page.matches("class=\"step\"").count();
        let next = page.split("Later steps").next().unwrap().rsplit("href=\"").next().unwrap();
        address = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen, 600);
    assert!(open(&address).await.contains("step-step-00600"), "{address}");
    for tab in ["history", "notes"] {
        open(&format!("{path}?tab={tab}")).await;
    }
    let search = admin.page("/console/search?q=huge").await;
    assert!(search.contains(&run) && search.len() < PAGE_BYTES);
}

#[tokio::test]
async fn steps_are_listed_page_by_page_in_both_orders() {
    let server = TestServer::memory().await;
    let step = |name: &str| json!({ "name": name, "type": "task", "task": "echo" });
    let names = ["a", "b", "c", "d", "e"];
    let document = json!({ "name": "five", "version": 1, "steps": names.map(step) });
    let definition = server.upload(&document).await;
    let run = server.start(&definition, json!({})).await;
    server.end(&run).await;
    let path = format!("/api/v1/workflow-runs/{run}/steps");
    for (order, expected) in [("asc", vec!["a", "b", "c", "d", "e"]), ("desc", vec!["e", "d", "c", "b", "a"])]
    {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{path}?order={order}&limit=2{cursor}")).await.json();
            found.extend(
                page["items"].as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap().to_owned()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, expected, "{order}");
    }
    assert_eq!(server.get(&format!("{path}?order=up")).await.status, 400);
    assert_eq!(server.get(&format!("/api/v1/workflow-runs/{run}?steps=some")).await.status, 400);
}
