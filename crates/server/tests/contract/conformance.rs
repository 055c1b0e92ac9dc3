//! The conformance suite for `Idempotency-Key`, run against this server.

use hapax_http_conformance::{Config, Outcome, Suite};
use serde_json::json;

use super::RUNS;
use super::support::{Role, TestServer};

/// S2.34, S2.39: the server passes every clause of the profile, and the suite checks each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_keeps_every_clause_of_the_contract() {
    let (server, _store) = TestServer::planned().await;
    let document = json!({
        "name": "payment", "version": 1, "idempotency": "required",
        "steps": [{ "name": "charge", "type": "task", "task": "echo" }],
    });
    let payment = server.upload(&document).await;
    let other = server.key("acme", Role::Operator).await;
    let authorization = json!({ "authorization": format!("Bearer {}", server.admin) });
    let body = |subject: &str| json!({ "definitionId": payment, "input": { "amount": 100 }, "subject": format!("{subject}:{{{{unique}}}}") });
    let shape = |subject: &str| json!({ "path": RUNS, "headers": authorization, "body": body(subject) });
    let request = json!({
        "path": RUNS, "headers": authorization,
        "body": { "definitionId": payment, "input": { "amount": 100, "reference": "{{unique}}" } },
    });
    let config: Config = serde_json::from_value(json!({
        "profile": "hapax",
        "request": request,
        "otherBody": { "input": { "amount": 200 } },
        "badBody": { "input": "much" },
        "otherRequest": { "path": format!("{RUNS}/batch"), "headers": authorization, "body": { "runs": [] } },
        "slowRequest": shape("slow"),
        "failingRequest": shape("broken"),
        "effects": { "path": format!("{RUNS}?limit=200"), "headers": authorization, "pointer": "/items" },
        "keyRequired": true,
        "otherCredential": { "authorization": format!("Bearer {other}") },
    }))
    .unwrap();
    let report = Suite::new(&server.url, config).unwrap().run().await.unwrap();
    let unkept: Vec<_> = report.clauses.iter().filter(|verdict| verdict.outcome != Outcome::Passed).collect();
    assert!(unkept.is_empty(), "{unkept:#?}");
    assert!(report.is_passed());
}
