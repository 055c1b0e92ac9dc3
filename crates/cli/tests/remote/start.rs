//! Starting runs by the name of their workflow, and listing them.

use serde_json::json;

use crate::remote::support::{ECHO, LISTEN, TestServer};

const STRICT: &str = r#"{"name":"strict","version":1,"idempotency":"required","steps":[{"name":"say","type":"task","task":"echo"}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_requires_a_key_rejects_a_start_without_one() {
    let server = TestServer::start().await;
    server.upload(STRICT).await;
    for _ in 0..2 {
        let refused = server.hapax(&["start", "strict"]).await;
        assert!(refused.code != 0 && refused.err.contains("idempotency_key_missing"), "{refused:?}");
    }
    let listed = server.hapax(&["runs", "list", "--json"]).await.ok().out;
    assert!(listed.is_empty(), "nothing was started: {listed}");
    let first = server.hapax(&["start", "strict", "--key", "k", "--json"]).await.ok().json();
    let second = server.hapax(&["start", "strict", "--key", "k", "--json"]).await.ok().json();
    assert_eq!((&first["created"], &second["created"]), (&json!(true), &json!(false)));
    assert_eq!(first["run"]["id"], second["run"]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_starts_the_latest_version_and_a_number_starts_that_one() {
    let server = TestServer::start().await;
    let first = server.upload(ECHO).await;
    let second = server.upload(&ECHO.replace("\"version\":1", "\"version\":2")).await;
    for (name, definition) in [("echo", &second), ("echo@1", &first), ("echo@2", &second), (&first, &first)] {
        let started = server.hapax(&["start", name, "--json"]).await.ok().json();
        assert_eq!(started["run"]["definitionId"], json!(definition), "{name}");
    }
    let absent = server.hapax(&["start", "echo@3"]).await.exits(5);
    assert!(absent.err.contains("echo@3"), "{}", absent.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_by_subject_key_and_time() {
    let server = TestServer::start().await;
    server.upload(LISTEN).await;
    for (key, subject) in [("k1", "ORDER-1"), ("k2", "ORDER-2"), ("k3", "ORDER-3")] {
        server.hapax(&["start", "listen", "--key", key, "--subject", subject]).await.ok();
    }
    for filter in
        [&["--key", "k2"][..], &["--subject", "ORDER-2"], &["--subject", "ORDER-2", "--since", "1h"]]
    {
        let found = server.hapax(&[&["runs", "list", "--json"], filter].concat()).await.ok().json();
        assert_eq!((&found["idempotencyKey"], &found["subject"]), (&json!("k2"), &json!("ORDER-2")));
    }
    let later = server.hapax(&["runs", "list", "--since", "2099-01-01T00:00:00Z", "--json"]).await.ok();
    assert!(later.out.is_empty(), "{later:?}");
    let all = server.hapax(&["runs", "list", "--all", "--json"]).await.ok().out;
    assert_eq!(all.lines().count(), 3, "{all}");
    let two = server.hapax(&["runs", "list", "--limit", "2", "--json"]).await.ok();
    assert!(two.out.lines().count() == 2 && two.err.contains("there are more"), "{two:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_run_has_a_line_for_each_change() {
    let server = TestServer::start().await;
    let run = server.begin(ECHO, "{}").await;
    server.hapax(&["runs", "result", &run, "--wait"]).await.ok();
    let history = server.hapax(&["runs", "history", &run, "--json"]).await.ok().out;
    assert!(history.lines().next().unwrap().contains("\"started\""), "{history}");
    assert!(history.lines().last().unwrap().contains("\"completed\""), "{history}");
    let table = server.hapax(&["runs", "history", &run]).await.ok().out;
    assert!(table.contains("started") && table.contains("completed"), "{table}");
}
