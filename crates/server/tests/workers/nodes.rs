//! Several nodes: a session lives on one of them, and its calls may reach any.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{PATIENCE, Setup, TestServer};
use super::worker::{SESSIONS, TestWorker};

fn order() -> Value {
    json!({ "workflows": [{ "name": "order" }] })
}

fn slot() -> Value {
    json!({ "instance": "slot", "workflows": [{ "name": "order" }] })
}

/// Two nodes on one database.
async fn two_nodes() -> (TestServer, TestServer) {
    let setup = || Setup { is_advertised: true, ..Setup::default() };
    let first = TestServer::postgres_set_up(setup()).await;
    let mut second = TestServer::joining(&first.database_url(), setup()).await;
    second.admin = first.admin.clone();
    // Each has read the other's address once the list of sessions is the same on both.
    let probe = TestWorker::among(vec![&first], json!({ "tasks": ["probe"] })).await;
    let other = TestWorker::among(vec![&second], json!({ "tasks": ["probe"] })).await;
    for node in [&first, &second] {
        node.until_shown(SESSIONS, |shown| shown["items"].as_array().is_some_and(|all| all.len() == 2)).await;
    }
    assert_eq!((probe.close().await.status, other.close().await.status), (200, 200));
    (first, second)
}

#[tokio::test]
async fn each_call_of_a_session_may_reach_any_node() {
    let (first, second) = two_nodes().await;
    let worker = TestWorker::among(vec![&first, &second], order()).await;
    for number in 0..6 {
        let run = worker.start(json!(number)).await;
        worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
        worker.attempt(&run, 1).await;
        let items =
            json!([{ "outcome": 1, "attempt": 1, "output": number }, { "took": 1 }, { "return": number }]);
        worker.commit(&run, items).await;
        first.until(&run.run, "COMPLETED").await;
    }
    for node in [&first, &second] {
        let listed = node.get(SESSIONS).await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["items"][0]["sessionId"], worker.session.as_str());
    }
    let path = format!("{SESSIONS}/{}", worker.session);
    assert_eq!(second.send("DELETE", &path, None, &worker.key, &[]).await.status, 200);
    let gone = worker.send("poll", &json!({ "sequence": 1, "free": 1 })).await;
    assert_eq!(gone.told(), (404, "session_unknown".into()));
}

/// The number holds, whichever node passes the request on.
#[tokio::test]
async fn the_same_request_over_another_node_gets_the_same_answer() {
    let (first, second) = two_nodes().await;
    let worker = TestWorker::among(vec![&first, &second], order()).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "op": 1, "do": "step", "name": "charge" }]);
    let runs = json!([{ "run": run.run, "activation": run.id, "items": asks }]);
    let commit = json!({ "sequence": 1, "free": 9, "runs": runs });
    let answer = worker.send("commit", &commit).await;
    assert_eq!(answer.json()["messages"][0]["type"], "attempt", "{}", answer.text());
    assert_eq!(worker.send("commit", &commit).await.bytes, answer.bytes);
    assert_eq!(worker.send("commit", &commit).await.bytes, answer.bytes);
}

#[tokio::test]
async fn a_forwarded_call_is_never_forwarded_again_and_another_workspace_sees_nothing() {
    let (first, second) = two_nodes().await;
    let worker = TestWorker::among(vec![&first], order()).await;
    let path = format!("{SESSIONS}/{}/poll", worker.session);
    let poll = json!({ "sequence": 1, "free": 1 }).to_string();
    let by = [("hapax-forwarded-by", "0102030405ff")];
    let refused = second.send("POST", &path, Some(poll.clone()), &worker.key, &by).await;
    assert_eq!(refused.told(), (404, "session_unknown".into()));
    let stranger = second.key("other", super::support::Role::Worker).await;
    let refused = second.send("POST", &path, Some(poll.clone()), &stranger, &[]).await;
    assert_eq!(refused.told(), (404, "session_unknown".into()));
    let nobody = format!("{SESSIONS}/wks_0102030405ff{:032x}/poll", 7);
    let refused = second.send("POST", &nobody, Some(poll.clone()), &worker.key, &[]).await;
    assert_eq!(refused.told(), (404, "session_unknown".into()), "no such node was ever published");
    let large = "x".repeat(9 * 1024 * 1024);
    let refused =
        second.send("POST", &path, Some(format!("{{\"sequence\":\"{large}\"}}")), &worker.key, &[]).await;
    assert_eq!(refused.told(), (413, "payload_too_large".into()));
}

