//! Requests with a key while the first is in progress, when the server fails, and when the store is
//! away: CONTRACT §3.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_http_idempotency::{Policy, limits};
use hapax_postgres_fixture::{Server, Shutdown};
use hapax_store_postgres::{PostgresOptions, PostgresStore};
use serde_json::json;

use super::support::{PATIENCE, Role, Setup, StoreKind, TestServer};
use super::{RUNS, charge, count_runs, is_replay, run_of};

/// S2.13: a second request waits for the first and gets its response, or is asked to retry if it
/// will not wait.
#[tokio::test]
async fn a_request_in_flight_is_waited_for() {
    let (server, store) = TestServer::planned().await;
    let server = Arc::new(server);
    let mut body = charge(&server.echo().await, 1);
    body["subject"] = json!("gated");
    let key = [("idempotency-key", "slow")];
    let ask = || {
        let (server, body) = (server.clone(), body.clone());
        tokio::spawn(async move { server.post(RUNS, &body, &[("idempotency-key", "slow")]).await })
    };
    let first = ask();
    store.begun.notified().await;
    let hasty = server.post(RUNS, &body, &[key[0], ("prefer", "wait=0")]).await;
    assert_eq!(hasty.told(), (409, "request_in_progress".into()));
    assert!(hasty.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
    assert_eq!(hasty.json()["retryable"], json!(true));
    // Nothing is stored under the key before its run.
    assert_eq!(server.get("/api/v1/keys/request/slow").await.status, 404);
    let patient = ask();
    let other = server.post(RUNS, &charge("def_other", 1), &key).await;
    assert_eq!(other.status, 422, "another request under the key does not wait");
    store.gate.add_permits(1);
    let (first, patient) = (first.await.unwrap(), patient.await.unwrap());
    assert_eq!((first.status, &first.bytes), (201, &patient.bytes));
    assert!(!is_replay(&first) && is_replay(&patient));
    assert_eq!((store.starts(), count_runs(&server).await), (1, 1));
}

/// CONTRACT §3: the outcome of what began is stored, a failure of the server too.
#[tokio::test]
async fn a_failure_of_the_server_is_the_answer() {
    let (server, store) = TestServer::planned().await;
    let mut body = charge(&server.echo().await, 1);
    body["subject"] = json!("broken");
    let key = [("idempotency-key", "fails")];
    let first = server.post(RUNS, &body, &key).await;
    assert_eq!(first.told(), (500, "store_broken".into()));
    // The write with the answer in it, and the start under the hold that followed.
    let tried = store.starts();
    assert!((1..=2).contains(&tried), "{tried}");
    let again = server.post(RUNS, &body, &key).await;
    assert_eq!((again.status, &again.bytes), (500, &first.bytes));
    assert!(is_replay(&again));
    assert_eq!(store.starts(), tried, "it is not tried again");
}

/// CONTRACT §3: "nothing was written" is not an outcome; the same key may be tried again.
#[tokio::test]
async fn an_unwritten_request_may_be_retried_under_the_same_key() {
    let (server, store) = TestServer::planned().await;
    let mut body = charge(&server.echo().await, 1);
    body["subject"] = json!("away-once");
    let key = [("idempotency-key", "again")];
    let away = server.post(RUNS, &body, &key).await;
    assert_eq!(away.told(), (503, "store_unavailable".into()));
    assert!(away.header("retry-after").is_some());
    let done = server.post(RUNS, &body, &key).await;
    assert_eq!((done.status, store.starts()), (201, 2), "{}", done.text());
    assert!(!is_replay(&done));
    assert_eq!(count_runs(&server).await, 1);
}

/// RELIABILITY 4: an unknown outcome is not stored, and its key is not used again under another id.
#[tokio::test]
async fn an_unknown_outcome_converges_on_one_run() {
    let keys = Policy { hold_for: limits::MIN_HOLD, ..Policy::default() };
    let (server, store) = TestServer::planned_with(Setup { keys, ..Setup::default() }).await;
    let mut body = charge(&server.echo().await, 1);
    body["subject"] = json!("unsure");
    let key = [("idempotency-key", "unsure"), ("prefer", "wait=0")];
    let unsure = server.post(RUNS, &body, &key).await;
    assert_eq!(unsure.told(), (503, "outcome_unknown".into()));
    store.be_sure();
    assert_eq!(count_runs(&server).await, 1);
    let all = server.get(RUNS).await.json();
    server.end(all["items"][0]["id"].as_str().unwrap()).await;
    let late = server.post(RUNS, &body, &[key[0], ("prefer", "wait=0")]).await;
    assert_eq!((late.status, &late.json()["created"]), (201, &json!(true)), "{}", late.text());
    assert!(is_replay(&late), "the answer was written with the run");
    assert_eq!(late.json()["run"]["id"], all["items"][0]["id"]);
    assert_eq!(count_runs(&server).await, 1);
    assert_eq!(server.post(RUNS, &body, &key).await.bytes, late.bytes);
}

/// CONTRACT §3; RELIABILITY 3: while the store is unreachable nothing runs, and service resumes
/// once it is back.
#[tokio::test]
async fn with_the_store_away_nothing_runs() {
    let (server, store) = TestServer::planned().await;
    let body = charge(&server.echo().await, 1);
    store.set_away(true);
    let key = [("idempotency-key", "patient")];
    for (path, body) in [(RUNS, Some(body.to_string())), ("/api/v1/doubts", None)] {
        let method = if body.is_some() { "POST" } else { "GET" };
        let away = server.send(method, path, body, &server.admin, &key).await;
        assert_eq!(away.told(), (503, "store_unavailable".into()), "{path}");
        assert!(away.header("retry-after").is_some(), "{path}");
        assert!(!away.text().contains("planned"), "the store's own words are for the log");
    }
    let ready = server.send("GET", "/readyz", None, "", &[]).await;
    let alive = server.send("GET", "/healthz", None, "", &[]).await;
    assert_eq!((ready.status, alive.status), (503, 200));
    store.set_away(false);
    assert_eq!(server.send("GET", "/readyz", None, "", &[]).await.status, 200);
    let done = server.post(RUNS, &body, &key).await;
    assert_eq!(done.status, 201, "{}", done.text());
    assert!(!is_replay(&done));
    assert_eq!(count_runs(&server).await, 1);
}

/// CONTRACT §3: a caller who goes away stops nothing; the retry finds what was done.
#[tokio::test]
async fn a_caller_who_hangs_up_stops_nothing() {
    let (server, store) = TestServer::planned().await;
    let server = Arc::new(server);
    let mut body = charge(&server.echo().await, 1);
    body["subject"] = json!("gated");
    let key = [("idempotency-key", "gone")];
    let (asking, asked) = (server.clone(), body.clone());
    let gone = tokio::spawn(async move { asking.post(RUNS, &asked, &[("idempotency-key", "gone")]).await });
    store.begun.notified().await;
    gone.abort();
    store.gate.add_permits(1);
    let retry = server.post(RUNS, &body, &key).await;
    assert_eq!(retry.status, 201);
    assert_eq!((store.starts(), count_runs(&server).await), (1, 1));
    run_of(&retry);
}

/// G2.3, CONTRACT §2: rotating the secret of a credential keeps its scope.
#[tokio::test]
async fn rotation_keeps_the_scope_of_request_keys() {
    let server = TestServer::memory().await;
    let body = charge(&server.echo().await, 1);
    let operator = server.key("acme", Role::Operator).await;
    let all = server.get("/api/v1/credentials").await.json();
    let id = all["items"].as_array().unwrap().iter().find(|item| item["role"] == "operator").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let key = [("idempotency-key", "kept")];
    let first = server.send("POST", RUNS, Some(body.to_string()), &operator, &key).await;
    let rotated = server.post(&format!("/api/v1/credentials/{id}/rotate"), &json!({}), &[]).await;
    let new_key = rotated.json()["apiKey"].as_str().unwrap().to_owned();
    let again = server.send("POST", RUNS, Some(body.to_string()), &new_key, &key).await;
    assert_eq!((again.status, &again.bytes), (201, &first.bytes));
    assert!(is_replay(&again));
}

/// S2.24, S2.29, CONTRACT §3 and §4: an expired key is refused for the time of grace, and is a new operation after that.
#[tokio::test]
async fn an_expired_key_is_refused_in_grace_and_new_after_it() {
    for (grace, expected) in
        [(Duration::from_secs(3600), (410, "idempotency_key_expired")), (Duration::ZERO, (201, ""))]
    {
        let keys = Policy { grace, ..Policy::default() }.keeping_less_than_a_day(Duration::from_millis(1));
        let server = TestServer::memory_with(Setup { keys, ..Setup::default() }).await;
        let body = charge(&server.echo().await, 1);
        let key = [("idempotency-key", "short")];
        let first = server.post(RUNS, &body, &key).await;
        let since = Instant::now();
        let after = loop {
            let again = server.post(RUNS, &body, &key).await;
            if !is_replay(&again) {
                break again;
            }
            assert!(since.elapsed() < PATIENCE, "it is still given again");
        };
        assert_eq!(after.told(), (expected.0, expected.1.into()), "{grace:?}");
        if after.status == 201 {
            assert_ne!(run_of(&after), run_of(&first), "another operation");
        }
    }
}

/// RELIABILITY, fault 9: PostgreSQL goes away and comes back. Nothing runs in the meantime, and the
/// retry is the first to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_may_go_away_and_come_back() {
    let database = Server::start().unwrap();
    let store = PostgresStore::open(&database.url("postgres"), PostgresOptions::default()).await.unwrap();
    let server = TestServer::over(Arc::new(store), StoreKind::Elsewhere, Setup::default()).await;
    let body = charge(&server.echo().await, 1);
    let key = [("idempotency-key", "patient")];
    database.stop(Shutdown::Immediate).unwrap();
    let away = server.post(RUNS, &body, &key).await;
    assert_eq!((away.status, &away.json()["retryable"]), (503, &json!(true)), "{}", away.text());
    assert!(away.header("retry-after").is_some());
    assert!(!away.text().contains("postgres"), "{}", away.text());
    let alive = server.send("GET", "/healthz", None, "", &[]).await;
    assert_eq!(alive.status, 200);
    database.start_again().unwrap();
    let since = Instant::now();
    let done = loop {
        let again = server.post(RUNS, &body, &key).await;
        if again.status != 503 {
            break again;
        }
        assert!(since.elapsed() < PATIENCE, "{}", again.text());
    };
    assert_eq!(done.status, 201, "{}", done.text());
    assert_eq!(count_runs(&server).await, 1);
}

