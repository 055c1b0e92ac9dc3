//! Answers to callers and people, and the actions open to them while an operation is pending.

use hapax_engine::limits::MAX_ACTION_TRIES;
use hapax_engine::model::{Actor, BlockedReason, OperationState, Role, Version};
use hapax_engine::runtime::{Error, TransitionOutcome};
use serde_json::json;

use super::entity_scene::*;
use crate::must;

/// S2.44: the same key returns the recorded result. A new key, while the first is pending, returns the pending
/// operation.
pub(super) async fn a_double_click_gets_the_recorded_result(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let close = |key: &str| {
        s.engine.transition("invoice", "inv-1", "close").requester("admin").idempotency_key(key).into_future()
    };
    let first = tokio::spawn(close("click-1"));
    s.entering.notified().await;
    let second = tokio::spawn(close("click-1"));
    let other = must!(close("click-2").await.unwrap(), TransitionOutcome::ClaimFailed { existing: Some(existing) } => existing);
    s.open();
    let first = must!(first.await.unwrap().unwrap(), TransitionOutcome::Done { operation, recorded: false, .. } => operation);
    // The second call waits only for the first to end, not for the clock.
    s.until(async || second.is_finished()).await;
    let second = must!(second.await.unwrap().unwrap(), TransitionOutcome::Done { operation, recorded: true, .. } => operation);
    assert_eq!((first.id, first.id, &first.state), (second.id, other.id, &second.state));
    let late = must!(close("click-1").await.unwrap(), TransitionOutcome::Done { operation, recorded: true, .. } => operation);
    assert_eq!(late.state, first.state);
    let changed =
        s.engine.transition("invoice", "inv-1", "close").requester("admin").input(&json!({ "other": 1 }));
    let changed = changed.idempotency_key("click-1").await.unwrap();
    assert!(matches!(changed, TransitionOutcome::KeyConflict { .. }), "{changed:?}");
    let after = close("click-2").await.unwrap();
    assert!(matches!(after, TransitionOutcome::NotAllowed { .. }), "{after:?}");
    assert_eq!(s.times_entered(), 1);
}

/// S2.16 to S2.21: a completed transition returns its result again, even after the entity has moved on. A repeated key
/// also returns a failure.
pub(super) async fn each_transition_returns_what_it_gave(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "closed").await;
    let pay = || s.engine.transition("invoice", "inv-1", "pay").into_future();
    let first =
        must!(pay().await.unwrap(), TransitionOutcome::Done { operation, recorded: false, .. } => operation);
    let again =
        must!(pay().await.unwrap(), TransitionOutcome::Done { operation, recorded: true, .. } => operation);
    assert_eq!(again, first);
    let refund = s.engine.transition("invoice", "inv-1", "refund").await.unwrap();
    assert!(matches!(refund, TransitionOutcome::Done { .. }), "{refund:?}");
    let later =
        must!(pay().await.unwrap(), TransitionOutcome::Done { operation, recorded: true, .. } => operation);
    assert_eq!(later.state, first.state);
    let refused = s.engine.transition("invoice", "inv-1", "refund").await.unwrap();
    assert!(matches!(refused, TransitionOutcome::NotAllowed { .. }), "{refused:?}");
    s.invoice("inv-2", "approved").await;
    let close = || {
        let call = s.engine.transition("invoice", "inv-2", "close").requester("admin").idempotency_key("c");
        call.input(&json!({ "how": "fail" })).into_future()
    };
    let failed =
        must!(close().await.unwrap(), TransitionOutcome::Failed { failure, recorded: false, .. } => failure);
    let same =
        must!(close().await.unwrap(), TransitionOutcome::Failed { failure, recorded: true, .. } => failure);
    assert_eq!(same, failed);
    assert_eq!(s.times_entered(), 3);
}

/// S2.3, S2.46, S1.35: the listed steps match what a call would decide, and name the operation in the way.
pub(super) async fn steps_are_listed_with_reasons(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let allowed = async |requester: &str| {
        let view = s.engine.get_entity("invoice", "inv-1", Some(requester)).await.unwrap();
        view.allowed.into_iter().map(|action| (action.step.to_string(), action.hindrance)).collect::<Vec<_>>()
    };
    let before = allowed("admin").await;
    let enabled: Vec<&str> =
        before.iter().filter(|(_, hindrance)| hindrance.is_none()).map(|(step, _)| step.as_str()).collect();
    assert_eq!(enabled, ["close"]);
    let call =
        tokio::spawn(s.engine.transition("invoice", "inv-1", "close").requester("admin").into_future());
    s.entering.notified().await;
    let pending = s.operations("inv-1").await[0].id;
    for (step, hindrance) in allowed("admin").await {
        let named = hindrance.as_ref().and_then(BlockedReason::operation);
        assert_eq!(named, Some(pending), "{step}: {hindrance:?}");
    }
    s.open();
    assert!(matches!(call.await.unwrap().unwrap(), TransitionOutcome::Done { .. }));
    let after = allowed("admin").await;
    let enabled: Vec<&str> =
        after.iter().filter(|(_, hindrance)| hindrance.is_none()).map(|(step, _)| step.as_str()).collect();
    assert_eq!(enabled, ["pay", "mark_as_overdue"]);
}

