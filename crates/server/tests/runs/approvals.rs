//! Approvals: who may decide, and what.

use hapax_api::Role;
use serde_json::{Value, json};

use super::RUNS;
use super::support::TestServer;

async fn asking(server: &TestServer, by: Value) -> String {
    let document = json!({
        "name": format!("asks-{}", by.to_string().len()), "version": 1,
        "steps": [{
            "name": "sign-off", "type": "approval", "by": by, "decisions": ["approve", "reject", "edit"],
            "fields": ["amount"], "show": { "amount": "{{ input.amount }}" },
        }],
        "output": { "decision": "{{ steps[\"sign-off\"].output.decision }}", "by": "{{ steps[\"sign-off\"].output.by }}" },
    });
    let run = server.start(&server.upload(&document).await, json!({ "amount": 5 })).await;
    server.until(&run, "WAITING").await;
    run
}

async fn answer(server: &TestServer, run: &str, key: &str, body: Value) -> super::support::Answer {
    server.send("POST", &format!("{RUNS}/{run}/approvals/sign-off"), Some(body.to_string()), key, &[]).await
}

/// S2.46: an approval counts under the role of the credential, whatever the caller says about itself.
#[tokio::test]
async fn an_approval_is_for_the_role_it_names() {
    let server = TestServer::sqlite().await;
    let operator = server.key("acme", Role::Operator).await;
    let manager = server.key("acme", Role::Manager).await;
    let run = asking(&server, json!({ "roles": ["manager"] })).await;
    let refused = answer(&server, &run, &operator, json!({ "decision": "approve" })).await;
    assert_eq!(refused.told(), (403, "approval_for_others".into()));
    assert_eq!(refused.json()["by"]["roles"], json!(["manager"]), "{}", refused.text());
    let claims = json!({ "decision": "approve", "by": { "roles": ["manager"] } });
    assert_eq!(answer(&server, &run, &operator, claims).await.status, 400, "nobody says who they are");
    let forged = json!({ "name": "approval.sign-off", "value": { "decision": "approve", "by": { "roles": ["manager"] } } });
    let signal =
        server.send("POST", &format!("{RUNS}/{run}/signals"), Some(forged.to_string()), &operator, &[]).await;
    assert_eq!(signal.status, 400, "nor by another way in");
    for bad in [
        json!({ "decision": "maybe" }),
        json!({ "decision": "edit" }),
        json!({ "decision": "edit", "value": { "other": 1 } }),
    ] {
        assert_eq!(answer(&server, &run, &manager, bad.clone()).await.status, 400, "{bad}");
    }
    let approved = answer(&server, &run, &manager, json!({ "decision": "approve", "comment": "fine" })).await;
    assert_eq!((approved.status, &approved.json()["stored"]), (200, &json!(true)), "{}", approved.text());
    let output = server.end(&run).await["run"]["output"].clone();
    assert_eq!(output["decision"], "approve");
    assert_eq!(output["by"], json!({ "requester": "manager of acme", "roles": ["manager"] }));
}

/// A requester that a credential carries may decide where it is named; a rejection fails the run.
#[tokio::test]
async fn an_approval_is_for_the_requester_it_names() {
    let server = TestServer::sqlite().await;
    let asked = json!({ "name": "console", "role": "operator", "requester": "maria" });
    let issued = server.post("/api/v1/credentials", &asked, &[]).await.json();
    let maria = issued["apiKey"].as_str().unwrap().to_owned();
    let operator = server.key("acme", Role::Operator).await;
    let run = asking(&server, json!({ "requesters": ["maria"] })).await;
    assert_eq!(answer(&server, &run, &operator, json!({ "decision": "reject" })).await.status, 403);
    let rejected =
        answer(&server, &run, &maria, json!({ "decision": "reject", "comment": "too much" })).await;
    assert_eq!(rejected.status, 200, "{}", rejected.text());
    let failed = server.until(&run, "FAILED").await;
    assert_eq!(failed["run"]["failure"]["code"], "rejected");
    assert!(failed["run"]["failure"]["message"].as_str().unwrap().contains("maria rejected"), "{failed}");
    for step in ["nothing", "sign-off.1", "sign"] {
        let path = format!("{RUNS}/{run}/approvals/{step}");
        let body = json!({ "decision": "approve" }).to_string();
        let answer = server.send("POST", &path, Some(body), &maria, &[]).await;
        assert!(matches!(answer.status, 404 | 409), "{step}: {}", answer.text());
    }
}

