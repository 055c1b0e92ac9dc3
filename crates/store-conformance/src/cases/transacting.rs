//! The user's own writes, in the same commit as the end of an operation.

use std::any::Any;

use hapax_engine::model::{
    EntityStorage, Failure, FinishOperation, FinishOperationOutcome, OperationEnd, OperationStatus, Payload,
};
use hapax_engine::store::{StoreError, TransactOperation, TransactOperationOutcome};

use crate::fixture::*;
use crate::must;

/// Work that writes `text`, if the store supports transactions.
fn writing(t: &TestStore, text: &str, fails: bool) -> Option<Box<dyn Any + Send + Sync>> {
    t.tables.as_ref()?.writing(text, r#"{ "payment" : 1.0 }"#, fails)
}

/// An end with the work's output, an after-effect and a note.
fn ending(held: &BegunOperation<'_>, work: Box<dyn Any + Send + Sync>) -> TransactOperation {
    let request = FinishOperation {
        posts: vec![held.post("mail")],
        notes: vec![held.remark("in one commit")],
        ..held.own_end(OperationEnd::Reverted)
    };
    let finish = move |result: Payload| {
        let end = OperationEnd::Done { result, data: None };
        Ok(FinishOperation { end, ..request.clone() })
    };
    TransactOperation { work, finish: Box::new(finish) }
}

async fn transact(t: &TestStore, request: TransactOperation) -> TransactOperationOutcome {
    t.entities().transact_operation(request).await.unwrap()
}

async fn written(t: &TestStore) -> Vec<String> {
    let mut written = t.tables.as_ref().expect("there are tables").written().await;
    written.sort();
    written
}

/// Checks that nothing of the work, the end, its after-effect or its note is stored.
async fn assert_nothing(t: &TestStore, home: &EntityStorage, held: &BegunOperation<'_>, texts: &[&str]) {
    let id = held.operation.entity.id.as_str();
    assert_eq!(written(t).await, texts);
    assert!(t.posts().await.iter().all(|post| post.id != held.post("mail").id));
    assert!(t.noted_on(home, id).await.is_empty());
}

/// S1.9, S1.10: the action's writes and the status change are one commit.
pub(super) async fn work_and_the_end_are_one_commit(t: &TestStore) {
    let mut texts = Vec::new();
    for home in t.homes().await {
        for id in ["i1", "i2"] {
            let text = format!("{id} {}", kind_in(&home));
            let Some(work) = writing(t, &text, false) else { return };
            t.invoice(&home, id, "approved").await;
            let close = t.close(&home, id);
            let held = if id == "i1" { close } else { close.unclaimed() }.begins().await;
            t.pass(SECOND);
            let worked = transact(t, ending(&held, work)).await;
            let (operation, entity) = must!(
                worked,
                TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { operation, entity: Some(entity), .. }) => (*operation, entity)
            );
            texts.push(text);
            texts.sort();
            assert_eq!(written(t).await, texts);
            assert_eq!((held.now().await, t.entity(&home, id).await), (operation.clone(), entity.clone()));
            assert_eq!((entity.status, entity.updated_at), (name("closed"), t.now()));
            let result = json(r#"{ "payment" : 1.0 }"#);
            assert_eq!(operation.state, hapax_engine::model::OperationState::Done { at: t.now(), result });
            assert!(t.posts().await.iter().any(|post| post.id == held.post("mail").id));
            assert_eq!(t.noted_on(&home, id).await.len(), 1);
        }
    }
}

/// Failed work writes nothing, and the operation is unchanged.
pub(super) async fn work_that_fails_leaves_nothing(t: &TestStore) {
    for home in t.homes().await {
        let Some(work) = writing(t, "no", true) else { return };
        let held = t.closing(&home, "i1").await;
        must!(transact(t, ending(&held, work)).await, TransactOperationOutcome::WorkFailed(_));
        assert_nothing(t, &home, &held, &[]).await;
        assert_eq!(held.now().await, held.operation);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        must!(held.finish(OperationEnd::Failed(failure())).await, FinishOperationOutcome::Finished { .. });
    }
}

/// If the store refuses the work's output, nothing is written.
pub(super) async fn work_whose_end_is_refused_leaves_nothing(t: &TestStore) {
    for home in t.homes().await {
        let Some(work) = writing(t, "no", false) else { return };
        let held = t.closing(&home, "i1").await;
        let refusing = |_| Err(Failure::permanent("not such a result").with_code("odd"));
        let request = TransactOperation { work, finish: Box::new(refusing) };
        let why = must!(transact(t, request).await, TransactOperationOutcome::WorkFailed(why) => why);
        assert_eq!(why, Failure::permanent("not such a result").with_code("odd"));
        assert_nothing(t, &home, &held, &[]).await;
        assert_eq!(held.now().await, held.operation);
    }
}

/// If the store refuses the end, the work is rolled back too.
pub(super) async fn an_end_that_cannot_be_written_leaves_nothing(t: &TestStore) {
    // Also creates the table that the work writes to.
    t.homes().await;
    let Some(work) = writing(t, "no", false) else { return };
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let end = OperationEnd::Done { result: json("1"), data: Some(json("[]")) };
    let request = held.own_end(end);
    let finish = Box::new(move |_| Ok(request.clone()));
    let outcome = t.entities().transact_operation(TransactOperation { work, finish }).await;
    must!(outcome, Err(StoreError::Refused(_)));
    assert_nothing(t, &EntityStorage::BuiltIn, &held, &[]).await;
    assert_eq!(held.now().await, held.operation);
}

/// G1.2: the writes of a holder whose claim was reverted are rolled back.
pub(super) async fn the_work_of_a_zombie_leaves_nothing(t: &TestStore) {
    for home in t.homes().await {
        let Some(work) = writing(t, "no", false) else { return };
        let zombie = t.closing(&home, "i1").await;
        let reverted = zombie.reverted().await;
        let worked = transact(t, ending(&zombie, work)).await;
        must!(worked, TransactOperationOutcome::Worked(FinishOperationOutcome::Lost(Some(found))) if *found == reverted);
        assert_nothing(t, &home, &zombie, &[]).await;
        assert_eq!(t.standing(&home, "i1").await, ("approved".into(), 3));
    }
}

/// S1.6: without a claim, the loser's writes are rolled back too.
pub(super) async fn the_losers_work_leaves_nothing(t: &TestStore) {
    let mut texts = Vec::new();
    for home in t.homes().await {
        let text = format!("first {}", kind_in(&home));
        let (Some(work), Some(late)) = (writing(t, &text, false), writing(t, "no", false)) else { return };
        t.invoice(&home, "i1", "approved").await;
        let one = t.close(&home, "i1").unclaimed().begins().await;
        let two = t.close(&home, "i1").unclaimed().begins().await;
        let worked = transact(t, ending(&two, work)).await;
        must!(worked, TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { .. }));
        texts.push(text);
        texts.sort();
        let worked = transact(t, ending(&one, late)).await;
        must!(worked, TransactOperationOutcome::Worked(FinishOperationOutcome::Stale(Some(_))));
        assert_eq!(written(t).await, texts);
        assert_eq!(one.status().await, OperationStatus::Pending);
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
    }
}

