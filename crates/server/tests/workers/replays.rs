//! Replays: evicted functions, restarted servers, and code that does not fit its history.

use std::sync::Arc;

use hapax_engine::clock::SystemClock;
use hapax_engine::memory::MemoryStore;
use serde_json::{Value, json};

use super::support::{Setup, StoreKind, TestServer};
use super::worker::{Activation, TestWorker};

/// Two steps at once, of which the second ends first, then a signal.
async fn half_way(worker: &TestWorker<'_>) -> Activation {
    let run = worker.start(json!(null)).await;
    worker
        .commit(&run, json!([{ "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "step", "name": "b" }]))
        .await;
    worker.attempt(&run, 1).await;
    worker.attempt(&run, 2).await;
    worker.commit(&run, json!([{ "outcome": 2, "attempt": 1, "output": "b" }])).await;
    worker.resolved(&run, 2).await;
    worker.commit(&run, json!([{ "took": 2 }])).await;
    worker.commit(&run, json!([{ "outcome": 1, "attempt": 1, "output": "a" }])).await;
    worker.resolved(&run, 1).await;
    let value = json!({ "op": 3, "do": "value", "name": "now", "value": 5 });
    worker.commit(&run, json!([{ "took": 1 }, value, { "op": 4, "do": "signal", "name": "go" }])).await;
    run
}

/// The items of a replay of the same.
fn replayed() -> Value {
    json!([
        { "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "step", "name": "b" }, { "took": 2 }, { "took": 1 },
        { "op": 3, "do": "value", "name": "now", "value": 5 }, { "op": 4, "do": "signal", "name": "go" },
    ])
}

/// Wakes a run that is parked: a forgotten function is called again when there is something for the run.
async fn nudge(server: &TestServer, run: &str) {
    let signals = format!("/api/v1/workflow-runs/{run}/signals");
    let sent = server.post(&signals, &json!({ "name": "nudge", "value": 1 }), &[]).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
}

async fn finish(server: &TestServer, worker: &TestWorker<'_>, again: &Activation) {
    let signals = format!("/api/v1/workflow-runs/{}/signals", again.run);
    server.post(&signals, &json!({ "name": "go", "value": 1 }), &[]).await;
    worker.resolved(again, 4).await;
    worker.commit(again, json!([{ "took": 4 }, { "return": "done" }])).await;
    server.until(&again.run, "COMPLETED").await;
}

fn told_log(activation: &Activation) -> Vec<(String, String)> {
    let log = activation.message["log"].as_array().unwrap();
    let text = |record: &Value, name: &str| record[name].as_str().unwrap().to_owned();
    log.iter().map(|record| (text(record, "id"), text(record, "status"))).collect()
}

#[tokio::test]
async fn an_evicted_function_gets_its_log_in_the_order_in_which_outcomes_came() {
    let server = TestServer::sqlite().await;
    let worker = TestWorker::open(&server).await;
    let run = half_way(&worker).await;
    worker.commit(&run, json!([{ "evicted": true }])).await;
    nudge(&server, &run.run).await;
    let again = worker.activated().await;
    let log: Vec<_> = told_log(&again);
    let told: Vec<(&str, &str)> = log.iter().map(|(id, status)| (id.as_str(), status.as_str())).collect();
    assert_eq!(told, [("now", "COMPLETED"), ("go", "WAITING"), ("b", "COMPLETED"), ("a", "COMPLETED")]);
    worker.commit(&again, replayed()).await;
    finish(&server, &worker, &again).await;
}

#[tokio::test]
async fn a_run_goes_on_after_a_restart_of_the_server() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let server = TestServer::over(store.clone(), StoreKind::Elsewhere, Setup::default()).await;
    let worker = TestWorker::open(&server).await;
    let run = half_way(&worker).await;
    server.until(&run.run, "WAITING").await;
    let restarted = TestServer::over(store, StoreKind::Elsewhere, Setup::default()).await;
    let unknown = restarted
        .send(
            "POST",
            &format!("{}/{}/poll", super::worker::SESSIONS, worker.session),
            Some(json!({ "sequence": 1, "free": 1 }).to_string()),
            &worker.key,
            &[],
        )
        .await;
    assert_eq!(unknown.told(), (404, "session_unknown".into()));
    worker.close().await;
    let worker = TestWorker::open(&restarted).await;
    let signals = format!("/api/v1/workflow-runs/{}/signals", run.run);
    restarted.post(&signals, &json!({ "name": "go", "value": 1 }), &[]).await;
    let again = worker.activated().await;
    worker.commit(&again, replayed()).await;
    worker.resolved(&again, 4).await;
    worker.commit(&again, json!([{ "took": 4 }, { "return": "done" }])).await;
    restarted.until(&run.run, "COMPLETED").await;
}

#[tokio::test]
async fn code_that_does_not_fit_its_history_pauses_the_run_until_it_does() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = half_way(&worker).await;
    worker.commit(&run, json!([{ "evicted": true }])).await;
    nudge(&server, &run.run).await;
    let path = format!("/api/v1/workflow-runs/{}", run.run);
    let swapped = json!([
        { "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "step", "name": "b" }, { "took": 1 }, { "took": 2 },
        { "op": 3, "do": "value", "name": "now", "value": 5 }, { "op": 4, "do": "signal", "name": "go" },
    ]);
    let other_step =
        json!([{ "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "sleep", "name": "b", "for": "1s" }]);
    let other_value = json!([
        { "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "step", "name": "b" }, { "took": 2 }, { "took": 1 },
        { "op": 3, "do": "value", "name": "now", "value": 6 },
    ]);
    let said = json!([{ "violation": "the log has b, the code asks for c" }]);
    let ends_early = json!([{ "return": 1 }]);
    for wrong in [swapped, other_step, other_value, said, ends_early] {
        let again = worker.activated().await;
        worker.commit(&again, wrong.clone()).await;
        let shown = server.until(&run.run, "PAUSED").await;
        let reasons = server.get(&format!("{path}/events")).await.text();
        assert!(reasons.contains("DeterminismViolation"), "{wrong}: {reasons}");
        assert_eq!(shown["steps"].as_array().unwrap().len(), 4, "{wrong}: {shown}");
        let resumed = server.post(&format!("{path}/resume"), &json!({}), &[]).await;
        assert_eq!(resumed.status, 200, "{}", resumed.text());
    }
    let again = worker.activated().await;
    worker.commit(&again, replayed()).await;
    finish(&server, &worker, &again).await;
}
