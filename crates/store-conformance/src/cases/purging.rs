//! Retention: purging runs and keys.

use hapax_engine::model::{RunHead, RunId};
use hapax_engine::store::{Purge, PurgeOutcome, SettleOutcome, SignalOutcome};

use crate::fixture::*;
use crate::must;

async fn closed(t: &TestStore) -> RunHead {
    let held = t.driven().await;
    t.write(&held).await.does("charge").completes("1").done().await
}

async fn purge(t: &TestStore, limit: usize, after: Option<RunId>) -> PurgeOutcome {
    let request = Purge { runs_closed_before: Some(t.now()), after, limit };
    t.store.purge(request).await.unwrap()
}

/// Invariant 60: a run is purged with its records, history, promises and signals.
pub(super) async fn an_old_closed_run_goes_with_all_its_rows(t: &TestStore) {
    let held = t.driven().await;
    let held = t.write(&held).await.does("charge").awaits_promise("payment", None).done().await;
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::Stored { .. });
    let held = t.head(&held).await;
    t.write(&held).await.gives_up("payment").completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await, PurgeOutcome { keys: 0, early: 0, runs: 1, next: None });
    assert!(t.find(&held).await.is_none());
    assert!(t.store.find_log(&held.facts.workspace, held.id()).await.unwrap().is_none());
    assert!(t.events(&held).await.is_empty());
    assert!(t.list(10, None).await.runs.is_empty());
    must!(t.settle(&held, "payment", "1").await, SettleOutcome::NoSuchPromise);
    must!(t.signal_as(&held, "go", "s1").await, SignalOutcome::NoSuchRun);
}

/// A run is purged only if it closed before the given instant. An open run is never purged.
pub(super) async fn only_what_closed_before_goes(t: &TestStore) {
    let old = closed(t).await;
    let open = t.pending().await;
    t.pass(SECOND);
    let young = closed(t).await;
    let paused = t.pending().await;
    t.steered(&paused, hapax_engine::model::RunCommand::Pause).await;
    assert_eq!(t.purge().await.runs, 1);
    assert!(t.find(&old).await.is_none());
    for kept in [&open, &young, &paused] {
        assert!(t.find(kept).await.is_some());
    }
}

/// Without an instant, no run is purged.
pub(super) async fn without_an_instant_only_keys_go(t: &TestStore) {
    let held = t.order().key("k").keep_key_for(SECOND).granted_to(ANN).start().await;
    t.write(&held).await.completes("1").done().await;
    t.pass(HOUR);
    let request = Purge { runs_closed_before: None, after: None, limit: 10 };
    assert_eq!(
        t.store.purge(request).await.unwrap(),
        PurgeOutcome { keys: 1, early: 0, runs: 0, next: None }
    );
    assert!(t.find(&held).await.is_some());
}

/// A child is kept while its parent is open, because the parent may not have read its result.
pub(super) async fn a_child_stays_while_its_parent_is_open(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").granted_to(BOB);
    let parent = t.write(&parent).await.awaits_child("ship", &order).done().await;
    let child = order.start().await;
    t.write(&child).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 0);
    assert_eq!(t.log(&parent).await.children, [(child.id(), Some(completed("1")))]);
    let parent = t.head(&parent).await;
    t.write(&parent).await.gets("ship").completes("1").done().await;
    assert_eq!(t.purge().await.runs, 1, "the parent ended only now");
    assert!(t.find(&child).await.is_none());
}

/// A child is purged even if its parent was purged first.
pub(super) async fn a_child_goes_after_its_parent(t: &TestStore) {
    let parent = t.driven().await;
    let order = t.child_of(&parent, "ship").abandoned().granted_to(BOB);
    let parent = t.write(&parent).await.awaits_child("ship", &order).done().await;
    let child = order.start().await;
    t.write(&parent).await.gives_up("ship").completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    t.write(&child).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    assert!(t.find(&child).await.is_none());
}

/// Invariant 61: a purge is bounded, goes in the order of ids, and returns where to continue.
pub(super) async fn a_purge_is_bounded_and_says_where_to_go_on(t: &TestStore) {
    let mut runs = Vec::new();
    for n in 0..5 {
        runs.push(if n == 1 { t.pending().await } else { closed(t).await });
    }
    t.pass(SECOND);
    assert_eq!(
        purge(t, 2, None).await,
        PurgeOutcome { keys: 0, early: 0, runs: 1, next: Some(runs[1].id()) }
    );
    assert_eq!(
        purge(t, 2, Some(runs[1].id())).await,
        PurgeOutcome { keys: 0, early: 0, runs: 2, next: Some(runs[3].id()) }
    );
    assert_eq!(
        purge(t, 2, Some(runs[3].id())).await,
        PurgeOutcome { keys: 0, early: 0, runs: 1, next: None }
    );
    assert_eq!(purge(t, 2, None).await, PurgeOutcome::default());
    assert_eq!(t.list(10, None).await.runs.len(), 1);
}

/// A pass that ends exactly at its limit reports the end.
pub(super) async fn a_purge_that_just_fits_has_reached_the_end(t: &TestStore) {
    closed(t).await;
    closed(t).await;
    t.pass(SECOND);
    assert_eq!(purge(t, 2, None).await, PurgeOutcome { keys: 0, early: 0, runs: 2, next: None });
}

/// S4.28, invariant 8: only expired keys are purged, the earliest expiry first.
pub(super) async fn expired_keys_go_the_longest_expired_first(t: &TestStore) {
    for (key, hours) in [("c", 1), ("a", 2), ("b", 2), ("d", 9)] {
        let held = t.order().key(key).keep_key_for(hours * HOUR).granted_to(ANN).start().await;
        t.write(&held).await.completes("1").done().await;
    }
    t.order().key("open").keep_key_for(SECOND).start().await;
    t.pass(2 * HOUR);
    let request = Purge { runs_closed_before: None, after: None, limit: 1 };
    for gone in ["c", "a", "b"] {
        assert!(t.key(gone).await.is_some());
        assert_eq!(t.store.purge(request.clone()).await.unwrap().keys, 1);
        assert!(t.key(gone).await.is_none(), "{gone}");
    }
    assert_eq!(t.store.purge(request).await.unwrap().keys, 0);
    assert!(t.key("d").await.is_some() && t.key("open").await.is_some());
}

/// A purged run cannot be claimed or found by a start. Only a starter that draws the same id by chance could reuse it.
pub(super) async fn a_purged_run_leaves_no_trace_in_claims(t: &TestStore) {
    let subject = t.order().subject("s").granted_to(ANN).start().await;
    t.write(&subject).await.completes("1").done().await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    t.pass(1000 * HOUR);
    let claimed = t.claim_upto(10, BOB).await;
    assert!(claimed.runs.is_empty() && claimed.next_wake_at.is_none());
    assert_eq!(t.renew(ANN, &[&subject]).await, [subject.id()]);
    t.order().subject("s").start().await;
}
