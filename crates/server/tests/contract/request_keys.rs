//! Keys in the header: CONTRACT §2 and §3.

use serde_json::json;

use super::support::{Role, TestServer};
use super::{RUNS, charge, count_runs, is_replay, run_of};

/// S2.6, S2.7, S2.9: quoted and bare are one key, and the longest is one to its last character.
#[tokio::test]
async fn a_key_may_be_bare_or_quoted() {
    let server = TestServer::memory().await;
    let body = charge(&server.echo().await, 1);
    let first = server.post(RUNS, &body, &[("idempotency-key", "abc 1")]).await;
    assert_eq!(first.status, 201);
    assert!(!is_replay(&first));
    for same in ["\"abc 1\"", "  abc 1  "] {
        let again = server.post(RUNS, &body, &[("idempotency-key", same)]).await;
        assert_eq!((again.status, &again.bytes), (201, &first.bytes), "{same}");
        assert!(is_replay(&again), "{same}");
    }
    let long = "k".repeat(255);
    let one = server.post(RUNS, &body, &[("idempotency-key", &long)]).await;
    let other = server.post(RUNS, &body, &[("idempotency-key", &format!("{}x", &long[..254]))]).await;
    assert_ne!(run_of(&one), run_of(&other));
}

/// S2.9; RELIABILITY, HTTP: `Idempotency-Key` empty, too long, of other characters, given twice: 400 before anything is stored.
#[tokio::test]
async fn malformed_request_keys_are_rejected_before_anything_is_stored() {
    let server = TestServer::memory().await;
    let body = charge(&server.echo().await, 1);
    let long = "k".repeat(256);
    let bad = ["", "\"\"", &long, "caf\u{e9}", "a\tb", "\"open", "\"a\"b", "\u{7f4}"];
    for key in bad {
        let refused = server.post(RUNS, &body, &[("idempotency-key", key)]).await;
        assert_eq!(refused.told(), (400, "invalid_idempotency_key".into()), "{key:?}");
    }
    for twice in [["a", "b"], ["a", "a"]] {
        let headers = twice.map(|key| ("idempotency-key", key));
        let refused = server.post(RUNS, &body, &headers).await;
        assert_eq!(refused.told(), (400, "invalid_idempotency_key".into()), "{twice:?}");
    }
    assert_eq!(server.get("/api/v1/keys/request/a").await.status, 404);
    assert_eq!(count_runs(&server).await, 0);
}

/// S2.8: keys are ignored where nothing is changed.
#[tokio::test]
async fn a_key_on_a_read_is_ignored() {
    let server = TestServer::memory().await;
    for key in ["x", &"k".repeat(300)] {
        let read = server.send("GET", RUNS, None, &server.admin, &[("idempotency-key", key)]).await;
        assert_eq!(read.status, 200);
        assert!(!is_replay(&read));
    }
}

/// S2.6, S2.31: a replay is the first answer, byte for byte, with the headers that matter and the time it is kept until.
#[tokio::test]
async fn a_replay_is_the_first_answer_again() {
    let server = TestServer::sqlite().await;
    let body = charge(&server.echo().await, 1);
    let key = [("idempotency-key", "replayed")];
    let first = server.post(RUNS, &body, &key).await;
    let run = run_of(&first);
    server.end(&run).await;
    let again = server.post(RUNS, &body, &key).await;
    assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "though the run has ended since");
    for name in ["content-type", "location", "cache-control"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
        assert!(first.header(name).is_some(), "{name}");
    }
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(first.header("idempotency-expires"), None);
    assert!(again.header("idempotency-expires").is_some_and(|date| date.ends_with(" GMT")));
    assert_ne!(again.header("x-trace-id"), first.header("x-trace-id"), "each request has a trace of its own");
}

/// S2.12, S2.32: the same key with another request is refused, and tells what is stored and where it differs.
#[tokio::test]
async fn another_request_under_a_key_is_a_conflict() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let key = [("idempotency-key", "taken")];
    let first = server.post(RUNS, &charge(&echo, 100), &key).await;
    let conflict = server.post(RUNS, &charge(&echo, 200), &key).await;
    assert_eq!(conflict.told(), (422, "idempotency_key_conflict".into()));
    assert_eq!(conflict.header("content-type"), Some("application/problem+json"));
    let problem = conflict.json();
    let stored = &problem["storedRequest"];
    assert_eq!((&stored["kind"], &stored["method"]), (&json!("request"), &json!("POST")), "{problem}");
    assert_eq!((&stored["path"], &stored["differingPaths"]), (&json!(RUNS), &json!(["/input/amount"])));
    assert_eq!(stored["fingerprint"].as_str().map(str::len), Some(64));
    assert!(stored["firstSeenAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{problem}");
    assert!(stored["id"].is_string() && problem["traceId"].is_string(), "{problem}");
    // Another path is another request too.
    let elsewhere = server.post(&format!("{RUNS}/{}/cancel", run_of(&first)), &json!({}), &key).await;
    assert_eq!(elsewhere.told(), (422, "idempotency_key_conflict".into()));
    assert_eq!(server.post(RUNS, &charge(&echo, 100), &key).await.bytes, first.bytes, "the first stands");
    assert_eq!(count_runs(&server).await, 1);
}

