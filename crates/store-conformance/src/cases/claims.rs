//! The start of operations: the status changes before the action, and one caller wins.

use hapax_engine::model::{
    BeginOperationOutcome, EntityJournalEntry, EntityStorage, FinishOperationOutcome, OperationEnd,
    OperationState, OperationStatus, Version,
};

use crate::fixture::*;
use crate::must;

/// S1.3, S1.24, S1.25: the start changes status and version before the action, in the same write as the operation.
pub(super) async fn a_claim_flips_the_status_before_the_action(t: &TestStore) {
    for home in t.homes().await {
        let before = t.invoice(&home, "i1", "approved").await;
        t.pass(SECOND);
        let close = t.close(&home, "i1").key("k");
        let begun = close.send().await;
        let (operation, entity) = must!(begun, BeginOperationOutcome::Begun { operation, entity, notes, .. } if notes.iter().all(EntityJournalEntry::is_for_audit_only) => (*operation, entity));
        assert_eq!((entity.status.as_str(), entity.version.get()), ("closing", 2));
        assert_eq!((entity.updated_at, &entity.data), (t.now(), &before.data));
        assert_eq!(t.entity(&home, "i1").await, entity, "it is written");
        assert_eq!(t.operation(operation.id).await, operation, "it is recorded");
        assert_eq!(t.keyed_operation(&home, "k").await, Some(operation));
    }
}

/// Every field of the request is recorded, with the status before the operation and the version after the claim.
pub(super) async fn all_that_was_asked_for_is_recorded(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "overdue").await;
        let asked = t.close(&home, "i1").holding().irreversible().by_run();
        let request = asked.request();
        let operation = asked.begins().await.now().await;
        assert_eq!(operation.id, request.id);
        assert_eq!((&operation.workspace, &operation.entity), (&request.workspace, &request.entity));
        assert_eq!((&operation.home, &operation.workflow), (&home, &request.workflow));
        assert_eq!((&operation.module, &operation.step), (&request.module, &request.step));
        assert_eq!((&operation.requester, &operation.by), (&request.requester, &request.by));
        assert_eq!((&operation.key, operation.fingerprint), (&None, request.fingerprint));
        assert_eq!(operation.input.as_str(), r#"{ "exact" : 1.0 }"#);
        assert_eq!((&operation.from, &operation.to), (&name("overdue"), &name("closed")));
        assert_eq!((&operation.claim, operation.recovery), (&request.claim, request.recovery));
        assert!(operation.irreversible);
        assert_eq!(operation.run, Some(request.id.as_run()));
        assert_eq!((operation.version, operation.attempt), (Version::new(2), 1));
        assert_eq!((operation.owner, operation.began_at), (ANN, t.now()));
        assert_eq!(operation.state, OperationState::Pending { heard_at: t.now() });
        let bare = t.closing(&home, "i2").await;
        let change = |request: &mut hapax_engine::model::BeginOperation| {
            request.requester = None;
            request.by = None;
        };
        t.invoice(&home, "i3", "approved").await;
        let anybody = t.close(&home, "i3").with(change).begins().await.now().await;
        assert_eq!((anybody.requester, anybody.by, anybody.run), (None, None, None));
        assert!(!bare.now().await.irreversible);
    }
}

/// S1.26, S1.27, S2.22, S2.44: the second caller fails, and learns which operation is in progress.
pub(super) async fn the_second_caller_learns_who_won(t: &TestStore) {
    for home in t.homes().await {
        let winner = t.closing(&home, "i1").await;
        let operation = winner.now().await;
        // With the version that the first caller saw, with the version after it, and for another step.
        let losers = [
            t.close(&home, "i1"),
            t.close(&home, "i1").seen(2),
            t.close(&home, "i1").seen(2).step("pay").unclaimed(),
            t.close(&home, "i1").owner(BOB).key("another"),
            t.close(&home, "i1").overridden("now!").irreversible(),
        ];
        for loser in losers {
            must!(loser.send().await, BeginOperationOutcome::ClaimFailed(Some(found)) if *found == operation);
        }
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2), "nothing else is written");
        assert_eq!(t.operation_ids(t.all_operations(&home)).await.len(), 1);
        assert_eq!(t.keyed_operation(&home, "another").await, None, "the key is free");
        must!(winner.done("1").await, FinishOperationOutcome::Finished { .. });
    }
}

/// S1.26: a caller that saw an older version reads again; the step may still apply.
pub(super) async fn a_caller_that_saw_an_older_version_looks_again(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        must!(held.finish(OperationEnd::Failed(failure())).await, FinishOperationOutcome::Finished { .. });
        let now = t.entity(&home, "i1").await;
        assert_eq!(now.version, Version::new(3));
        for seen in [1, 2, 4] {
            let outcome = t.close(&home, "i1").seen(seen).send().await;
            must!(outcome, BeginOperationOutcome::Stale(found) if found == now);
        }
        t.close(&home, "i1").seen(3).begins().await;
    }
}

/// A step that does not apply in the current status does not begin, and nothing is recorded.
pub(super) async fn a_step_that_does_not_apply_is_not_begun(t: &TestStore) {
    for home in t.homes().await {
        let draft = t.invoice(&home, "i1", "draft").await;
        let close = t.close(&home, "i1").key("k");
        must!(close.send().await, BeginOperationOutcome::NotAllowed(found) if found == draft);
        must!(close.clone().unclaimed().send().await, BeginOperationOutcome::NotAllowed(_));
        assert_eq!(t.entity(&home, "i1").await, draft);
        assert_eq!(t.keyed_operation(&home, "k").await, None);
        assert!(t.operation_ids(t.all_operations(&home)).await.is_empty());
    }
}

