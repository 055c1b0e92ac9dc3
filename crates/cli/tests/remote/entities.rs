//! Entity workflows and entities from the command line.

use hapax_api::Role;

use crate::remote::support::{LISTEN, TestServer};

pub const INVOICES: &str = r#"
name: invoices
kind: entity
description: Close and refund invoices.
module: billing
entity: invoice
status_types: [approved, closing, closed, refunding, refunded, wiring, wired, printing, printed]
initial: approved
steps:
  - step_id: 10
    step_key: close
    status: approved
    claim_state: [closing, approved]
    successful_state: closed
    action: echo
    effect: non_idempotent
    retry: returns
    validation: { when: has(input.closer), message: Say who closes it., code: closer_missing }
  - step_id: 20
    step_key: refund
    status: closed
    claim_state: { admin: [refunding, closed] }
    successful_state: { admin: refunded }
    action: { admin: { workflow: listen } }
    effect: non_idempotent
    irreversible: true
    recovery: hold
  - step_id: 30
    step_key: wire
    status: approved
    claim_state: [wiring, approved]
    successful_state: wired
    action: echo
    effect: non_idempotent
    irreversible: true
    recovery: hold
  - step_id: 40
    step_key: print
    status: approved
    claim_state: [printing, approved]
    successful_state: printed
    action: fail
"#;

impl TestServer {
    /// With the workflow of invoices, and one that is approved.
    pub async fn with_invoice(id: &str) -> Self {
        let server = TestServer::start().await;
        server.upload(LISTEN).await;
        let file = server.file("invoices.yaml", INVOICES);
        server.hapax(&["apply", &file]).await.ok();
        server.hapax(&["entities", "create", "invoice", id, "--status", "approved"]).await.ok();
        server
    }
}

/// Put once, found again, replaced as it was seen, listed, shown and drawn.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_put_listed_shown_and_drawn() {
    let server = TestServer::start().await;
    server.upload(LISTEN).await;
    let file = server.file("invoices.yaml", INVOICES);
    let put = ["apply", &file];
    let made = "entity workflow invoices created (version 1); it moves entities of type invoice\n";
    assert_eq!(server.hapax(&put).await.ok().out, made);
    assert!(server.hapax(&put).await.ok().out.contains("unchanged"));
    let other = server.file("other.yaml", &INVOICES.replace("Close and refund", "Close or refund"));
    assert!(server.hapax(&["apply", &other]).await.ok().out.contains("replaced (version 2)"));
    let lost = server.hapax(&["apply", &file, "--if-version", "1"]).await.exits(6);
    assert!(lost.err.contains("CONCURRENCY_ERROR"), "{}", lost.err);

    let listed = server.hapax(&["entities", "workflows", "list"]).await.ok().out;
    assert!(listed.contains("Close or refund") && listed.contains("closing"), "{listed}");
    let shown = server.hapax(&["entities", "workflows", "show", "invoices"]).await.ok().out;
    assert!(shown.contains("claim    closing, back to approved; freed by the janitor of billing"), "{shown}");
    let drawn = server.hapax(&["entities", "workflows", "show", "invoices", "--mermaid"]).await.ok().out;
    assert!(drawn.contains("stateDiagram") && drawn.contains("closing"), "{drawn}");
    let drawn = server.hapax(&["entities", "workflows", "show", "invoices", "--svg"]).await.ok().out;
    assert!(drawn.starts_with("<svg"), "{drawn}");
    server.hapax(&["entities", "workflows", "show", "nothing"]).await.exits(5);
}

