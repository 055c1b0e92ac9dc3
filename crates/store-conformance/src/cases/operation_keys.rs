//! Operations under keys, repeated operations, and irreversible ones that may have happened.

use hapax_engine::model::{
    BeginOperation, BeginOperationOutcome, EntityStorage, Failure, FinishOperationOutcome, JournalEvent,
    OperationEnd, OperationState, OperationStatus, Version, WorkspaceId,
};
use hapax_engine::store::{CreateEntityOutcome, ListJournal, NewEntity};

use crate::fixture::*;
use crate::must;

async fn finished(held: &BegunOperation<'_>, end: OperationEnd) {
    must!(held.finish(end).await, FinishOperationOutcome::Finished { .. });
}

/// S2.16, S2.44: the same key finds the same operation, in progress or with its result, whatever the entity's current
/// state.
pub(super) async fn the_same_key_finds_the_same_operation(t: &TestStore) {
    let ends = [
        None,
        Some(done(r#"{"capture":"c1"}"#)),
        Some(OperationEnd::Rejected(failure())),
        Some(OperationEnd::Failed(failure())),
    ];
    for home in t.homes().await {
        for (n, end) in ends.clone().into_iter().enumerate() {
            let id = format!("i{n}");
            t.invoice(&home, &id, "approved").await;
            let close = t.close(&home, &id).key(&id);
            let held = close.begins().await;
            if let Some(end) = end {
                finished(&held, end).await;
            }
            let (operation, entity) = (held.now().await, t.entity(&home, &id).await);
            for again in [close.again(), close.again().owner(BOB), close.again().seen(entity.version.get())] {
                must!(again.send().await, BeginOperationOutcome::Recorded(found) if *found == operation);
            }
            assert_eq!((held.now().await, t.entity(&home, &id).await), (operation, entity));
        }
        assert_eq!(t.operation_ids(t.all_operations(&home)).await.len(), 4);
    }
}

/// The key of an operation in doubt also finds it, without another attempt.
pub(super) async fn the_key_of_an_operation_in_doubt_finds_it(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").key("k");
        let doubted = close.begins().await.doubted().await;
        must!(close.again().seen(2).send().await, BeginOperationOutcome::Recorded(found) if *found == doubted);
    }
}

/// S2.12: a key that belongs to a different request is a conflict, whatever the state of that request.
pub(super) async fn a_key_that_stands_for_something_else_is_a_conflict(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        t.invoice(&home, "i2", "approved").await;
        let close = t.close(&home, "i1").key("k");
        let held = close.begins().await;
        for way in 0..3 {
            let operation = held.now().await;
            let others = [
                close.again().input("2"),
                close.again().step("pay"),
                close.again().with(|request| request.requester = None),
                t.close(&home, "i2").key("k"),
                t.close(&home, "absent").key("k"),
            ];
            for other in others {
                must!(other.send().await, BeginOperationOutcome::KeyConflict(found) if *found == operation);
            }
            match way {
                0 => drop(held.doubted().await),
                1 => {
                    let by = hapax_engine::model::FinishBy::People;
                    must!(
                        held.send(held.end(by, OperationEnd::Reverted)).await,
                        FinishOperationOutcome::Finished { .. }
                    );
                }
                _ => {}
            }
        }
        assert_eq!(t.standing(&home, "i2").await, ("approved".into(), 1));
    }
}

/// The same key in two workspaces is two keys, and keys are compared byte by byte.
pub(super) async fn keys_of_operations_are_told_apart(t: &TestStore) {
    for (workspace, id) in [("default", "i1"), ("abroad", "i1")] {
        let new = NewEntity {
            workspace: WorkspaceId::new(workspace).unwrap(),
            entity: entity_in(&EntityStorage::BuiltIn, id),
            status: name("approved"),
            data: json("{}"),
        };
        must!(t.entities().create_entity(new).await.unwrap(), CreateEntityOutcome::Created(_));
    }
    let here = t.close(&EntityStorage::BuiltIn, "i1").key("k").begins().await;
    let there = t.close(&EntityStorage::BuiltIn, "i1").key("k").workspace("abroad").begins().await;
    assert_ne!(here.id(), there.id());
    let key = key_in(&EntityStorage::BuiltIn, "k");
    let abroad = WorkspaceId::new("abroad").unwrap();
    let found = t.entities().find_keyed_operation(&abroad, &key).await.unwrap();
    assert_eq!(found, Some(there.operation.clone()));
    assert_eq!(t.keyed_operation(&EntityStorage::BuiltIn, "k").await, Some(here.operation.clone()));
    assert_eq!(t.entities().find_operation(&abroad, here.id()).await.unwrap(), None);
    assert_eq!(t.entities().find_operation(&abroad, there.id()).await.unwrap(), Some(there.operation));
    for other in ["K", "k ", "k%", "_"] {
        assert_eq!(t.keyed_operation(&EntityStorage::BuiltIn, other).await, None);
    }
}

