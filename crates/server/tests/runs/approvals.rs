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
