//! `hapax why`: any name in, one plain sentence out.

use std::time::Duration;

use serde_json::Value;

use crate::remote::support::{ECHO, FAIL, LISTEN, TestServer};

const CARRIER: &str = r#"{"name":"ship","version":1,"steps":[{"name":"label","type":"promise","key":"carrier:{{ input.id }}","timeout":"5d"}]}"#;
const PARENT: &str = r#"{"name":"order","version":1,"steps":[{"name":"shipping","type":"child","workflow":"ship","input":{"id":"{{ input.id }}"}}]}"#;
const SLEEP: &str = r#"{"name":"nap","version":1,"steps":[{"name":"rest","type":"wait","for":"3d"}]}"#;
const APPROVE: &str = r#"{"name":"refund","version":1,"steps":[{"name":"sign-off","type":"approval","by":{"roles":["manager"]},"timeout":"2d"}]}"#;
const LOSE: &str = r#"{"name":"lose","version":1,"steps":[{"name":"wire","type":"task","task":"lose","effect":"claimed","nonIdempotent":true}]}"#;
const RETRY: &str = r#"{"name":"again","version":1,"steps":[{"name":"call","type":"task","task":"busy","retry":{"maxAttempts":5,"first":"1h","cap":"1h"}}]}"#;

/// Asks until the first run that matches waits for `reason`.
async fn why(server: &TestServer, query: &str, reason: &str) -> Value {
    let asking = async {
        loop {
            let ran = server.hapax(&["why", query, "--json"]).await;
            if ran.code == 0 {
                let found = ran.json();
                let runs = found["runs"].as_array().unwrap();
                let matched = runs.iter().find(|run| run["isMatch"] == true);
                if matched.is_some_and(|run| run["waitsFor"][0]["reason"] == reason) {
                    return found;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(60), asking).await {
        Ok(found) => found,
        Err(_) => panic!("{query}: {:?}", server.hapax(&["why", query]).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_webhook_is_found_by_every_name_it_has() {
    let server = TestServer::start().await;
    server.upload(CARRIER).await;
    server.upload(PARENT).await;
    let start = [
        "start",
        "order",
        "--input",
        r#"{"id":"ch_19"}"#,
        "--key",
        "K-1",
        "--subject",
        "ORDER-4711",
        "--json",
    ];
    let parent = server.hapax(&start).await.ok().json()["run"]["id"].as_str().unwrap().to_owned();

    let found = why(&server, "carrier:ch_19", "promise").await;
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{found:#}");
    assert_eq!((&runs[0]["runId"], &runs[0]["depth"]), (&parent.clone().into(), &0.into()));
    assert_eq!((&runs[1]["depth"], &runs[1]["isMatch"]), (&1.into(), &true.into()));
    let child = runs[1]["runId"].as_str().unwrap().to_owned();
    let sentence = runs[1]["waitsFor"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("waits for a webhook carrying `carrier:ch_19`, since "), "{sentence}");
    assert!(sentence.contains(", until "), "{sentence}");
    assert!(sentence.ends_with("; `hapax promises resolve key:carrier:ch_19 …` settles it"), "{sentence}");

    for query in [parent.as_str(), "K-1", "ORDER-4711"] {
        let found = why(&server, query, "child").await;
        let children = found["runs"].as_array().unwrap();
        assert_eq!(children[1]["runId"], child.as_str(), "{query}: {found:#}");
    }
    for query in
        [child.as_str(), "key:carrier:ch_19", &format!("id:{child}:label"), &format!("{child}:label")]
    {
        why(&server, query, "promise").await;
    }
    let text = server.hapax(&["why", "ORDER-4711"]).await.ok().out;
    assert!(text.contains(&format!("{parent}  order@1  WAITING ◀")), "{text}");
    assert!(text.contains(&format!("└─ {child}  ship@1  WAITING")), "{text}");

    server.hapax(&["why", "ORDER-4712"]).await.exits(5);
    let other = server.key("emea", hapax_api::Role::Viewer).await;
    server.hapax_as(&other, &["why", "ORDER-4711"]).await.exits(5);
    let viewer = server.key("acme", hapax_api::Role::Viewer).await;
    server.hapax_as(&viewer, &["why", "ORDER-4711"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_reason_to_wait_has_its_sentence() {
    let server = TestServer::start().await;
    for (document, reason, words) in [
        (LISTEN, "signal", "waits for the signal `go`"),
        (SLEEP, "timer", "waits in step `rest` until "),
        (APPROVE, "approval", "waits for an approval of `sign-off` by role manager"),
        (LOSE, "in_doubt", "is in doubt about step `wire`"),
        (RETRY, "retry", "retries step `call` at "),
        (ECHO, "completed", "completed "),
        (FAIL, "failed", "failed "),
    ] {
        let run = server.begin(document, "{}").await;
        let found = why(&server, &run, reason).await;
        let sentence = found["matches"][0]["sentence"].as_str().unwrap();
        assert!(sentence.starts_with(words), "{sentence}");
    }
    let run = server.begin(LISTEN, "{}").await;
    why(&server, &run, "signal").await;
    server.hapax(&["runs", "pause", &run, "--reason", "to look"]).await.ok();
    let found = why(&server, &run, "paused").await;
    let sentence = found["matches"][0]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("was paused by admin") && sentence.contains(": to look; "), "{sentence}");
    server.hapax(&["runs", "cancel", &run, "--yes", "--reason", "withdrawn"]).await.ok();
    let found = why(&server, &run, "cancelled").await;
    assert!(found["matches"][0]["sentence"].as_str().unwrap().contains("withdrawn"), "{found:#}");
    let delayed = server.hapax(&["start", "echo", "--delay", "2h", "--json"]).await.ok().json();
    let delayed = why(&server, delayed["run"]["id"].as_str().unwrap(), "timer").await;
    assert!(delayed["matches"][0]["sentence"].as_str().unwrap().starts_with("starts at "), "{delayed:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_of_no_run_an_entity_and_a_webhook_event_are_explained() {
    let server = TestServer::with_invoice("INV-1").await;
    server.hapax(&["promises", "create", "--id", "approval-7", "--key", "k7", "--timeout", "1h"]).await.ok();
    for query in ["approval-7", "k7", "key:k7", "id:approval-7"] {
        let text = server.hapax(&["why", query]).await.ok().out;
        assert!(text.starts_with("promise approval-7 is pending, since "), "{text}");
    }
    let text = server.hapax(&["why", "invoice/INV-1"]).await.ok().out;
    assert!(text.starts_with("entity invoice/INV-1 is `approved`; "), "{text}");
    server.hapax(&["why", "invoice/INV-2"]).await.exits(5);
    server.hapax(&["why", "nothing/INV-1"]).await.exits(5);
}