/// A step begins from each status that it names.
pub(super) async fn a_step_applies_in_each_of_its_statuses(t: &TestStore) {
    for home in t.homes().await {
        for (id, status) in [("i1", "approved"), ("i2", "overdue")] {
            t.invoice(&home, id, status).await;
            assert_eq!(t.close(&home, id).begins().await.operation.from, name(status));
        }
    }
}

/// S1.35: an entity in a transient status without an operation is claimed by someone else.
pub(super) async fn a_transient_status_without_an_operation_is_a_claim(t: &TestStore) {
    for home in t.homes().await {
        for (id, status) in [("i1", "closing"), ("i2", "paying")] {
            t.invoice(&home, id, status).await;
            for close in [t.close(&home, id), t.close(&home, id).returning()] {
                must!(close.send().await, BeginOperationOutcome::ClaimFailed(None));
            }
            assert_eq!(t.standing(&home, id).await, (status.into(), 1));
        }
    }
}

/// No operation begins on an entity that does not exist.
pub(super) async fn nothing_is_begun_on_what_is_not_there(t: &TestStore) {
    for home in t.homes().await {
        for close in [t.close(&home, "i1").key("k"), t.close(&home, "i1").irreversible().returning()] {
            must!(close.send().await, BeginOperationOutcome::NoSuchEntity);
        }
        assert_eq!(t.keyed_operation(&home, "k").await, None);
        assert_eq!(t.find_invoice(&home, "i1").await, None);
    }
}

/// S1.1, S1.8, S1.6, S1.7, S1.13: without a claim two callers may act. The first to finish wins, and the other fails
/// cleanly.
pub(super) async fn without_a_claim_the_first_to_finish_wins(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let one = t.close(&home, "i1").unclaimed().begins().await;
        let two = t.close(&home, "i1").unclaimed().owner(BOB).begins().await;
        assert_eq!(t.standing(&home, "i1").await, ("approved".into(), 1), "nothing is flipped");
        assert_eq!(one.operation.version, Version::new(1));
        must!(two.done("2").await, FinishOperationOutcome::Finished { entity: Some(entity), .. } if entity.version == Version::new(2));
        let closed = t.entity(&home, "i1").await;
        assert_eq!(closed.status, name("closed"));
        must!(one.done("1").await, FinishOperationOutcome::Stale(Some(found)) if found == closed);
        assert_eq!(t.entity(&home, "i1").await, closed);
        assert_eq!(one.status().await, OperationStatus::Pending, "nothing is written");
        must!(
            one.finish(OperationEnd::Failed(failure())).await,
            FinishOperationOutcome::Finished { entity: None, .. }
        );
        assert_eq!(t.entity(&home, "i1").await, closed);
    }
}

/// S1.13: without a claim, a row that changed and returned to its status still counts as changed.
pub(super) async fn without_a_claim_every_change_counts(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let slow = t.close(&home, "i1").unclaimed().begins().await;
        let other = t.close(&home, "i1").owner(BOB).begins().await;
        must!(other.finish(OperationEnd::Rejected(failure())).await, FinishOperationOutcome::Finished { .. });
        assert_eq!(t.standing(&home, "i1").await, ("approved".into(), 3));
        must!(slow.done("1").await, FinishOperationOutcome::Stale(Some(_)));
    }
}

/// An operation without a claim does not block claims by others.
pub(super) async fn without_a_claim_nobody_is_kept_away(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let bystander = t.close(&home, "i1").unclaimed().begins().await;
        let claims = t.close(&home, "i1").begins().await;
        must!(
            bystander.finish(OperationEnd::Failed(failure())).await,
            FinishOperationOutcome::Finished { entity: None, .. }
        );
        let loser = t.close(&home, "i1").seen(2).send().await;
        must!(loser, BeginOperationOutcome::ClaimFailed(Some(found)) if found.id == claims.id());
    }
}

/// Operations on other entities, kinds and workspaces are not blocked.
pub(super) async fn a_claim_holds_one_entity(t: &TestStore) {
    for home in t.homes().await {
        t.closing(&home, "i1").await;
        t.closing(&home, "i2").await;
        assert_eq!(t.operation_ids(t.all_operations(&home)).await.len(), 2);
    }
    if let Some(home) = t.homes().await.into_iter().find(is_table) {
        // The row is the same, so its status is transient, but no operation of that workspace holds it.
        let abroad = t.close(&home, "i1").workspace("abroad").seen(2);
        must!(abroad.send().await, BeginOperationOutcome::ClaimFailed(None));
    }
}

/// A row that the user's code changed is judged by its current values.
pub(super) async fn a_row_that_the_user_changed_is_judged_as_it_is(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    t.invoice(&home, "i1", "approved").await;
    t.put_row("i1", "approved", 9).await;
    must!(t.close(&home, "i1").send().await, BeginOperationOutcome::Stale(found) if found.version == Version::new(9));
    t.put_row("i1", "closing", 10).await;
    must!(t.close(&home, "i1").seen(10).send().await, BeginOperationOutcome::ClaimFailed(None));
    t.put_row("i1", "closed", 11).await;
    must!(t.close(&home, "i1").seen(11).send().await, BeginOperationOutcome::NotAllowed(_));
    t.put_row("i1", "approved", 12).await;
    let held = t.close(&home, "i1").seen(12).begins().await;
    assert_eq!(held.operation.version, Version::new(13));
}

/// Operations of one workspace cannot claim entities of another in the store's own table.
pub(super) async fn workspaces_do_not_share_claims(t: &TestStore) {
    t.closing(&EntityStorage::BuiltIn, "i1").await;
    must!(
        t.close(&EntityStorage::BuiltIn, "i1").workspace("abroad").send().await,
        BeginOperationOutcome::NoSuchEntity
    );
}
