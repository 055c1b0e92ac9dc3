//! Steering runs: pause, resume, cancel, retry, signals, results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_documents::HostServices;
use hapax_engine::Failure;
use serde_json::{Value, json};

use super::support::{Role, TestServer};
use super::{RUNS, waits};

/// CONTRACT §5: PAUSED and back, with who did it and why in the audit log.
#[tokio::test]
async fn a_run_is_paused_and_resumed() {
    let server = TestServer::sqlite().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let steer =
        async |what: &str, body: Value| server.post(&format!("{RUNS}/{run}/{what}"), &body, &[]).await;
    let paused = steer("pause", json!({ "reason": "the bank is closed" })).await;
    assert_eq!((paused.status, &paused.json()["status"]), (200, &json!("PAUSED")));
    assert_eq!(steer("pause", json!({})).await.told().0, 409);
    // A signal is kept while it is paused.
    assert_eq!(steer("signals", json!({ "name": "go", "value": { "n": 1 } })).await.status, 200);
    assert_eq!(steer("retry", json!({})).await.told(), (409, "run_not_failed".into()));
    let resumed = steer("resume", json!({ "reason": "it is open" })).await;
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    assert_eq!(server.end(&run).await["run"]["output"], json!({ "n": 1 }));
    assert_eq!(steer("resume", json!({})).await.told().0, 409);
    let cancel = steer("cancel", json!({})).await;
    assert_eq!(
        (cancel.status, &cancel.json()["status"]),
        (200, &json!("COMPLETED")),
        "it changes nothing, and says so"
    );
    assert_eq!(
        steer("signals", json!({ "name": "go" })).await.told(),
        (409, "run_ended".into()),
        "refused, not lost"
    );
    let audit = server.get("/api/v1/audit").await.json();
    let reasons: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["what"] == "steered" && entry["runId"] == json!(run))
        .filter_map(|entry| entry["reason"].as_str())
        .collect();
    assert_eq!(reasons, ["the bank is closed", "it is open"], "{audit}");
    let by =
        &audit["items"].as_array().unwrap().iter().find(|entry| entry["what"] == "steered").unwrap()["actor"];
    assert_eq!(by["name"], "admin of acme");
}

