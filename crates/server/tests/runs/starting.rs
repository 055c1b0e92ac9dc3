//! Starting runs: batches, children, delays, and the requests of http steps.

use hapax_outgoing::Rules;
use serde_json::json;

use super::support::{Provider, Setup, TestServer};
use super::{RUNS, waits};

/// RELIABILITY 13: each item of a batch succeeds or fails on its own, also for duplicates within
/// the batch.
#[tokio::test]
async fn a_batch_keeps_the_contract_item_by_item() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    let item =
        |key: &str, n: u64| json!({ "definitionId": echo, "input": { "n": n }, "idempotencyKey": key });
    let runs = json!({ "runs": [
        item("a", 1), item("a", 1), item("a", 2), item("b", 1),
        { "definitionId": "def_none" }, { "definitionId": echo, "idempotencyKey": "" }, { "definitionId": echo },
    ] });
    let key = [("idempotency-key", "batch-1")];
    let answer = server.post(&format!("{RUNS}/batch"), &runs, &key).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let items = answer.json()["items"].as_array().unwrap().clone();
    assert_eq!(items.len(), 7);
    let id = |place: usize| items[place]["createdRun"]["run"]["id"].as_str().map(ToOwned::to_owned);
    // The two equal items are one run; any of the three with the same key may come first.
    let codes: Vec<Option<&str>> = items.iter().map(|item| item["problem"]["code"].as_str()).collect();
    assert_eq!(
        codes[..3].iter().filter(|code| **code == Some("idempotency_key_conflict")).count(),
        1,
        "{codes:?}"
    );
    assert_eq!((id(0), codes[2]), (id(1), Some("idempotency_key_conflict")));
    let made = items[..3].iter().filter(|item| item["createdRun"]["created"] == json!(true)).count();
    assert_eq!(made, 1);
    assert_eq!(items[3]["createdRun"]["created"], json!(true));
    assert_eq!((codes[4], codes[5]), (Some("definition_not_found"), Some("invalid_idempotency_key")));
    assert!(id(6).is_some() && id(6) != id(3) && id(6) != id(0));
    let again = server.post(&format!("{RUNS}/batch"), &runs, &key).await;
    assert_eq!((again.status, &again.bytes), (200, &answer.bytes));
    assert_eq!(server.get(RUNS).await.json()["items"].as_array().unwrap().len(), 3);
}

/// CONTRACT §6: an http step sends the key of its effect.
#[tokio::test]
async fn an_http_step_sends_its_effect_key() {
    let server = TestServer::sqlite().await;
    let provider = Provider::start().await;
    let run = server.start(&server.upload(&provider.payment("pay")).await, json!({ "amount": 12 })).await;
    let ended = server.end(&run).await;
    assert_eq!(ended["run"]["output"], json!({ "charge": "ch_1" }), "{ended}");
    let asked = provider.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].path.as_str(), &asked[0].body), ("/charges", &json!({ "amount": 12 })));
    assert_eq!(asked[0].key, Some(format!("{run}:charge")));
}

/// CONTRACT §6, RELIABILITY 33: a failed request is retried under the same key, up to the given
/// limit.
#[tokio::test]
async fn an_http_step_is_tried_again_under_the_same_key() {
    let server = TestServer::memory().await;
    let provider = Provider::start().await;
    let document = json!({
        "name": "tries", "version": 1,
        "steps": [{
            "name": "charge", "type": "http", "method": "POST", "url": provider.url("/fail"), "body": {},
            "retry": { "maxAttempts": 3, "first": "10ms", "cap": "10ms" },
        }],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server.until(&run, "FAILED").await;
    let asked = provider.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| asked.key == Some(format!("{run}:charge"))), "{asked:?}");
    let result = server.get(&format!("{RUNS}/{run}/result")).await;
    assert_eq!((result.status, &result.json()["status"]), (200, &json!("FAILED")), "{}", result.text());
    assert_eq!(result.json()["failure"]["code"], "http_500");
}

/// RELIABILITY, SSRF: this machine is not called unless the operator allows it.
#[tokio::test]
async fn an_http_step_does_not_reach_this_machine_unless_allowed() {
    let setup = Setup { rules: Rules::default(), ..Setup::default() };
    let server = TestServer::memory_with(setup).await;
    let provider = Provider::start().await;
    let port = provider.url("").rsplit(':').next().unwrap().to_owned();
    for (place, host) in
        ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "127.1"].iter().enumerate()
    {
        let document = json!({
            "name": format!("ssrf-{place}"), "version": 1,
            "steps": [{ "name": "call", "type": "http", "method": "GET", "url": format!("http://{host}:{port}/") }],
        });
        let uploaded = server.post("/api/v1/workflow-definitions", &document, &[]).await;
        if uploaded.status != 201 {
            assert_eq!(uploaded.status, 422, "{host}: {}", uploaded.text());
            continue;
        }
        let run = server.start(uploaded.json()["id"].as_str().unwrap(), json!({})).await;
        let ended = server.until(&run, "FAILED").await;
        assert_eq!(ended["run"]["failure"]["code"], "http_refused", "{host}: {ended}");
    }
    assert_eq!(provider.asked(), []);
}

/// A child is a run of its own, and tells its parent.
#[tokio::test]
async fn a_child_gives_its_output_to_its_parent() {
    let server = TestServer::sqlite().await;
    server.upload(&waits("child")).await;
    let parent = json!({
        "name": "parent", "version": 1,
        "steps": [{ "name": "ask", "type": "child", "workflow": "child", "input": { "n": "{{ input.n }}" } }],
    });
    let parent = server.start(&server.upload(&parent).await, json!({ "n": 3 })).await;
    let path = format!("{RUNS}/{parent}");
    let shown = server.until_shown(&path, |shown| shown["steps"][0]["childRunId"].is_string()).await;
    let child = shown["steps"][0]["childRunId"].as_str().unwrap().to_owned();
    let shown = server.until(&child, "WAITING").await;
    assert_eq!(shown["run"]["parent"], json!({ "runId": parent, "stepId": "ask" }));
    assert_eq!(shown["run"]["input"], json!({ "n": 3 }));
    server
        .post(&format!("{RUNS}/{child}/signals"), &json!({ "name": "go", "value": { "ok": true } }), &[])
        .await;
    assert_eq!(server.end(&parent).await["run"]["output"], json!({ "ok": true }));
}

/// A run may begin later, and must have ended in time.
#[tokio::test]
async fn a_run_may_begin_later_and_must_end_in_time() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let later = server.post(RUNS, &json!({ "definitionId": echo, "delay": "1h" }), &[]).await.json();
    assert_eq!(later["run"]["status"], "PENDING");
    assert!(later["run"]["wakeAt"].is_string());
    let id = later["run"]["id"].as_str().unwrap();
    let cancelled = server.post(&format!("{RUNS}/{id}/cancel"), &json!({}), &[]).await;
    assert_eq!(cancelled.json()["status"], "CANCELLED");
    let late = json!({ "definitionId": server.upload(&waits("late")).await, "timeout": "50ms" });
    let late = server.post(RUNS, &late, &[]).await.json();
    let ended = server.until(late["run"]["id"].as_str().unwrap(), "FAILED").await;
    assert!(ended["run"]["deadlineAt"].is_string());
}
