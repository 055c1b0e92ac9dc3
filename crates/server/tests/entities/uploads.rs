//! Uploads of entity workflows: accepted, found, or rejected with a rule.

use hapax_engine::model::WorkspaceId;
use hapax_server::EntityTables;
use serde_json::{Value, json};

use super::invoice_fixture::{Gate, billing};
use super::support::{Role, Setup, StoreKind, TestServer};

const WORKFLOWS: &str = "/api/v1/entity-workflows";

async fn server() -> TestServer {
    let server = TestServer::memory().await;
    Gate::register(&server.engine, "close");
    server
}

fn closing(field: &str, value: Value) -> Value {
    let mut document = billing();
    document["steps"][1][field] = value;
    document
}

#[tokio::test]
async fn a_workflow_is_made_once_found_again_and_replaced_by_version() {
    let server = server().await;
    let made = server.post(WORKFLOWS, &billing(), &[]).await;
    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{}", made.text());
    assert_eq!(made.header("location"), Some("/api/v1/entity-workflows/billing-flow"));
    assert_eq!((&made.json()["module"], &made.json()["entityType"]), (&json!("billing"), &json!("invoice")));
    let yaml = "
name: billing-flow
module: billing
entity: invoice
status_types: [draft, approved, closing, closed]
initial: [draft, approved]
steps:
  - { step_key: approve, step_id: 10, status: [draft], successful_state: approved }
  - { step_key: close, step_id: 20, status: approved, successful_state: closed, claim_state: [closing, approved], action: close }
";
    let kind = [("content-type", "application/yaml")];
    let again = server.send("POST", WORKFLOWS, Some(yaml.into()), &server.admin, &kind).await;
    assert_eq!(again.status, 200, "the same in YAML: {}", again.text());
    let mut other = billing();
    other["description"] = json!("changed");
    let refused = server.post(WORKFLOWS, &other, &[]).await;
    assert_eq!(refused.told(), (409, "name_taken".into()));
    let path = format!("{WORKFLOWS}/billing-flow");
    let put = async |document: &Value, version: Option<&str>| {
        let headers: Vec<_> = version.map(|version| ("if-match", version)).into_iter().collect();
        server.send("PUT", &path, Some(document.to_string()), &server.admin, &headers).await
    };
    let replaced = put(&other, Some("\"1\"")).await;
    assert_eq!((replaced.status, replaced.header("etag")), (200, Some("\"2\"")), "{}", replaced.text());
    assert_eq!(
        put(&other, Some("\"1\"")).await.status,
        200,
        "the same again stands, its answer may have been lost"
    );
    let lost = put(&billing(), Some("\"1\"")).await;
    assert_eq!(lost.told(), (409, "CONCURRENCY_ERROR".into()));
    assert_eq!(put(&billing(), None).await.status, 200);
    let mut moved = billing();
    moved["entity"] = json!("bill");
    assert_eq!(put(&moved, None).await.told(), (400, "invalid_request".into()));
    let mut misnamed = billing();
    misnamed["name"] = json!("other");
    assert_eq!(put(&misnamed, None).await.told(), (400, "invalid_request".into()));
    let path = format!("{WORKFLOWS}/other");
    let seen = [("if-match", "\"1\"")];
    let absent = server.send("PUT", &path, Some(misnamed.to_string()), &server.admin, &seen).await;
    assert_eq!(absent.told(), (404, "not_found".into()));
    let audit = server.get("/api/v1/audit?limit=200").await.json();
    let entries: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["what"] == "entity_workflow_changed")
        .collect();
    assert_eq!(entries.len(), 3, "{audit}");
    assert_eq!((&entries[0]["target"], &entries[1]["command"]), (&json!("billing-flow"), &json!("replaced")));
}

#[tokio::test]
async fn each_type_of_entity_has_one_workflow_in_a_workspace() {
    let server = server().await;
    assert_eq!(server.post(WORKFLOWS, &billing(), &[]).await.status, 201);
    let mut second = billing();
    second["name"] = json!("billing-flow-2");
    let refused = server.post(WORKFLOWS, &second, &[]).await;
    assert_eq!(refused.told(), (409, "entity_type_taken".into()));
    assert_eq!(refused.json()["workflow"], "billing-flow");
    let theirs = server.key("globex", Role::Admin).await;
    let made = server.send("POST", WORKFLOWS, Some(second.to_string()), &theirs, &[]).await;
    assert_eq!(made.status, 201, "another workspace has its own: {}", made.text());
    let listed = server.get(WORKFLOWS).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

/// S1.48, S1.49, S1.50, S1.51, S1.52, S1.53, S1.58: each rule by its name and place, and all at once.
#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_the_rule_and_its_place() {
    let server = server().await;
    let rules = async |document: &Value| -> (u16, String, Vec<String>) {
        let answer = server.post(WORKFLOWS, document, &[]).await;
        let problems = answer.json()["problems"].as_array().cloned().unwrap_or_default();
        let named = problems.iter().map(|problem| {
            format!("{} {}", problem["rule"].as_str().unwrap(), problem["path"].as_str().unwrap())
        });
        (answer.status, answer.code(), named.collect())
    };
    for (document, rule) in [
        (closing("claim_state", json!(["closing"])), "claim_is_pair"),
        (closing("claim_state", json!(["closing", "nowhere"])), "claim_statuses_known"),
        (closing("claim_state", json!(["closing", "closing"])), "claim_goes_elsewhere"),
        (closing("claim_state", json!(["approved", "draft"])), "claim_leaves_status"),
        (closing("claim_state", json!(["closed", "approved"])), "claim_is_transient"),
    ] {
        let (status, code, found) = rules(&document).await;
        assert_eq!((status, code.as_str()), (422, "entity_workflow_invalid"), "{rule}");
        assert!(found.iter().any(|one| one.starts_with(&format!("{rule} /steps/1"))), "{rule}: {found:?}");
    }
    let mut both = closing("claim_state", json!(["closing"]));
    both["steps"][0]["status"] = json!("unknown");
    let (_, _, found) = rules(&both).await;
    assert!(found.len() >= 2, "all at once: {found:?}");
    let mut unprotected = closing("effect", json!("non_idempotent"));
    unprotected["steps"][1].as_object_mut().unwrap().remove("claim_state");
    let (status, code, _) = rules(&unprotected).await;
    assert_eq!((status, code.as_str()), (422, "unprotected_effect"));
    let (status, code, found) = rules(&closing("action", json!("NobodyRegisteredThis"))).await;
    assert_eq!(
        (status, code.as_str(), found),
        (422, "entity_workflow_invalid", vec!["unknown_action /steps".to_owned()])
    );
    assert_eq!(server.get(WORKFLOWS).await.json()["items"], json!([]), "nothing was kept");
}

