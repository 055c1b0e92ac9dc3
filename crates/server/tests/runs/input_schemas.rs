//! Runs of documents with an input schema: a wrong input is refused wherever a run is started, and nothing is stored.

use serde_json::{Value, json};

use super::RUNS;
use super::support::TestServer;

fn order() -> Value {
    json!({
        "name": "order", "version": 1,
        "input": {
            "type": "object",
            "required": ["customer"],
            "properties": { "cents": { "type": "integer", "minimum": 1 } },
        },
        "steps": [{ "name": "go", "type": "signal" }],
    })
}

async fn count_runs(server: &TestServer) -> usize {
    server.get(RUNS).await.json()["items"].as_array().unwrap().len()
}

fn paths(problem: &Value) -> Vec<&str> {
    let problems = problem["problems"].as_array().unwrap().iter();
    let mut paths: Vec<&str> = problems.map(|problem| problem["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    paths
}

/// CONTRACT §5: the input is checked against the definition's input schema, 422 with JSON Pointers.
#[tokio::test]
async fn a_start_with_a_wrong_input_is_422_with_pointers_and_takes_no_key() {
    let server = TestServer::memory().await;
    let definition = server.upload(&order()).await;
    let start =
        |input: Value| json!({ "definitionId": definition, "input": input, "idempotencyKey": "order-7" });
    let request_key = [("idempotency-key", "request-7")];

    let refused = server.post(RUNS, &start(json!({ "cents": 0 })), &request_key).await;
    assert_eq!(refused.told(), (422, "input_invalid".into()), "{}", refused.text());
    assert_eq!(paths(&refused.json()), ["/input/cents", "/input/customer"]);
    assert_eq!(refused.json()["workflow"], "order@1");
    assert_eq!(count_runs(&server).await, 0);

    // Neither key was taken: the corrected request is a new one under both.
    let right = start(json!({ "customer": "c-1", "cents": 5 }));
    let created = server.post(RUNS, &right, &request_key).await;
    assert_eq!((created.status, created.json()["created"].clone()), (201, json!(true)), "{}", created.text());
    assert_eq!(count_runs(&server).await, 1);

    let shown = server.get(&format!("/api/v1/workflow-definitions/{definition}")).await.json();
    assert_eq!(shown["document"]["input"], order()["input"], "the schema is shown with its definition");
}

#[tokio::test]
async fn in_a_batch_only_the_items_with_a_wrong_input_are_refused() {
    let server = TestServer::memory().await;
    let definition = server.upload(&order()).await;
    let item = |input: Value| json!({ "definitionId": definition, "input": input });
    let batch = json!({ "runs": [item(json!({ "customer": "a" })), item(json!({})), item(json!({ "customer": "b" }))] });
    let answer = server.post(&format!("{RUNS}/batch"), &batch, &[]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let items = answer.json()["items"].clone();
    assert_eq!(items[1]["problem"]["code"], "input_invalid", "{items}");
    assert_eq!(paths(&items[1]["problem"]), ["/input/customer"]);
    assert_eq!(count_runs(&server).await, 2);
}

#[tokio::test]
async fn a_webhook_whose_start_has_a_wrong_input_fails_that_action_and_starts_nothing() {
    let server = TestServer::memory().await;
    server.upload(&order()).await;
    let source = json!({
        "name": "orders",
        "signature": { "scheme": "none", "allowUnsigned": true },
        "eventId": { "pointer": "/id" },
        "actions": [{ "start": { "workflow": "order", "input": "{{ body.order }}" } }],
    });
    let made = server.post("/api/v1/webhook-sources", &source, &[]).await;
    assert!(matches!(made.status, 200 | 201), "{}", made.text());
    let path = made.json()["path"].as_str().unwrap().to_owned();
    let sent =
        server.send("POST", &path, Some(json!({ "id": "e1", "order": {} }).to_string()), "", &[]).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let events = server.get("/api/v1/webhook-events").await.json();
    let action = &events["items"][0]["outcome"]["actions"][0];
    assert_eq!(events["items"][0]["status"], "failed", "{events}");
    assert!(action["detail"].as_str().unwrap().contains("/customer is missing"), "{events}");
    assert_eq!(count_runs(&server).await, 0);
    let right = json!({ "id": "e2", "order": { "customer": "c" } }).to_string();
    server.send("POST", &path, Some(right), "", &[]).await;
    assert_eq!(count_runs(&server).await, 1);
}