/// Steering needs no body, and is once under a request key.
#[tokio::test]
async fn a_command_needs_no_body_and_counts_once_under_its_key() {
    let server = TestServer::memory().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let path = format!("{RUNS}/{run}/pause");
    let key = [("idempotency-key", "pause-it")];
    let first = server.send("POST", &path, None, &server.admin, &key).await;
    assert_eq!((first.status, &first.json()["status"]), (200, &json!("PAUSED")), "{}", first.text());
    let again = server.send("POST", &path, None, &server.admin, &key).await;
    assert_eq!((again.status, &again.bytes, again.header("etag")), (200, &first.bytes, first.header("etag")));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

/// RELIABILITY 45: a cancelled run ends, and tells why.
#[tokio::test]
async fn a_run_is_cancelled_and_undone() {
    let undone = Arc::new(AtomicUsize::new(0));
    let counted = undone.clone();
    let services = HostServices::new().task("undo", move |_| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Value::Null)
        }
    });
    let server = TestServer::sqlite_with(services).await;
    let document = json!({
        "name": "undoes", "version": 1,
        "steps": [
            { "name": "reserve", "type": "task", "task": "echo", "compensate": { "type": "task", "task": "undo" } },
            { "name": "go", "type": "signal" },
        ],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let asked =
        server.post(&format!("{RUNS}/{run}/cancel"), &json!({ "reason": "changed my mind" }), &[]).await;
    assert_eq!(asked.status, 200, "{}", asked.text());
    server.until(&run, "CANCELLED").await;
    assert_eq!(undone.load(Ordering::SeqCst), 1);
    let result = server.get(&format!("{RUNS}/{run}/result")).await;
    assert_eq!((result.status, &result.json()["status"]), (200, &json!("CANCELLED")), "{}", result.text());
    assert!(result.json()["failure"]["code"] == "cancelled", "{}", result.text());
}

/// CONTRACT §5: a FAILED run continues only after an explicit retry; finished steps are not
/// repeated unless requested.
#[tokio::test]
async fn a_failed_run_is_retried_from_where_it_failed_or_from_a_step() {
    let calls = Arc::new(AtomicUsize::new(0));
    let tries = Arc::new(AtomicUsize::new(0));
    let (counted, tried) = (calls.clone(), tries.clone());
    let services = HostServices::new()
        .task("count", move |_| {
            let counted = counted.clone();
            async move { Ok(json!({ "calls": counted.fetch_add(1, Ordering::SeqCst) + 1 })) }
        })
        .task("moody", move |_| {
            let tried = tried.clone();
            async move {
                match tried.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 => Err(Failure::permanent("not today")),
                    _ => Ok(json!({ "done": true })),
                }
            }
        });
    let server = TestServer::sqlite_with(services).await;
    let document = json!({
        "name": "moody", "version": 1,
        "steps": [{ "name": "before", "type": "task", "task": "count" }, { "name": "mood", "type": "task", "task": "moody" }],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    let failed = server.until(&run, "FAILED").await;
    let retry = format!("{RUNS}/{run}/retry");
    assert_eq!(
        server.post(&retry, &json!({ "fromStep": "nowhere" }), &[]).await.told(),
        (404, "not_found".into())
    );
    let again = server.post(&retry, &json!({ "reason": "another day" }), &[]).await;
    assert_eq!(again.status, 200, "{}", again.text());
    let version = failed["run"]["version"].as_u64().unwrap();
    let path = format!("{RUNS}/{run}");
    let failed_anew = |shown: &Value| {
        shown["run"]["status"] == "FAILED" && shown["run"]["version"].as_u64().unwrap() > version + 1
    };
    server.until_shown(&path, failed_anew).await;
    assert_eq!(
        (calls.load(Ordering::SeqCst), tries.load(Ordering::SeqCst)),
        (1, 2),
        "only what failed ran again"
    );
    assert_eq!(server.post(&retry, &json!({ "fromStep": "before" }), &[]).await.status, 200);
    assert_eq!(server.end(&run).await["run"]["output"], json!({ "calls": 2, "done": true }));
    assert_eq!((calls.load(Ordering::SeqCst), tries.load(Ordering::SeqCst)), (2, 3), "all from the step on");
}

/// CONTRACT §6: the plan of a retry names the effects that would happen again, and repeating them
/// needs a manager.
#[tokio::test]
async fn a_retry_that_makes_an_effect_happen_again_needs_a_manager_who_names_it() {
    let faxes = Arc::new(AtomicUsize::new(0));
    let counted = faxes.clone();
    let services = HostServices::new()
        .task("fax", move |_| {
            let counted = counted.clone();
            async move { Ok(json!({ "pages": counted.fetch_add(1, Ordering::SeqCst) })) }
        })
        .task("fail", |_| async { Err::<Value, _>(Failure::permanent("not today")) });
    let server = TestServer::sqlite_with(services).await;
    let document = json!({
        "name": "office", "version": 1,
        "steps": [
            { "name": "look", "type": "task", "task": "echo" },
            { "name": "fax", "type": "task", "task": "fax", "effect": "claimed", "nonIdempotent": true },
            { "name": "file", "type": "task", "task": "fail" },
        ],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    let failed = server.until(&run, "FAILED").await;
    let (operator, manager) =
        (server.key("acme", Role::Operator).await, server.key("acme", Role::Manager).await);

    let plan = server.get(&format!("{RUNS}/{run}/retry-plan?fromStep=fax")).await;
    assert_eq!(plan.status, 200, "{}", plan.text());
    let plan = plan.json();
    assert_eq!((&plan["version"], &plan["repeatEffects"]), (&failed["run"]["version"], &json!(["fax"])));
    assert_eq!(plan["staysDone"][0]["stepId"], "look", "{plan}");
    let again = &plan["runsAgain"];
    assert_eq!((&again[0]["stepId"], &again[0]["happensAgain"]), (&json!("fax"), &json!(true)), "{plan}");
    assert_eq!((&again[0]["class"], &again[0]["status"]), (&json!("claimed"), &json!("COMPLETED")));
    assert_eq!(again[0]["effectKey"], json!(format!("{run}:fax")));
    assert_eq!((&again[1]["stepId"], &again[1]["happensAgain"]), (&json!("file"), &json!(false)), "{plan}");
    let unplanned = server.get(&format!("{RUNS}/{run}/retry-plan?fromStep=nowhere")).await;
    assert_eq!(unplanned.told(), (404, "not_found".into()));

    let retry = format!("{RUNS}/{run}/retry");
    let send =
        async |key: &str, body: Value| server.send("POST", &retry, Some(body.to_string()), key, &[]).await;
    let refused = send(&manager, json!({ "fromStep": "fax", "reason": "once more" })).await;
    assert_eq!(refused.told(), (409, "effects_would_repeat".into()));
    assert_eq!(refused.json()["effects"], json!(["fax"]), "they are named");
    let repeat = json!({ "fromStep": "fax", "reason": "the paper was empty", "repeatEffects": ["fax"] });
    assert_eq!(send(&operator, repeat.clone()).await.told(), (403, "needs_manager".into()));
    let silent = send(&manager, json!({ "fromStep": "fax", "repeatEffects": ["fax"] })).await;
    assert_eq!(silent.told(), (400, "ruling_incomplete".into()));
    assert_eq!(faxes.load(Ordering::SeqCst), 1, "nothing has happened so far");
    let allowed = send(&manager, repeat).await;
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    server.until(&run, "FAILED").await;
    let ledger = server.get(&format!("{RUNS}/{run}/ledger")).await.json();
    let fax = ledger["items"].as_array().unwrap().iter().find(|entry| entry["stepId"] == "fax").unwrap();
    assert_eq!((&fax["happened"], &fax["happenedTwice"]), (&json!(2), &json!(1)), "{fax}");
    assert_eq!(fax["rulings"][0]["reason"], "the paper was empty", "{fax}");
    assert_eq!(faxes.load(Ordering::SeqCst), 2);
    let audit = server.get("/api/v1/audit").await.json();
    let entries = audit["items"].as_array().unwrap();
    let allows = |entry: &&Value| entry["what"] == "repeat_allowed" && entry["stepId"] == "fax";
    assert!(entries.iter().any(|entry| allows(&entry)), "{audit}");
}

/// CONTRACT §5: a signal is stored before anybody waits for it, and once per `signalId`.
#[tokio::test]
async fn a_signal_is_kept_and_counts_once() {
    let server = TestServer::sqlite().await;
    let document = json!({
        "name": "two-signals", "version": 1,
        "steps": [
            { "name": "first", "type": "signal", "signal": "tick", "output": { "first": "{{ result.n }}" } },
            { "name": "second", "type": "signal", "signal": "tick", "output": { "second": "{{ result.n }}" } },
        ],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    let send = async |body: Value, headers: &[(&str, &str)]| {
        server.post(&format!("{RUNS}/{run}/signals"), &body, headers).await.json()
    };
    let tick = |n: u64, id: &str| json!({ "name": "tick", "value": { "n": n }, "signalId": id });
    assert_eq!(send(tick(1, "evt-1"), &[]).await["stored"], json!(true));
    assert_eq!(send(tick(1, "evt-1"), &[]).await["stored"], json!(false));
    let unnamed = json!({ "name": "tick", "value": { "n": 2 } });
    let key = [("idempotency-key", "second-tick")];
    assert_eq!(send(unnamed.clone(), &key).await["stored"], json!(true));
    assert_eq!(send(unnamed, &key).await["stored"], json!(true), "a replay of the first answer");
    assert_eq!(server.end(&run).await["run"]["output"], json!({ "first": 1, "second": 2 }));
    let none = format!("{RUNS}/run_{:032x}/signals", 5);
    assert_eq!(server.post(&none, &json!({ "name": "tick" }), &[]).await.told(), (404, "not_found".into()));
}

/// A result is waited for as long as the caller likes: 202 until there is one, then 200 with the output.
#[tokio::test]
async fn a_result_is_waited_for() {
    let server = Arc::new(TestServer::memory().await);
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    let path = format!("{RUNS}/{run}/result");
    let not_yet = server.get(&path).await;
    assert_eq!((not_yet.status, not_yet.json()), (202, json!({ "runId": run, "status": "WAITING" })));
    assert!(not_yet.header("retry-after").is_some());
    let briefly = server.send("GET", &path, None, &server.admin, &[("prefer", "wait=1")]).await;
    assert_eq!(briefly.status, 202);
    let (waiting, at) = (server.clone(), path.clone());
    let result = tokio::spawn(async move {
        waiting.send("GET", &at, None, &waiting.admin, &[("prefer", "respond-async, wait=20")]).await
    });
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go", "value": [1, null] }), &[]).await;
    let result = result.await.unwrap();
    assert_eq!(result.status, 200, "{}", result.text());
    assert_eq!(server.get(&path).await.bytes, result.bytes);
    // As with a request key: more than a minute counts as a minute, and an invalid number is
    // ignored.
    for prefer in ["wait=61", "wait=x", "wait=-1"] {
        let told = server.send("GET", &path, None, &server.admin, &[("prefer", prefer)]).await;
        assert_eq!(told.bytes, result.bytes, "{prefer}");
    }
}

/// S2.3: a note can be left whatever the run is doing, and is on the run and in the audit log.
#[tokio::test]
async fn notes_are_kept() {
    let server = TestServer::sqlite().await;
    let run = server.start(&server.upload(&waits("waits")).await, json!({})).await;
    for n in 0..5 {
        let note =
            server.post(&format!("{RUNS}/{run}/notes"), &json!({ "text": format!("note {n}") }), &[]).await;
        assert_eq!(note.status, 201, "{}", note.text());
        assert_eq!(note.json()["actor"]["name"], "admin of acme");
    }
    let mut seen = Vec::new();
    let mut path = format!("{RUNS}/{run}/notes?limit=2");
    loop {
        let page = server.get(&path).await.json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|note| note["reason"].as_str().unwrap().to_owned()),
        );
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("{RUNS}/{run}/notes?limit=2&cursor={cursor}");
    }
    seen.sort();
    assert_eq!(seen, ["note 0", "note 1", "note 2", "note 3", "note 4"]);
    let none = format!("{RUNS}/run_{:032x}/notes", 5);
    assert_eq!(server.post(&none, &json!({ "text": "x" }), &[]).await.told(), (404, "not_found".into()));
    assert_eq!(server.get(&none).await.told(), (404, "not_found".into()));
}
