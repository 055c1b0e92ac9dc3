//! Operations that the code of a run in a worker can ask for.

use serde_json::{Value, json};

use super::support::TestServer;
use super::worker::TestWorker;

fn run_path(run: &str) -> String {
    format!("/api/v1/workflow-runs/{run}")
}

#[tokio::test]
async fn a_run_goes_from_its_start_to_its_end_with_one_commit_for_each_step() {
    let server = TestServer::sqlite().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!({ "n": 18446744073709551615u64 })).await;
    assert_eq!(run.message["input"].to_string(), r#"{"n":18446744073709551615}"#);
    assert_eq!(run.message["keyPrefix"], run.run.as_str());
    worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    assert_eq!(worker.attempt(&run, 1).await["key"], format!("{}:charge", run.run));
    let items = json!([{ "outcome": 1, "attempt": 1, "output": { "id": 1 } }, { "took": 1 }, { "op": 2, "do": "step", "name": "ship" }]);
    worker.commit(&run, items).await;
    worker.attempt(&run, 2).await;
    let charge = server.get(&run_path(&run.run)).await.json()["steps"][0].clone();
    assert_eq!(
        (&charge["status"], &charge["output"]),
        (&json!("COMPLETED"), &json!({ "id": 1 })),
        "before the next begins"
    );
    let items =
        json!([{ "outcome": 2, "attempt": 1, "output": null }, { "took": 2 }, { "return": "shipped" }]);
    worker.commit(&run, items).await;
    assert_eq!(worker.dropped(&run).await, "closed");
    let ended = server.until(&run.run, "COMPLETED").await;
    assert_eq!(ended["run"]["output"], "shipped");
}

#[tokio::test]
async fn steps_in_parallel_are_told_one_by_one_and_a_loser_is_abandoned() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "op": 1, "do": "step", "name": "a" }, { "op": 2, "do": "step", "name": "b" }, { "op": 3, "do": "signal", "name": "never" }]);
    worker.commit(&run, asks).await;
    worker.attempt(&run, 1).await;
    worker.attempt(&run, 2).await;
    worker.commit(&run, json!([{ "outcome": 2, "attempt": 1, "output": "b" }])).await;
    assert_eq!(worker.resolved(&run, 2).await["output"], "b");
    worker.commit(&run, json!([{ "outcome": 1, "attempt": 1, "output": "a" }])).await;
    worker.commit(&run, json!([{ "took": 2 }])).await;
    assert_eq!(worker.resolved(&run, 1).await["output"], "a");
    worker
        .commit(&run, json!([{ "took": 1 }, { "abandon": 3 }, { "op": 4, "do": "step", "name": "c" }]))
        .await;
    worker.attempt(&run, 4).await;
    let shown = server.get(&run_path(&run.run)).await.json();
    let never = shown["steps"].as_array().unwrap().iter().find(|step| step["id"] == "never").unwrap().clone();
    assert_eq!(never["status"], "CANCELLED", "{shown}");
    worker
        .commit(&run, json!([{ "outcome": 4, "attempt": 1, "output": 1 }, { "took": 4 }, { "return": 1 }]))
        .await;
    server.until(&run.run, "COMPLETED").await;
}

#[tokio::test]
async fn signals_sleeps_promises_and_values_work() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    worker.commit(&run, json!([{ "op": 1, "do": "value", "name": "now", "value": 5 }, { "op": 2, "do": "sleep", "for": "20ms" }])).await;
    worker.resolved(&run, 2).await;
    worker
        .commit(
            &run,
            json!([{ "took": 2 }, { "op": 3, "do": "promise", "name": "paid", "idempotencyKey": "pay-1" }]),
        )
        .await;
    let settled =
        server.post("/api/v1/promises/key:pay-1/resolve", &json!({ "value": { "by": "bank" } }), &[]).await;
    assert_eq!(settled.status, 200, "{}", settled.text());
    assert_eq!(worker.resolved(&run, 3).await["output"], json!({ "by": "bank" }));
    worker
        .commit(&run, json!([{ "took": 3 }, { "op": 4, "do": "signal", "name": "go", "timeout": "1h" }]))
        .await;
    server.post(&format!("{}/signals", run_path(&run.run)), &json!({ "name": "go", "value": 7 }), &[]).await;
    assert_eq!(worker.resolved(&run, 4).await["output"], 7);
    worker
        .commit(&run, json!([{ "took": 4 }, { "op": 5, "do": "afterEffect", "target": "mail", "body": {} }]))
        .await;
    assert_eq!(worker.resolved(&run, 5).await["output"], format!("{}:mail", run.run));
    worker
        .commit(
            &run,
            json!([{ "took": 5 }, { "throw": { "message": "no", "class": "permanent", "code": "mine" } }]),
        )
        .await;
    let ended = server.until(&run.run, "FAILED").await;
    assert_eq!(ended["run"]["failure"]["code"], "mine", "{ended}");
}

