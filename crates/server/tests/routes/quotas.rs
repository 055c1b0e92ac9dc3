//! What one workspace may take of a node, and that others are served meanwhile.

use std::num::NonZeroU32;

use hapax_api::Role;
use hapax_server::QuotaOptions;
use serde_json::{Value, json};

use super::support::{PATIENCE, Setup, TestServer};

const RUNS: &str = "/api/v1/workflow-runs";

async fn server(quotas: QuotaOptions) -> TestServer {
    TestServer::memory_with(Setup { quotas, ..Setup::default() }).await
}

/// A definition whose runs wait for a signal, in the workspace of this key.
async fn waiting(server: &TestServer, key: &str) -> String {
    let document = json!({ "name": "waits", "version": 1, "steps": [{ "name": "go", "type": "signal" }] });
    let made =
        server.send("POST", "/api/v1/workflow-definitions", Some(document.to_string()), key, &[]).await;
    made.json()["id"].as_str().unwrap().to_owned()
}

async fn start(server: &TestServer, key: &str, definition: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let body = json!({ "definitionId": definition, "input": {} }).to_string();
    let answer = server.send("POST", RUNS, Some(body), key, headers).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn a_workspace_with_its_quota_of_open_runs_starts_no_more_until_one_ends() {
    let server = server(QuotaOptions { open_runs: 2, ..QuotaOptions::default() }).await;
    let here = waiting(&server, &server.admin).await;
    let (status, first) = start(&server, &server.admin, &here, &[]).await;
    assert_eq!(status, 201, "{first}");
    assert_eq!(start(&server, &server.admin, &here, &[("idempotency-key", "second")]).await.0, 201);
    for headers in [&[][..], &[("idempotency-key", "third")]] {
        let (status, refused) = start(&server, &server.admin, &here, headers).await;
        assert_eq!((status, &refused["code"]), (429, &json!("quota_exceeded")), "{refused}");
        assert_eq!((&refused["quota"], &refused["limit"]), (&json!("workspace-open-runs"), &json!(2)));
    }
    let batch = json!({ "runs": [{ "definitionId": here, "input": {} }] });
    let batch = server.post(&format!("{RUNS}/batch"), &batch, &[]).await.json();
    assert_eq!(batch["items"][0]["problem"]["code"], "quota_exceeded", "{batch}");
    // What was started under the key is still found, and another workspace is another matter.
    assert_eq!(start(&server, &server.admin, &here, &[("idempotency-key", "second")]).await.0, 201);
    let stranger = server.key("globex", Role::Admin).await;
    let there = waiting(&server, &stranger).await;
    assert_eq!(start(&server, &stranger, &there, &[]).await.0, 201);

    let run = first["run"]["id"].as_str().unwrap();
    let cancelled = server.post(&format!("{RUNS}/{run}/cancel"), &json!({ "reason": "room" }), &[]).await;
    assert!(cancelled.status < 300, "{}", cancelled.text());
    server.end(run).await;
    let since = std::time::Instant::now();
    while start(&server, &server.admin, &here, &[("idempotency-key", "third")]).await.0 != 201 {
        assert!(since.elapsed() < PATIENCE, "the room of the ended run is not given to another");
    }
    let root = server.key("hapax-installation", Role::Admin).await;
    let metrics = server.send("GET", "/metrics", None, &root, &[]).await.text();
    assert!(metrics.contains("hapax_quota_limit{quota=\"workspace-open-runs\"} 2"), "{metrics}");
    let counted = "hapax_quota_refused_total{quota=\"workspace-open-runs\",workspace=\"acme\"}";
    assert!(metrics.contains(counted), "{metrics}");
}

/// What a quota refuses of a batch is not its last word: the answer would be stored under the key.
#[tokio::test]
async fn a_batch_that_met_the_quota_is_completed_under_its_key() {
    let server = server(QuotaOptions { open_runs: 2, ..QuotaOptions::default() }).await;
    let here = waiting(&server, &server.admin).await;
    let batch = json!({ "runs": vec![json!({ "definitionId": here, "input": {} }); 3] });
    let send = async || {
        let key = [("idempotency-key", "three")];
        server.post(&format!("{RUNS}/batch"), &batch, &key).await.json()
    };
    let ids = |answer: &Value| -> Vec<String> {
        let items = answer["items"].as_array().into_iter().flatten();
        items.filter_map(|item| Some(item["createdRun"]["run"]["id"].as_str()?.to_owned())).collect()
    };
    let first = send().await;
    assert_eq!(ids(&first).len(), 2, "{first}");
    let cancel = format!("{RUNS}/{}/cancel", ids(&first)[0]);
    server.post(&cancel, &json!({ "reason": "room" }), &[]).await;
    server.end(&ids(&first)[0]).await;
    let since = std::time::Instant::now();
    let all = loop {
        let again = send().await;
        if ids(&again).len() == 3 {
            break again;
        }
        assert!(since.elapsed() < PATIENCE, "{again}");
    };
    assert!(ids(&first).iter().all(|id| ids(&all).contains(id)), "{first} and {all}");
    assert_eq!(server.get(RUNS).await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_workspace_starts_so_many_runs_a_second() {
    let one = NonZeroU32::new(1).unwrap();
    let server = server(QuotaOptions { starts_per_second: one, ..QuotaOptions::default() }).await;
    let here = waiting(&server, &server.admin).await;
    // On a slow machine the bucket refills by one during the loop.
    let mut asked = 0;
    let refused = loop {
        let (status, answer) = start(&server, &server.admin, &here, &[]).await;
        if status != 201 {
            break (status, answer);
        }
        asked += 1;
        assert!(asked < 100, "nobody is told to wait");
    };
    assert_eq!((refused.0, &refused.1["code"]), (429, &json!("rate_limited")), "{}", refused.1);
    assert_eq!(refused.1["quota"], "workspace-starts-per-second");
    assert_eq!(server.get(RUNS).await.status, 200, "it is about starts");
}

/// Waiting costs a connection and memory: no workspace takes all of them.
#[tokio::test]
async fn a_workspace_waits_with_so_many_requests_at_once() {
    let server = server(QuotaOptions { requests_at_once: 2, ..QuotaOptions::default() }).await;
    let here = waiting(&server, &server.admin).await;
    let (_, run) = start(&server, &server.admin, &here, &[]).await;
    let path = format!("{RUNS}/{}/result", run["run"]["id"].as_str().unwrap());
    let mut waiters = Vec::new();
    for _ in 0..2 {
        let request = server.http.get(format!("{}{path}", server.url)).header("prefer", "wait=60");
        waiters.push(tokio::spawn(request.bearer_auth(&server.admin).send()));
    }
    let since = std::time::Instant::now();
    let refused = loop {
        let answer = server.get(RUNS).await;
        if answer.status != 200 {
            break answer;
        }
        assert!(since.elapsed() < PATIENCE, "the third request is let in");
    };
    assert_eq!(refused.told(), (429, "rate_limited".into()), "{}", refused.text());
    assert_eq!(refused.json()["quota"], "workspace-requests-at-once");
    let stranger = server.key("globex", Role::Viewer).await;
    assert_eq!(server.send("GET", RUNS, None, &stranger, &[]).await.status, 200, "others are served");
    for waiter in &waiters {
        waiter.abort();
    }
    let since = std::time::Instant::now();
    while server.get(RUNS).await.status != 200 {
        assert!(since.elapsed() < PATIENCE, "a caller that has gone still counts");
    }
}

#[tokio::test]
async fn a_workspace_keeps_so_many_streams_open_with_all_its_credentials() {
    let server = server(QuotaOptions { streams: 1, ..QuotaOptions::default() }).await;
    let here = waiting(&server, &server.admin).await;
    let (_, run) = start(&server, &server.admin, &here, &[]).await;
    let path = format!("{RUNS}/{}/events/stream", run["run"]["id"].as_str().unwrap());
    let open = server.http.get(format!("{}{path}", server.url)).bearer_auth(&server.admin).send().await;
    assert_eq!(open.as_ref().unwrap().status(), 200);
    let colleague = server.key("acme", Role::Viewer).await;
    let refused = server.send("GET", &path, None, &colleague, &[]).await;
    assert_eq!(refused.told(), (429, "too_many_streams".into()), "{}", refused.text());
    drop(open);
    let since = std::time::Instant::now();
    loop {
        let again = server.http.get(format!("{}{path}", server.url)).bearer_auth(&colleague).send().await;
        if again.unwrap().status() == 200 {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "a closed stream still counts");
    }
}
