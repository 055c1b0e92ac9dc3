//! Lists of runs, page by page, and one run with its steps.

use serde_json::{Value, json};

use super::RUNS;
use super::support::{Provider, Role, TestServer};

/// Every run is on exactly one page, newest first, even if runs are started between the pages.
#[tokio::test]
async fn runs_are_listed_page_by_page() {
    for server in [TestServer::sqlite().await, TestServer::postgres().await] {
        let echo = server.echo().await;
        let mut made = Vec::new();
        for n in 0..7 {
            let run = server.start(&echo, json!({ "n": n })).await;
            server.end(&run).await;
            made.push(run);
        }
        let fails = json!({ "name": "fails", "version": 1, "steps": [{ "name": "no", "type": "task", "task": "fail" }] });
        let failed = server.start(&server.upload(&fails).await, json!({})).await;
        server.until(&failed, "FAILED").await;
        let mut seen = Vec::new();
        let mut path = format!("{RUNS}?limit=3&workflow=echo&status=COMPLETED");
        let first_page = path.clone();
        loop {
            let page = server.get(&path).await.json();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 3);
            seen.extend(items.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            path = format!("{first_page}&cursor={cursor}");
            // Later runs do not shift the pages.
            let late = server.start(&echo, json!({})).await;
            server.end(&late).await;
        }
        made.reverse();
        assert_eq!(seen, made);
        let by_status = server.get(&format!("{RUNS}?status=FAILED,CANCELLED")).await.json();
        assert_eq!(by_status["items"].as_array().unwrap().len(), 1);
        assert_eq!(by_status["items"][0]["id"], json!(failed));
        assert_eq!(by_status["items"][0]["failure"]["message"], "it always fails");
    }
}

