//! Runs started by the name of their workflow.

use serde_json::{Value, json};

use super::RUNS;
use super::support::{Answer, TestServer};

/// A version of `order` that gives back which version it is.
fn order(version: u32, ignored: &[&str]) -> Value {
    json!({
        "name": "order", "version": version, "fingerprint": { "ignore": ignored },
        "steps": [{ "name": "say", "type": "task", "task": "echo", "input": { "version": version } }],
    })
}

fn run_of(answer: &Answer) -> String {
    answer.json()["run"]["id"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

#[tokio::test]
async fn a_run_is_started_by_name_and_stays_with_its_version() {
    let server = TestServer::sqlite().await;
    let first = server.upload(&order(1, &[])).await;
    let begun = server.post(RUNS, &json!({ "workflow": "order" }), &[]).await;
    assert_eq!(
        (begun.status, &begun.json()["run"]["workflow"]),
        (201, &json!("order@1")),
        "{}",
        begun.text()
    );
    assert_eq!(begun.json()["run"]["definitionId"], first.as_str());
    server.upload(&order(3, &[])).await;
    server.upload(&order(2, &[])).await;
    let old = server.end(&run_of(&begun)).await;
    assert_eq!(
        (&old["run"]["workflow"], &old["run"]["output"]),
        (&json!("order@1"), &json!({ "version": 1 }))
    );
    for (named, version) in [("order", 3), ("order@2", 2), ("order@1", 1)] {
        let begun = server.post(RUNS, &json!({ "workflow": named }), &[]).await;
        assert_eq!(begun.status, 201, "{named}: {}", begun.text());
        let ended = server.end(&run_of(&begun)).await;
        assert_eq!(ended["run"]["output"], json!({ "version": version }), "{named}");
    }
    let batch =
        json!({ "runs": [{ "workflow": "order" }, { "workflow": "order@1" }, { "workflow": "order@9" }] });
    let batch = server.post(&format!("{RUNS}/batch"), &batch, &[]).await.json();
    let workflows: Vec<_> = batch["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["createdRun"]["run"]["workflow"])
        .collect();
    assert_eq!(workflows, [&json!("order@3"), &json!("order@1"), &Value::Null]);
    assert_eq!(batch["items"][2]["problem"]["code"], "definition_not_found");
}

/// CONTRACT §2: the key covers the name and the input, so neither the spelling nor a newer version makes it another request.
#[tokio::test]
async fn a_retry_finds_its_run_by_either_spelling_although_a_newer_version_was_uploaded() {
    let server = TestServer::sqlite().await;
    let first = server.upload(&order(1, &["/requestedAt"])).await;
    let ask = |name: &str, value: &str, at: u32| json!({ name: value, "input": { "order": 7, "requestedAt": at }, "idempotencyKey": "order-7" });
    let begun = server.post(RUNS, &ask("workflow", "order", 1), &[]).await;
    assert_eq!(begun.status, 201, "{}", begun.text());
    // The newer version counts what the older one ignored.
    server.upload(&order(2, &[])).await;
    for (name, value) in
        [("workflow", "order"), ("workflow", "order@1"), ("workflow", "order@2"), ("definitionId", &first)]
    {
        let again = server.post(RUNS, &ask(name, value, 2), &[]).await;
        assert_eq!((again.status, run_of(&again)), (200, run_of(&begun)), "{value}: {}", again.text());
        assert_eq!(again.json()["run"]["workflow"], "order@1", "{value}");
    }
    let mut other = ask("workflow", "order", 2);
    other["input"]["order"] = json!(8);
    let refused = server.post(RUNS, &other, &[]).await;
    assert_eq!(refused.told(), (422, "idempotency_key_conflict".into()));
}

#[tokio::test]
async fn what_names_no_workflow_is_refused_with_its_place() {
    let server = TestServer::memory().await;
    let id = server.upload(&order(1, &[])).await;
    for (body, place) in [
        (json!({}), "/workflow"),
        (json!({ "workflow": "" }), "/workflow"),
        (json!({ "workflow": "order@0" }), "/workflow"),
        (json!({ "workflow": "order@latest" }), "/workflow"),
        (json!({ "workflow": "or der" }), "/workflow"),
        (json!({ "workflow": "order", "definitionId": id }), "/definitionId"),
        (json!({ "definitionId": "" }), "/definitionId"),
    ] {
        let refused = server.post(RUNS, &body, &[]).await;
        assert_eq!(
            (refused.told(), &refused.json()["path"]),
            ((400, "invalid_request".into()), &json!(place)),
            "{body}"
        );
    }
    for absent in ["nobody", "order@2"] {
        let refused = server.post(RUNS, &json!({ "workflow": absent }), &[]).await;
        assert_eq!(refused.told(), (404, "definition_not_found".into()), "{absent}");
    }
}

#[tokio::test]
async fn a_child_is_started_in_the_version_that_its_parent_names() {
    let server = TestServer::memory().await;
    server.upload(&order(1, &[])).await;
    server.upload(&order(2, &[])).await;
    for (named, version) in [("order", 2), ("order@1", 1)] {
        let parent = json!({
            "name": format!("parent-of-{version}"), "version": 1,
            "steps": [{ "name": "ask", "type": "child", "workflow": named }],
        });
        let run = server.start(&server.upload(&parent).await, json!({})).await;
        assert_eq!(server.end(&run).await["run"]["output"], json!({ "version": version }), "{named}");
    }
}

/// Another node was given the workflow a moment ago.
#[tokio::test]
async fn a_workflow_that_another_node_was_just_given_is_found_by_name() {
    let server = TestServer::postgres().await;
    let node = server.another_node().await;
    server.upload(&order(1, &[])).await;
    for named in ["order@1", "order"] {
        let begun = node.post(RUNS, &json!({ "workflow": named }), &[]).await;
        assert_eq!(begun.status, 201, "{named}: {}", begun.text());
    }
}
