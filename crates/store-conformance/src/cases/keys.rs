//! Keys: the run that each one names, and for how long.

use std::time::Duration;

use hapax_engine::model::{
    IdempotencyKey, KeyKind, KeyRecord, KeyTarget, RunHead, RunStatus, Timestamp, WorkspaceId,
};
use hapax_engine::store::{StartOutcome, StoredKey};

use crate::fixture::*;
use crate::must;

const MOMENT: Duration = Duration::from_millis(1);

/// S0.10, G3.3, S0.5, S0.11, S0.12, invariant 9: the same key returns the same run in its current state.
pub(super) async fn the_same_key_finds_the_same_run(t: &TestStore) {
    let first = t.order().key("process-order-789").start().await;
    must!(t.order().key("process-order-789").send().await, StartOutcome::Existing(run) if run == first);
    let claimed = t.claim_one(ANN).await;
    must!(t.order().key("process-order-789").send().await, StartOutcome::Existing(run) if run == claimed);
    assert_eq!(t.list(10, None).await.runs.len(), 1, "no second run was made");
}

/// S0.12: every start without a key creates a new run.
pub(super) async fn without_a_key_every_start_is_a_new_run(t: &TestStore) {
    let (first, second) = (t.pending().await, t.pending().await);
    assert_ne!(first.id(), second.id());
}