/// G1.6: a reverted operation continues under its key as another attempt, and its history says so.
pub(super) async fn a_reverted_operation_is_retried_under_its_key(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "overdue").await;
        let close = t.close(&home, "i1").key("k").by_run();
        let first = close.begins().await;
        first.reverted().await;
        t.pass(SECOND);
        let again = close.again().owner(BOB).seen(3);
        let (second, notes) = must!(
            again.send().await,
            BeginOperationOutcome::Begun { operation, notes, .. } => (*operation, notes)
        );
        assert_eq!((second.id, second.attempt, second.owner), (first.id(), 2, BOB));
        assert_eq!((second.began_at, second.version), (first.operation.began_at, Version::new(4)));
        assert_eq!(second.from, name("approved"), "it began this attempt where it was given back to");
        assert_eq!(second.run, Some(first.id().as_run()));
        assert_eq!(second.state, OperationState::Pending { heard_at: t.now() });
        assert_eq!(t.keyed_operation(&home, "k").await, Some(second.clone()));
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [first.id()]);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 4));
        let placed = t.placed_entity_notes(t.all_notes_on(&home, "i1")).await;
        let notes: Vec<_> = notes.into_iter().filter(|note| !note.is_for_audit_only()).collect();
        assert_eq!(placed.into_iter().map(|placed| placed.note).collect::<Vec<_>>(), notes);
        must!(notes.as_slice(), [note] if note.what == JournalEvent::TriedAgain { attempt: 2 }
            && note.operation == Some(first.id()) && note.at == t.now() && note.by.is_none());
        let third = t.close(&home, "i1").seen(4);
        must!(third.send().await, BeginOperationOutcome::ClaimFailed(Some(found)) if *found == second);
    }
}

/// The retry of a reverted operation follows the same rules as any new operation.
pub(super) async fn another_attempt_is_judged_like_the_first(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").key("k");
        let reverted = close.begins().await.reverted().await;
        must!(close.again().seen(2).send().await, BeginOperationOutcome::Stale(_));
        let rival = t.close(&home, "i1").seen(3).begins().await;
        must!(close.again().seen(4).send().await, BeginOperationOutcome::ClaimFailed(Some(found)) if found.id == rival.id());
        finished(&rival, done("1")).await;
        must!(close.again().seen(5).send().await, BeginOperationOutcome::NotAllowed(_));
        assert_eq!(t.keyed_operation(&home, "k").await, Some(reverted));
        assert!(t.noted_on(&home, "i1").await.is_empty());
    }
}

/// A request repeated after a lost acknowledgement finds the operation that it began.
pub(super) async fn a_beginning_sent_again_finds_its_own(t: &TestStore) {
    for home in t.homes().await {
        for (id, keyed) in [("i1", true), ("i2", false)] {
            t.invoice(&home, id, "approved").await;
            let close = if keyed { t.close(&home, id).key("k") } else { t.close(&home, id) };
            let held = close.begins().await;
            t.pass(SECOND);
            let entity = t.entity(&home, id).await;
            let again = close.send().await;
            must!(again, BeginOperationOutcome::Begun { operation, entity: found, notes, .. }
                if *operation == held.operation && found == entity && notes.is_empty());
            assert_eq!((held.now().await, t.entity(&home, id).await), (held.operation.clone(), entity));
            let other = close.clone().owner(BOB).send().await;
            must!(other, BeginOperationOutcome::Recorded(found) if *found == held.operation);
            finished(&held, done("1")).await;
            must!(close.send().await, BeginOperationOutcome::Recorded(found) if found.state.status() == OperationStatus::Done);
        }
        assert_eq!(t.operation_ids(t.all_operations(&home)).await.len(), 2);
    }
}

/// The same holds without a claim.
pub(super) async fn an_unclaimed_beginning_sent_again_finds_its_own(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").unclaimed();
        let held = close.begins().await;
        assert_eq!(close.begins().await.operation, held.operation);
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [held.id()]);
    }
}

