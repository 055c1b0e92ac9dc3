//! Crashes in the middle of an action, and the janitor.

use hapax_engine::Ctx;
use hapax_engine::model::{
    Action, EntityStep, FinishBy, FinishOperation, FinishOperationOutcome, LedgerEntry, OperationEnd,
    OperationState, OperationStatus, Resolution, Ruling,
};
use hapax_engine::runtime::{Error, TransitionOutcome};
use serde_json::{Value, json};

use super::entity_scene::*;
use crate::{UserRow, must};

/// Begins to close an invoice, and stops in the middle of the action.
async fn closing(
    s: &EntityScene,
    key: Option<&'static str>,
) -> tokio::task::JoinHandle<Result<TransitionOutcome, Error>> {
    s.invoice("inv-1", "approved").await;
    begin(s, "close", key).await
}

async fn begin(
    s: &EntityScene,
    step: &'static str,
    key: Option<&'static str>,
) -> tokio::task::JoinHandle<Result<TransitionOutcome, Error>> {
    let mut call = s.engine.transition("invoice", "inv-1", step).requester("admin");
    if let Some(key) = key {
        call = call.idempotency_key(key);
    }
    let call = tokio::spawn(call.into_future());
    s.entering.notified().await;
    call
}

/// Lets another janitor, which gets no heartbeats from this engine, decide that the operation's holder has crashed.
async fn taken_for_dead(s: &EntityScene, end: OperationEnd) {
    let id = s.operations("inv-1").await[0].id;
    let book = s.candidate.store();
    let book = book.entity_store().unwrap();
    let stale = book.find_operation(&Default::default(), id).await.unwrap().unwrap();
    s.clock.advance(std::time::Duration::from_secs(1));
    let request = FinishOperation {
        workspace: Default::default(),
        operation: id,
        attempt: stale.attempt,
        by: FinishBy::Janitor { unheard_since: s.now() },
        end,
        tries: None,
        posts: Vec::new(),
        notes: Vec::new(),
    };
    must!(book.finish_operation(request).await.unwrap(), FinishOperationOutcome::Finished { .. });
}

/// S1.34, S1.35, S1.4, S1.38 to S1.41, G1.3, G1.6: the entity stays claimed until the window has passed. Then the
/// status is reverted, and the history records it.
pub(super) async fn a_claim_left_by_a_crash_is_freed_after_the_window(s: EntityScene) {
    let call = closing(&s, None).await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = s.restart().await;
    assert_eq!(after.free_stale_claims("billing").await.unwrap().reverted, 0);
    s.pass(STALE_AFTER);
    assert_eq!(after.free_stale_claims("billing").await.unwrap().reverted, 0);
    assert_eq!(s.status("inv-1").await, "closing");
    let refused = after.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    assert!(matches!(refused, TransitionOutcome::ClaimFailed { existing: Some(_) }), "{refused:?}");
    // The janitor runs by itself when the time has come.
    s.pass(EVERY);
    s.until(async || after.stats().janitor_releases > 0).await;
    assert_eq!(s.status("inv-1").await, "approved");
    let operation = s.operations("inv-1").await.remove(0);
    assert_eq!(operation.state.status(), OperationStatus::Reverted);
    assert_eq!(s.notes("inv-1").await, ["reverted"]);
    s.open();
    let again = after.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    assert!(matches!(again, TransitionOutcome::Done { .. }), "{again:?}");
    assert_eq!(s.times_entered(), 2);
}

/// G1.2: an action that runs for ten minutes and sends heartbeats keeps its claim, whichever janitor looks.
pub(super) async fn a_slow_living_action_is_not_reverted(s: EntityScene) {
    let call = closing(&s, None).await;
    let other = s.restart().await;
    let id = s.operations("inv-1").await[0].id;
    for _ in 0..20 {
        s.pass(MINUTE / 2);
        let since = s.now();
        s.until(async || s.engine.get_operation(id).await.unwrap().state.at() >= since).await;
        // Wait until the heartbeat is acknowledged.
        s.turn().await;
    }
    for engine in [&s.engine, &other] {
        assert_eq!(engine.free_stale_claims("billing").await.unwrap(), Default::default());
    }
    assert_eq!(s.status("inv-1").await, "closing");
    s.open();
    assert!(matches!(call.await.unwrap().unwrap(), TransitionOutcome::Done { .. }));
    assert_eq!((s.status("inv-1").await.as_str(), s.times_entered()), ("closed", 1));
}

