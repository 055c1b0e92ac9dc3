//! After-effects of steps, and steps that a run carries out.

use hapax_engine::limits::MAX_ACTION_TRIES;
use hapax_engine::model::{Actor, OperationId, OutboxStatus, Role as Rank, RunId, WorkspaceId};
use serde_json::{Value, json};

use super::invoice_fixture::{make, upload};
use super::support::{Provider, TestServer};

/// S1.11, S1.12: after the commit one request goes out, under one key; after a failure the other.
#[tokio::test]
async fn after_effects_are_sent_once_under_a_key_of_their_own() {
    let (server, provider) = (TestServer::sqlite().await, Provider::start().await);
    let tell = |path: &str, body: Value| json!({ "http": { "method": "POST", "url": provider.url(path), "body": body } });
    let document = json!({
        "name": "letters", "module": "billing", "entity": "letter", "status_types": ["draft", "sending", "sent"],
        "steps": [{
            "step_id": 1, "step_key": "send", "status": "draft", "successful_state": "sent", "claim_state": ["sending", "draft"],
            "action": { "http": { "method": "POST", "url": provider.url("/post"), "output": "{{ response.body.id }}" } },
            "success_after_effect": tell("/told", json!({ "letter": "{{ entity.id }}", "post": "{{ result }}", "is": "{{ status }}" })),
        }, {
            "step_id": 2, "step_key": "lose", "status": "draft", "successful_state": "sent", "claim_state": ["sending", "draft"],
            "action": { "http": { "method": "POST", "url": provider.url("/fail") } },
            "failure_after_effect": tell("/sorry", json!({ "letter": "{{ entity.id }}" })),
        }],
    });
    upload(&server, &document).await;
    make(&server, "letter", "l-1", "draft").await;
    let lost = server.post("/api/v1/entities/letter/l-1/steps/lose", &json!({}), &[]).await;
    assert_eq!(lost.told(), (502, "action_failed".into()), "{}", lost.text());
    let sent = server.post("/api/v1/entities/letter/l-1/steps/send", &json!({}), &[]).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let since = std::time::Instant::now();
    let told =
        |path: &str| provider.asked().into_iter().filter(|asked| asked.path == path).collect::<Vec<_>>();
    while told("/told").is_empty() || told("/sorry").is_empty() {
        assert!(since.elapsed() < super::support::PATIENCE, "{:?}", provider.asked());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let post = sent.json()["operation"]["result"].clone();
    assert_eq!(told("/told")[0].body, json!({ "letter": "l-1", "post": post, "is": "sent" }));
    assert_eq!(told("/sorry")[0].body, json!({ "letter": "l-1" }));
    assert_ne!(told("/told")[0].key, told("/post")[0].key, "each effect has its key");
    assert!(told("/told")[0].key.is_some());
    // A 500 may have happened: the request is repeated under the same key, and its failure is
    // reported once.
    let tries = told("/fail");
    assert_eq!((tries.len(), told("/sorry").len()), (MAX_ACTION_TRIES as usize, 1));
    assert!(tries[0].key.is_some() && tries.iter().all(|one| one.key == tries[0].key), "{tries:?}");
}

/// CONTRACT §8: a run carries the step out, and the operation ends when the run ends; another run may follow after it.
#[tokio::test]
async fn a_step_is_carried_out_by_a_run_and_followed_by_another() {
    let server = TestServer::sqlite().await;
    for name in ["ships", "thanks"] {
        let step =
            json!({ "name": "say", "type": "task", "task": "echo", "input": { "said": "{{ input }}" } });
        server.upload(&json!({ "name": name, "version": 1, "steps": [step] })).await;
    }
    let document = json!({
        "name": "parcels", "module": "billing", "entity": "parcel", "status_types": ["packed", "shipping", "shipped"],
        "steps": [{
            "step_id": 1, "step_key": "ship", "status": "packed", "successful_state": "shipped", "claim_state": ["shipping", "packed"],
            "action": { "workflow": "ships", "input": { "parcel": "{{ entity.id }}", "to": "{{ input.to }}" } },
            "success_after_effect": { "workflow": "thanks", "input": { "parcel": "{{ entity.id }}" } },
        }],
    });
    upload(&server, &document).await;
    make(&server, "parcel", "p-1", "packed").await;
    let path = "/api/v1/entities/parcel/p-1/steps/ship";
    let shipped = server.post(path, &json!({ "input": { "to": "Berlin" } }), &[]).await;
    assert_eq!(shipped.status, 200, "{}", shipped.text());
    let operation = shipped.json()["operation"].clone();
    assert_eq!(operation["result"]["said"], json!({ "parcel": "p-1", "to": "Berlin" }), "{operation}");
    let run =
        server.get(&format!("/api/v1/workflow-runs/{}", operation["runId"].as_str().unwrap())).await.json();
    assert_eq!((&run["run"]["status"], &run["run"]["workflow"]), (&json!("COMPLETED"), &json!("ships@1")));
    let thanked = server
        .until_shown("/api/v1/workflow-runs?workflow=thanks", |shown| {
            shown["items"][0]["status"] == "COMPLETED"
        })
        .await;
    assert_eq!(thanked["items"].as_array().unwrap().len(), 1);
    assert_eq!(thanked["items"][0]["input"], json!({ "parcel": "p-1" }));
}

/// However often an after-effect is delivered, it starts one run, which sorts next to its
/// operation's run; another operation starts another run.
#[tokio::test]
async fn an_after_effect_that_is_delivered_again_starts_no_second_run() {
    let server = TestServer::memory().await;
    let step = json!({ "name": "say", "type": "task", "task": "echo", "input": { "said": "{{ input }}" } });
    server.upload(&json!({ "name": "thanks", "version": 1, "steps": [step] })).await;
    let document = json!({
        "name": "parcels", "module": "billing", "entity": "parcel", "status_types": ["packed", "shipped"],
        "steps": [{
            "step_id": 1, "step_key": "ship", "status": "packed", "successful_state": "shipped",
            "success_after_effect": { "workflow": "thanks", "input": { "parcel": "{{ entity.id }}" } },
        }],
    });
    upload(&server, &document).await;
    let mut operations = Vec::new();
    for id in ["p-1", "p-2"] {
        make(&server, "parcel", id, "packed").await;
        let shipped = server.post(&format!("/api/v1/entities/parcel/{id}/steps/ship"), &json!({}), &[]).await;
        assert_eq!(shipped.status, 200, "{}", shipped.text());
        let operation: OperationId = shipped.json()["operation"]["id"].as_str().unwrap().parse().unwrap();
        operations.push(operation);
    }
    let thanked = "/api/v1/workflow-runs?workflow=thanks&status=COMPLETED";
    let both = server.until_shown(thanked, |shown| shown["items"].as_array().unwrap().len() == 2).await;
    let engine = server.engine.workspace(WorkspaceId::new("acme").unwrap());
    let delivered = Some(OutboxStatus::Delivered);
    let posts = engine.list_after_effects(delivered, None, 10).await.unwrap();
    assert_eq!(posts.len(), 2);
    let by = Actor::new("Ann", Rank::Manager);
    for post in &posts {
        engine.redeliver(&post.id, by.clone(), "to see what happens").await.unwrap();
    }
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let told: Vec<&Value> =
        audit["items"].as_array().unwrap().iter().filter(|it| it["what"] == "redelivered").collect();
    assert_eq!(told.len(), 2);
    assert_eq!((&told[0]["stepId"], &told[0]["runId"]), (&json!(posts[0].id.as_str()), &json!(null)));
    let since = std::time::Instant::now();
    while engine.list_after_effects(delivered, None, 10).await.unwrap().len() < 2 {
        assert!(since.elapsed() < super::support::PATIENCE, "they are delivered again");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let shown = server.get("/api/v1/workflow-runs?workflow=thanks").await.json();
    assert_eq!(shown["items"], both["items"], "no run was added");
    for run in both["items"].as_array().unwrap() {
        let id: RunId = run["id"].as_str().unwrap().parse().unwrap();
        let parcel = run["input"]["parcel"].as_str().unwrap();
        let operation = operations[usize::from(parcel == "p-2")];
        assert_eq!(id.as_u128() >> 64, operation.as_run().as_u128() >> 64, "as old as its operation");
        assert_ne!(id, operation.as_run(), "that is the run of an action");
    }
}