/// S2.17 to S2.20: a repeated call of a step that returns its result gets the recorded result, not a second capture.
pub(super) async fn a_repeated_call_gets_the_recorded_result(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").returning();
        let held = close.begins().await;
        finished(&held, done(r#"{"capture":"c1"}"#)).await;
        let operation = held.now().await;
        for again in [close.again().seen(3), close.again().seen(3).key("another").input("2").owner(BOB)] {
            must!(again.send().await, BeginOperationOutcome::Recorded(found) if *found == operation);
        }
        assert_eq!(t.keyed_operation(&home, "another").await, None);
        must!(close.again().seen(2).send().await, BeginOperationOutcome::Stale(_));
        // A step that refuses repetition, another step, and another entity have no recorded answer.
        must!(t.close(&home, "i1").seen(3).send().await, BeginOperationOutcome::NotAllowed(_));
        must!(close.again().seen(3).step("pay").send().await, BeginOperationOutcome::NotAllowed(_));
        t.invoice(&home, "i2", "closed").await;
        must!(t.close(&home, "i2").returning().send().await, BeginOperationOutcome::NotAllowed(_));
    }
}

fn reopen(request: &mut BeginOperation) {
    request.step = name("reopen");
    request.from = vec![name("closed"), name("approved")];
    request.to = name("approved");
    request.claim = None;
}

/// The newest operation of the step supplies the recorded result.
pub(super) async fn the_newest_operation_of_the_step_answers(t: &TestStore) {
    for home in t.homes().await {
        let first = t.closing(&home, "i1").await;
        finished(&first, done("1")).await;
        let reopened = t.close(&home, "i1").seen(3).with(reopen).begins().await;
        finished(&reopened, done("0")).await;
        let second = t.close(&home, "i1").seen(4).begins().await;
        finished(&second, done("2")).await;
        let asked = t.close(&home, "i1").seen(6).returning();
        must!(asked.send().await, BeginOperationOutcome::Recorded(found) if *found == second.now().await);
    }
}

/// A step that never succeeded has no recorded result.
pub(super) async fn a_step_that_was_not_done_has_no_result(t: &TestStore) {
    for home in t.homes().await {
        let rejected = t.closing(&home, "i1").await;
        finished(&rejected, OperationEnd::Rejected(failure())).await;
        let to_draft = |request: &mut BeginOperation| {
            reopen(request);
            request.to = name("draft");
        };
        let away = t.close(&home, "i1").seen(3).with(to_draft).begins().await;
        finished(&away, done("0")).await;
        must!(t.close(&home, "i1").seen(4).returning().send().await, BeginOperationOutcome::NotAllowed(_));
    }
}

/// G1.4, S2.46: an irreversible step that may have happened needs a manager's override, which is audited.
pub(super) async fn an_irreversible_step_that_may_have_happened_needs_an_override(t: &TestStore) {
    for home in t.homes().await {
        for way in 0..2 {
            let id = format!("i{way}");
            t.invoice(&home, &id, "approved").await;
            let first = t.close(&home, &id).irreversible().begins().await;
            match way {
                0 => drop(first.reverted().await),
                _ => finished(&first, OperationEnd::Failed(Failure::unknown("no answer"))).await,
            }
            let (before, entity) = (first.now().await, t.entity(&home, &id).await);
            let close = t.close(&home, &id).irreversible().seen(3);
            must!(close.send().await, BeginOperationOutcome::OverrideRequired(found) if *found == before);
            assert_eq!(t.entity(&home, &id).await, entity);
            assert!(t.noted_on(&home, &id).await.is_empty());
            let second = close.overridden("seen in the bank's list: no").begins().await;
            assert_ne!(second.id(), first.id());
            let said = JournalEvent::Overridden {
                operation: Some(first.id().to_string()),
                reason: "seen in the bank's list: no".into(),
            };
            let placed = t.placed_entity_notes(t.all_notes_on(&home, &id)).await;
            let note = must!(placed.as_slice(), [placed] => &placed.note);
            assert_eq!((&note.what, &note.by), (&said, &Some(manager())));
            assert_eq!((note.operation, note.at), (Some(second.id()), t.now()));
            let audit = t.placed_notes(ListJournal { by_people: true, ..t.all_notes() }).await;
            let audited = note.to_audit_entry().expect("a person did it");
            assert!(audit.iter().any(|placed| placed.note == audited), "{audit:?}");
        }
    }
}

/// An irreversible step that certainly did not happen needs no override.
pub(super) async fn a_step_that_did_not_happen_needs_no_override(t: &TestStore) {
    let ends = [
        OperationEnd::Failed(Failure::permanent("no")),
        OperationEnd::Failed(Failure::retryable("busy")),
        OperationEnd::Rejected(Failure::unknown("no")),
    ];
    for home in t.homes().await {
        for (n, end) in ends.clone().into_iter().enumerate() {
            let id = format!("i{n}");
            t.invoice(&home, &id, "approved").await;
            finished(&t.close(&home, &id).irreversible().begins().await, end).await;
            let next = t.close(&home, &id).irreversible().seen(3);
            let next = if n == 0 { next.overridden("not needed") } else { next };
            finished(&next.begins().await, done("1")).await;
            // A manager's override is recorded even if it was not needed.
            let said = JournalEvent::Overridden { operation: None, reason: "not needed".into() };
            let expected = if n == 0 { vec![said] } else { vec![] };
            assert_eq!(t.noted_on(&home, &id).await, expected);
        }
    }
}

/// Other steps, other entities and reversible steps need no override.
pub(super) async fn only_the_same_step_on_the_same_entity_needs_an_override(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        t.close(&home, "i1").irreversible().begins().await.reverted().await;
        t.invoice(&home, "i2", "approved").await;
        t.close(&home, "i2").irreversible().begins().await;
        let pay = t.close(&home, "i1").irreversible().step("pay").seen(3).begins().await;
        finished(&pay, OperationEnd::Rejected(failure())).await;
        t.close(&home, "i1").seen(5).begins().await;
    }
}

