//! Concurrent callers on one entity: one wins, and the others learn of it.

use hapax_engine::model::{
    BeginOperationOutcome, EntityStorage, FinishBy, FinishOperation, FinishOperationOutcome, Operation,
    OperationEnd, OperationStatus,
};
use hapax_engine::store::{CreateEntityOutcome, NewEntity};

use crate::fixture::*;
use crate::must;

async fn begin_at_once(t: &TestStore, begins: Vec<BeginBuilder<'_>>) -> Vec<BeginOperationOutcome> {
    at_once(begins.into_iter().map(|begin| {
        let (store, request) = (t.store.clone(), begin.request());
        async move { store.entity_store().unwrap().begin_operation(request).await.unwrap() }
    }))
    .await
}

async fn finish_at_once(t: &TestStore, ends: Vec<FinishOperation>) -> Vec<FinishOperationOutcome> {
    at_once(ends.into_iter().map(|end| {
        let store = t.store.clone();
        async move { store.entity_store().unwrap().finish_operation(end).await.unwrap() }
    }))
    .await
}

/// Returns the operation that began, and checks every other outcome with `others`.
fn one_winner(
    outcomes: Vec<BeginOperationOutcome>,
    others: impl Fn(&Operation, &BeginOperationOutcome) -> bool,
) -> Operation {
    let mut won = outcomes.iter().filter_map(|outcome| match outcome {
        BeginOperationOutcome::Begun { operation, .. } => Some((**operation).clone()),
        _ => None,
    });
    let winner = won.next().expect("one wins");
    assert!(won.next().is_none(), "one wins: {outcomes:#?}");
    for outcome in outcomes.iter().filter(|outcome| !matches!(outcome, BeginOperationOutcome::Begun { .. })) {
        assert!(others(&winner, outcome), "{outcome:?}");
    }
    winner
}

/// S1.3, S1.25 to S1.27, S1.60: of 500 callers one runs the action, and 499 learn which operation is in progress.
pub(super) async fn of_500_callers_one_wins(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let outcomes = begin_at_once(t, (0..500).map(|_| t.close(&home, "i1")).collect()).await;
        let winner = one_winner(
            outcomes,
            |winner, other| matches!(other, BeginOperationOutcome::ClaimFailed(Some(found)) if found.id == winner.id),
        );
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [winner.id]);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
    }
}

/// S2.13, S2.44: of 100 double clicks one runs the action, and the others get its operation.
pub(super) async fn of_100_callers_with_one_key_one_wins(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let outcomes = begin_at_once(t, (0..100).map(|_| t.close(&home, "i1").key("k")).collect()).await;
        let winner = one_winner(
            outcomes,
            |winner, other| matches!(other, BeginOperationOutcome::Recorded(found) if **found == *winner),
        );
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [winner.id]);
        assert_eq!(t.keyed_operation(&home, "k").await, Some(winner));
    }
}

/// Without a claim, one key still begins only one operation.
pub(super) async fn of_unclaimed_operations_with_one_key_one_begins(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let begins = (0..50).map(|_| t.close(&home, "i1").unclaimed().key("k")).collect();
        let winner = one_winner(
            begin_at_once(t, begins).await,
            |winner, other| matches!(other, BeginOperationOutcome::Recorded(found) if **found == *winner),
        );
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [winner.id]);
    }
}

/// S2.12: of different requests under one key one wins. Identical requests find it, and the others conflict.
pub(super) async fn of_different_requests_with_one_key_one_wins(t: &TestStore) {
    for home in t.homes().await {
        for id in ["i0", "i1", "i2", "i3"] {
            t.invoice(&home, id, "approved").await;
        }
        let begins = (0..64).map(|n| t.close(&home, &format!("i{}", n % 4)).key("k")).collect();
        let winner = one_winner(begin_at_once(t, begins).await, |winner, other| match other {
            BeginOperationOutcome::Recorded(found) => found.id == winner.id,
            BeginOperationOutcome::KeyConflict(found) => found.id == winner.id,
            _ => false,
        });
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [winner.id]);
        let claimed =
            hapax_engine::store::ListEntities { status: Some(name("closing")), ..t.all_invoices(&home) };
        assert_eq!(t.entity_ids(claimed).await, [winner.entity.id.as_str()], "the others are not touched");
    }
}

/// One request sent many times concurrently begins one operation.
pub(super) async fn one_beginning_sent_many_times_is_one(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1");
        let outcomes = begin_at_once(t, vec![close.clone(); 32]).await;
        for outcome in outcomes {
            assert_eq!(begun(outcome).id, close.id());
        }
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 2));
        assert_eq!(t.operation_ids(t.all_operations(&home)).await, [close.id()]);
    }
}

