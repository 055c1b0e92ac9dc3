//! Operations from the command line, and what people decide about those whose holder vanished.

use hapax::model::{
    BeginOperation, BeginOperationOutcome, ClaimTo, EntityId, EntityJournalEntry, EntityRef, EntityStorage,
    Fingerprint, FinishBy, FinishOperation, JournalEvent, Name, OperationEnd, OperationId, OwnerId, Payload,
    Recovery, RetryAnswer, Version, WorkspaceId,
};
use hapax_api::Role;
use serde_json::json;
use std::time::Duration;

use crate::remote::support::TestServer;

/// Begins to wire the invoice as a process that then vanishes, and has the janitor see to it. Gives the operation's id.
async fn vanish(server: &TestServer, id: &str, end: OperationEnd) -> String {
    let book = server.store.entity_store().unwrap();
    let name = |text: &str| Name::new("name", text).unwrap();
    let workspace = WorkspaceId::new("acme").unwrap();
    let entity = EntityRef { kind: name("invoice"), id: EntityId::new(id).unwrap() };
    let input = Payload::of(&serde_json::json!({})).unwrap();
    let operation = OperationId::new(server.store.now());
    let begun = book
        .begin_operation(BeginOperation {
            id: operation,
            workspace: workspace.clone(),
            entity: entity.clone(),
            home: EntityStorage::BuiltIn,
            workflow: name("invoices"),
            module: name("billing"),
            step: name("wire"),
            requester: None,
            by: None,
            key: None,
            fingerprint: Fingerprint::for_operation(&entity, &name("wire"), None, &input).unwrap(),
            input,
            from: vec![name("approved")],
            to: name("wired"),
            claim: Some(ClaimTo { into: name("wiring"), revert_to: name("approved") }),
            transient: vec![name("wiring")],
            recovery: Recovery::Hold,
            retry: RetryAnswer::Refused,
            irreversible: hapax::model::Irreversible::Once,
            has_effect: true,
            document: None,
            grace: Default::default(),
            overridden: None,
            seen: Version::new(1),
            run: None,
            owner: OwnerId::fresh(),
        })
        .await
        .unwrap();
    assert!(matches!(begun, BeginOperationOutcome::Begun { .. }), "{begun:?}");
    let at = server.store.now();
    let note = EntityJournalEntry {
        workspace: workspace.clone(),
        entity,
        operation: Some(operation),
        at,
        by: None,
        what: JournalEvent::Held { attempt: 1, last_heard_at: at.to_string() },
        evidence: None,
    };
    let finish = FinishOperation {
        workspace,
        operation,
        attempt: 1,
        by: FinishBy::Janitor { unheard_since: at.plus(Duration::from_secs(600)) },
        end,
        tries: None,
        posts: Vec::new(),
        notes: vec![note],
    };
    let _ = book.finish_operation(finish).await.unwrap();
    operation.to_string()
}