/// The worker was killed, and its successor reached another node.
#[tokio::test]
async fn a_new_session_of_an_instance_replaces_the_older_one_on_another_node() {
    let (first, second) = two_nodes().await;
    let older = TestWorker::among(vec![&first], slot()).await;
    let run = older.start(json!(null)).await;
    older.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    older.attempt(&run, 1).await;
    let began = Instant::now();
    let newer = TestWorker::with_key(&second, vec![&second], older.key.clone(), slot()).await;
    let again = newer.activated().await;
    assert_eq!(again.run, run.run);
    assert!(began.elapsed() < Duration::from_secs(5), "it waited for {:?}", began.elapsed());
    let replaced = older.send("poll", &json!({ "sequence": 1, "free": 1 })).await;
    assert_eq!(replaced.told(), (409, "session_replaced".into()));
    // Word of an older session changes nothing.
    let opened_at = "2020-01-01T00:00:00Z";
    let old_news =
        json!({ "sessionId": older.session, "instance": "slot", "openedAt": opened_at }).to_string();
    let path = format!("{SESSIONS}/announce");
    let told = second.send("POST", &path, Some(old_news), &older.key, &[]).await;
    assert_eq!(told.json(), json!({ "isNewest": false }));
    newer.commit(&again, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    let attempt = newer.attempt(&again, 1).await;
    assert_eq!(attempt["attempt"], 2);
    let ends = json!([{ "outcome": 1, "attempt": 2, "output": 1 }, { "took": 1 }, { "return": 1 }]);
    newer.commit(&again, ends).await;
    second.until(&run.run, "COMPLETED").await;
}

/// A node that stops lets attempts end, gives its runs back, and tells the worker to open a session elsewhere.
#[tokio::test]
async fn a_node_that_stops_lets_attempts_end_and_another_goes_on_at_once() {
    let (first, second) = two_nodes().await;
    let worker = TestWorker::among(vec![&first], order()).await;
    let busy = worker.start(json!("busy")).await;
    worker.commit(&busy, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    worker.attempt(&busy, 1).await;
    let idle = worker.start(json!("idle")).await;
    worker.commit(&idle, json!([{ "op": 1, "do": "signal", "name": "go" }])).await;
    first.stop();
    let refused = json!({ "name": "late", "concurrency": 1 }).to_string();
    let since = Instant::now();
    loop {
        let answer = first.send("POST", SESSIONS, Some(refused.clone()), &worker.key, &[]).await;
        if answer.status == 503 {
            assert_eq!(answer.code(), "shutting_down");
            break;
        }
        assert!(since.elapsed() < PATIENCE, "it still opens sessions");
    }
    // Attempts in progress end here, and are recorded.
    worker.commit(&busy, json!([{ "outcome": 1, "attempt": 1, "output": "paid" }])).await;
    let next = TestWorker::with_key(&second, vec![&second], worker.key.clone(), order()).await;
    let again = next.activated().await;
    assert_eq!(again.run, busy.run);
    assert_eq!(again.message["log"][0]["output"], "paid", "{}", again.message);
    assert!(since.elapsed() < Duration::from_secs(10), "leases were waited for: {:?}", since.elapsed());
    next.commit(&again, json!([{ "op": 1, "do": "step", "name": "charge" }, { "took": 1 }, { "return": 1 }]))
        .await;
    second.until(&busy.run, "COMPLETED").await;
    let signals = format!("/api/v1/workflow-runs/{}/signals", idle.run);
    let sent = second.post(&signals, &json!({ "name": "go", "value": 1 }), &[]).await;
    assert!(sent.status < 300, "{}", sent.text());
    let other = next.activated().await;
    assert_eq!(other.run, idle.run);
    let items = json!([{ "op": 1, "do": "signal", "name": "go" }]);
    next.commit(&other, items).await;
    next.resolved(&other, 1).await;
    next.commit(&other, json!([{ "took": 1 }, { "return": 1 }])).await;
    second.until(&idle.run, "COMPLETED").await;
}

/// Its address is published for a while longer, but nobody listens there.
#[tokio::test]
async fn a_session_of_a_node_that_is_gone_is_over() {
    let (first, second) = two_nodes().await;
    let worker = TestWorker::among(vec![&first], order()).await;
    first.engine.kill();
    first.stop();
    let since = Instant::now();
    loop {
        let path = format!("{SESSIONS}/{}/poll", worker.session);
        let poll = json!({ "sequence": worker.next_request(), "free": 1 }).to_string();
        let answer = second.send("POST", &path, Some(poll), &worker.key, &[]).await;
        match answer.told() {
            (404, code) if code == "session_unknown" => break,
            told => assert!(since.elapsed() < PATIENCE, "{told:?}"),
        }
    }
}