#[tokio::test]
async fn a_child_runs_in_the_same_worker_and_a_run_continues_as_new() {
    let server = TestServer::memory().await;
    let names = json!({ "workflows": [{ "name": "order" }, { "name": "item", "version": 2 }] });
    let worker = TestWorker::with(&server, names).await;
    let run = worker.start(json!(1)).await;
    worker.commit(&run, json!([{ "op": 1, "do": "child", "workflow": "item@2", "input": { "n": 1 } }])).await;
    let child = worker.activated().await;
    assert_eq!((&child.message["workflow"], &child.message["input"]), (&json!("item"), &json!({ "n": 1 })));
    worker.commit(&child, json!([{ "return": "made" }])).await;
    assert_eq!(worker.resolved(&run, 1).await["output"], "made");
    worker.commit(&run, json!([{ "took": 1 }, { "continueAsNew": 2 }])).await;
    let again = worker.activated().await;
    assert_eq!(
        (&again.run, &again.message["input"], &again.message["log"]),
        (&run.run, &json!(2), &json!([]))
    );
    assert_eq!(again.message["keyPrefix"], format!("{}.1", run.run));
    worker.commit(&again, json!([{ "return": null }])).await;
    server.until(&run.run, "COMPLETED").await;
}

#[tokio::test]
async fn a_scope_whose_body_fails_is_undone_before_its_outcome_is_told() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "op": 1, "do": "scope" }, { "op": 2, "do": "step", "name": "book", "scope": 1, "compensate": true }]);
    worker.commit(&run, asks).await;
    worker.attempt(&run, 2).await;
    let failure = json!({ "message": "no seats", "class": "permanent", "code": "full" });
    let items = json!([{ "outcome": 2, "attempt": 1, "output": "B1" }, { "took": 2 }, { "closeScope": 1, "failure": failure }]);
    worker.commit(&run, items).await;
    let undo = worker.attempt(&run, 2).await;
    assert_eq!((&undo["do"], &undo["output"], &undo["id"]), (&json!("undo"), &json!("B1"), &json!("book")));
    // The effect and its compensation both have an attempt 1.
    let late = worker.commit(&run, json!([{ "outcome": 2, "attempt": 1, "output": "B1" }])).await;
    assert_eq!(late, Vec::<Value>::new(), "an outcome of the effect is none of the compensation");
    worker.commit(&run, json!([{ "outcome": 2, "attempt": 1, "do": "undo", "output": null }])).await;
    assert_eq!(worker.resolved(&run, 1).await["failure"]["code"], "full");
    assert!(!worker.has_message("stop"), "the code goes on behind the scope");
    let asks = json!([{ "took": 1 }, { "op": 3, "do": "scope" }, { "op": 4, "do": "sleep", "for": "1ms", "scope": 3 }]);
    worker.commit(&run, asks).await;
    worker.resolved(&run, 4).await;
    worker
        .commit(&run, json!([{ "took": 4 }, { "closeScope": 3, "ok": true }, { "return": "handled" }]))
        .await;
    assert_eq!(server.until(&run.run, "COMPLETED").await["run"]["output"], "handled");
}

#[tokio::test]
async fn a_cancelled_run_undoes_its_effects_in_the_worker() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "book", "compensate": true }])).await;
    worker.attempt(&run, 1).await;
    let items = json!([{ "outcome": 1, "attempt": 1, "output": "B1" }, { "took": 1 }, { "op": 2, "do": "signal", "name": "go" }]);
    worker.commit(&run, items).await;
    let asked = json!({ "reason": "changed my mind" });
    let answer = server.post(&format!("{}/cancel", run_path(&run.run)), &asked, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    // The run was parked. It is taken up from its log.
    let again = worker.activated().await;
    let items = json!([
        { "op": 1, "do": "step", "name": "book", "compensate": true }, { "took": 1 }, { "op": 2, "do": "signal", "name": "go" },
    ]);
    worker.commit(&again, items).await;
    assert_eq!(worker.told(&again, "stop").await["reason"], "cancel");
    let undo = worker.attempt(&again, 1).await;
    assert_eq!((&undo["do"], &undo["output"]), (&json!("undo"), &json!("B1")));
    worker.commit(&again, json!([{ "outcome": 1, "attempt": 1, "do": "undo", "output": null }])).await;
    server.until(&run.run, "CANCELLED").await;
    assert_eq!(worker.dropped(&again).await, "closed");
}

/// A start is accepted while no worker is connected, and goes on when one comes.
#[tokio::test]
async fn a_run_waits_for_a_worker() {
    let server = TestServer::memory().await;
    let unknown = server.post("/api/v1/workflow-runs", &json!({ "workflow": "order" }), &[]).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    TestWorker::open(&server).await.close().await;
    let run = super::worker::start(&server, json!(null)).await;
    let shown: Value = server.get(&run_path(&run)).await.json();
    assert_eq!(shown["run"]["status"], "PENDING", "{shown}");
    let worker = TestWorker::open(&server).await;
    let activation = worker.activated().await;
    assert_eq!(activation.run, run);
    worker.commit(&activation, json!([{ "return": 1 }])).await;
    server.until(&run, "COMPLETED").await;
}
