//! Sessions: tokens, instances, roles, and workers that lie.

use serde_json::{Value, json};

use super::support::{Role, TestServer};
use super::worker::{SESSIONS, TestWorker, start};

#[tokio::test]
async fn the_same_token_does_nothing_twice_and_gets_the_same_answer() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    start(&server, json!(null)).await;
    let poll = json!({ "token": "first", "free": 9 });
    let answer = worker.send("poll", &poll).await;
    assert_eq!(answer.json()["messages"][0]["type"], "activate", "{}", answer.text());
    assert_eq!(worker.send("poll", &poll).await.bytes, answer.bytes, "a lost answer is given again");
    let message = answer.json()["messages"][0].clone();
    let items = json!([{ "op": 1, "do": "step", "name": "charge" }]);
    let run = json!({ "run": message["run"], "activation": message["activation"], "items": items });
    let commit = json!({ "token": "second", "free": 9, "runs": [run] });
    let answer = worker.send("commit", &commit).await;
    assert_eq!(answer.json()["messages"][0]["type"], "attempt", "{}", answer.text());
    assert_eq!(worker.send("commit", &commit).await.bytes, answer.bytes);
    let again = json!({ "token": "third", "free": 9 });
    let newer = json!({ "token": "fourth", "free": 9 });
    let (first, second) = tokio::join!(worker.send("poll", &again), worker.send("poll", &newer));
    let told = [first.told(), second.told()];
    assert!(told.contains(&(409, "request_superseded".into())), "{told:?}");
}