/// CONTRACT §3, RELIABILITY 13: a partly written batch has no outcome; a retry creates the rest,
/// and nothing twice.
#[tokio::test]
async fn a_batch_that_was_cut_short_is_completed_under_its_key() {
    let keys = Policy { hold_for: limits::MIN_HOLD, ..Policy::default() };
    let (server, _store) = TestServer::planned_with(Setup { keys, ..Setup::default() }).await;
    let echo = server.echo().await;
    let runs =
        json!({ "runs": [{ "definitionId": echo, "subject": "away-once" }, { "definitionId": echo }] });
    let path = format!("{RUNS}/batch");
    let key = [("idempotency-key", "batch"), ("prefer", "wait=20")];
    let first = server.post(&path, &runs, &key).await.json();
    assert_eq!(first["items"][0]["problem"]["code"], "store_unavailable", "{first}");
    assert_eq!(first["items"][1]["createdRun"]["created"], json!(true));
    let whole = server.post(&path, &runs, &key).await;
    let items = whole.json()["items"].clone();
    assert_eq!((whole.status, &items[0]["createdRun"]["created"]), (200, &json!(true)), "{items}");
    assert_eq!(items[1]["createdRun"]["run"]["id"], first["items"][1]["createdRun"]["run"]["id"]);
    assert_eq!(count_runs(&server).await, 2);
    let again = server.post(&path, &runs, &key).await;
    assert_eq!((is_replay(&again), again.bytes), (true, whole.bytes));
}