/// S1.16, S2.46: what a crash left in doubt is listed, shown with its history, and decided about once.
#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_is_listed_shown_and_resolved() {
    let server = TestServer::with_invoice("INV-1").await;
    let id = vanish(&server, "INV-1", OperationEnd::InDoubt).await;
    let listed = server.hapax(&["entities", "operations", "list", "--status", "in_doubt"]).await.ok().out;
    assert!(listed.contains(&id) && listed.contains("invoice INV-1"), "{listed}");
    let shown = server.hapax(&["entities", "operations", "show", &id]).await.ok().out;
    assert!(shown.contains("IN_DOUBT") && shown.contains("held (attempt 1)"), "{shown}");
    let held = server.hapax(&["entities", "step", "invoice", "INV-1", "wire"]).await.exits(6);
    assert!(held.err.contains(&id), "{}", held.err);

    let inbox = server.hapax(&["doubts", "--json"]).await.ok().json();
    assert_eq!((&inbox["id"], &inbox["kind"], &inbox["seen"]), (&json!(id), &json!("operation"), &json!(1)));
    let table = server.hapax(&["doubts"]).await.ok().out;
    assert!(table.contains(&id) && table.contains("wire of invoice/INV-1"), "{table}");
    let resolve = [
        "doubts",
        "resolve",
        &id,
        "--seen",
        "1",
        "--happened",
        "--result",
        r#"{"wire":"tx-1"}"#,
        "--reason",
        "the bank shows it",
    ];
    let resolved = server.hapax(&resolve).await.ok().out;
    assert_eq!(resolved, format!("operation {id}: happened\n"));
    let again = server.hapax(&resolve).await.exits(6);
    assert!(again.err.contains("doubt_resolved"), "{}", again.err);
    let shown = server.hapax(&["entities", "operations", "show", &id]).await.ok().out;
    assert!(shown.contains("resolved happened") && shown.contains("the bank shows it"), "{shown}");
    let audit = server.hapax(&["audit"]).await.ok().out;
    assert!(audit.contains("invoice INV-1") && audit.contains("the bank shows it"), "{audit}");
    server.hapax(&["entities", "operations", "show", "op_00000000000000000000000000000000"]).await.exits(5);
    server.hapax(&["doubts", "resolve", &id, "--seen", "1", "--reason", "x"]).await.exits(2);
    server
        .hapax(&["doubts", "resolve", &id, "--seen", "1", "--abandon", "--reason", "x", "--yes"])
        .await
        .exits(2);
}

/// S2.46: what gives a claim back is asked about first, and needs a manager.
#[tokio::test(flavor = "multi_thread")]
async fn giving_a_claim_back_is_confirmed_and_for_managers() {
    let server = TestServer::with_invoice("INV-1").await;
    let id = vanish(&server, "INV-1", OperationEnd::InDoubt).await;
    let resolve = [
        "doubts",
        "resolve",
        &id,
        "--seen",
        "1",
        "--did-not-happen",
        "--reason",
        "the bank has no such wire",
    ];
    let asked = server.hapax(&resolve).await.exits(2);
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    let operator = server.key("acme", Role::Operator).await;
    let alone = [&resolve[..], &["--yes"]].concat();
    server.hapax_as(&operator, &alone).await.exits(4);
    let for_another = [&alone[..], &["--by", "grace"]].concat();
    server.hapax_as(&operator, &for_another).await.exits(4);
    let manager = server.key("acme", Role::Manager).await;
    let resolved = server.hapax_as(&manager, &for_another).await.ok().out;
    assert!(resolved.contains("did_not_happen"), "{resolved}");
    let shown = server.hapax(&["entities", "show", "invoice", "INV-1", "--json"]).await.ok().json();
    assert_eq!(shown["entity"]["status"], "approved");
}

/// S2.46: an irreversible step that may have happened is a manager's to take, with a reason that is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_overrides_with_a_reason_that_is_kept() {
    let server = TestServer::with_invoice("INV-1").await;
    let id = vanish(&server, "INV-1", OperationEnd::Reverted).await;
    let step = ["entities", "step", "invoice", "INV-1", "wire"];
    let refused = server.hapax(&step).await.exits(4);
    assert!(refused.err.contains("override_required") && refused.err.contains(&id), "{}", refused.err);
    let reason = ["entities", "override", "invoice", "INV-1", "wire", "--reason", "the bank shows no wire"];
    assert!(server.hapax(&reason).await.exits(2).err.contains("--yes"));
    let agreed = [&reason[..], &["--yes"]].concat();
    let operator = server.key("acme", Role::Operator).await;
    server.hapax_as(&operator, &agreed).await.exits(4);
    let manager = server.key("acme", Role::Manager).await;
    let taken = server.hapax_as(&manager, &agreed).await.ok().out;
    assert!(taken.contains("wire DONE") && taken.contains("invoice INV-1 is wired"), "{taken}");
    let audit = server.hapax(&["audit"]).await.ok().out;
    assert!(audit.contains("overridden") && audit.contains("the bank shows no wire"), "{audit}");
}