#[tokio::test]
async fn a_new_session_of_an_instance_replaces_the_older_one() {
    let server = TestServer::memory().await;
    let names = json!({ "instance": "slot-1", "workflows": [{ "name": "order" }] });
    let older = TestWorker::with(&server, names.clone()).await;
    let run = older.start(json!(null)).await;
    older.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    let key = older.attempt(&run, 1).await["key"].clone();
    let newer = TestWorker::with(&server, names).await;
    let replaced = older.send("poll", &json!({ "token": "x", "free": 1 })).await;
    assert_eq!(replaced.told(), (409, "session_replaced".into()));
    let again = newer.activated().await;
    assert_eq!(again.run, run.run);
    assert!(again.message["fence"].as_u64() > run.message["fence"].as_u64(), "{}", again.message);
    newer.commit(&again, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    let attempt = newer.attempt(&again, 1).await;
    assert_eq!((&attempt["key"], &attempt["attempt"]), (&key, &json!(2)), "the first attempt counts");
    newer
        .commit(&again, json!([{ "outcome": 1, "attempt": 2, "output": 1 }, { "took": 1 }, { "return": 1 }]))
        .await;
    server.until(&run.run, "COMPLETED").await;
    let unknown = older.send("poll", &json!({ "token": "y", "free": 1 })).await;
    assert_eq!(unknown.told(), (409, "session_replaced".into()));
    assert_eq!(newer.close().await.status, 200);
    let closed = newer.send("poll", &json!({ "token": "z", "free": 1 })).await;
    assert_eq!(closed.told(), (404, "session_unknown".into()));
}

#[tokio::test]
async fn a_worker_that_lies_is_told_so_and_changes_nothing() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let honest = worker.start(json!("honest")).await;
    worker.commit(&honest, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    worker.attempt(&honest, 1).await;
    let too_many: Vec<Value> =
        (1..=10_001).map(|op| json!({ "op": op, "do": "value", "name": "v", "value": 1 })).collect();
    let lies = [
        json!([{ "outcome": 1, "attempt": 1, "output": 1 }]),
        json!([{ "op": 2, "do": "step", "name": "skips" }]),
        json!([{ "op": 1, "do": "fly" }]),
        json!([{ "op": 1, "do": "step", "name": "a~b" }, { "took": 1 }]),
        json!([{ "took": 1 }]),
        json!([{ "return": 1 }, { "took": 1 }]),
        json!([{ "closeScope": 1, "ok": true }]),
        json!([{ "op": 1, "do": "step", "name": "a", "scope": 7 }]),
        json!([{ "abandon": 1 }]),
        json!(too_many),
        json!([17]),
    ];
    for lie in lies {
        let run = worker.start(json!("lie")).await;
        worker.commit(&run, lie.clone()).await;
        let drop = worker.told(&run, "drop").await;
        assert_eq!(drop["why"], "violation", "{lie}: {drop}");
        assert!(drop["problem"]["detail"].is_string(), "{drop}");
        let shown = server.until(&run.run, "PAUSED").await;
        assert_eq!(shown["steps"], json!([]), "{lie}: nothing is written");
    }
    let elsewhere = json!([{ "run": "run_01", "activation": "a77", "items": [{ "return": 1 }] }]);
    let answer = worker.send("commit", &json!({ "token": "w", "free": 1, "runs": elsewhere })).await;
    assert_eq!(answer.json()["messages"][0]["type"], "drop", "{}", answer.text());
    let items = json!([{ "outcome": 1, "attempt": 1, "output": 1 }, { "took": 1 }, { "return": "fine" }]);
    worker.commit(&honest, items).await;
    server.until(&honest.run, "COMPLETED").await;
}

#[tokio::test]
async fn a_worker_may_call_its_sessions_and_nothing_else_and_sees_no_other_workspace() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    for (method, path) in
        [("GET", "/api/v1/workflow-runs"), ("POST", "/api/v1/workflow-runs"), ("GET", SESSIONS)]
    {
        let body = (method == "POST").then(|| json!({ "workflow": "order" }).to_string());
        assert_eq!(
            server.send(method, path, body, &worker.key, &[]).await.told(),
            (403, "forbidden".into()),
            "{path}"
        );
    }
    let viewer = server.key("acme", Role::Viewer).await;
    let asked = json!({ "name": "v", "concurrency": 1 }).to_string();
    assert_eq!(server.send("POST", SESSIONS, Some(asked), &viewer, &[]).await.status, 403);
    let other = server.key("other", Role::Worker).await;
    let poll = json!({ "token": "x", "free": 1 }).to_string();
    let path = format!("{SESSIONS}/{}/poll", worker.session);
    assert_eq!(
        server.send("POST", &path, Some(poll), &other, &[]).await.told(),
        (404, "session_unknown".into())
    );
    let listed = server.get(SESSIONS).await.json();
    assert_eq!(listed["items"][0]["sessionId"], worker.session.as_str(), "{listed}");
    let outsider = server.key("other", Role::Admin).await;
    assert_eq!(server.send("GET", SESSIONS, None, &outsider, &[]).await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_session_with_bad_names_is_refused() {
    let server = TestServer::memory().await;
    let key = server.key("acme", Role::Worker).await;
    let bad = [
        json!({ "name": "", "concurrency": 1 }),
        json!({ "name": "x", "concurrency": 0 }),
        json!({ "name": "x", "concurrency": 1, "workflows": [{ "name": "a b~c" }] }),
        json!({ "name": "x", "concurrency": 1, "workflows": [{ "name": "a", "version": 0 }] }),
        json!({ "name": "x", "concurrency": 1, "tasks": [""] }),
        json!({ "name": "x", "concurrency": 1, "tasks": vec!["t"; 1_001] }),
    ];
    for asked in bad {
        let answer = server.send("POST", SESSIONS, Some(asked.to_string()), &key, &[]).await;
        assert_eq!(answer.told(), (400, "invalid_request".into()), "{asked}");
    }
    server.echo().await;
    let taken = json!({ "name": "x", "concurrency": 1, "workflows": [{ "name": "echo" }] });
    let answer = server.send("POST", SESSIONS, Some(taken.to_string()), &key, &[]).await;
    assert_eq!(answer.told(), (409, "workflow_taken".into()));
}