/// S2.12, S2.32, G0.2, invariant 10: the same key with a different request is refused and changes nothing.
pub(super) async fn a_key_with_another_input_is_a_conflict(t: &TestStore) {
    let first = t.order().key("k").input(r#"{"amount":1}"#).start().await;
    let seen_at = t.now();
    t.pass(SECOND);
    let second = t.order().key("k").input(r#"{"amount":2}"#);
    let conflict = must!(second.send().await,
        StartOutcome::KeyConflict { run, first_seen_at, fingerprint } => (run, first_seen_at, Some(fingerprint)));
    assert_eq!(conflict, (first.id(), seen_at, first.facts.fingerprint));
    must!(
        t.order().key("k").workflow("refund", 1).input(r#"{"amount":1}"#).send().await,
        StartOutcome::KeyConflict { .. }
    );
    assert_eq!(t.list(10, None).await.runs.len(), 1);
    assert_eq!(t.head(&first).await, first);
}

/// S0.9, invariant 14: keys are scoped to a workspace.
pub(super) async fn the_same_key_in_two_workspaces_is_two_keys(t: &TestStore) {
    let here = t.order().key("k").input("1").start().await;
    let there = t.order().key("k").workspace("abroad").input("2").start().await;
    assert_ne!(here.id(), there.id());
    let key = IdempotencyKey::new("k").unwrap();
    let abroad = WorkspaceId::new("abroad").unwrap();
    let record = t.store.find_key(&abroad, KeyKind::Run, &key).await.unwrap().unwrap();
    assert_eq!(record.run(), Some(there.id()));
    assert_eq!(t.key("k").await.unwrap().run(), Some(here.id()));
}

/// A key's record can be read.
pub(super) async fn a_key_says_what_it_stands_for(t: &TestStore) {
    let run = t.order().key("k").start().await;
    let fingerprint = run.facts.fingerprint.unwrap();
    let record = KeyRecord {
        target: KeyTarget::Run { run: run.id(), fingerprint },
        first_seen_at: t.now(),
        expires_at: None,
    };
    t.pass(SECOND);
    must!(t.order().key("k").send().await, StartOutcome::Existing(_));
    assert_eq!(t.key("k").await, Some(record));
}

/// Keys are compared byte by byte.
pub(super) async fn keys_are_compared_exactly(t: &TestStore) {
    for key in ["k", "K", "k ", " k", "k%", "k_", "k:1", "k:2", "k\\", "k'"] {
        t.order().key(key).start().await;
    }
    assert_eq!(t.list(100, None).await.runs.len(), 10);
}

/// Invariant 8, lesson 7: the key of an open run never expires.
pub(super) async fn a_key_never_expires_while_its_run_is_open(t: &TestStore) {
    let run = t.order().key("k").keep_key_for(SECOND).granted_to(ANN).start().await;
    t.write(&run).await.awaits_signal("go").parks().done().await;
    t.pass(10_000 * HOUR);
    assert_eq!(t.purge().await.keys, 0);
    must!(t.order().key("k").send().await, StartOutcome::Existing(found) if found.id() == run.id());
}

async fn completed_run(t: &TestStore, key: &str) -> RunHead {
    let run = t.order().key(key).keep_key_for(HOUR).release_key_on_failure().granted_to(ANN).start().await;
    t.pass(SECOND);
    t.write(&run).await.does("charge").completes("1").done().await
}

/// G0.3, S2.23, S2.24, S4.27, invariant 8: after the end of the run and its retention, the key can be used again.
pub(super) async fn a_key_outlives_its_run_by_its_retention(t: &TestStore) {
    let run = completed_run(t, "k").await;
    assert_eq!(t.key("k").await.unwrap().expires_at, Some(t.now().plus(HOUR)));
    t.pass(HOUR - MOMENT);
    must!(t.order().key("k").input("2").send().await, StartOutcome::KeyConflict { .. });
    must!(t.order().key("k").send().await, StartOutcome::Existing(found) if found == run);
    t.pass(MOMENT);
    let next = t.order().key("k").input("2").start().await;
    let record = t.key("k").await.unwrap();
    assert_eq!((record.run(), record.first_seen_at, record.expires_at), (Some(next.id()), t.now(), None));
    assert_eq!(t.head(&run).await, run, "the old run is not touched");
}

/// CONTRACT 4: a key without a retention never expires.
pub(super) async fn a_key_without_a_retention_never_expires(t: &TestStore) {
    let run = t.order().key("k").granted_to(ANN).start().await;
    let run = t.write(&run).await.completes("1").done().await;
    t.pass(100_000 * HOUR);
    assert_eq!(t.key("k").await.unwrap().expires_at, None);
    must!(t.order().key("k").send().await, StartOutcome::Existing(found) if found == run);
}

/// CONTRACT 4: a failed run keeps its key unless declared otherwise.
pub(super) async fn a_failed_run_keeps_its_key(t: &TestStore) {
    let run = t.order().key("k").granted_to(ANN).start().await;
    let run = t.write(&run).await.fails("no").done().await;
    must!(t.order().key("k").send().await, StartOutcome::Existing(found) if found == run);
}

/// CONTRACT 4: `onFailure: release` frees the key of a failed or cancelled run at once.
pub(super) async fn a_failed_or_cancelled_run_frees_its_key_if_so_declared(t: &TestStore) {
    for fails in [true, false] {
        let run = t.order().key("k").release_key_on_failure().granted_to(ANN).start().await;
        let write = t.write(&run).await;
        let write = if fails { write.fails("no") } else { write.cancels() };
        write.done().await;
        assert_eq!(t.key("k").await.unwrap().expires_at, Some(t.now()));
        let next = t.order().key("k").release_key_on_failure().granted_to(ANN).start().await;
        assert_ne!(next.id(), run.id());
        t.write(&next).await.fails("no").done().await;
    }
}

/// A command that ends a run affects its key in the same way.
pub(super) async fn a_run_cancelled_from_outside_frees_its_key_if_so_declared(t: &TestStore) {
    let run = t.order().key("k").release_key_on_failure().start().await;
    assert_eq!(t.steered(&run, cancel()).await.status(), RunStatus::Cancelled);
    assert_ne!(t.order().key("k").start().await.id(), run.id());
}

/// The end of a run does not change a key that now names another run.
pub(super) async fn a_reassigned_key_is_not_changed_by_its_first_run(t: &TestStore) {
    let first = t.order().key("k").release_key_on_failure().granted_to(ANN).start().await;
    let first = t.write(&first).await.fails_at("charge").fails("no").done().await;
    let second = t.order().key("k").start().await;
    must!(t.steer(&first, cancel()).await, hapax_engine::store::RunCommandOutcome::Refused(..));
    t.pass(SECOND);
    t.purge().await;
    assert!(t.find(&first).await.is_none());
    let record = t.key("k").await.unwrap();
    assert_eq!((record.run(), record.expires_at), (Some(second.id()), None));
}

/// CONTRACT 4, invariant 60: the key of a purged run still refuses a second start.
pub(super) async fn the_key_of_a_purged_run_still_stands(t: &TestStore) {
    let run = completed_run(t, "k").await;
    t.pass(SECOND);
    assert_eq!(t.purge().await.runs, 1);
    must!(t.order().key("k").send().await, StartOutcome::Spent { run: spent } if spent == run.id());
    must!(t.order().key("k").input("2").send().await, StartOutcome::KeyConflict { run: spent, .. } if spent == run.id());
    t.pass(HOUR);
    t.order().key("k").input("2").start().await;
}

/// S4.28: an expired key can be read until it is purged.
pub(super) async fn an_expired_key_is_there_until_it_is_purged(t: &TestStore) {
    let run = completed_run(t, "k").await;
    t.pass(2 * HOUR);
    assert_eq!(t.key("k").await.unwrap().run(), Some(run.id()));
    assert_eq!(t.purge().await.keys, 1);
    assert!(t.key("k").await.is_none());
}

/// Keys are listed in order, in all workspaces, from any position.
pub(super) async fn keys_are_listed_in_order(t: &TestStore) {
    let mut all = Vec::new();
    for workspace in ["b", "a", "default"] {
        for key in ["2", "1", "10", "Z", "a"] {
            t.order().workspace(workspace).key(key).start().await;
            let workspace = WorkspaceId::new(workspace).unwrap();
            all.push(StoredKey { workspace, kind: KeyKind::Run, key: IdempotencyKey::new(key).unwrap() });
        }
    }
    all.sort();
    let listed =
        |keys: Vec<(StoredKey, KeyRecord)>| keys.into_iter().map(|(place, _)| place).collect::<Vec<_>>();
    assert_eq!(listed(t.store.list_keys(None).await.unwrap()), all);
    for at in [0, 4, 7, 14] {
        let after = t.store.list_keys(Some(all[at].clone())).await.unwrap();
        assert_eq!(listed(after), all[at + 1..]);
    }
}

/// The end of time is a valid expiry of a key.
pub(super) async fn a_retention_beyond_all_time_is_kept(t: &TestStore) {
    let run =
        t.order().key("k").keep_key_for(Duration::from_millis(i64::MAX as u64)).granted_to(ANN).start().await;
    t.write(&run).await.completes("1").done().await;
    assert_eq!(t.key("k").await.unwrap().expires_at, Some(Timestamp::from_millis(i64::MAX)));
    assert_eq!(t.head(&run).await.facts, run.facts);
}