/// On a full disk, where every write is refused and every read answered, the server said that it was ready.
#[tokio::test]
async fn a_store_that_takes_no_writes_makes_the_server_not_ready() {
    let (server, store) = TestServer::planned().await;
    let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
    let ready = async || server.send("GET", "/readyz", None, "", &[]).await;
    let up = async || {
        let text = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
        text.lines().find_map(|line| line.strip_prefix("hapax_store_up ")).unwrap().to_owned()
    };
    assert!(server.server.probe_store().await);
    assert_eq!((ready().await.status, up().await.as_str()), (200, "1"));
    store.set_full(true);
    assert!(!server.server.probe_store().await);
    let told = ready().await;
    assert_eq!((told.status, up().await.as_str()), (503, "0"), "{}", told.text());
    let check = &told.json()["checks"][0];
    assert_eq!((&check["name"], &check["status"]), (&json!("store"), &json!("unavailable")), "{check}");
    assert_eq!(check["detail"], "the store takes no writes");
    store.set_full(false);
    assert!(server.server.probe_store().await);
    assert_eq!((ready().await.status, up().await.as_str()), (200, "1"));
}

/// A loop that panics again and again is named, and counted in the metrics.
#[tokio::test]
async fn a_background_loop_that_panics_makes_the_server_not_ready() {
    let server = TestServer::memory().await;
    let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
    assert_eq!(server.send("GET", "/readyz", None, "", &[]).await.status, 200);
    server.engine.background_loops().spawn("faulty", |_| async { panic!("a fault that was asked for") });
    let told = loop {
        let told = server.send("GET", "/readyz", None, "", &[]).await;
        if told.status == 503 {
            break told.json();
        }
    };
    let check = &told["checks"][2];
    assert_eq!(
        (&check["name"], &check["status"]),
        (&json!("background loops"), &json!("unavailable")),
        "{check}"
    );
    assert_eq!(check["detail"], "panicked and waits for its restart: faulty");
    let text = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
    let counted = |line: &&str| line.starts_with("hapax_background_loop_panics_total{loop=\"faulty\"}");
    let line = text.lines().find(counted).unwrap_or_else(|| panic!("{text}"));
    assert_ne!(line.rsplit(' ').next(), Some("0"), "{line}");
    assert!(text.contains("hapax_background_loop_last_pass_seconds{loop=\"scheduler\"}"), "{text}");
}
