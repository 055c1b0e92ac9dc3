//! The end of operations: the guarded write after the action.

use hapax_engine::model::{
    EntityStorage, Failure, FinishBy, FinishOperation, FinishOperationOutcome, OperationEnd, OperationId,
    OperationState, OperationStatus, OutboxState, Version, WorkspaceId,
};
use hapax_engine::store::StoreError;

use crate::fixture::*;
use crate::must;

fn ends() -> [OperationEnd; 3] {
    let declined = Failure::permanent("no \"money\": ü").with_code("declined");
    [done(r#"{ "id" : 1.0 }"#), OperationEnd::Rejected(declined), OperationEnd::Failed(failure())]
}

/// S1.21, S1.28: success changes the transient status to the final one.
pub(super) async fn success_flips_to_the_status_after_it(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        t.pass(SECOND);
        let finished = held.done(r#"{ "id" : 1.0 }"#).await;
        let (operation, entity) = must!(finished, FinishOperationOutcome::Finished { operation, entity: Some(entity), .. } => (*operation, entity));
        assert_eq!((entity.status.as_str(), entity.version.get()), ("closed", 3));
        assert_eq!((entity.updated_at, entity.data.as_str()), (t.now(), r#"{"total":7}"#));
        assert_eq!(operation.state, OperationState::Done { at: t.now(), result: json(r#"{ "id" : 1.0 }"#) });
        let unchanged =
            hapax_engine::model::Operation { state: held.operation.state.clone(), ..operation.clone() };
        assert_eq!(unchanged, held.operation, "nothing else of it changes");
        assert_eq!(t.entity(&home, "i1").await, entity);
        assert_eq!(held.now().await, operation);
    }
}

/// S1.22, S1.23, S1.29 to S1.33: a failure or rejection reverts the claim at once, to the status that the claim names.
pub(super) async fn failure_gives_the_claim_back(t: &TestStore) {
    for home in t.homes().await {
        for (n, end) in ends().into_iter().skip(1).enumerate() {
            let id = format!("i{n}");
            // It began in another status; the claim names the status to revert to.
            t.invoice(&home, &id, "overdue").await;
            let held = t.close(&home, &id).begins().await;
            t.pass(SECOND);
            let finished = held.finish(end.clone()).await;
            let entity =
                must!(finished, FinishOperationOutcome::Finished { entity: Some(entity), .. } => entity);
            assert_eq!((entity.status.as_str(), entity.version.get()), ("approved", 3));
            assert_eq!((entity.updated_at, entity.data.as_str()), (t.now(), r#"{"total":7}"#));
            assert_eq!(t.entity(&home, &id).await, entity);
            match (end, held.now().await.state) {
                (OperationEnd::Rejected(why), OperationState::Rejected { at, failure }) => {
                    assert_eq!((at, failure), (t.now(), why));
                }
                (OperationEnd::Failed(why), OperationState::Failed { at, failure }) => {
                    assert_eq!((at, failure), (t.now(), why));
                }
                other => panic!("{other:?}"),
            }
            t.close(&home, &id).seen(3).begins().await;
        }
    }
}

/// The data that the action returns is merged over the entity's data.
pub(super) async fn success_lays_data_over_what_is_known(t: &TestStore) {
    must!(
        t.create("i1", "approved", r#"{"total":7,"paid":{"a":1}}"#).await,
        hapax_engine::store::CreateEntityOutcome::Created(_)
    );
    let held = t.close(&EntityStorage::BuiltIn, "i1").begins().await;
    let data = Some(json(r#"{"paid":{"b":2},"by":"meg"}"#));
    must!(
        held.finish(OperationEnd::Done { result: json("1"), data }).await,
        FinishOperationOutcome::Finished { .. }
    );
    let known: serde_json::Value = t.entity(&EntityStorage::BuiltIn, "i1").await.data.to().unwrap();
    assert_eq!(known, serde_json::json!({"total": 7, "paid": {"b": 2}, "by": "meg"}));
}

/// Data that is not a JSON object is refused, and nothing is written.
pub(super) async fn data_that_is_not_an_object_is_refused(t: &TestStore) {
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let end = held.own_end(OperationEnd::Done { result: json("1"), data: Some(json("[1]")) });
    let with_more = FinishOperation { posts: vec![held.post("mail")], notes: vec![held.remark("x")], ..end };
    must!(t.entities().finish_operation(with_more).await, Err(StoreError::Refused(_)));
    assert_eq!(held.now().await, held.operation);
    assert_eq!(t.standing(&EntityStorage::BuiltIn, "i1").await, ("closing".into(), 2));
    assert!(t.posts().await.is_empty() && t.noted_on(&EntityStorage::BuiltIn, "i1").await.is_empty());
}

/// S1.11: after-effects and notes are written with the end, and only with it.
pub(super) async fn after_effects_and_notes_come_with_the_end(t: &TestStore) {
    for home in t.homes().await {
        for (n, end) in ends().into_iter().enumerate() {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            assert!(t.posts().await.iter().all(|post| post.id != held.post("mail").id));
            let posts = vec![held.post("mail"), held.post("hook")];
            let notes = vec![held.remark("one"), held.remark("two")];
            let request = FinishOperation { posts: posts.clone(), notes: notes.clone(), ..held.own_end(end) };
            must!(held.send(request).await, FinishOperationOutcome::Finished { .. });
            let left = t.posts().await;
            assert!(posts.iter().all(|post| left.contains(post)), "{left:?}");
            let noted = t.placed_entity_notes(t.all_notes_on(&home, &id)).await;
            assert_eq!(noted.into_iter().map(|placed| placed.note).collect::<Vec<_>>(), notes);
        }
    }
    let mails = t.posts().await.len() / 2;
    assert_eq!(t.claim_outbox(ANN, &[("mail", 100)]).await.posts.len(), mails, "they are due");
}

/// S1.11: an existing after-effect is not overwritten.
pub(super) async fn an_after_effect_that_is_there_stays(t: &TestStore) {
    let (one, two) =
        (t.closing(&EntityStorage::BuiltIn, "i1").await, t.closing(&EntityStorage::BuiltIn, "i2").await);
    let first = one.post("mail");
    must!(
        one.send(FinishOperation { posts: vec![first], ..one.own_end(done("1")) }).await,
        FinishOperationOutcome::Finished { .. }
    );
    let claimed = t.claim_post(ANN).await;
    t.delivered(&claimed).await;
    let other = hapax_engine::model::OutboxMessage { payload: json("2"), ..one.post("mail") };
    let request = FinishOperation { posts: vec![other, two.post("hook")], ..two.own_end(done("2")) };
    must!(two.send(request).await, FinishOperationOutcome::Finished { .. });
    let posts = t.posts().await;
    assert_eq!(posts.len(), 2);
    let kept = posts.iter().find(|post| post.target == name("mail")).unwrap();
    assert_eq!(kept.payload, one.post("mail").payload);
    must!(kept.state, OutboxState::Delivered { .. });
}

/// G1.3: an end repeated after a lost acknowledgement is recognised, and writes nothing more.
pub(super) async fn an_end_sent_again_stands(t: &TestStore) {
    for home in t.homes().await {
        for (n, end) in ends().into_iter().enumerate() {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            let request = FinishOperation {
                posts: vec![held.post("mail")],
                notes: vec![held.remark("once")],
                ..held.own_end(end)
            };
            must!(held.send(request.clone()).await, FinishOperationOutcome::Finished { .. });
            let (operation, entity) = (held.now().await, t.entity(&home, &id).await);
            t.pass(SECOND);
            must!(held.send(request.clone()).await, FinishOperationOutcome::Again(again) if *again == operation);
            assert_eq!((held.now().await, t.entity(&home, &id).await), (operation, entity));
            assert_eq!(t.noted_on(&home, &id).await.len(), 1);
            // Even if others have changed the entity since.
            let next =
                t.close(&home, &id).seen(3).with(|request| request.from.push(name("closed"))).begins().await;
            must!(held.send(request).await, FinishOperationOutcome::Again(_));
            assert_eq!(t.entity(&home, &id).await.version, Version::new(4));
            assert_eq!(next.status().await, OperationStatus::Pending);
        }
    }
}

/// A holder cannot replace the recorded end with a different one.
pub(super) async fn another_end_than_the_one_that_stands_is_lost(t: &TestStore) {
    for home in t.homes().await {
        for (n, end) in ends().into_iter().enumerate() {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            must!(held.finish(end.clone()).await, FinishOperationOutcome::Finished { .. });
            let (operation, entity) = (held.now().await, t.entity(&home, &id).await);
            let others = [
                done(r#""other""#),
                OperationEnd::Rejected(Failure::permanent("other")),
                OperationEnd::Failed(Failure::permanent("other")),
                OperationEnd::Reverted,
                OperationEnd::InDoubt,
            ];
            for other in others {
                must!(held.finish(other).await, FinishOperationOutcome::Lost(Some(found)) if *found == operation);
            }
            assert_eq!((held.now().await, t.entity(&home, &id).await), (operation, entity));
        }
    }
}

/// A caller that does not hold the operation writes nothing, including after-effects and notes.
pub(super) async fn only_the_holder_of_an_operation_writes(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        let with = |by, attempt| FinishOperation {
            attempt,
            posts: vec![held.post("mail")],
            notes: vec![held.remark("no")],
            ..held.end(by, done("1"))
        };
        let strangers = [
            with(FinishBy::Holder(BOB), 1),
            with(FinishBy::Holder(ANN), 2),
            with(FinishBy::Holder(ANN), 0),
            with(FinishBy::People, 1),
            with(FinishBy::Run, 1),
            with(FinishBy::Janitor { unheard_since: t.now() }, 1),
        ];
        for stranger in strangers {
            must!(held.send(stranger).await, FinishOperationOutcome::Lost(Some(found)) if *found == held.operation);
        }
        let elsewhere = FinishOperation {
            workspace: WorkspaceId::new("abroad").unwrap(),
            ..with(FinishBy::Holder(ANN), 1)
        };
        must!(held.send(elsewhere).await, FinishOperationOutcome::Lost(None));
        let nothing = FinishOperation {
            operation: OperationId::from_u128(u128::MAX),
            ..with(FinishBy::Holder(ANN), 1)
        };
        must!(held.send(nothing).await, FinishOperationOutcome::Lost(None));
        assert_eq!(held.now().await, held.operation);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        assert!(t.posts().await.is_empty() && t.noted_on(&home, "i1").await.is_empty());
    }
}

/// G1.2: a holder that returns after its claim was reverted writes nothing, whatever the outcome.
pub(super) async fn a_zombie_persists_nothing(t: &TestStore) {
    for home in t.homes().await {
        let zombie = t.closing(&home, "i1").await;
        let reverted = zombie.reverted().await;
        for end in ends() {
            let request = FinishOperation {
                posts: vec![zombie.post("mail")],
                notes: vec![zombie.remark("late")],
                ..zombie.own_end(end)
            };
            must!(zombie.send(request).await, FinishOperationOutcome::Lost(Some(found)) if *found == reverted);
        }
        // Another engine begins the step in between.
        let next = t.close(&home, "i1").seen(3).owner(BOB).begins().await;
        must!(zombie.done("1").await, FinishOperationOutcome::Lost(Some(found)) if *found == reverted);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 4));
        must!(next.done("2").await, FinishOperationOutcome::Finished { .. });
        must!(zombie.done("1").await, FinishOperationOutcome::Lost(Some(_)));
        assert_eq!(zombie.now().await, reverted);
        assert!(t.posts().await.is_empty() && t.noted_on(&home, "i1").await.is_empty());
    }
}

/// G1.2: the same holds if the operation is retried, because that is a different attempt.
pub(super) async fn a_zombie_of_an_earlier_attempt_persists_nothing(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").key("k");
        let zombie = close.begins().await;
        zombie.reverted().await;
        // Even if the same engine retries it.
        let next = close.again().seen(3).begins().await;
        assert_eq!((next.id(), next.operation.attempt), (zombie.id(), 2));
        for end in ends() {
            must!(zombie.finish(end).await, FinishOperationOutcome::Lost(Some(found)) if *found == next.operation);
        }
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 4));
        must!(next.done("2").await, FinishOperationOutcome::Finished { .. });
        must!(zombie.done("2").await, FinishOperationOutcome::Lost(Some(_)));
    }
}

/// If someone else moved the row out of the transient status, success is refused and nothing is written.
pub(super) async fn a_row_that_others_moved_is_not_updated(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    let held = t.closing(&home, "i1").await;
    t.put_row("i1", "cancelled", 3).await;
    let moved = t.entity(&home, "i1").await;
    let request = FinishOperation {
        posts: vec![held.post("mail")],
        notes: vec![held.remark("no")],
        ..held.own_end(done("1"))
    };
    must!(held.send(request).await, FinishOperationOutcome::Stale(Some(found)) if found == moved);
    assert_eq!(held.now().await, held.operation);
    assert!(t.posts().await.is_empty() && t.noted_on(&home, "i1").await.is_empty());
    // A failure has no status to revert, and ends the operation.
    must!(
        held.finish(OperationEnd::Failed(failure())).await,
        FinishOperationOutcome::Finished { entity: None, .. }
    );
    assert_eq!(t.entity(&home, "i1").await, moved);
    assert_eq!(held.status().await, OperationStatus::Failed);
}

/// A row that the user's code changed within its transient status is updated from its current version.
pub(super) async fn a_row_that_was_changed_in_its_transient_status_is_updated(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    for (id, end, status) in
        [("i1", done("1"), "closed"), ("i2", OperationEnd::Failed(failure()), "approved")]
    {
        let held = t.closing(&home, id).await;
        t.put_row(id, "closing", 8).await;
        must!(held.finish(end).await, FinishOperationOutcome::Finished { entity: Some(_), .. });
        assert_eq!(t.standing(&home, id).await, (status.into(), 9));
    }
}

/// An ended operation releases its claim, so the next one can begin at once.
pub(super) async fn an_ended_operation_holds_nothing(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        must!(held.finish(OperationEnd::Rejected(failure())).await, FinishOperationOutcome::Finished { .. });
        let next = t.close(&home, "i1").seen(3).owner(BOB).begins().await;
        assert_ne!(next.id(), held.id());
        must!(next.done("1").await, FinishOperationOutcome::Finished { .. });
        let pay = |request: &mut hapax_engine::model::BeginOperation| {
            request.step = name("archive");
            request.from = vec![name("closed")];
        };
        t.close(&home, "i1").seen(5).with(pay).begins().await;
    }
}