/// Of many concurrent retries of a reverted operation, one succeeds, as one attempt.
pub(super) async fn of_those_who_try_again_one_does(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let close = t.close(&home, "i1").key("k");
        close.begins().await.reverted().await;
        let outcomes = begin_at_once(t, (0..50).map(|_| close.again().seen(3)).collect()).await;
        let mut attempts = 0;
        for outcome in outcomes {
            match outcome {
                BeginOperationOutcome::Begun { operation, .. } if operation.attempt == 2 => attempts += 1,
                BeginOperationOutcome::Recorded(found) if found.attempt == 2 => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(attempts, 1);
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
        assert_eq!(t.standing(&home, "i1").await, ("closing".into(), 4));
    }
}

/// Operations on different entities do not block each other.
pub(super) async fn operations_on_many_entities_all_go_on(t: &TestStore) {
    for home in t.homes().await {
        let mut begins = Vec::new();
        for n in 0..64 {
            t.invoice(&home, &format!("i{n}"), "approved").await;
            begins.push(t.close(&home, &format!("i{n}")));
        }
        let held: Vec<Operation> = begin_at_once(t, begins).await.into_iter().map(begun).collect();
        let ends = held.iter().map(|operation| FinishOperation {
            workspace: operation.workspace.clone(),
            operation: operation.id,
            attempt: 1,
            by: FinishBy::Holder(ANN),
            end: done("1"),
            tries: None,
            posts: Vec::new(),
            notes: Vec::new(),
        });
        for finished in finish_at_once(t, ends.collect()).await {
            must!(finished, FinishOperationOutcome::Finished { .. });
        }
    }
}

/// S1.6: of many unclaimed operations that finish concurrently, one wins and the others fail cleanly.
pub(super) async fn of_unclaimed_ends_one_wins(t: &TestStore) {
    for home in t.homes().await {
        t.invoice(&home, "i1", "approved").await;
        let mut ends = Vec::new();
        for _ in 0..32 {
            let held = t.close(&home, "i1").unclaimed().begins().await;
            let notes = vec![held.remark("won")];
            ends.push(FinishOperation { notes, ..held.own_end(done("1")) });
        }
        let outcomes = finish_at_once(t, ends).await;
        let won = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, FinishOperationOutcome::Finished { .. }))
            .count();
        let stale = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, FinishOperationOutcome::Stale(Some(_))))
            .count();
        assert_eq!((won, stale), (1, 31), "{outcomes:?}");
        assert_eq!(t.standing(&home, "i1").await, ("closed".into(), 2));
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
    }
}

/// One end sent many times concurrently is written once.
pub(super) async fn one_end_sent_many_times_is_written_once(t: &TestStore) {
    for home in t.homes().await {
        let held = t.closing(&home, "i1").await;
        let end = FinishOperation {
            posts: vec![held.post("mail")],
            notes: vec![held.remark("once")],
            ..held.own_end(done("1"))
        };
        let outcomes = finish_at_once(t, vec![end; 32]).await;
        let wrote = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, FinishOperationOutcome::Finished { .. }))
            .count();
        let again =
            outcomes.iter().filter(|outcome| matches!(outcome, FinishOperationOutcome::Again(_))).count();
        assert_eq!((wrote, again), (1, 31), "{outcomes:?}");
        assert_eq!(t.standing(&home, "i1").await, ("closed".into(), 3));
        assert_eq!(t.noted_on(&home, "i1").await.len(), 1);
    }
}

/// G1.2: an end that races with janitors has one outcome: finished or reverted.
pub(super) async fn an_end_races_with_janitors(t: &TestStore) {
    for home in t.homes().await {
        for n in 0..20 {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            t.pass(SECOND);
            let sweep = held.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted);
            let mut ends = vec![sweep; 4];
            ends.insert(n % 5, held.own_end(done("1")));
            let mut outcomes = finish_at_once(t, ends).await;
            let own = outcomes.remove(n % 5);
            let swept = |outcome: &&FinishOperationOutcome| {
                matches!(outcome, FinishOperationOutcome::Finished { .. })
            };
            let (status, by_janitor) = match own {
                FinishOperationOutcome::Finished { .. } => ("closed", 0),
                FinishOperationOutcome::Lost(Some(found))
                    if found.state.status() == OperationStatus::Reverted =>
                {
                    ("approved", 1)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(outcomes.iter().filter(swept).count(), by_janitor, "{outcomes:?}");
            assert_eq!(t.standing(&home, &id).await, (status.into(), 3));
        }
    }
}

/// G1.2: a heartbeat that races with the janitor is recorded, or its sender learns that it lost the claim.
pub(super) async fn a_heartbeat_races_with_the_janitor(t: &TestStore) {
    for home in t.homes().await {
        for n in 0..20 {
            let id = format!("i{n}");
            let held = t.closing(&home, &id).await;
            t.pass(SECOND);
            let sweep = held.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted);
            let (store, own) = (t.store.clone(), held.held());
            let hearing = tokio::spawn(async move {
                store.entity_store().unwrap().heartbeat_operations(ANN, vec![own]).await.unwrap()
            });
            let swept = held.send(sweep).await;
            let is_lost = !hearing.await.unwrap().is_empty();
            match swept {
                FinishOperationOutcome::Finished { .. }
                    if is_lost || held.status().await == OperationStatus::Reverted => {}
                FinishOperationOutcome::Lost(Some(_)) if !is_lost => {
                    assert_eq!(held.status().await, OperationStatus::Pending)
                }
                other => panic!("{other:?}, and lost: {is_lost}"),
            }
        }
    }
}

