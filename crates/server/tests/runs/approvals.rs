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
    let answer = |n: usize, key: &str| {
        let body = json!({ "decision": if n.is_multiple_of(2) { "approve" } else { "reject" } });
        let (server, path, key) = (&server, path.clone(), key.to_owned());
        async move { server.post(&path, &body, &[("idempotency-key", &key)]).await }
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

/// An answer may come before the question. It is the one that counts.
#[tokio::test]
async fn an_answer_that_comes_early_is_the_one_that_counts() {
    let server = TestServer::sqlite().await;
    let document = json!({
        "name": "slow", "version": 1,
        "steps": [
            { "name": "go", "type": "signal", "signal": "go" },
            { "name": "sign-off", "type": "approval", "decisions": ["approve", "reject"] },
        ],
    });
    let run = server.start(&server.upload(&document).await, json!({})).await;
    server.until(&run, "WAITING").await;
    let path = format!("{RUNS}/{run}/approvals/sign-off");
    assert_eq!(server.post(&path, &json!({ "decision": "approve" }), &[]).await.status, 200);
    let second = server.post(&path, &json!({ "decision": "reject" }), &[]).await;
    assert_eq!(second.told(), (409, "approval_over".into()), "{}", second.text());
    server.post(&format!("{RUNS}/{run}/signals"), &json!({ "name": "go" }), &[]).await;
    server.until(&run, "COMPLETED").await;
}