/// Of fifty answers one counts, and the others get its author; a repeated request under its key
/// gets its own response.
#[tokio::test]
async fn one_of_several_racing_answers_wins() {
    let server = TestServer::sqlite().await;
    let run = asking(&server, json!({ "roles": ["admin"] })).await;
    let path = format!("{RUNS}/{run}/approvals/sign-off");
    let keys: Vec<String> = (0..50).map(|n| format!("answer-{n}")).collect();
    let other = server.key("acme", Role::Admin).await;
    let answer = |n: usize, key: &str| {
        let body = json!({ "decision": if n.is_multiple_of(2) { "approve" } else { "reject" } }).to_string();
        let (server, path, key, other) = (&server, path.clone(), key.to_owned(), &other);
        async move { server.send("POST", &path, Some(body), other, &[("idempotency-key", &key)]).await }
    };
    let answers =
        futures_util::future::join_all(keys.iter().enumerate().map(|(n, key)| answer(n, key))).await;
    let counted: Vec<usize> = (0..50).filter(|n| answers[*n].status == 200).collect();
    let [winner] = counted[..] else { panic!("{counted:?} were told that they count") };
    let decision = if winner % 2 == 0 { "approve" } else { "reject" };
    for other in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(other.told(), (409, "approval_over".into()), "{}", other.text());
        assert_eq!(other.json()["decision"], decision, "{}", other.text());
        assert_eq!(other.json()["decidedBy"]["name"], "admin of acme");
    }
    let ends = if winner % 2 == 0 { "COMPLETED" } else { "FAILED" };
    server.until(&run, ends).await;
    assert_eq!(answer(winner, &keys[winner]).await.status, 200, "its own answer, again");
    let audit = server.get("/api/v1/audit?action=approval_answered").await.json();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(audit["items"][0]["command"], decision, "{audit}");
}

/// Nobody approves what they have not seen.
#[tokio::test]
async fn an_answer_before_the_question_counts_for_nothing() {
    let server = TestServer::sqlite().await;
    let manager = server.key("acme", Role::Manager).await;
    let document = json!({
        "name": "slow", "version": 1,
        "steps": [
            { "name": "go", "type": "signal", "signal": "go" },
            { "name": "sign-off", "type": "approval", "decisions": ["approve", "reject"] },
        ],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let approve = json!({ "decision": "approve" });
    let early = answer(&server, &run, &manager, approve.clone()).await;
    assert_eq!(early.told(), (409, "approval_not_asked".into()), "{}", early.text());
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go" }), &[]).await;
    let asks = |page: &Value| page["steps"].as_array().unwrap().iter().any(|step| step["id"] == "sign-off");
    let shown = server.until_shown(&format!("{RUNS}/{run}"), asks).await;
    assert_eq!(shown["run"]["status"], "WAITING", "the early answer is not used: {shown}");
    assert_eq!(answer(&server, &run, &manager, approve).await.status, 200);
    server.until(&run, "COMPLETED").await;
}

/// Four eyes: the person who had the run started, or the run above it, cannot approve it under any name.
#[tokio::test]
async fn whoever_had_a_run_started_does_not_approve_it() {
    let server = TestServer::sqlite().await;
    let manager = server.key("acme", Role::Manager).await;
    let approval = |more: Value| {
        let mut step = json!({ "name": "sign-off", "type": "approval" });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let upload = async |name: &str, step: Value| {
        server.upload(&json!({ "name": name, "version": 1, "steps": [step] })).await
    };
    let strict = upload("strict", approval(json!({}))).await;
    let lenient = upload("lenient", approval(json!({ "selfApproval": true }))).await;
    let above = upload("above", json!({ "name": "below", "type": "child", "workflow": "strict" })).await;
    let approve = json!({ "decision": "approve" });

    let run = server.start(&strict, json!({})).await;
    server.until(&run, "WAITING").await;
    let refused = answer(&server, &run, &server.admin, approve.clone()).await;
    assert_eq!(refused.told(), (403, "own_approval".into()), "{}", refused.text());
    assert_eq!(answer(&server, &run, &manager, approve.clone()).await.status, 200);

    let run = server.start(&lenient, json!({})).await;
    server.until(&run, "WAITING").await;
    assert_eq!(answer(&server, &run, &server.admin, approve.clone()).await.status, 200);

    let run = server.start(&above, json!({})).await;
    let waits = |page: &Value| page["items"].as_array().is_some_and(|items| !items.is_empty());
    let path = format!("{RUNS}?status=WAITING&workflow=strict");
    let page = server.until_shown(&path, waits).await;
    let child = page["items"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(child, run);
    let refused = answer(&server, &child, &server.admin, approve.clone()).await;
    assert_eq!(refused.told(), (403, "own_approval".into()), "{}", refused.text());
    assert_eq!(answer(&server, &child, &manager, approve).await.status, 200);
    server.until(&run, "COMPLETED").await;
    let audit = server.get("/api/v1/audit?action=steered&limit=200").await.json();
    let starts = audit["items"].as_array().unwrap().iter().filter(|it| it["command"] == "start").count();
    assert_eq!(starts, 2, "two by a person; the child was started by its run: {audit}");
}
