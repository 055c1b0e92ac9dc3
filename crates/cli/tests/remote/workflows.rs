//! Versions of workflows and push workers, notes, and masked values.

use serde_json::json;

use crate::remote::entities::INVOICES;
use crate::remote::support::{LISTEN, TestServer};

const CARD: &str = r#"{"name":"card","version":1,
    "input":{"type":"object","properties":{"number":{"type":"string","x-sensitive":true}}},
    "steps":[{"name":"word","type":"signal","signal":"go"}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_workflow_starts_no_runs_until_it_is_unarchived() {
    let server = TestServer::start().await;
    server.upload(LISTEN).await;
    let reason = ["--reason", "listen@2 comes"];
    let archived =
        server.hapax(&[&["workflows", "archive", "listen@1"], &reason[..]].concat()).await.ok().out;
    assert_eq!(archived, "listen@1 starts no new runs\n");
    let refused = server.hapax(&["start", "listen"]).await;
    assert!(refused.code != 0 && refused.err.contains("definition_archived"), "{refused:?}");
    let listed = server.hapax(&["workflows", "list"]).await.ok().out;
    assert!(listed.contains("archived"), "{listed}");
    server.hapax(&["workflows", "unarchive", "listen@1"]).await.ok();
    server.hapax(&["start", "listen"]).await.ok();
    let audit = server.hapax(&["audit"]).await.ok().out;
    assert!(audit.contains("listen@2 comes"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_with_an_open_run_is_not_deleted() {
    let server = TestServer::start().await;
    let run = server.begin(LISTEN, "{}").await;
    let unasked = server.hapax(&["workflows", "delete", "listen@1"]).await.exits(2);
    assert!(unasked.err.contains("give --yes"), "{unasked:?}");
    let refused = server.hapax(&["workflows", "delete", "listen@1", "--yes"]).await.exits(6);
    assert!(refused.err.contains("definition_in_use"), "{refused:?}");
    server.hapax(&["runs", "signal", &run, "go"]).await.ok();
    server.hapax(&["runs", "result", &run, "--wait", "30s"]).await.ok();
    let deleted = server.hapax(&["workflows", "delete", "listen@1", "--yes"]).await.ok().out;
    assert_eq!(deleted, "listen@1 is deleted\n");
    server.hapax(&["workflows", "show", "listen@1"]).await.exits(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn masked_values_are_revealed_with_a_reason_that_the_audit_log_keeps() {
    let server = TestServer::start().await;
    let run = server.begin(CARD, r#"{"number":"4242"}"#).await;
    let shown = server.hapax(&["runs", "show", &run, "--json"]).await.ok().out;
    assert!(shown.contains("[masked]") && !shown.contains("4242"), "{shown}");
    server.hapax(&["runs", "reveal", &run]).await.exits(2);
    let revealed =
        server.hapax(&["runs", "reveal", &run, "--reason", "ticket 17", "--json"]).await.ok().json();
    assert_eq!(revealed["run"]["input"]["number"], json!("4242"));
    server.hapax(&["runs", "note", &run, "the customer called"]).await.ok();
    let audit = server.hapax(&["audit", "--run", &run]).await.ok().out;
    assert!(audit.contains("ticket 17") && audit.contains("the customer called"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_worker_is_registered_with_a_secret_that_is_shown_once() {
    let server = TestServer::start().await;
    let register = ["workers", "push", "register", "orders", "https://functions.example/hapax"];
    let names = ["--workflow", "pushed@2", "--task", "mail", "--timeout", "20s", "--json"];
    let made = server.hapax(&[&register[..], &names].concat()).await.ok().json();
    let (id, secret) = (made["pushWorker"]["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(made["pushWorker"]["workflows"], json!([{ "name": "pushed", "version": 2 }]));
    assert_eq!(made["pushWorker"]["timeout"], "20s");
    let listed = server.hapax(&["workers", "push", "list"]).await.ok().out;
    assert!(listed.contains("pushed@2") && !listed.contains(secret), "{listed}");
    let shown = server.hapax(&["workers", "push", "show", id, "--json"]).await.ok().json();
    assert_eq!(shown, made["pushWorker"]);
    server.hapax(&["workers", "push", "delete", id]).await.exits(2);
    server.hapax(&["workers", "push", "delete", id, "--yes"]).await.ok();
    server.hapax(&["workers", "push", "show", id]).await.exits(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_outlive_a_deleted_workflow_and_are_back_with_the_next() {
    let server = TestServer::with_invoice("INV-1").await;
    let deleted = server.hapax(&["entities", "workflows", "delete", "invoices", "--yes"]).await.ok().out;
    assert_eq!(deleted, "invoices is deleted\n");
    server.hapax(&["entities", "workflows", "show", "invoices"]).await.exits(5);
    server.hapax(&["entities", "show", "invoice", "INV-1"]).await.exits(5);
    let file = server.file("invoices.yaml", INVOICES);
    server.hapax(&["apply", &file]).await.ok();
    let shown = server.hapax(&["entities", "show", "invoice", "INV-1"]).await.ok().out;
    assert!(shown.contains("approved"), "{shown}");
}
