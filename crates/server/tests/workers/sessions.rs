//! Sessions: numbered requests, instances, roles, and workers that lie.

use serde_json::{Value, json};

use super::support::{Role, TestServer};
use super::worker::{SESSIONS, TestWorker, start};

#[tokio::test]
async fn the_same_request_does_nothing_twice_and_gets_the_same_answer() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    start(&server, json!(null)).await;
    let poll = json!({ "sequence": 1, "free": 9 });
    let answer = worker.send("poll", &poll).await;
    assert_eq!(answer.json()["messages"][0]["type"], "activate", "{}", answer.text());
    assert_eq!(worker.send("poll", &poll).await.bytes, answer.bytes, "a lost answer is given again");
    let message = answer.json()["messages"][0].clone();
    let items = json!([{ "op": 1, "do": "step", "name": "charge" }]);
    let run = json!({ "run": message["run"], "activation": message["activation"], "items": items });
    let commit = json!({ "sequence": 1, "free": 9, "runs": [run] });
    let answer = worker.send("commit", &commit).await;
    assert_eq!(answer.json()["messages"][0]["type"], "attempt", "{}", answer.text());
    assert_eq!(worker.send("commit", &commit).await.bytes, answer.bytes);
    let again = json!({ "sequence": 2, "free": 9 });
    let newer = json!({ "sequence": 3, "free": 9 });
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
    let replaced = older.send("poll", &json!({ "sequence": 1, "free": 1 })).await;
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
    let unknown = older.send("poll", &json!({ "sequence": 2, "free": 1 })).await;
    assert_eq!(unknown.told(), (409, "session_replaced".into()));
    assert_eq!(newer.close().await.status, 200);
    let closed = newer.send("poll", &json!({ "sequence": 1_000, "free": 1 })).await;
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
        json!([{ "outcome": 1, "attempt": 1, "do": "undo", "output": 1 }]),
        json!([{ "outcome": 1, "attempt": 99, "output": 1 }]),
        json!([{ "outcome": 77, "attempt": 1, "failure": { "message": "no" } }]),
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
    let answer = worker
        .send("commit", &json!({ "sequence": worker.next_request(), "free": 1, "runs": elsewhere }))
        .await;
    assert_eq!(answer.json()["messages"][0]["type"], "drop", "{}", answer.text());
    let items = json!([{ "outcome": 1, "attempt": 1, "output": 1 }, { "took": 1 }, { "return": "fine" }]);
    worker.commit(&honest, items).await;
    server.until(&honest.run, "COMPLETED").await;
}

/// What belongs to an ended run, to a run of another workspace, or to nobody changes nothing and tells nothing.
#[tokio::test]
async fn a_worker_that_speaks_of_runs_that_are_not_its_own_hears_only_that_they_are_closed() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let ended = worker.start(json!(null)).await;
    worker.commit(&ended, json!([{ "return": "first" }])).await;
    let shown = server.until(&ended.run, "COMPLETED").await;
    let again = json!([{ "op": 1, "do": "step", "name": "charge" }, { "return": "second" }]);
    worker.commit(&ended, again.clone()).await;
    assert_eq!(worker.dropped(&ended).await, "closed");
    let later = server.get(&format!("/api/v1/workflow-runs/{}", ended.run)).await.json();
    assert_eq!(
        (&later["run"]["output"], &later["run"]["version"]),
        (&json!("first"), &shown["run"]["version"])
    );
    // A run of another workspace, under the name that its activation has there.
    let key = server.key("other", Role::Worker).await;
    let members = json!({ "workflows": [{ "name": "order" }] });
    let stranger = TestWorker::with_key(&server, vec![&server], key, members).await;
    let mine = worker.start(json!(null)).await;
    stranger.commit(&mine, again).await;
    assert_eq!(stranger.dropped(&mine).await, "closed");
    let evidence = json!([{ "late": { "key": format!("{}:charge", mine.run), "attempt": 1, "fence": 1, "output": "stolen" } }]);
    let told = stranger
        .send("commit", &json!({ "sequence": stranger.next_request(), "free": 1, "results": evidence }))
        .await;
    assert_eq!(told.json()["messages"], json!([]), "{}", told.text());
    let nonsense = json!([{ "late": { "key": 7 } }, { "call": "c1" }, { "call": "c999", "output": 1 }, 5]);
    let told = worker
        .send("commit", &json!({ "sequence": worker.next_request(), "free": 1, "results": nonsense }))
        .await;
    assert_eq!(told.status, 200, "{}", told.text());
    worker.commit(&mine, json!([{ "return": "mine" }])).await;
    assert_eq!(server.until(&mine.run, "COMPLETED").await["run"]["output"], "mine");
}

#[tokio::test]
async fn an_output_that_is_too_large_is_refused_and_the_step_says_so() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let retry = json!({ "maxAttempts": 1 });
    worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge", "retry": retry }])).await;
    worker.attempt(&run, 1).await;
    let huge = "x".repeat(3 * 1024 * 1024);
    worker.commit(&run, json!([{ "outcome": 1, "attempt": 1, "output": huge }])).await;
    let resolved = worker.resolved(&run, 1).await;
    assert!(resolved["failure"]["message"].as_str().is_some_and(|text| text.len() < 500), "{resolved}");
    worker.commit(&run, json!([{ "took": 1 }, { "return": "handled" }])).await;
    server.until(&run.run, "COMPLETED").await;
}