/// S2.46: an irreversible step that may have happened is repeated only with a manager's override, with a reason, in the
/// audit log.
pub(super) async fn repeating_an_irreversible_step_needs_a_manager(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "paid").await;
    let refund = || s.engine.transition("invoice", "inv-1", "refund");
    let declined = refund().input(&json!({ "how": "reject" })).await.unwrap();
    assert!(matches!(declined, TransitionOutcome::Rejected { .. }));
    // It is known not to have happened, so any caller may retry.
    let lost = s.drive(refund().input(&json!({ "how": "unknown" }))).await.unwrap();
    let lost = must!(lost, TransitionOutcome::Failed { operation, .. } => operation);
    let existing =
        must!(refund().await.unwrap(), TransitionOutcome::OverrideRequired { existing } => existing);
    assert_eq!(existing.id, lost.id);
    let view = s.engine.get_entity("invoice", "inv-1", None).await.unwrap();
    let shown = view.allowed.into_iter().find(|action| action.step.as_str() == "refund").unwrap();
    assert_eq!(shown.hindrance, Some(BlockedReason::OverrideRequired { operation: lost.id }));
    let operator = Actor::new("otto", Role::Operator);
    let refused = refund().overridden(operator, "the customer waits").await;
    assert!(matches!(refused, Err(Error::NotManager)), "{refused:?}");
    let refused = refund().overridden(manager(), " ").await;
    assert!(matches!(refused, Err(Error::Ruling(_))), "{refused:?}");
    assert_eq!(s.times_entered(), 1 + MAX_ACTION_TRIES);
    let done = refund().overridden(manager(), "the bank has nothing of it").await.unwrap();
    assert!(matches!(done, TransitionOutcome::Done { .. }), "{done:?}");
    let audit = s.engine.list_audit(0, 10).await.unwrap();
    let told = serde_json::to_string(&audit).unwrap();
    assert!(told.contains("the bank has nothing of it") && told.contains(&lost.id.to_string()), "{told}");
    assert_eq!(s.status("inv-1").await, "refunded");
}

/// S2.2, S2.3: support can add a note while an operation is pending, and cannot start a second one.
pub(super) async fn support_may_remark_while_it_is_pending(s: EntityScene) {
    s.invoice("inv-1", "approved").await;
    let call =
        tokio::spawn(s.engine.transition("invoice", "inv-1", "close").requester("admin").into_future());
    s.entering.notified().await;
    let support = Actor::new("sam", Role::Operator);
    s.engine.remark_on_entity("invoice", "inv-1", support, "the customer called").await.unwrap();
    let second = s.engine.transition("invoice", "inv-1", "close").requester("admin").await.unwrap();
    let existing = must!(second, TransitionOutcome::ClaimFailed { existing: Some(existing) } => existing);
    assert!(matches!(existing.state, OperationState::Pending { .. }));
    s.open();
    assert!(matches!(call.await.unwrap().unwrap(), TransitionOutcome::Done { .. }));
    assert_eq!(s.notes("inv-1").await, ["remarked"]);
    assert_eq!(s.engine.list_audit(0, 10).await.unwrap()[0].by.name, "sam");
}

/// CONTRACT §5: a caller that names a version changes that version or nothing. A result recorded under its key is
/// returned in any case.
pub(super) async fn a_step_on_a_stale_version_is_refused(s: EntityScene) {
    s.open();
    s.invoice("inv-1", "closed").await;
    let seen = s.engine.get_entity("invoice", "inv-1", None).await.unwrap().entity.version;
    let pay = |version: Version| {
        s.engine.transition("invoice", "inv-1", "pay").idempotency_key("pay").expecting(version).into_future()
    };
    let refused = pay(Version::new(seen.get() + 1)).await;
    assert!(matches!(refused, Err(Error::EntityChanged { version, .. }) if version == seen), "{refused:?}");
    assert_eq!((s.times_entered(), s.status("inv-1").await.as_str()), (0, "closed"));
    let done = pay(seen).await.unwrap();
    assert!(matches!(done, TransitionOutcome::Done { recorded: false, .. }), "{done:?}");
    let again = pay(seen).await.unwrap();
    assert!(matches!(again, TransitionOutcome::Done { recorded: true, .. }), "{again:?}");
    let late = s.engine.transition("invoice", "inv-1", "refund").expecting(seen).await;
    assert!(matches!(late, Err(Error::EntityChanged { .. })), "{late:?}");
    assert_eq!((s.times_entered(), s.status("inv-1").await.as_str()), (1, "paid"));
}