/// S1.46, CONTRACT §8: the check of the boot answers an upload as well.
#[tokio::test]
async fn a_claim_that_no_janitor_covers_is_refused_and_names_workflow_and_module() {
    let server = server().await;
    let mut document = billing();
    document["module"] = json!("shipping");
    let refused = server.post(WORKFLOWS, &document, &[]).await;
    assert_eq!(refused.told(), (422, "uncovered_claim_state".into()));
    let told = refused.json();
    assert_eq!(
        (&told["workflow"], &told["module"], &told["claimInto"]),
        (&json!("billing-flow"), &json!("shipping"), &json!("closing"))
    );
    document["steps"][1].as_object_mut().unwrap().remove("claim_state");
    assert_eq!(
        server.post(WORKFLOWS, &document, &[]).await.status,
        201,
        "without a claim there is nothing to cover"
    );
}

/// A document cannot reach into a table of the operator's unless they allowed it for that workspace.
#[tokio::test]
async fn a_table_is_used_only_where_the_operator_allowed_it() {
    let mut entity_tables = EntityTables::default();
    entity_tables.allow(WorkspaceId::new("acme").unwrap(), "invoices");
    let folder = tempfile::tempdir().unwrap();
    let store = hapax_store_sqlite::SqliteStore::open(
        folder.path().join("hapax.db"),
        hapax_store_sqlite::SqliteOptions::default(),
    );
    let store = std::sync::Arc::new(store.await.unwrap());
    let server =
        TestServer::over(store, StoreKind::Sqlite(folder), Setup { entity_tables, ..Setup::default() }).await;
    Gate::register(&server.engine, "close");
    let mut document = billing();
    document["table"] = json!("invoices");
    let missing = server.post(WORKFLOWS, &document, &[]).await;
    assert_eq!(missing.told(), (422, "entity_workflow_invalid".into()), "{}", missing.text());
    assert_eq!(missing.json()["problems"][0]["rule"], "table_unusable", "{}", missing.text());
    let stranger = server.key("globex", Role::Admin).await;
    let refused = server.send("POST", WORKFLOWS, Some(document.to_string()), &stranger, &[]).await;
    assert_eq!(refused.told(), (422, "table_not_allowed".into()), "{}", refused.text());
    let mut other = document.clone();
    other["table"] = json!("customers");
    assert_eq!(server.post(WORKFLOWS, &other, &[]).await.told(), (422, "table_not_allowed".into()));
}

#[tokio::test]
async fn a_workflow_is_drawn_as_text_and_as_a_picture() {
    let server = server().await;
    server.post(WORKFLOWS, &billing(), &[]).await;
    let draw = async |query: &str, accept: &str| {
        let path = format!("{WORKFLOWS}/billing-flow/diagram{query}");
        server.send("GET", &path, None, &server.admin, &[("accept", accept)]).await
    };
    let text = draw("", "*/*").await;
    assert_eq!((text.status, text.header("content-type")), (200, Some("text/vnd.mermaid")));
    assert!(text.text().starts_with("stateDiagram-v2"), "{}", text.text());
    let picture = draw("", "image/svg+xml").await;
    assert_eq!(picture.header("content-type"), Some("image/svg+xml"));
    assert!(picture.text().contains("<svg"), "{}", picture.text());
    assert_eq!(draw("?format=svg", "*/*").await.bytes, picture.bytes);
    assert_eq!(draw("", "application/pdf").await.told(), (406, "not_acceptable".into()));
    assert_eq!(draw("?format=png", "*/*").await.told(), (400, "invalid_request".into()));
    let schema = server.send("GET", "/schemas/entity-workflow.json", None, "", &[]).await;
    assert_eq!((schema.status, schema.header("content-type")), (200, Some("application/schema+json")));
}