/// Work repeated after a lost acknowledgement is stored once.
pub(super) async fn work_sent_again_stands_once(t: &TestStore) {
    let mut expected = 0;
    for home in t.homes().await {
        let (Some(work), Some(again)) = (writing(t, "once", false), writing(t, "once", false)) else {
            return;
        };
        let held = t.closing(&home, "i1").await;
        let worked = transact(t, ending(&held, work)).await;
        must!(worked, TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { .. }));
        expected += 1;
        let worked = transact(t, ending(&held, again)).await;
        must!(worked, TransactOperationOutcome::Worked(FinishOperationOutcome::Again(_)));
        assert_eq!(written(t).await.len(), expected);
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
    }
}

/// S1.10: of concurrent payments one is credited.
pub(super) async fn of_payments_at_once_one_is_credited(t: &TestStore) {
    let mut expected = 0;
    for home in t.homes().await {
        if writing(t, "", false).is_none() {
            return;
        }
        t.invoice(&home, "i1", "approved").await;
        let mut payments = Vec::new();
        for n in 0..16 {
            let held = t.close(&home, "i1").unclaimed().begins().await;
            let work = writing(t, &format!("payment {n} {}", kind_in(&home)), false).expect("it has some");
            payments.push(ending(&held, work));
        }
        let outcomes = at_once(payments.into_iter().map(|payment| {
            let store = t.store.clone();
            async move { store.entity_store().unwrap().transact_operation(payment).await.unwrap() }
        }))
        .await;
        let credited = |outcome: &&TransactOperationOutcome| {
            matches!(outcome, TransactOperationOutcome::Worked(FinishOperationOutcome::Finished { .. }))
        };
        let stale = |outcome: &&TransactOperationOutcome| {
            matches!(outcome, TransactOperationOutcome::Worked(FinishOperationOutcome::Stale(Some(_))))
        };
        let counts = (outcomes.iter().filter(credited).count(), outcomes.iter().filter(stale).count());
        assert_eq!(counts, (1, 15), "{outcomes:?}");
        expected += 1;
        assert_eq!(written(t).await.len(), expected);
        assert_eq!(t.standing(&home, "i1").await, ("closed".into(), 2));
    }
}

/// A store without such transactions reports that.
pub(super) async fn a_store_without_transactions_says_so(t: &TestStore) {
    if writing(t, "", false).is_some() {
        return;
    }
    let held = t.closing(&EntityStorage::BuiltIn, "i1").await;
    let outcome = t.entities().transact_operation(ending(&held, Box::new(()))).await;
    must!(outcome, Err(StoreError::Refused(_)));
    assert_eq!(held.now().await, held.operation);
}
