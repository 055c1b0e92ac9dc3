//! Concurrent requests under one key and concurrent changes of one item: one wins, and the others learn of it.

use hapax_engine::model::{BeginOutcome, RequestState};
use hapax_engine::store::{KeyUsageDelta, PutOutcome};

use crate::fixture::*;
use crate::must;

async fn begin_at_once(t: &TestStore, asks: Vec<Ask<'_>>) -> Vec<BeginOutcome> {
    at_once(asks.into_iter().map(|ask| {
        let (store, request) = (t.store.clone(), ask.request());
        async move { store.request_key_store().unwrap().begin_request(request).await.unwrap() }
    }))
    .await
}

async fn put_at_once(t: &TestStore, drafts: Vec<CatalogItemBuilder<'_>>) -> Vec<PutOutcome> {
    at_once(drafts.into_iter().map(|draft| {
        let (store, request) = (t.store.clone(), draft.request());
        async move { store.catalog().unwrap().put_item(request).await.unwrap() }
    }))
    .await
}

/// S2.13, S2.33: of 50 identical requests one begins and the others wait, even in a new workspace.
pub(super) async fn of_identical_requests_one_begins(t: &TestStore) {
    for workspace in ["default", "new", "newer"] {
        let first = t.ask("k").workspace(workspace);
        let begun = begin_at_once(t, (0..50).map(|_| first.again()).collect()).await;
        let yours: Vec<_> = begun
            .iter()
            .filter_map(|begun| match begun {
                BeginOutcome::Acquired { id, is_taken_over: false } => Some(*id),
                BeginOutcome::InFlight { .. } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(yours, [first.record().await.id]);
    }
}

/// S2.12: of different requests under one key one begins, identical ones wait, and the others are refused.
pub(super) async fn of_different_requests_one_begins(t: &TestStore) {
    let asks: Vec<_> = (0..32).map(|n| t.ask("k").amount(n % 4)).collect();
    let begun = begin_at_once(t, asks).await;
    let winner = t.ask("k").record().await;
    let mut counts = [0; 3];
    for begun in begun {
        match begun {
            BeginOutcome::Acquired { id, is_taken_over: false } if id == winner.id => counts[0] += 1,
            BeginOutcome::InFlight { .. } => counts[1] += 1,
            BeginOutcome::Conflict(found) if found == winner => counts[2] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [1, 7, 24]);
}

/// Of many takeovers of an abandoned request one succeeds, under the same operation.
pub(super) async fn of_takeovers_one_wins(t: &TestStore) {
    let first = t.ask("k").begin().await;
    t.pass(HOLD);
    let begun = begin_at_once(t, (0..32).map(|_| first.again()).collect()).await;
    let taken =
        |begun: &&BeginOutcome| **begun == BeginOutcome::Acquired { id: first.id(), is_taken_over: true };
    assert_eq!(begun.iter().filter(taken).count(), 1, "{begun:?}");
    assert_eq!(begun.iter().filter(|begun| matches!(begun, BeginOutcome::InFlight { .. })).count(), 31);
}

/// A key that is free again goes to one of the callers that ask for it.
pub(super) async fn a_free_key_is_given_to_one(t: &TestStore) {
    let first = t.answered("k").await;
    t.pass(KEEP + GRACE);
    let begun = begin_at_once(t, (0..32).map(|_| first.again()).collect()).await;
    let yours = |begun: &&BeginOutcome| matches!(begun, BeginOutcome::Acquired { is_taken_over: false, .. });
    assert_eq!(begun.iter().filter(yours).count(), 1, "{begun:?}");
    assert_eq!(begun.iter().filter(|begun| matches!(begun, BeginOutcome::InFlight { .. })).count(), 31);
}

/// Requests under different keys do not block each other.
pub(super) async fn requests_under_many_keys_are_all_worked_on(t: &TestStore) {
    let asks: Vec<_> = (0..64).map(|n| t.ask(&format!("k{n}"))).collect();
    let begun = begin_at_once(t, asks.clone()).await;
    assert!(begun.iter().all(|begun| matches!(begun, BeginOutcome::Acquired { .. })), "{begun:?}");
    let ends = at_once(asks.iter().map(|ask| {
        let (store, end) = (t.store.clone(), ask.end(kept(answer(b"{}"))));
        async move { store.request_key_store().unwrap().finish_request(end).await.unwrap() }
    }));
    assert_eq!(ends.await, [true; 64]);
    for begun in begin_at_once(t, asks.iter().map(Ask::again).collect()).await {
        replayed(begun);
    }
}

/// An end sent several times concurrently counts once.
pub(super) async fn of_ends_of_one_request_one_counts(t: &TestStore) {
    let ask = t.ask("k").begin().await;
    let ends = at_once((0..32u8).map(|n| {
        let (store, end) = (t.store.clone(), ask.end(kept(answer(&[n]))));
        async move { (n, store.request_key_store().unwrap().finish_request(end).await.unwrap()) }
    }))
    .await;
    let counted: Vec<u8> = ends.into_iter().filter_map(|(n, counts)| counts.then_some(n)).collect();
    let state = ask.record().await.state;
    must!(state, RequestState::Answered { answer: kept, .. } if counted.len() == 1 && kept == answer(&counted));
}

/// Concurrent counts add up.
pub(super) async fn counts_that_come_at_once_are_all_added(t: &TestStore) {
    let asks = [t.ask("a").begin().await, t.ask("b").begin().await];
    t.order().key("k").start().await;
    at_once((0..32).map(|n| {
        let mut places = vec![asks[0].place(), asks[1].place(), run_key("k")];
        if n % 2 == 0 {
            places.reverse();
        }
        let counts = places.into_iter().map(|place| KeyUsageDelta { place, uses: uses(1, 2) }).collect();
        let store = t.store.clone();
        async move { store.request_key_store().unwrap().add_key_usage(counts).await.unwrap() }
    }))
    .await;
    for place in [asks[0].place(), asks[1].place(), run_key("k")] {
        assert_eq!(t.uses(&place).await, uses(32, 64));
    }
}

/// Of concurrent puts that expect no item one creates it, and the others find it. The journal has one entry.
pub(super) async fn of_puts_of_one_item_one_makes_it(t: &TestStore) {
    for workspace in ["default", "new"] {
        let draft = |n: i32| t.item(workspace, "payout").workspace(workspace).body(&n.to_string());
        let outcomes = put_at_once(t, (0..50).map(|n| draft(n).note(t.noted("made"))).collect()).await;
        let made: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, PutOutcome::Put(_))).collect();
        let item = must!(made.as_slice(), [PutOutcome::Put(item)] => item);
        let exists = PutOutcome::Exists(item.clone());
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == exists).count(), 49, "{outcomes:?}");
    }
    assert_eq!(t.notes().await.len(), 2);
}

