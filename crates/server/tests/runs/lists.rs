//! Lists of runs, page by page, and one run with its steps.

use serde_json::json;

use super::RUNS;
use super::support::TestServer;

/// Every run is on one page and on no other, newest first, whatever is started meanwhile.
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
            // What comes later does not shift the pages.
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
    assert_eq!(shown["run"]["workflow"], json!({ "name": "three", "version": 4 }));
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
    assert_eq!(ledger["items"][0]["attempts"][0]["outcome"], "completed");
    let whole = server.get("/api/v1/ledger").await.json();
    assert_eq!(whole["items"], ledger["items"]);
}

/// Every other list comes page by page too, each thing once.
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
