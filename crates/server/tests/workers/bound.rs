//! Credentials of workers that are bound to names.

use serde_json::{Value, json};

use super::support::TestServer;
use super::worker::{SESSIONS, TestWorker};

const CREDENTIALS: &str = "/api/v1/credentials";

/// A key of the role worker that may offer these names.
async fn bound(server: &TestServer, names: Value) -> String {
    let asked = json!({ "name": "bound", "role": "worker", "mayOffer": names });
    let answer = server.post(CREDENTIALS, &asked, &[]).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["credential"]["mayOffer"], names);
    answer.json()["apiKey"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_bound_credential_offers_its_names_and_no_others() {
    let server = TestServer::memory().await;
    let key = bound(&server, json!({ "workflows": ["order", "billing-*"], "tasks": ["send-mail"] })).await;
    let offers = [
        (
            json!({ "workflows": [{ "name": "order" }, { "name": "billing-run" }], "tasks": ["send-mail"] }),
            201,
        ),
        (json!({ "workflows": [{ "name": "payroll" }] }), 403),
        (json!({ "workflows": [{ "name": "order" }], "tasks": ["send-money"] }), 403),
        (json!({ "actions": ["send-mail"] }), 403),
    ];
    for (offer, status) in offers {
        let mut asked = json!({ "name": "w", "concurrency": 1 });
        asked.as_object_mut().unwrap().extend(offer.as_object().unwrap().clone());
        let answer = server.send("POST", SESSIONS, Some(asked.to_string()), &key, &[]).await;
        assert_eq!(answer.status, status, "{offer}: {}", answer.text());
        if status == 403 {
            assert_eq!(answer.code(), "name_not_allowed");
        }
    }
    let known = server
        .send(
            "POST",
            "/api/v1/workflow-runs",
            Some(json!({ "workflow": "payroll", "input": {} }).to_string()),
            &server.admin,
            &[],
        )
        .await;
    assert_eq!(known.told(), (404, "definition_not_found".into()), "a refused offer leaves no name behind");
}

/// Rule 7: a credential that is bound to other names cannot use a session, even with its id.
#[tokio::test]
async fn the_names_are_checked_at_every_call() {
    let server = TestServer::memory().await;
    let members = json!({ "instance": "slot", "workflows": [{ "name": "order" }] });
    let worker = TestWorker::with(&server, members).await;
    let run = worker.start(json!(null)).await;
    worker.commit(&run, json!([{ "op": 1, "do": "step", "name": "charge" }])).await;
    worker.attempt(&run, 1).await;
    let key = bound(&server, json!({ "workflows": ["payroll"] })).await;
    let items = json!([{ "outcome": 1, "attempt": 1, "output": "stolen" }]);
    let commit = json!({ "sequence": 1, "free": 1, "runs": [{ "run": run.run, "activation": run.id, "items": items }] });
    let session = &worker.session;
    let calls = [
        ("POST", format!("{SESSIONS}/{session}/poll"), Some(json!({ "sequence": 1, "free": 1 }))),
        ("POST", format!("{SESSIONS}/{session}/commit"), Some(commit)),
        ("GET", format!("{SESSIONS}/{session}/runs/{}/log?activation={}", run.run, run.id), None),
        ("DELETE", format!("{SESSIONS}/{session}"), None),
    ];
    for (method, path, body) in calls {
        let answer = server.send(method, &path, body.map(|body| body.to_string()), &key, &[]).await;
        assert_eq!(answer.told(), (403, "name_not_allowed".into()), "{method} {path}");
    }
    let asked = json!({ "name": "thief", "concurrency": 1, "instance": "slot", "workflows": [{ "name": "payroll" }] });
    let answer = server.send("POST", SESSIONS, Some(asked.to_string()), &key, &[]).await;
    assert_eq!(answer.told(), (403, "name_not_allowed".into()), "it would end a session of other names");
    let opened_at = "2099-01-01T00:00:00Z";
    let news = json!({ "sessionId": "wks_1", "instance": "slot", "openedAt": opened_at }).to_string();
    let answer = server.send("POST", &format!("{SESSIONS}/announce"), Some(news), &key, &[]).await;
    assert_eq!(answer.told(), (403, "name_not_allowed".into()));
    let ends =
        json!([{ "outcome": 1, "attempt": 1, "output": "honest" }, { "took": 1 }, { "return": "honest" }]);
    worker.commit(&run, ends).await;
    assert_eq!(server.until(&run.run, "COMPLETED").await["run"]["output"], "honest");
}

/// Evidence about runs of other workflows is not this worker's to give.
#[tokio::test]
async fn a_bound_worker_gives_no_evidence_about_other_workflows() {
    let server = TestServer::memory().await;
    let worker = TestWorker::open(&server).await;
    let run = worker.start(json!(null)).await;
    let asks = json!([{ "op": 1, "do": "step", "name": "wire", "claimed": true, "timeout": "20ms" }]);
    worker.commit(&run, asks).await;
    let attempt = worker.attempt(&run, 1).await;
    worker.told(&run, "abort").await;
    let doubts = |shown: &Value| shown["items"][0].is_object();
    server.until_shown("/api/v1/doubts", doubts).await;
    let late = json!([{ "late": { "key": attempt["key"], "attempt": 1, "fence": attempt["fence"], "output": "W" } }]);
    let tell = json!({ "sequence": 1, "free": 1, "results": late }).to_string();
    let key = bound(&server, json!({ "workflows": ["payroll"] })).await;
    let liar =
        TestWorker::with_key(&server, vec![&server], key, json!({ "workflows": [{ "name": "payroll" }] }))
            .await;
    let path = format!("{SESSIONS}/{}/commit", liar.session);
    assert_eq!(server.send("POST", &path, Some(tell.clone()), &liar.key, &[]).await.status, 200);
    let key = bound(&server, json!({ "workflows": ["ord*"] })).await;
    let honest = TestWorker::with_key(
        &server,
        vec![&server],
        key,
        json!({ "workflows": [{ "name": "order", "version": 2 }] }),
    )
    .await;
    assert!(doubts(&server.get("/api/v1/doubts").await.json()), "nobody settled it");
    let path = format!("{SESSIONS}/{}/commit", honest.session);
    assert_eq!(server.send("POST", &path, Some(tell.clone()), &honest.key, &[]).await.status, 200);
    server.until_shown("/api/v1/doubts", |shown| shown["items"] == json!([])).await;
    assert_eq!(worker.resolved(&run, 1).await["output"], "W");
}

#[tokio::test]
async fn only_workers_are_bound_and_only_to_names() {
    let server = TestServer::memory().await;
    let bad = [
        json!({ "name": "a", "role": "operator", "mayOffer": { "workflows": ["order"] } }),
        json!({ "name": "a", "role": "worker", "mayOffer": {} }),
        json!({ "name": "a", "role": "worker", "mayOffer": { "workflows": ["a*b"] } }),
        json!({ "name": "a", "role": "worker", "mayOffer": { "tasks": vec!["t"; 201] } }),
        json!({ "name": "a", "role": "worker", "mayOffer": { "steps": ["t"] } }),
    ];
    for asked in bad {
        let answer = server.post(CREDENTIALS, &asked, &[]).await;
        assert_eq!(answer.status, 400, "{asked}: {}", answer.text());
    }
}
