//! Retention: purging superseded operations.

use hapax_engine::model::{
    EntityStorage, FinishOperationOutcome, OperationEnd, OperationId, OutboxState, WorkspaceId,
};
use hapax_engine::store::{OperationCursor, PurgeOperations, PurgeOperationsOutcome, RedeliverOutcome};

use crate::fixture::*;
use crate::must;

async fn purge(t: &TestStore, limit: usize, after: Option<OperationCursor>) -> PurgeOperationsOutcome {
    let request = PurgeOperations { ended_before: t.now(), after, limit };
    t.entities().purge_operations(request).await.unwrap()
}

/// Number of operations and after-effects that a full pass deletes.
async fn gone(t: &TestStore) -> (usize, usize) {
    let PurgeOperationsOutcome { operations, posts, next } = purge(t, 100, None).await;
    assert_eq!(next, None);
    (operations, posts)
}

async fn is_there(t: &TestStore, operation: &BegunOperation<'_>) -> bool {
    let workspace = &operation.operation.workspace;
    t.entities().find_operation(workspace, operation.id()).await.unwrap().is_some()
}

/// Invoices with so many finished reminders each, one second apart.
async fn reminded<'a>(
    t: &'a TestStore,
    home: &EntityStorage,
    id: &str,
    times: u64,
) -> Vec<BegunOperation<'a>> {
    t.invoice(home, id, "approved").await;
    let mut reminders = Vec::new();
    for version in 1..=times {
        let begin =
            t.close(home, id).step("remind").unclaimed().key(&format!("{id}-{version}")).seen(version);
        let reminder = begin.with(|request| request.to = name("approved")).begins().await;
        must!(reminder.done("1").await, FinishOperationOutcome::Finished { .. });
        t.pass(SECOND);
        reminders.push(reminder);
    }
    reminders
}

/// An operation is purged together with its key, which can then be reused. The newest operation of each step stays,
/// however old it is.
pub(super) async fn all_but_the_newest_of_a_step_go_with_their_keys(t: &TestStore) {
    for home in t.homes().await {
        let reminders = reminded(t, &home, "i1", 3).await;
        t.pass(HOUR);
        assert_eq!(gone(t).await, (2, 0));
        assert!(!is_there(t, &reminders[0]).await && !is_there(t, &reminders[1]).await);
        assert!(is_there(t, &reminders[2]).await);
        assert!(t.keyed_operation(&home, "i1-1").await.is_none());
        assert!(t.keyed_operation(&home, "i1-3").await.is_some());
        assert_eq!(gone(t).await, (0, 0), "once");
        let again = t.close(&home, "i1").step("remind").unclaimed().key("i1-1").seen(4);
        must!(again.begins().await.done("2").await, FinishOperationOutcome::Finished { .. });
        t.pass(SECOND);
        assert_eq!(gone(t).await, (1, 0), "now that is the newest");
    }
}

/// An operation of another step or entity does not supersede it, so a retry of the step still finds it.
pub(super) async fn only_a_newer_one_of_the_same_step_and_entity_takes_its_place(t: &TestStore) {
    for home in t.homes().await {
        reminded(t, &home, "i1", 1).await;
        reminded(t, &home, "i2", 1).await;
        let closed = t.close(&home, "i1").seen(2).begins().await;
        must!(closed.done("1").await, FinishOperationOutcome::Finished { .. });
        t.pass(HOUR);
        assert_eq!(gone(t).await, (0, 0));
    }
}

/// Only operations that ended before the instant are purged.
pub(super) async fn operations_that_ended_later_stay(t: &TestStore) {
    for home in t.homes().await {
        let reminders = reminded(t, &home, "i1", 3).await;
        let ended_at = reminders[1].now().await.state.at();
        let request = PurgeOperations { ended_before: ended_at, after: None, limit: 100 };
        assert_eq!(t.entities().purge_operations(request).await.unwrap().operations, 1);
        assert!(!is_there(t, &reminders[0]).await && is_there(t, &reminders[1]).await);
        assert_eq!(gone(t).await, (1, 0), "later it goes, too");
    }
}

/// A pending operation or one in doubt is never purged, however old it is and whatever began after it.
pub(super) async fn open_operations_stay(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let begin = t.close(&home, "i1").step("remind").unclaimed();
        let (pending, doubted) = (begin.begins().await, begin.again().begins().await);
        doubted.doubted().await;
        let newest = begin.again().begins().await;
        must!(newest.done("1").await, FinishOperationOutcome::Finished { .. });
        t.pass(HOUR);
        assert_eq!(gone(t).await, (0, 0));
        for operation in [&pending, &doubted, &newest] {
            assert!(is_there(t, operation).await);
        }
        pending.reverted().await;
        t.pass(SECOND);
        assert_eq!(gone(t).await, (1, 0), "given back is an end");
        assert!(!is_there(t, &pending).await && is_there(t, &doubted).await);
    }
}