/// S1.40: an operation that races with the janitor finds the entity claimed or free.
pub(super) async fn a_beginning_races_with_the_janitor(t: &TestStore) {
    for home in t.homes().await {
        for n in 0..20 {
            let id = format!("i{n}");
            let dead = t.closing(&home, &id).await;
            t.pass(SECOND);
            let sweep = dead.end(FinishBy::Janitor { unheard_since: t.now() }, OperationEnd::Reverted);
            let store = t.store.clone();
            let sweeping =
                tokio::spawn(
                    async move { store.entity_store().unwrap().finish_operation(sweep).await.unwrap() },
                );
            let outcomes =
                begin_at_once(t, (0..4).map(|_| t.close(&home, &id).seen(3).owner(BOB)).collect()).await;
            must!(sweeping.await.unwrap(), FinishOperationOutcome::Finished { .. });
            let mut begun = Vec::new();
            for outcome in outcomes {
                match outcome {
                    BeginOperationOutcome::Begun { operation, .. } => begun.push(operation.id),
                    BeginOperationOutcome::ClaimFailed(Some(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
            let standing = t.standing(&home, &id).await;
            match begun.as_slice() {
                [] => assert_eq!(standing, ("approved".into(), 3)),
                [_] => assert_eq!(standing, ("closing".into(), 4)),
                more => panic!("{more:?}"),
            }
        }
    }
}

/// A sweep for stray rows never reverts a row while an operation claims it.
pub(super) async fn a_beginning_races_with_the_sweep_for_strays(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    for n in 0..20 {
        let id = format!("i{n}");
        t.invoice(&home, &id, "approved").await;
        let strays = t.strays(t.now().plus(HOUR));
        let store = t.store.clone();
        let sweeping =
            tokio::spawn(async move { store.entity_store().unwrap().revert_strays(strays).await.unwrap() });
        let held = t.close(&home, &id).begins().await;
        assert_eq!(sweeping.await.unwrap(), []);
        assert_eq!(t.standing(&home, &id).await, ("closing".into(), 2));
        must!(held.done("1").await, FinishOperationOutcome::Finished { .. });
    }
}

/// Concurrent sweeps revert each stray row once.
pub(super) async fn sweeps_at_once_give_each_stray_back_once(t: &TestStore) {
    let Some(home) = t.homes().await.into_iter().find(is_table) else { return };
    for n in 0..30 {
        t.put_row(&format!("i{n:02}"), "closing", 1).await;
    }
    t.pass(SECOND);
    let reverted = at_once((0..8).map(|_| {
        let (store, strays) = (t.store.clone(), t.strays(t.now()));
        async move { store.entity_store().unwrap().revert_strays(strays).await.unwrap() }
    }))
    .await;
    let mut all: Vec<String> = reverted.into_iter().flatten().map(|id| id.to_string()).collect();
    all.sort();
    assert_eq!(all, (0..30).map(|n| format!("i{n:02}")).collect::<Vec<_>>());
    for id in &all {
        assert_eq!(t.standing(&home, id).await, ("approved".into(), 2));
        assert_eq!(t.noted_on(&home, id).await.len(), 1);
    }
}

/// Of many callers that create one entity concurrently, one succeeds.
pub(super) async fn of_those_who_make_one_entity_one_does(t: &TestStore) {
    let outcomes = at_once((0..32).map(|n| {
        let store = t.store.clone();
        let new = NewEntity {
            workspace: Default::default(),
            entity: entity_in(&EntityStorage::BuiltIn, "i1"),
            status: name("approved"),
            data: json(&format!(r#"{{"n":{n}}}"#)),
        };
        async move { store.entity_store().unwrap().create_entity(new).await.unwrap() }
    }))
    .await;
    let now = t.entity(&EntityStorage::BuiltIn, "i1").await;
    let made =
        outcomes.iter().filter(|outcome| **outcome == CreateEntityOutcome::Created(now.clone())).count();
    let found =
        outcomes.iter().filter(|outcome| **outcome == CreateEntityOutcome::Exists(now.clone())).count();
    assert_eq!((made, found), (1, 31), "{outcomes:?}");
}