/// S2.28: order of fields, whitespace and the form of numbers do not make another request.
#[tokio::test]
async fn the_form_of_the_json_does_not_count() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let key = [("idempotency-key", "form")];
    let texts = [
        format!(r#"{{"definitionId":"{echo}","input":{{"a":1,"b":[1.0,2]}}}}"#),
        format!("\n{{ \"input\" : {{\"b\":[1,2e0], \"a\":1}},\t\"definitionId\":\"{echo}\" }} "),
    ];
    let mut answers = Vec::new();
    for text in texts {
        answers.push(server.send("POST", RUNS, Some(text), &server.admin, &key).await);
    }
    assert_eq!((answers[0].status, &answers[0].bytes), (201, &answers[1].bytes));
}

/// S2.10: keys belong to the credential, and to its workspace.
#[tokio::test]
async fn another_credential_has_keys_of_its_own() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let key = [("idempotency-key", "mine")];
    let colleague = server.key("acme", Role::Operator).await;
    let first = server.post(RUNS, &charge(&echo, 1), &key).await;
    let body = charge(&echo, 2).to_string();
    let theirs = server.send("POST", RUNS, Some(body), &colleague, &key).await;
    assert_eq!(theirs.status, 201, "{}", theirs.text());
    assert_ne!(run_of(&first), run_of(&theirs));
}

/// S2.24, CONTRACT §3: a retry that comes after the window is not silently run again.
#[tokio::test]
async fn a_request_that_was_first_sent_too_long_ago_is_not_run() {
    let server = TestServer::memory().await;
    let body = charge(&server.echo().await, 1);
    let old = ("idempotency-first-sent", "Thu, 01 Jan 2015 00:00:00 GMT");
    let late = server.post(RUNS, &body, &[("idempotency-key", "late"), old]).await;
    assert_eq!(late.told(), (412, "idempotency_window_passed".into()));
    assert_eq!(count_runs(&server).await, 0);
    let first = server.post(RUNS, &body, &[("idempotency-key", "known")]).await;
    let again = server.post(RUNS, &body, &[("idempotency-key", "known"), old]).await;
    assert_eq!((again.status, &again.bytes), (201, &first.bytes), "what is remembered is given again");
    let garbage = ("idempotency-first-sent", "yesterday");
    let refused = server.post(RUNS, &body, &[("idempotency-key", "bad-date"), garbage]).await;
    assert_eq!(refused.told(), (400, "invalid_request".into()));
}

/// CONTRACT §3: what never began is not stored, so the same key may carry the corrected request.
#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let held = charge(&echo, 1);
    let mut named = held.clone();
    named["idempotencyKey"] = json!("order-1");
    server.post(RUNS, &named, &[]).await;
    named["input"]["amount"] = json!(2);
    let bad: [(String, &str, u16); 6] = [
        (r#"{"definitionId":"#.into(), "application/json", 400),
        (json!({ "definitionId": echo, "extra": 1 }).to_string(), "application/json", 400),
        (json!({ "definitionId": "def_none" }).to_string(), "application/json", 404),
        (held.to_string(), "text/plain", 415),
        (named.to_string(), "application/json", 422),
        (json!({ "definitionId": echo, "idempotencyKey": "" }).to_string(), "application/json", 400),
    ];
    for (place, (body, kind, status)) in bad.into_iter().enumerate() {
        let key = format!("corrected-{place}");
        let headers = [("idempotency-key", key.as_str()), ("content-type", kind)];
        let refused = server.send("POST", RUNS, Some(body), &server.admin, &headers).await;
        assert_eq!(refused.status, status, "{place}: {}", refused.text());
        let good = server.post(RUNS, &held, &[("idempotency-key", &key)]).await;
        assert_eq!(good.status, 201, "{place}: {}", good.text());
        assert!(!is_replay(&good), "{place}");
    }
}