/// Of several items with one name, one is stored.
pub(super) async fn of_items_with_one_name_one_is_made(t: &TestStore) {
    let outcomes = put_at_once(t, (0..32).map(|n| t.item(&format!("d{n}"), "payout")).collect()).await;
    let winner = t.find_named("payout").await.unwrap();
    let made = outcomes.iter().filter(|outcome| **outcome == PutOutcome::Put(winner.clone())).count();
    let taken = outcomes.iter().filter(|outcome| **outcome == PutOutcome::NameTaken(winner.clone())).count();
    assert_eq!((made, taken), (1, 31), "{outcomes:?}");
    assert_eq!(t.list_ids(all_items()).await.len(), 1);
}

/// Of concurrent puts over one version one takes effect, and the others learn which.
pub(super) async fn of_puts_over_one_version_one_takes_effect(t: &TestStore) {
    t.item("d1", "payout").put().await;
    for version in 1..4 {
        let draft = |n: i32| t.item("d1", "payout").over(version).body(&n.to_string());
        let outcomes = put_at_once(t, (0..32).map(draft).collect()).await;
        let now = t.find_item("d1").await.unwrap();
        assert_eq!(now.version.get(), version + 1);
        let put = outcomes.iter().filter(|outcome| **outcome == PutOutcome::Put(now.clone())).count();
        let stale = outcomes.iter().filter(|outcome| **outcome == PutOutcome::Stale(now.clone())).count();
        assert_eq!((put, stale), (1, 31), "{outcomes:?}");
    }
}
