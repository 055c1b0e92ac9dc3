//! Claims before the action, and how operations with claims end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hapax_engine::model::{Action, EntityStep, OperationState};
use hapax_engine::runtime::{Delivery, TransitionOutcome};
use hapax_engine::{Ctx, Failure};
use serde_json::{Value, json};

use super::entity_scene::*;
use crate::must;

/// S1.3, S1.24 to S1.28, S1.56, S1.60: 500 concurrent calls run one action, and the others learn which operation was
/// first.
pub(super) async fn of_many_callers_one_enters_the_action(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let calls: Vec<_> = (0..500)
        .map(|_| {
            let engine = s.engine.clone();
            tokio::spawn(async move {
                engine.transition("invoice", "inv-1", "close").requester("admin").await.unwrap()
            })
        })
        .collect();
    // The losers get their answers while the winner is still running.
    let mut winners = Vec::new();
    let mut lost = Vec::new();
    s.entering.notified().await;
    assert_eq!(s.status("inv-1").await, "closing");
    s.open();
    for call in calls {
        match call.await.unwrap() {
            TransitionOutcome::Done { operation, entity, recorded: false } => {
                winners.push((operation.id, entity))
            }
            TransitionOutcome::ClaimFailed { existing } => lost.push(existing.map(|operation| operation.id)),
            // These calls come after the operation has ended.
            TransitionOutcome::NotAllowed { .. } => lost.push(winners.first().map(|(id, _)| *id)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((winners.len(), lost.len(), s.times_entered()), (1, 499, 1));
    let (winner, entity) = winners.remove(0);
    assert!(lost.iter().all(|existing| existing.is_none_or(|existing| existing == winner)), "{lost:?}");
    assert_eq!(entity.unwrap().status.as_str(), "closed");
    assert_eq!(s.status("inv-1").await, "closed");
}

/// S1.1, S1.6 to S1.8, S1.13, S1.57: without a claim both run the action, and the version check lets one of them be
/// recorded.
pub(super) async fn without_a_claim_both_act_and_one_is_recorded(s: EntityScene) {
    s.invoice("inv-1", "closed").await;
    let calls: Vec<_> = (0..2)
        .map(|_| {
            let engine = s.engine.clone();
            tokio::spawn(
                async move { engine.transition("invoice", "inv-1", "mark_as_overdue").await.unwrap() },
            )
        })
        .collect();
    while s.times_entered() < 2 {
        s.entering.notified().await;
    }
    s.open();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap());
    }
    let done = outcomes.iter().filter(|outcome| matches!(outcome, TransitionOutcome::Done { .. })).count();
    let stale = |outcome: &&TransitionOutcome| matches!(outcome, TransitionOutcome::Failed { failure, .. } if failure.code() == Some("CONCURRENCY_ERROR"));
    assert_eq!((done, outcomes.iter().filter(stale).count()), (1, 1), "{outcomes:?}");
    assert_eq!(s.status("inv-1").await, "overdue");
}

async fn given_back(s: EntityScene, how: &str) -> TransitionOutcome {
    s.open();
    s.invoice("inv-1", "approved").await;
    let call =
        s.engine.transition("invoice", "inv-1", "close").requester("admin").input(&json!({ "how": how }));
    let outcome = call.await.unwrap();
    assert_eq!(s.status("inv-1").await, "approved");
    let again = s.engine.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    assert!(matches!(again, TransitionOutcome::Done { .. }), "{again:?}");
    assert_eq!(s.status("inv-1").await, "closed");
    outcome
}

/// S1.22, S1.29, S1.31.
pub(super) async fn a_failed_action_is_reverted_at_once(s: EntityScene) {
    let failure = must!(given_back(s, "fail").await, TransitionOutcome::Failed { failure, .. } => failure);
    assert_eq!(failure.code(), Some("declined"));
}

/// S1.22, S1.29, S1.32.
pub(super) async fn a_rejected_action_is_reverted_at_once(s: EntityScene) {
    let (operation, failure) = must!(
        given_back(s, "reject").await,
        TransitionOutcome::Rejected { operation, failure, .. } => (operation, failure)
    );
    assert_eq!(failure.message(), "not this one");
    assert!(matches!(operation.unwrap().state, OperationState::Rejected { .. }));
}

/// S1.23, S1.30, S1.33.
pub(super) async fn a_panicking_action_is_reverted_at_once(s: EntityScene) {
    let failure = must!(given_back(s, "panic").await, TransitionOutcome::Failed { failure, .. } => failure);
    assert_eq!(failure.code(), Some("panicked"));
    assert!(failure.message().contains("out of paper"), "{failure}");
}

/// S1.22: a call that validation rejects never claims the entity, and leaves no operation.
pub(super) async fn a_validation_rejects_before_anything_is_claimed(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "approved").await;
    let call =
        s.engine.transition("invoice", "inv-1", "close").requester("admin").input(&json!({ "refuse": true }));
    let failure =
        must!(call.await.unwrap(), TransitionOutcome::Rejected { operation: None, failure, .. } => failure);
    assert_eq!(failure.code(), Some("refused"));
    assert_eq!((s.times_entered(), s.operations("inv-1").await.len()), (0, 0));
    assert_eq!(s.engine.get_entity("invoice", "inv-1", None).await.unwrap().entity.version.get(), 1);
}