/// CONTRACT §2: both kinds of key on one request, each doing its own work.
#[tokio::test]
async fn both_kinds_of_key_work_together() {
    let server = TestServer::memory().await;
    let echo = server.echo().await;
    let mut body = charge(&echo, 1);
    body["idempotencyKey"] = json!("order-7");
    let first = server.post(RUNS, &body, &[("idempotency-key", "req-1")]).await;
    assert_eq!((first.status, &first.json()["created"]), (201, &json!(true)));
    let replay = server.post(RUNS, &body, &[("idempotency-key", "req-1")]).await;
    assert_eq!((replay.status, &replay.bytes), (201, &first.bytes));
    let live = server.post(RUNS, &body, &[("idempotency-key", "req-2")]).await;
    assert_eq!((live.status, &live.json()["created"]), (200, &json!(false)));
    assert_eq!(run_of(&live), run_of(&first));
    assert!(!is_replay(&live), "another request, the same run");
    assert_eq!(count_runs(&server).await, 1);
}

/// S2.49, S2.41, CONTRACT §3: the contract in force is published, without a credential.
#[tokio::test]
async fn the_policy_is_published() {
    let server = TestServer::memory().await;
    let answer = server.send("GET", "/api/v1/idempotency-policy", None, "", &[]).await;
    assert_eq!(answer.status, 200);
    let keys = &answer.json()["requestKeys"];
    assert_eq!((&keys["header"], &keys["maxChars"]), (&json!("idempotency-key"), &json!(255)));
    assert_eq!((&keys["retention"], &keys["wait"]), (&json!("1d"), &json!("10s")));
    let not_stored = keys["statusesNotStored"].as_array().unwrap();
    for status in [202, 400, 401, 403, 404, 409, 413, 415, 422, 429] {
        assert!(not_stored.contains(&json!(status)), "{status}");
    }
    assert!(!not_stored.contains(&json!(500)));
}

/// CONTRACT §2: keys count on every mutating route. A response with a secret is sent once and not
/// stored, and a retry creates nothing.
#[tokio::test]
async fn an_answer_with_a_secret_is_given_once() {
    let server = TestServer::sqlite().await;
    server.post("/api/v1/promises", &json!({ "id": "p" }), &[]).await;
    let subscription = json!({ "name": "told", "url": "https://example.com/", "events": ["run.completed"] });
    let mut secrets = Vec::new();
    let mut made = Vec::new();
    for (path, body, secret, id) in [
        (
            "/api/v1/credentials".to_owned(),
            json!({ "name": "c", "role": "viewer" }),
            "/apiKey",
            "/credential/id",
        ),
        ("/api/v1/webhook-subscriptions".into(), subscription, "/secret", "/subscription/id"),
        ("/api/v1/promises/id:p/tokens".into(), json!({ "expiresIn": "60s" }), "/token", ""),
    ] {
        let key = [("idempotency-key", path.as_str())];
        let first = server.post(&path, &body, &key).await;
        assert_eq!(first.status, 201, "{path}: {}", first.text());
        let first = first.json();
        secrets.push(first.pointer(secret).unwrap().as_str().unwrap().to_owned());
        let again = server.post(&path, &body, &key).await;
        assert_eq!(again.told(), (409, "answer_not_kept".into()), "{path}");
        if let Some(id) = first.pointer(id).and_then(|id| id.as_str()) {
            assert_eq!(again.json()["location"], format!("{path}/{id}"));
            made.push(format!("{path}/{id}"));
        }
        let mut other = body.clone();
        other["name"] = json!("another");
        other["expiresIn"] = json!("61s");
        assert_eq!(server.post(&path, &other, &key).await.told(), (422, "idempotency_key_conflict".into()));
    }
    for thing in &made {
        let (path, key) = (format!("{thing}/rotate"), [("idempotency-key", thing.as_str())]);
        let first = server.post(&path, &json!({}), &key).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        let first = first.json();
        let secret = first.get("apiKey").or(first.get("secret")).unwrap().as_str().unwrap().to_owned();
        assert_eq!(server.post(&path, &json!({}), &key).await.told(), (409, "answer_not_kept".into()));
        let shown = server.send("GET", RUNS, None, &secret, &[]).await.status;
        assert!(shown == 200 || !secret.starts_with("hpx_"), "the second rotation did not happen: {shown}");
        secrets.push(secret);
    }
    let listed = async |path: &str| server.get(path).await.json()["items"].as_array().unwrap().len();
    assert_eq!(listed("/api/v1/credentials").await, 2, "the admin's, and one");
    assert_eq!(listed("/api/v1/webhook-subscriptions").await, 1);
    let mut kept = Vec::new();
    for file in std::fs::read_dir(server.folder()).unwrap() {
        kept.extend(std::fs::read(file.unwrap().path()).unwrap());
    }
    for secret in secrets {
        let tail = &secret.as_bytes()[secret.len() - 30..];
        assert!(!kept.windows(tail.len()).any(|window| window == tail), "a secret is in the database");
    }
}