/// An operation in another workspace neither answers a request in this one nor makes it need an override.
pub(super) async fn operations_in_other_workspaces_do_not_matter(t: &TestStore) {
    for (id, status) in [("i1", "approved"), ("i2", "approved")] {
        for workspace in ["default", "abroad"] {
            let new = NewEntity {
                workspace: WorkspaceId::new(workspace).unwrap(),
                entity: entity_in(&EntityStorage::BuiltIn, id),
                status: name(status),
                data: json("{}"),
            };
            must!(t.entities().create_entity(new).await.unwrap(), CreateEntityOutcome::Created(_));
        }
    }
    let here = t.close(&EntityStorage::BuiltIn, "i2").begins().await;
    finished(&here, OperationEnd::Rejected(failure())).await;
    let away = t
        .close(&EntityStorage::BuiltIn, "i2")
        .seen(3)
        .with(reopen)
        .with(|request| request.to = name("closed"));
    finished(&away.begins().await, done("0")).await;
    let abroad = t.close(&EntityStorage::BuiltIn, "i2").workspace("abroad").begins().await;
    finished(&abroad, done("1")).await;
    must!(
        t.close(&EntityStorage::BuiltIn, "i2").returning().seen(4).send().await,
        BeginOperationOutcome::NotAllowed(_)
    );
    t.close(&EntityStorage::BuiltIn, "i1").workspace("abroad").irreversible().begins().await.reverted().await;
    t.close(&EntityStorage::BuiltIn, "i1").irreversible().begins().await;
}

/// An unclaimed irreversible step in progress or in doubt needs an override. With a claim, the entity is held.
pub(super) async fn an_irreversible_step_in_progress_needs_an_override(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").irreversible().unclaimed();
        let first = close.begins().await;
        must!(close.again().send().await, BeginOperationOutcome::OverrideRequired(found) if found.id == first.id());
        let doubted = first.doubted().await;
        must!(close.again().send().await, BeginOperationOutcome::OverrideRequired(found) if *found == doubted);
        close.again().overridden("I know").begins().await;
        t.invoice(&home, "i2", "approved").await;
        let claims = t.close(&home, "i2").irreversible();
        let doubted = claims.begins().await.doubted().await;
        let insists = claims.again().seen(2).overridden("I know").send().await;
        must!(insists, BeginOperationOutcome::ClaimFailed(Some(found)) if *found == doubted);
    }
}

/// Another attempt of an irreversible step also needs an override, and its history records both.
pub(super) async fn another_attempt_of_an_irreversible_step_needs_an_override(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").key("k").irreversible();
        let reverted = close.begins().await.reverted().await;
        let again = close.again().seen(3);
        must!(again.send().await, BeginOperationOutcome::OverrideRequired(found) if *found == reverted);
        let second = again.overridden("I know").begins().await;
        assert_eq!((second.id(), second.operation.attempt), (reverted.id, 2));
        let noted = t.noted_on(&home, "i1").await;
        must!(noted.as_slice(), [JournalEvent::Overridden { .. }, JournalEvent::TriedAgain { attempt: 2 }]);
    }
}