/// S1.46 by upload: a claim that no janitor covers is refused, and both are named.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncovered_claim_is_refused_with_workflow_and_module() {
    let server = TestServer::start().await;
    server.upload(LISTEN).await;
    let file = server.file("invoices.yaml", &INVOICES.replace("module: billing", "module: accounts"));
    let refused = server.hapax(&["apply", &file]).await.exits(6);
    assert!(refused.err.contains("uncovered_claim_state"), "{}", refused.err);
    assert!(refused.err.contains("invoices") && refused.err.contains("accounts"), "{}", refused.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_is_made_once_listed_and_shown() {
    let server = TestServer::with_invoice("INV-1").await;
    let data = server.file("data.json", r#"{"total": 120}"#);
    let data = format!("@{data}");
    let create = ["entities", "create", "invoice", "INV-2", "--status", "approved", "--data", &data];
    assert_eq!(server.hapax(&create).await.ok().out, "invoice INV-2 made; it is approved\n");
    assert!(server.hapax(&create).await.ok().out.contains("was there already"));
    let other = ["entities", "create", "invoice", "INV-2", "--status", "approved", "--data", "{}"];
    assert!(server.hapax(&other).await.exits(6).err.contains("entity_exists"));
    let transient = ["entities", "create", "invoice", "INV-3", "--status", "closing"];
    assert!(server.hapax(&transient).await.exits(1).err.contains("only a claim leads there"));
    let listed = server.hapax(&["entities", "list", "invoice", "--status", "approved"]).await.ok().out;
    assert!(listed.contains("INV-1") && listed.contains(r#"{"total": 120}"#), "{listed}");
    let none = server.hapax(&["entities", "list", "invoice", "--status", "closed"]).await.ok().out;
    assert_eq!(none, "there are no such entities\n");
    server.hapax(&["entities", "show", "invoice", "INV-9"]).await.exits(5);
    server.hapax(&["entities", "show", "parcel", "INV-1"]).await.exits(5);
    server
        .hapax(&["entities", "create", "invoice", "INV-4", "--status", "approved", "--data", "[]"])
        .await
        .exits(2);
}

/// S2.44, S2.18: the same key gets the recorded outcome, and so does a retry of a step with `retry:
/// returns`.
#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_is_told_what_the_first_one_did() {
    let server = TestServer::with_invoice("INV-1").await;
    let rejected = server.hapax(&["entities", "step", "invoice", "INV-1", "close"]).await.exits(6);
    assert!(
        rejected.err.contains("step_rejected") && rejected.err.contains("Say who closes it."),
        "{}",
        rejected.err
    );
    let close = [
        "entities",
        "step",
        "invoice",
        "INV-1",
        "close",
        "--input",
        r#"{"closer":"ada"}"#,
        "--key",
        "close-1",
    ];
    let first = server.hapax(&close).await.ok().out;
    assert!(first.starts_with("close DONE (op_") && first.contains("invoice INV-1 is closed"), "{first}");
    assert!(first.contains(r#"result  {"closer":"ada"}"#), "{first}");
    let again = server.hapax(&close).await.ok().out;
    assert!(again.starts_with("close DONE, as recorded before (op_"), "{again}");
    let other = [
        "entities",
        "step",
        "invoice",
        "INV-1",
        "close",
        "--input",
        r#"{"closer":"bob"}"#,
        "--key",
        "close-1",
    ];
    assert!(server.hapax(&other).await.exits(6).err.contains("idempotency_key_conflict"));
    let late = ["entities", "step", "invoice", "INV-1", "wire"];
    let refused = server.hapax(&late).await.exits(6);
    assert!(refused.err.contains("step_not_allowed"), "{}", refused.err);
    assert!(refused.err.contains("it is closed; steps that can be taken now"), "{}", refused.err);
    server.hapax(&["entities", "step", "invoice", "INV-1", "fly"]).await.exits(5);
}

/// S1.31: what failed exits with 1, and the entity is as before.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_that_fails_leaves_the_entity_as_it_was() {
    let server = TestServer::with_invoice("INV-1").await;
    let failed = server.hapax(&["entities", "step", "invoice", "INV-1", "print"]).await.exits(1);
    assert!(failed.err.contains("action_failed") && failed.err.contains("out of paper"), "{}", failed.err);
    let shown = server.hapax(&["entities", "show", "invoice", "INV-1", "--json"]).await.ok().json();
    assert_eq!(shown["entity"]["status"], "approved");
}

/// S2.3: while a refund is pending the page shows its id, nothing else can begin, and a note can be left.
#[tokio::test(flavor = "multi_thread")]
async fn support_sees_a_pending_refund_and_cannot_begin_a_second() {
    let server = TestServer::with_invoice("R123").await;
    let close = ["entities", "step", "invoice", "R123", "close", "--input", r#"{"closer":"ada"}"#];
    server.hapax(&close).await.ok();
    let refund =
        ["entities", "step", "invoice", "R123", "refund", "--requester", "admin", "--wait", "0s", "--json"];
    let pending = server.hapax(&refund).await.exits(7).json();
    let id = pending["operation"]["id"].as_str().unwrap();
    assert_eq!(pending["operation"]["status"], "PENDING");

    let support = server.key("acme", Role::Operator).await;
    let second = server.hapax_as(&support, &refund).await.exits(6);
    assert!(second.err.contains("claim_failed") && second.err.contains(id), "{}", second.err);
    let show = ["entities", "show", "invoice", "R123", "--requester", "admin"];
    let shown = server.hapax_as(&support, &show).await.ok().out;
    assert!(
        shown.contains("status    refunding") && shown.contains(&format!("pending   {id} (refund, PENDING)")),
        "{shown}"
    );
    assert!(shown.contains("another operation is already in progress"), "{shown}");
    let note = ["entities", "note", "invoice", "R123", "the customer called", "--by", "sue"];
    assert_eq!(server.hapax_as(&support, &note).await.ok().out, "noted on invoice R123\n");
    let notes = server.hapax_as(&support, &["entities", "notes", "invoice", "R123"]).await.ok().out;
    assert!(notes.contains("the customer called") && notes.contains("sue"), "{notes}");

    let run = pending["operation"]["runId"].as_str().unwrap();
    server.hapax(&["runs", "signal", run, "go", "--value", r#"{"bank":"re_1"}"#]).await.ok();
    server.hapax(&["runs", "result", run, "--wait", "20s"]).await.ok();
    let of_entity = [
        "entities",
        "operations",
        "list",
        "--type",
        "invoice",
        "--entity",
        "R123",
        "--step",
        "refund",
        "--json",
    ];
    // The operation ends when the run has: soon, but not in the same commit.
    for _ in 0..100 {
        if server.hapax(&of_entity).await.ok().json()["status"] == "DONE" {
            break;
        }
    }
    let shown = server.hapax(&["entities", "operations", "show", id]).await.ok().out;
    assert!(shown.contains("status      DONE") && shown.contains("▶") && shown.contains("■"), "{shown}");
}