/// S0.42: a run shows its definition, its steps and where it is.
#[tokio::test]
async fn a_run_is_shown_with_its_steps() {
    let server = TestServer::sqlite().await;
    let document = json!({
        "name": "three", "version": 4,
        "steps": [
            { "name": "one", "type": "task", "task": "echo", "input": { "n": "{{ input.n }}" } },
            { "name": "not-taken", "type": "task", "task": "echo", "when": "input.n > 100" },
            { "name": "two", "type": "signal" },
        ],
    });
    let id = server.upload(&document).await;
    let run = server.start(&id, json!({ "n": 7 })).await;
    let shown = server.until(&run, "WAITING").await;
    assert_eq!(shown["run"]["definitionId"], json!(id));
    assert_eq!(shown["run"]["workflow"], "three@4");
    assert_eq!(
        (&shown["run"]["currentStepName"], &shown["run"]["workspaceId"]),
        (&json!("two"), &json!("acme"))
    );
    let statuses: Vec<(&str, &str)> = shown["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["id"].as_str().unwrap(), step["status"].as_str().unwrap()))
        .collect();
    assert_eq!(statuses, [("one", "COMPLETED"), ("not-taken", "SKIPPED"), ("two", "WAITING")]);
    assert_eq!(shown["steps"][0]["effectKey"], format!("{run}:one"));
    assert_eq!(shown["steps"][0]["output"], json!({ "n": 7 }));
    let ledger = server.get(&format!("{RUNS}/{run}/ledger")).await.json();
    assert_eq!(ledger["items"][0]["effectKey"], format!("{run}:one"), "{ledger}");
    assert_eq!(ledger["items"][0]["happenedTwice"], json!(0));
    assert_eq!(ledger["items"][0]["mayHaveHappenedTwice"], json!(0));
    assert_eq!(ledger["items"][0]["attemptLog"][0]["status"], "completed");
    let whole = server.get("/api/v1/ledger").await.json();
    assert_eq!(whole["items"], ledger["items"]);
}

/// Filters narrow each other, on every page; a malformed one says where it is.
#[tokio::test]
async fn runs_are_filtered_by_subject_key_time_step_and_wait() {
    for server in [TestServer::memory().await, TestServer::sqlite().await, TestServer::postgres().await] {
        let document = json!({ "name": "order", "version": 2, "steps": [
            { "name": "approved", "type": "signal" },
            { "name": "paid", "type": "promise", "key": "charge:{{ input.id }}" },
        ] });
        server.upload(&document).await;
        let mut runs = Vec::new();
        for n in 0..3 {
            let body = json!({
                "workflow": "order", "input": { "id": format!("{n}") },
                "subject": format!("cart-{n}"), "idempotencyKey": format!("order-{n}"),
            });
            let created = server.post(RUNS, &body, &[]).await.json();
            let run = created["run"]["id"].as_str().unwrap().to_owned();
            server.until(&run, "WAITING").await;
            runs.push((run, created["run"]["createdAt"].as_str().unwrap().to_owned()));
        }
        let [(first, _), (second, _), (third, at)] = &runs[..] else { panic!("{runs:?}") };
        let signal = json!({ "name": "approved", "value": {} });
        server.post(&format!("{RUNS}/{third}/signals"), &signal, &[]).await;
        let is_at_paid =
            |shown: &Value| shown["run"]["currentStepName"] == "paid" && shown["run"]["status"] == "WAITING";
        server.until_shown(&format!("{RUNS}/{third}"), is_at_paid).await;
        let ids = async |query: &str| -> Vec<String> {
            let page = server.get(&format!("{RUNS}?{query}")).await;
            assert_eq!(page.status, 200, "{query}: {}", page.text());
            let items = page.json()["items"].as_array().unwrap().clone();
            items.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(ids("subject=cart-1").await, std::slice::from_ref(second));
        assert_eq!(ids("key=order-0").await, std::slice::from_ref(first));
        assert!(ids("key=order-0&subject=cart-1").await.is_empty());
        assert_eq!(ids("workflow=order@2").await.len(), 3);
        assert!(ids("workflow=order@1").await.is_empty());
        assert!(ids(&format!("until={at}")).await.iter().all(|run| run != third));
        assert!(ids(&format!("since={at}")).await.contains(third));
        assert_eq!(ids("currentStep=approved").await, [second.clone(), first.clone()]);
        assert_eq!(ids("waitsFor=signal:approved&status=WAITING").await, [second.clone(), first.clone()]);
        assert_eq!(ids("waitsFor=promise:charge:2").await, std::slice::from_ref(third));
        assert_eq!(ids(&format!("waitsFor=promise:{third}:paid")).await, std::slice::from_ref(third));
        assert!(ids("waitsFor=promise:charge:9").await.is_empty());
        assert!(ids("waitsFor=timer").await.is_empty());
        assert!(ids("waitsFor=child").await.is_empty());
        let page = server.get(&format!("{RUNS}?currentStep=approved&limit=1")).await.json();
        let cursor = page["nextCursor"].as_str().unwrap();
        assert_eq!(
            ids(&format!("currentStep=approved&limit=1&cursor={cursor}")).await,
            std::slice::from_ref(first)
        );
        let other_list = server.get(&format!("{RUNS}?currentStep=paid&cursor={cursor}")).await;
        assert_eq!(other_list.status, 400, "a cursor is of one filter");
        for (query, place) in [
            ("waitsFor=nothing", "query:waitsFor"),
            ("waitsFor=signal:", "query:waitsFor"),
            ("since=yesterday", "query:since"),
            ("workflow=order@0", "query:workflow"),
            ("key=", "query:key"),
        ] {
            let refused = server.get(&format!("{RUNS}?{query}")).await;
            assert_eq!((refused.status, &refused.json()["path"]), (400, &json!(place)), "{query}");
        }
    }
}

/// Every other list is paged too, with each item once.
#[tokio::test]
async fn every_list_comes_page_by_page() {
    let server = TestServer::sqlite().await;
    let echo = server.echo().await;
    for n in 0..5 {
        let run = server.start(&echo, json!({ "n": n })).await;
        server.end(&run).await;
        server.post("/api/v1/credentials", &json!({ "name": format!("c{n}"), "role": "viewer" }), &[]).await;
    }
    for (list, least) in [("/api/v1/credentials", 6), ("/api/v1/audit", 7), ("/api/v1/ledger", 5)] {
        let whole = server.get(&format!("{list}?limit=200")).await.json();
        let whole = whole["items"].as_array().unwrap();
        assert!(whole.len() >= least, "{list}: {}", whole.len());
        let mut seen = Vec::new();
        let mut path = format!("{list}?limit=2");
        loop {
            let page = server.get(&path).await.json();
            let items = page["items"].as_array().unwrap_or_else(|| panic!("{list}: {page}"));
            assert!(items.len() <= 2, "{list}");
            seen.extend(items.iter().cloned());
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            path = format!("{list}?limit=2&cursor={cursor}");
        }
        assert_eq!(&seen, whole, "{list}");
    }
}

/// Runs that wait for a person to act have `needsAttention`, and the filter finds them; a run that
/// a person paused is not one of them.
#[tokio::test]
async fn runs_that_need_attention_are_shown_and_found() {
    for server in [TestServer::sqlite().await, TestServer::postgres().await] {
        let provider = Provider::start().await;
        let request = |path: &str| json!({ "name": "send", "type": "http", "method": "POST", "url": provider.url(path) });
        let mut exhausts = request("/fail");
        exhausts["retry"] = json!({ "maxAttempts": 1 });
        exhausts["onExhausted"] = json!("pause");
        let mut doubts = request("/cut");
        doubts["effect"] = json!("claimed");
        doubts["nonIdempotent"] = json!(true);
        let start = async |name: &str, step: serde_json::Value, status: &str| {
            let document = json!({ "name": name, "version": 1, "steps": [step] });
            let run = server.start(&server.upload(&document).await, json!({})).await;
            server.until(&run, status).await;
            run
        };
        let paused = start("asks", json!({ "name": "ok", "type": "approval" }), "WAITING").await;
        server.post(&format!("{RUNS}/{paused}/pause"), &json!({}), &[]).await;
        server.until(&paused, "PAUSED").await;
        let exhausted = start("exhausts", exhausts, "PAUSED").await;
        let doubted = start("doubts", doubts, "WAITING").await;
        server.until_shown("/api/v1/doubts", |page| !page["items"].as_array().unwrap().is_empty()).await;
        let found = server.get(&format!("{RUNS}?needsAttention=true")).await.json();
        let ids = |page: &serde_json::Value| -> Vec<String> {
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|run| run["id"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(ids(&found), [doubted.clone(), exhausted.clone()], "{found:#}");
        assert_eq!(found["items"][0]["needsAttention"]["reason"], "in_doubt");
        assert_eq!(found["items"][0]["needsAttention"]["stepId"], "send");
        assert_eq!(found["items"][1]["needsAttention"]["reason"], "retries_exhausted");
        // Page by page, and narrowed.
        let first = server.get(&format!("{RUNS}?needsAttention=true&limit=1")).await.json();
        assert_eq!(ids(&first), std::slice::from_ref(&doubted));
        let cursor = first["nextCursor"].as_str().unwrap();
        let second = server.get(&format!("{RUNS}?needsAttention=true&limit=1&cursor={cursor}")).await.json();
        assert_eq!(ids(&second), std::slice::from_ref(&exhausted), "{second:#}");
        let narrowed = server.get(&format!("{RUNS}?needsAttention=true&workflow=exhausts")).await.json();
        assert_eq!(ids(&narrowed), std::slice::from_ref(&exhausted));
        assert_eq!(server.get(&format!("{RUNS}?needsAttention=maybe")).await.status, 400);
        // The plain list and the run itself say the same.
        let all = server.get(RUNS).await.json();
        let reason = |run: &str| {
            let item = all["items"].as_array().unwrap().iter().find(|item| item["id"] == run).unwrap();
            item["needsAttention"]["reason"].clone()
        };
        assert_eq!(reason(&doubted), "in_doubt");
        assert_eq!(reason(&exhausted), "retries_exhausted");
        assert_eq!(reason(&paused), serde_json::Value::Null);
        let shown = server.get(&format!("{RUNS}/{exhausted}")).await.json();
        let detail = shown["run"]["needsAttention"]["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("POST {RUNS}/{exhausted}/resume")), "{detail}");
        let watcher = server.key(hapax_server::identity::INSTALLATION, Role::Viewer).await;
        let metrics = server.send("GET", "/metrics", None, &watcher, &[]).await.text();
        assert!(
            metrics.contains("hapax_runs_needing_attention{reason=\"retries_exhausted\"} 1\n"),
            "{metrics}"
        );
        assert!(metrics.contains("hapax_runs_needing_attention{reason=\"in_doubt\"} 1\n"), "{metrics}");
        // After a decision it no longer needs attention.
        let doubt = server.get("/api/v1/doubts").await.json()["items"][0].clone();
        let ruling =
            json!({ "resolution": "happened", "output": {}, "reason": "seen", "version": doubt["version"] });
        let path = format!("/api/v1/doubts/{doubted}/send/resolve");
        assert_eq!(server.post(&path, &ruling, &[]).await.status, 200);
        server.end(&doubted).await;
        let found = server.get(&format!("{RUNS}?needsAttention=true")).await.json();
        assert_eq!(ids(&found), [exhausted]);
    }
}
