//! Payloads and sensitive fields: who sees them, and who asked to.

use hapax_server::openapi;
use serde_json::{Value, json};

use super::RUNS;
use super::support::{IdentityProvider, Role, Setup, TestServer};

fn document() -> Value {
    json!({
        "name": "pay", "version": 1, "sensitive": ["pan"],
        "input": {
            "type": "object",
            "properties": {
                "amount": { "type": "integer" },
                "card": { "type": "object", "properties": { "number": { "type": "string", "x-sensitive": true } } },
            },
        },
        "steps": [
            { "name": "charge", "type": "task", "task": "echo", "input": { "pan": "tok_secret", "paid": "{{ input }}" } },
            { "name": "answer", "type": "signal", "signal": "answer" },
        ],
    })
}

const INPUT: &str = r#"{"amount":9007199254740993,"card":{"number":"4111-secret"}}"#;

/// A run whose input and output hold secrets, and that has ended.
async fn paid(server: &TestServer) -> String {
    let id = server.upload(&document()).await;
    let input: Value = serde_json::from_str(INPUT).unwrap();
    let made = server
        .post(RUNS, &json!({ "definitionId": id, "input": input, "idempotencyKey": "order-7" }), &[])
        .await;
    assert!(!made.text().contains("secret"), "the start itself: {}", made.text());
    let run = made.json()["run"]["id"].as_str().unwrap().to_owned();
    server.until(&run, "WAITING").await;
    let signal = json!({ "name": "answer", "value": { "pan": "tok_secret" } });
    assert_eq!(server.post(&format!("{RUNS}/{run}/signals"), &signal, &[]).await.status, 200);
    server.end(&run).await;
    run
}

/// Everything that shows something of a run.
fn places(run: &str) -> Vec<String> {
    let of_run = ["", "/result", "/events", "/events/stream", "/ledger", "/notes"]
        .map(|part| format!("{RUNS}/{run}{part}"));
    let others = ["?limit=50", "?key=order-7"].map(|query| format!("{RUNS}{query}"));
    let rest = [
        "/api/v1/ledger",
        "/api/v1/audit",
        "/api/v1/keys/run/order-7",
        "/api/v1/why?q=order-7",
        "/api/v1/promises",
    ];
    of_run.into_iter().chain(others).chain(rest.map(Into::into)).collect()
}

#[tokio::test]
async fn sensitive_fields_are_masked_wherever_a_run_is_shown() {
    let server = TestServer::sqlite().await;
    let run = paid(&server).await;
    for place in places(&run) {
        let shown = server.get(&place).await;
        assert_eq!(shown.status, 200, "{place}: {}", shown.text());
        assert!(!shown.text().contains("secret"), "{place}: {}", shown.text());
    }
    let shown = server.get(&format!("{RUNS}/{run}")).await;
    let text = shown.text();
    assert!(text.contains(r#""amount":9007199254740993"#), "all else is there, byte for byte: {text}");
    assert_eq!(shown.json()["run"]["input"]["card"]["number"], "[masked]");
    // The stored bytes equal the sent bytes.
    let stored = server.engine.workspace(hapax_engine::model::WorkspaceId::new("acme").unwrap());
    let view = stored.get(run.parse().unwrap()).await.unwrap();
    assert_eq!(view.input.as_str(), INPUT);
}

#[tokio::test]
async fn sensitive_fields_are_shown_to_who_may_and_says_why_and_that_is_audited() {
    let server = TestServer::sqlite().await;
    let run = paid(&server).await;
    let reveal = async |key: &str, body: Value| {
        server.send("POST", &format!("{RUNS}/{run}/reveal"), Some(body.to_string()), key, &[]).await
    };
    let why = json!({ "reason": "complaint 17" });
    let (operator, manager) =
        (server.key("acme", Role::Operator).await, server.key("acme", Role::Manager).await);
    assert_eq!(reveal(&operator, why.clone()).await.told(), (403, "forbidden".into()));
    assert_eq!(reveal(&manager, json!({ "reason": " " })).await.status, 400);
    let audit = "/api/v1/audit?action=payloads_revealed";
    assert_eq!(server.get(audit).await.json()["items"], json!([]), "nothing was shown");
    let shown = reveal(&manager, why.clone()).await;
    assert_eq!(shown.json()["run"]["input"]["card"]["number"], "4111-secret", "{}", shown.text());
    let hidden = json!({ "name": "auditor", "role": "manager", "hidesPayloads": true });
    let hidden =
        server.post("/api/v1/credentials", &hidden, &[]).await.json()["apiKey"].as_str().unwrap().to_owned();
    assert_eq!(reveal(&hidden, why).await.told(), (403, "payloads_hidden".into()));
    let entries = server.get(audit).await.json();
    assert_eq!(entries["items"].as_array().unwrap().len(), 1, "{entries}");
    assert_eq!(
        (&entries["items"][0]["runId"], &entries["items"][0]["reason"]),
        (&json!(run), &json!("complaint 17"))
    );
    assert_eq!(entries["items"][0]["actor"]["name"], "manager of acme");
}

#[tokio::test]
async fn who_sees_no_payloads_sees_runs_and_nothing_that_they_carry() {
    let provider = IdentityProvider::start().await;
    let server =
        TestServer::memory_with(Setup { people: Some(provider.settings()), ..Setup::default() }).await;
    let run = paid(&server).await;
    let hidden = json!({ "name": "auditor", "role": "viewer", "hidesPayloads": true });
    let issued = server.post("/api/v1/credentials", &hidden, &[]).await.json();
    assert_eq!(issued["credential"]["hidesPayloads"], true);
    let key = issued["apiKey"].as_str().unwrap().to_owned();
    for caller in [key, provider.access_token("alan", &json!({}))] {
        for place in places(&run) {
            let shown = server.send("GET", &place, None, &caller, &[]).await;
            assert_eq!(shown.status, 200, "{place}: {}", shown.text());
            for payload in ["secret", "9007199254740993", "amount"] {
                assert!(!shown.text().contains(payload), "{place}: {}", shown.text());
            }
        }
        let shown = server.send("GET", &format!("{RUNS}/{run}"), None, &caller, &[]).await.json();
        assert_eq!(
            (&shown["run"]["status"], &shown["run"]["input"]),
            (&json!("COMPLETED"), &json!("[masked]")),
            "{shown}"
        );
    }
}

/// A member that may hold any JSON, or what somebody sent, is a payload: none is forgotten.
#[test]
fn every_member_of_a_response_that_holds_any_json_is_a_payload() {
    let description: Value = serde_json::from_str(openapi::text()).unwrap();
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let mut forgotten = Vec::new();
    for (schema, of) in schemas {
        for (name, member) in of["properties"].as_object().into_iter().flatten() {
            let is_any = member.as_object().is_some_and(|it| {
                ["type", "$ref", "oneOf", "allOf", "anyOf", "enum", "const"]
                    .iter()
                    .all(|word| !it.contains_key(*word))
            });
            // Documents and workers' messages are no data of runs; what callers send is theirs.
            let is_other = ["document", "schema"].contains(&name.as_str());
            if is_any && !is_other && !hapax_server::PAYLOADS.contains(&name.as_str()) {
                forgotten.push(format!("{schema}.{name}"));
            }
        }
    }
    assert!(forgotten.is_empty(), "add them to PAYLOADS in mask.rs: {forgotten:?}");
}