/// G1.2, G1.4: a holder that was declared dead and returns writes nothing, and learns why.
pub(super) async fn a_holder_that_returns_after_the_revert_writes_nothing(s: EntityScene) {
    let call = closing(&s, None).await;
    taken_for_dead(&s, OperationEnd::Reverted).await;
    s.open();
    let failure = must!(call.await.unwrap().unwrap(), TransitionOutcome::Failed { failure, .. } => failure);
    assert_eq!(failure.code(), Some("reverted"));
    assert_eq!(s.status("inv-1").await, "approved");
    assert_eq!(s.notes("inv-1").await, ["refused"]);
    assert_eq!(s.engine.stats().fenced_writes, 1);
    // Its effect is still in the ledger.
    let ledger = s.engine.ledger_of_entity("invoice", "inv-1").await.unwrap();
    let counts = |entry: &LedgerEntry| (entry.happened, entry.may_have_happened, entry.happened_twice);
    assert_eq!(ledger.iter().map(counts).collect::<Vec<_>>(), [(1, 0, 0)]);
    s.open();
    let again = s.engine.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    assert!(matches!(again, TransitionOutcome::Done { .. }), "{again:?}");
    let ledger = s.engine.ledger_of_entity("invoice", "inv-1").await.unwrap();
    assert_eq!(ledger.iter().map(counts).collect::<Vec<_>>(), [(2, 0, 1)], "{ledger:?}");
    let repeats = s.engine.count_repeats().await.unwrap();
    assert_eq!(repeats.values().map(|count| count.happened_twice).sum::<u64>(), 1, "{repeats:?}");
}

/// CONTRACT 6: a late result settles an open doubt as happened, and appears in the ledger.
pub(super) async fn a_holder_that_returns_with_the_result_settles_the_doubt(s: EntityScene) {
    s.invoice("inv-1", "closed").await;
    let call = begin(&s, "pay", None).await;
    taken_for_dead(&s, OperationEnd::InDoubt).await;
    s.open();
    let outcome = call.await.unwrap().unwrap();
    assert!(matches!(outcome, TransitionOutcome::Done { .. }), "{outcome:?}");
    assert_eq!(s.status("inv-1").await, "paid");
    let ledger = s.engine.ledger_of_entity("invoice", "inv-1").await.unwrap();
    assert_eq!((ledger.len(), ledger[0].happened, ledger[0].may_have_happened), (1, 1, 0), "{ledger:?}");
}

