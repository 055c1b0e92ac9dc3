//! Attempts of a worker that vanishes, and outcomes that come late.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use serde_json::{Value, json};

use super::support::{Setup, TestServer};
use super::worker::TestWorker;

const WORKFLOWS: &str = "/api/v1/workflow-runs";

fn order() -> Value {
    json!({ "instance": "slot", "workflows": [{ "name": "order" }] })
}

async fn doubts(server: &TestServer) -> Vec<Value> {
    server.get("/api/v1/doubts").await.json()["items"].as_array().unwrap().clone()
}

async fn timed() -> (TestServer, Arc<ManualClock>) {
    TestServer::timed().await
}

#[tokio::test]
async fn a_step_that_fails_is_tried_again_under_the_same_key() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let retry = json!({ "maxAttempts": 2, "first": "1ms" });
    worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge", "retry": retry }])).await;
    let first = worker.attempt(&run, 1).await;
    worker
        .commit(
            &run,
            json!([{ "outcome": 1, "attempt": 1, "failure": { "message": "busy", "class": "retryable" } }]),
        )
        .await;
    let second = worker.attempt(&run, 1).await;
    assert_eq!((&second["attempt"], &second["key"]), (&json!(2), &first["key"]));
    worker
        .commit(
            &run,
            json!([{ "outcome": 1, "attempt": 2, "failure": { "message": "busy", "class": "retryable" } }]),
        )
        .await;
    assert_eq!(worker.resolved(&run, 1).await["failure"]["message"], "busy");
    worker.commit(&run, json!([{ "took": 1 }, { "throw": { "message": "gave up" } }])).await;
    server.until(&run.run, "FAILED").await;
}

/// The older process may still be at work when the newer one opens its session. So the doubt waits for the end of its hold.
#[tokio::test]
async fn a_claimed_effect_of_a_replaced_worker_comes_into_doubt_after_its_hold_and_is_ruled_on() {
    let (server, clock) = timed().await;
    let older = TestWorker::with(&server, order()).await;
    let run = older.start(json!(null)).await;
    older.commit(&run, json!([{ "op": 1, "do": "step", "name": "wire", "claimed": true }])).await;
    older.attempt(&run, 1).await;
    let newer = TestWorker::with(&server, order()).await;
    assert!(doubts(&server).await.is_empty(), "the older one may begin it until its hold ends");
    for _ in 0..20 {
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    let doubt =
        server.until_shown("/api/v1/doubts", |shown| shown["items"][0].is_object()).await["items"][0].clone();
    assert_eq!(doubt["effectKey"], format!("{}:wire", run.run));
    let ruling = json!({ "resolution": "happened", "output": "W1", "reason": "the bank says so", "version": doubt["version"] });
    let answer = server.post(&format!("/api/v1/doubts/{}/wire/resolve", run.run), &ruling, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let again = newer.activated().await;
    newer.commit(&again, json!([{ "op": 1, "do": "step", "name": "wire", "claimed": true }])).await;
    assert_eq!(newer.resolved(&again, 1).await["output"], "W1");
    newer.commit(&again, json!([{ "took": 1 }, { "return": 1 }])).await;
    server.until(&run.run, "COMPLETED").await;
}

#[tokio::test]
async fn a_probe_settles_what_an_unknown_failure_left_open() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    worker
        .commit(&run, json!([{ "op": 1, "do": "step", "name": "wire", "claimed": true, "probe": true }]))
        .await;
    let attempt = worker.attempt(&run, 1).await;
    worker
        .commit(&run, json!([{ "outcome": 1, "attempt": 1, "failure": { "message": "connection reset" } }]))
        .await;
    let probe = worker.attempt(&run, 1).await;
    assert_eq!((&probe["do"], &probe["key"]), (&json!("probe"), &attempt["key"]));
    worker
        .commit(
            &run,
            json!([{ "outcome": 1, "attempt": probe["attempt"], "answer": "happened", "output": "W1" }]),
        )
        .await;
    assert_eq!(worker.resolved(&run, 1).await["output"], "W1");
    worker.commit(&run, json!([{ "took": 1 }, { "return": 1 }])).await;
    server.until(&run.run, "COMPLETED").await;
}

#[tokio::test]
async fn an_attempt_that_took_too_long_is_aborted_and_its_late_outcome_settles_the_doubt() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "op": 1, "do": "step", "name": "wire", "claimed": true, "timeout": "20ms" }]);
    worker.commit(&run, asks).await;
    worker.attempt(&run, 1).await;
    let abort = worker.told(&run, "abort").await;
    assert_eq!((&abort["op"], &abort["attempt"]), (&json!(1), &json!(1)));
    server.until_shown("/api/v1/doubts", |shown| shown["items"][0].is_object()).await;
    worker.commit(&run, json!([{ "outcome": 1, "attempt": 1, "output": "W9" }])).await;
    assert_eq!(worker.resolved(&run, 1).await["output"], "W9");
    worker.commit(&run, json!([{ "took": 1 }, { "return": 1 }])).await;
    server.until(&run.run, "COMPLETED").await;
    assert_eq!(doubts(&server).await, Vec::<Value>::new());
}

/// A worker that went on by itself with an outcome that no longer counted begins nothing: it runs again from the top.
#[tokio::test]
async fn a_worker_that_went_on_with_an_outcome_that_does_not_count_starts_over() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let retry = json!({ "first": "1ms", "cap": "1ms" });
    let asks = json!([{ "op": 1, "do": "step", "name": "charge", "timeout": "20ms", "retry": retry }]);
    worker.commit(&run, asks.clone()).await;
    worker.attempt(&run, 1).await;
    worker.told(&run, "abort").await;
    let items = json!([{ "outcome": 1, "attempt": 1, "output": 1 }, { "took": 1 }, { "op": 2, "do": "step", "name": "ship" }]);
    worker.commit(&run, items).await;
    assert_eq!(worker.dropped(&run).await, "reload");
    let again = worker.activated().await;
    assert_eq!((&again.run, again.id == run.id), (&run.run, false));
    worker.commit(&again, asks).await;
    let attempt = worker.attempt(&again, 1).await;
    assert!(attempt["attempt"].as_u64() > Some(1), "{attempt}");
    let steps = server.get(&format!("{WORKFLOWS}/{}", run.run)).await.json()["steps"].clone();
    assert!(steps.as_array().unwrap().iter().all(|step| step["id"] != "ship"), "{steps}");
}

/// The session ends because nothing is heard of the worker; its runs go on with another one.
#[tokio::test]
async fn a_silent_session_is_over_after_its_lease_and_another_worker_goes_on() {
    let clock = Arc::new(ManualClock::default());
    let server = TestServer::memory_with(Setup { clock: clock.clone(), ..Setup::default() }).await;
    let silent = TestWorker::open(&server).await;
    let run = silent.start(json!(null)).await;
    silent.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    silent.attempt(&run, 1).await;
    for _ in 0..40 {
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let listed = server.until_shown(super::worker::SESSIONS, |shown| shown["items"] == json!([])).await;
    assert_eq!(listed["items"], json!([]));
    let other = TestWorker::open(&server).await;
    let again = other.activated().await;
    assert_eq!(again.run, run.run);
    other.commit(&again, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    assert_eq!(other.attempt(&again, 1).await["attempt"], 2);
}