/// S1.17, S1.18: `admin` takes a claim. `system`, which is serialised elsewhere, does not.
pub(super) async fn the_requester_decides_whether_a_step_is_claimed(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let engine = s.engine.clone();
    let system = tokio::spawn(async move {
        engine.transition("invoice", "inv-1", "close").requester("system").await.unwrap()
    });
    s.entering.notified().await;
    assert_eq!(s.status("inv-1").await, "approved");
    s.open();
    assert!(matches!(system.await.unwrap(), TransitionOutcome::Done { .. }));
    assert_eq!(s.operations("inv-1").await[0].claim, None);
}

/// S1.11, S1.12, S2.26: one of two concurrent calls commits, so one batch of mail is sent. A failure notifies others.
pub(super) async fn after_effects_follow_the_commit_and_no_other_way(s: EntityScene) {
    s.open();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    for target in ["mail", "alarm"] {
        let told = told.clone();
        let receive = move |delivery: Delivery, payload: Value| {
            let said = format!(
                "{target} {} {}",
                payload["entity"]["id"].as_str().unwrap(),
                payload["entity"]["status"]
            );
            assert!(delivery.id().starts_with("op_"), "{}", delivery.id());
            told.lock().unwrap().push(said);
            async { Ok::<(), Failure>(()) }
        };
        s.engine.register_target(target, receive).unwrap();
    }
    s.invoice("inv-1", "approved").await;
    s.invoice("inv-2", "approved").await;
    let close = |id| s.engine.transition("invoice", id, "close").requester("admin");
    let (first, second) = tokio::join!(close("inv-1").into_future(), close("inv-1").into_future());
    let done = [first, second]
        .iter()
        .filter(|outcome| matches!(outcome, Ok(TransitionOutcome::Done { .. })))
        .count();
    assert_eq!(done, 1);
    let failed = close("inv-2").input(&json!({ "how": "fail" })).await.unwrap();
    assert!(matches!(failed, TransitionOutcome::Failed { .. }));
    s.until(async || told.lock().unwrap().len() >= 2).await;
    let mut told = told.lock().unwrap().clone();
    told.sort();
    assert_eq!(told, [r#"alarm inv-2 "approved""#, r#"mail inv-1 "closed""#]);
}

fn in_transaction(s: &EntityScene, key: &str) -> hapax_engine::model::EntityWorkflow {
    let mut workflow = s.workflow();
    let action = Action::Handler { name: name("regenerate"), transaction: true };
    workflow.steps.push(EntityStep {
        action: Some(all(action)),
        claim: Some(all(claim("refunding", "paid"))),
        ..step(60, key, &["paid"], "draft")
    });
    workflow
}

/// S1.9, S1.10: the action's writes and the status change are one commit. Two callers make one of each.
pub(super) async fn writes_of_the_action_share_the_commit_of_the_status(s: EntityScene) {
    let Some(tables) = s.candidate.tables.clone() else { return };
    if tables.writing("", "null", false).is_none() {
        return;
    }
    if s.home == TableKind::Own {
        tables.create_table("beside").await;
    }
    s.register(&s.engine, in_transaction(&s, "regenerate")).await;
    let (made, makes) = (Arc::new(AtomicU32::new(0)), tables.clone());
    let counted = made.clone();
    let make = move |_| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        makes.writing(&format!("clone {nth}"), r#"{"done":{"result":{"clone":1}}}"#, false).unwrap()
    };
    s.engine.register_transaction_action("regenerate", make).unwrap();
    s.invoice("inv-1", "paid").await;
    let call = || s.engine.transition("invoice", "inv-1", "regenerate").into_future();
    let (first, second) = tokio::join!(call(), call());
    let done = [first, second]
        .into_iter()
        .filter(|outcome| matches!(outcome, Ok(TransitionOutcome::Done { .. })))
        .count();
    assert_eq!((done, tables.written().await.len()), (1, 1));
    assert_eq!(s.status("inv-1").await, "draft");
}

/// S1.9, S1.10: an action that fails in its transaction writes nothing, and the claim is reverted.
pub(super) async fn work_that_fails_leaves_neither_writes_nor_status(s: EntityScene) {
    let Some(tables) = s.candidate.tables.clone() else { return };
    if tables.writing("", "null", false).is_none() {
        return;
    }
    if s.home == TableKind::Own {
        tables.create_table("beside").await;
    }
    s.register(&s.engine, in_transaction(&s, "regenerate")).await;
    let (makes, turn) = (tables.clone(), AtomicU32::new(0));
    let make = move |_| match turn.fetch_add(1, Ordering::SeqCst) {
        0 => makes.writing("a", r#"{"done":{"result":null}}"#, true).unwrap(),
        1 => makes
            .writing("b", r#"{"rejected":{"failure":{"class":"permanent","message":"no"}}}"#, false)
            .unwrap(),
        _ => makes.writing("c", "17", false).unwrap(),
    };
    s.engine.register_transaction_action("regenerate", make).unwrap();
    s.invoice("inv-1", "paid").await;
    let call = || s.engine.transition("invoice", "inv-1", "regenerate").into_future();
    assert!(matches!(call().await.unwrap(), TransitionOutcome::Failed { .. }));
    let rejected = call().await.unwrap();
    assert!(matches!(rejected, TransitionOutcome::Rejected { .. }), "{rejected:?}");
    let misfit = must!(call().await.unwrap(), TransitionOutcome::Failed { failure, .. } => failure);
    assert_eq!(misfit.code(), Some("answer_mismatch"));
    assert_eq!(tables.written().await, Vec::<String>::new());
    assert_eq!(s.status("inv-1").await, "paid");
}

/// A run may execute the action: the claim is held until the run has ended, and its result becomes the operation's.
pub(super) async fn an_operation_ends_when_its_run_ends(s: EntityScene) {
    let mut workflow = s.workflow();
    workflow.steps.push(EntityStep {
        action: Some(all(Action::Workflow(name("dunning")))),
        claim: Some(all(claim("refunding", "paid"))),
        ..step(60, "dun", &["paid"], "overdue")
    });
    s.register(&s.engine, workflow).await;
    let dunning = |ctx: Ctx, input: Value| async move {
        let paid: Value = ctx.signal("paid").await?;
        Ok::<Value, Failure>(json!({ "paid": paid, "of": input["entity"]["id"] }))
    };
    s.engine.register("dunning", dunning).unwrap();
    s.invoice("inv-1", "paid").await;
    let call = s.engine.transition("invoice", "inv-1", "dun").wait(std::time::Duration::ZERO);
    let operation = must!(call.await.unwrap(), TransitionOutcome::Pending { operation, .. } => operation);
    assert_eq!((s.status("inv-1").await.as_str(), operation.run), ("refunding", Some(operation.id.as_run())));
    while s.engine.get(operation.id.as_run()).await.is_err() {
        tokio::task::yield_now().await;
    }
    s.engine.signal(operation.id.as_run(), "paid", &true, None).await.unwrap();
    let ended = loop {
        let operation = s.engine.get_operation(operation.id).await.unwrap();
        if operation.state.status().has_ended() {
            break operation;
        }
        tokio::task::yield_now().await;
    };
    let result = must!(ended.state, OperationState::Done { result, .. } => result);
    assert_eq!(result.as_str(), r#"{"of":"inv-1","paid":true}"#);
    assert_eq!(s.status("inv-1").await, "overdue");
}