/// CONTRACT 8: `recovery: hold` lists the operation as in doubt. People rule once, and the ruling is in the audit log.
pub(super) async fn an_operation_to_hold_is_left_to_people(s: EntityScene) {
    s.invoice("inv-1", "closed").await;
    let call = begin(&s, "pay", Some("pay-1")).await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = s.restart().await;
    s.pass(STALE_AFTER + MINUTE);
    while s.operations("inv-1").await[0].state.status() != OperationStatus::InDoubt {
        let _ = after.free_stale_claims("billing").await.unwrap();
    }
    let operation = s.operations("inv-1").await.remove(0);
    assert_eq!(s.status("inv-1").await, "paying");
    assert_eq!(s.notes("inv-1").await, ["held"]);
    s.open();
    let again = after
        .transition("invoice", "inv-1", "pay")
        .requester("admin")
        .idempotency_key("pay-1")
        .await
        .unwrap();
    assert!(matches!(again, TransitionOutcome::InDoubt { .. }), "{again:?}");
    let other = after.transition("invoice", "inv-1", "pay").requester("admin").await.unwrap();
    assert!(matches!(other, TransitionOutcome::ClaimFailed { existing: Some(_) }), "{other:?}");
    let ruling =
        |resolution| Ruling { resolution, by: manager(), seconded_by: None, reason: "asked the bank".into() };
    let happened = ruling(Resolution::Happened { output: json!({ "paid": true }) });
    // The caller saw another attempt.
    let stale = after.resolve_operation(operation.id, 2, happened.clone()).await;
    assert!(matches!(stale, Err(Error::OperationNotInDoubt(_))), "{stale:?}");
    let resolved = after.resolve_operation(operation.id, 1, happened).await.unwrap();
    let result = must!(resolved.state, OperationState::Done { result, .. } => result);
    assert_eq!(result.as_str(), r#"{"paid":true}"#);
    assert_eq!(s.status("inv-1").await, "paid");
    let late = after.resolve_operation(operation.id, 1, ruling(Resolution::DidNotHappen)).await;
    let decided = must!(late, Err(Error::OperationResolved { decided, .. }) => decided);
    assert_eq!((decided.by.name.as_str(), decided.decision.as_str()), ("mia", "happened"));
    let recorded = after.transition("invoice", "inv-1", "pay").requester("admin").await.unwrap();
    assert!(matches!(recorded, TransitionOutcome::Done { recorded: true, .. }), "{recorded:?}");
    assert_eq!(s.times_entered(), 1);
    let audit = after.list_audit(0, 10).await.unwrap();
    assert_eq!(audit.iter().filter(|entry| entry.by.name == "mia").count(), 1);
}

/// G1.6: a retry under the key of a reverted operation is its second attempt, under the same effect key.
pub(super) async fn a_second_try_under_the_same_key_is_the_same_operation(s: EntityScene) {
    let call = closing(&s, Some("close-1")).await;
    s.engine.kill();
    assert!(call.await.unwrap().is_err());
    let after = s.restart().await;
    s.pass(STALE_AFTER + MINUTE);
    while s.status("inv-1").await != "approved" {
        let _ = after.free_stale_claims("billing").await.unwrap();
    }
    let first = s.operations("inv-1").await.remove(0);
    s.open();
    let again = after
        .transition("invoice", "inv-1", "close")
        .requester("admin")
        .idempotency_key("close-1")
        .await
        .unwrap();
    let operation = must!(again, TransitionOutcome::Done { operation, recorded: false, .. } => operation);
    assert_eq!((operation.id, operation.attempt), (first.id, 2));
    assert_eq!(operation.effect_key(), first.effect_key());
    assert_eq!(s.operations("inv-1").await.len(), 1);
    assert_eq!(s.notes("inv-1").await, ["reverted", "tried_again"]);
}

/// An operation that a run executes is not reverted when its caller crashes: the run reports the end.
pub(super) async fn a_run_continues_after_its_caller_crashes(s: EntityScene) {
    let mut workflow = s.workflow();
    workflow.steps.push(EntityStep {
        action: Some(all(Action::Workflow(name("dunning")))),
        claim: Some(all(claim("refunding", "paid"))),
        ..step(60, "dun", &["paid"], "overdue")
    });
    let dunning = |ctx: Ctx, _: Value| async move { ctx.signal::<Value>("paid").await };
    s.register(&s.engine, workflow.clone()).await;
    s.engine.register("dunning", dunning).unwrap();
    s.invoice("inv-1", "paid").await;
    let call = s.engine.transition("invoice", "inv-1", "dun").wait(std::time::Duration::ZERO);
    let operation = must!(call.await.unwrap(), TransitionOutcome::Pending { operation, .. } => operation);
    while s.engine.get(operation.id.as_run()).await.is_err() {
        tokio::task::yield_now().await;
    }
    s.engine.kill();
    let after = s.restart().await;
    s.register(&after, workflow).await;
    after.register("dunning", dunning).unwrap();
    s.pass(STALE_AFTER + MINUTE);
    assert_eq!(after.free_stale_claims("billing").await.unwrap().reverted, 0);
    assert_eq!(s.status("inv-1").await, "refunding");
    after.signal(operation.id.as_run(), "paid", &17, None).await.unwrap();
    s.until(async || s.status("inv-1").await == "overdue").await;
    let result = must!(after.get_operation(operation.id).await.unwrap().state, OperationState::Done { result, .. } => result);
    assert_eq!(result.as_str(), "17");
}

/// S1.40: a row of the user's table that other code put into a claim status, and that no operation holds, is also
/// reverted.
pub(super) async fn a_row_that_nothing_holds_is_a_stray(s: EntityScene) {
    if s.home == TableKind::Own {
        let refused = s.engine.create_entity("invoice", "inv-1", "closing", &json!({})).await;
        assert!(matches!(refused, Err(Error::InvalidInitialStatus(_))), "{refused:?}");
        return;
    }
    let updated_at = s.now();
    let row = UserRow { id: "inv-1".into(), status: "closing".into(), version: 3, updated_at, total: 1 };
    s.candidate.tables.as_ref().unwrap().put_row("invoices", row).await;
    let refused = s.engine.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    assert!(matches!(refused, TransitionOutcome::ClaimFailed { existing: None }), "{refused:?}");
    assert_eq!(s.engine.free_stale_claims("billing").await.unwrap().strays, 0);
    s.pass(STALE_AFTER + MINUTE);
    while s.status("inv-1").await != "approved" {
        let _ = s.engine.free_stale_claims("billing").await.unwrap();
    }
    assert_eq!(s.notes("inv-1").await, ["stray_reverted"]);
}

/// S1.42 to S1.47: a claim status whose module has no janitor is reported, with the workflow and the module, and cannot
/// be claimed.
pub(super) async fn a_claim_that_nobody_would_free_is_refused(s: EntityScene) {
    assert!(s.engine.check_coverage().await.is_ok());
    let mut workflow = s.workflow();
    workflow.module = name("shipping");
    s.register(&s.engine, workflow).await;
    let refused = s.engine.check_coverage().await.unwrap_err().to_string();
    assert!(refused.contains("invoice-billing") && refused.contains("shipping"), "{refused}");
    s.invoice("inv-1", "approved").await;
    let call = s.engine.transition("invoice", "inv-1", "close").requester("admin").await;
    assert!(matches!(call, Err(Error::UncoveredClaims(_))), "{call:?}");
    s.engine.module("shipping").janitor(EVERY, STALE_AFTER).unwrap();
    assert!(s.engine.check_coverage().await.is_ok());
}