/// Success and failure are purged alike, but the newest operation still tells whether the step may have happened.
pub(super) async fn failed_operations_are_purged_like_successful_ones(t: &TestStore) {
    for home in t.homes().await {
        let first = t.closing(&home, "i1").await;
        must!(first.finish(OperationEnd::Failed(failure())).await, FinishOperationOutcome::Finished { .. });
        let second = t.close(&home, "i1").seen(3).begins().await;
        must!(
            second.finish(OperationEnd::Rejected(failure())).await,
            FinishOperationOutcome::Finished { .. }
        );
        let third = t.close(&home, "i1").seen(5).begins().await;
        must!(third.finish(OperationEnd::Failed(failure())).await, FinishOperationOutcome::Finished { .. });
        t.pass(HOUR);
        assert_eq!(gone(t).await, (2, 0));
        assert!(is_there(t, &third).await);
    }
}

/// After-effects are purged with their operation. While one is undelivered, the operation and all of them stay.
pub(super) async fn after_effects_go_with_their_operation_once_they_are_settled(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let begin = t.close(&home, "i1").step("remind").unclaimed();
        let (told, newest) = (begin.begins().await, begin.again().begins().await);
        for operation in [&told, &newest] {
            // The step does not change the entity, so both can end.
            let mut end = operation.own_end(OperationEnd::Rejected(failure()));
            end.posts = vec![operation.post("mail"), operation.post("bank")];
            must!(operation.send(end).await, FinishOperationOutcome::Finished { .. });
        }
        t.pass(SECOND);
        assert_eq!(gone(t).await, (0, 0), "they are due");
        let claimed = t.claim_outbox(ANN, &[("mail", 10), ("bank", 10)]).await.posts;
        assert_eq!(claimed.len(), 4);
        let mine = |posts: &[hapax_engine::model::OutboxMessage], operation: &BegunOperation<'_>| {
            let (from, to) = hapax_engine::model::EffectKey::bounds_of_operation(operation.id());
            let fits = |post: &&hapax_engine::model::OutboxMessage| from < post.id && post.id < to;
            posts.iter().filter(fits).cloned().collect::<Vec<_>>()
        };
        let of_told = mine(&claimed, &told);
        t.delivered(&of_told[0]).await;
        assert_eq!(gone(t).await, (0, 0), "one is being delivered");
        // An abandoned after-effect is settled too.
        assert!(t.finish(&of_told[1], OutboxState::Dead { at: t.now() }).await);
        for post in mine(&claimed, &newest) {
            t.delivered(&post).await;
        }
        must!(t.redeliver(&of_told[0]).await, RedeliverOutcome::Due(_));
        assert_eq!(gone(t).await, (0, 0), "it is delivered again");
        let again = t.claim_outbox(ANN, &[("mail", 10), ("bank", 10)]).await.posts;
        assert_eq!(again.len(), 1);
        t.delivered(&again[0]).await;
        assert_eq!(gone(t).await, (1, 2));
        assert!(!is_there(t, &told).await);
        assert_eq!(mine(&t.posts().await, &newest).len(), 2, "those of the newest stay with it");
        assert_eq!(mine(&t.posts().await, &told), []);
    }
}

/// Notes about a purged operation stay with its entity.
pub(super) async fn notes_outlive_their_operation(t: &TestStore) {
    let reminders = reminded(t, &EntityStorage::BuiltIn, "i1", 2).await;
    let remark = reminders[0].remark("seen");
    t.entities().append_entity_journal(vec![remark.clone()]).await.unwrap();
    t.pass(HOUR);
    assert_eq!(gone(t).await, (1, 0));
    assert_eq!(t.noted_on(&EntityStorage::BuiltIn, "i1").await, [remark.what]);
}

/// A pass is bounded, covers all workspaces in the order of their names, and returns where to continue.
pub(super) async fn a_pass_is_bounded_and_goes_on_where_it_stopped(t: &TestStore) {
    let mut all: Vec<(WorkspaceId, OperationId)> = Vec::new();
    for workspace in ["default", "abroad"] {
        let workspace = WorkspaceId::new(workspace).unwrap();
        let created = hapax_engine::store::NewEntity {
            workspace: workspace.clone(),
            entity: entity_in(&EntityStorage::BuiltIn, "i1"),
            status: name("approved"),
            data: json("{}"),
        };
        must!(t.entities().create_entity(created).await, Ok(_));
        for _ in 0..3 {
            let begin = t
                .close(&EntityStorage::BuiltIn, "i1")
                .step("remind")
                .unclaimed()
                .workspace(workspace.as_str());
            let operation = begin.begins().await;
            must!(
                operation.finish(OperationEnd::Rejected(failure())).await,
                FinishOperationOutcome::Finished { .. }
            );
            all.push((workspace.clone(), operation.id()));
        }
    }
    t.pass(HOUR);
    all.sort();
    let place = |n: usize| Some(OperationCursor { workspace: all[n].0.clone(), operation: all[n].1 });
    let first = purge(t, 2, None).await;
    assert_eq!(first, PurgeOperationsOutcome { operations: 2, posts: 0, next: place(1) });
    let second = purge(t, 2, first.next).await;
    // The newest in the other workspace stays, and an older one there is purged.
    assert_eq!(second, PurgeOperationsOutcome { operations: 1, posts: 0, next: place(3) });
    let third = purge(t, 2, second.next).await;
    assert_eq!(third, PurgeOperationsOutcome { operations: 1, posts: 0, next: None });
    assert_eq!(purge(t, 0, None).await.next, place(2), "at least one is looked at");
    assert_eq!(purge(t, 100, place(5)).await, PurgeOperationsOutcome::default(), "after the last is nothing");
}