/// A worker that takes nothing gets no more runs than it can begin soon. The others stay in the store, for whoever has room.
#[tokio::test]
async fn a_worker_that_begins_nothing_gets_two_runs_for_each_slot_and_the_others_go_elsewhere() {
    let server = TestServer::memory().await;
    let members = json!({ "concurrency": 2, "workflows": [{ "name": "order" }] });
    let lazy = TestWorker::with(&server, members).await;
    for number in 0..7 {
        start(&server, json!(number)).await;
    }
    let busy = |shown: &Value| shown["items"][0]["underWay"] == 4;
    server.until_shown(SESSIONS, busy).await;
    let keen = TestWorker::with(&server, json!({ "workflows": [{ "name": "order" }] })).await;
    for _ in 0..3 {
        let run = keen.activated().await;
        keen.commit(&run, json!([{ "return": 1 }])).await;
        server.until(&run.run, "COMPLETED").await;
    }
    for _ in 0..4 {
        let run = lazy.activated().await;
        lazy.commit(&run, json!([{ "return": 1 }])).await;
        server.until(&run.run, "COMPLETED").await;
    }
}

/// Both halves of a name clash are refused.
#[tokio::test]
async fn a_document_cannot_take_a_version_that_workers_have_offered() {
    let server = TestServer::memory().await;
    let worker = TestWorker::with(&server, json!({ "workflows": [{ "name": "echo", "version": 1 }] })).await;
    worker.close().await;
    let document =
        json!({ "name": "echo", "version": 1, "steps": [{ "name": "rest", "type": "wait", "for": "1s" }] });
    let refused = server.post("/api/v1/workflow-definitions", &document, &[]).await;
    assert_eq!(refused.told(), (409, "workflow_taken".into()));
    let other =
        json!({ "name": "echo", "version": 2, "steps": [{ "name": "rest", "type": "wait", "for": "1s" }] });
    assert_eq!(server.post("/api/v1/workflow-definitions", &other, &[]).await.status, 201);
}

#[tokio::test]
async fn versions_are_current_draining_stranded_or_drained() {
    let server = TestServer::memory().await;
    let offer = |version: u32| json!({ "workflows": [{ "name": "order", "version": version }] });
    let first = TestWorker::with(&server, offer(1)).await;
    let old = first.start(json!(null)).await;
    let second = TestWorker::with(&server, offer(2)).await;
    let versions = |shown: &Value| -> Vec<Value> {
        let one = |item: &Value| json!([item["version"], item["openRuns"], item["status"], item["sessions"]]);
        shown["items"].as_array().unwrap().iter().map(one).collect()
    };
    let shown = server.get("/api/v1/worker-workflows").await.json();
    let expected = [json!([1, 1, "draining", [first.session]]), json!([2, 0, "current", [second.session]])];
    assert_eq!(versions(&shown), expected);
    first.close().await;
    let shown = server.get("/api/v1/worker-workflows?limit=1").await.json();
    assert_eq!(versions(&shown), [json!([1, 1, "stranded", []])]);
    let next = format!("/api/v1/worker-workflows?limit=1&cursor={}", shown["nextCursor"].as_str().unwrap());
    assert_eq!(server.get(&next).await.json()["items"][0]["version"], 2);
    let again = TestWorker::with(&server, offer(1)).await;
    let run = again.activated().await;
    assert_eq!(run.run, old.run);
    again.commit(&run, json!([{ "return": 1 }])).await;
    server.until(&old.run, "COMPLETED").await;
    let shown = server.get("/api/v1/worker-workflows").await.json();
    assert_eq!(shown["items"][0]["status"], "drained", "{shown}");
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
    let poll = json!({ "sequence": 1, "free": 1 }).to_string();
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

/// The network may deliver a copy of a commit long after its answer. The worker is several commits further by then.
#[tokio::test]
async fn a_late_copy_of_an_older_request_changes_nothing() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "run": run.run, "activation": run.id, "items": [{ "op": 1, "do": "step", "name": "charge" }] }]);
    let older = json!({ "sequence": worker.next_request(), "free": 9, "runs": asks });
    let told = worker.send("commit", &older).await;
    assert_eq!(told.json()["messages"][0]["type"], "attempt", "{}", told.text());
    let items = json!([{ "outcome": 1, "attempt": 1, "output": 7 }, { "took": 1 }, { "op": 2, "do": "sleep", "for": "1h" }]);
    worker.commit(&run, items).await;
    let late = worker.send("commit", &older).await;
    assert_eq!(late.told(), (409, "request_superseded".into()));
    let [first, second] = [0; 2].map(|_| json!({ "sequence": worker.next_request(), "free": 9 }));
    start(&server, json!("first")).await;
    assert_eq!(worker.send("poll", &first).await.json()["messages"][0]["input"]["of"], "first");
    start(&server, json!("second")).await;
    let answer = worker.send("poll", &second).await;
    assert_eq!(answer.json()["messages"][0]["input"]["of"], "second", "{}", answer.text());
    assert_eq!(worker.send("poll", &first).await.told(), (409, "request_superseded".into()));
    assert_eq!(
        worker.send("poll", &second).await.bytes,
        answer.bytes,
        "the late copy took nothing out of it"
    );
    // The run sleeps as before: nothing paused it, and nothing was made twice.
    let shown = server.until(&run.run, "WAITING").await;
    assert_eq!(shown["steps"][0]["attempts"], 1, "{shown}");
}
