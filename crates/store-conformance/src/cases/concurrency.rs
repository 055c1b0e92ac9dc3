//! Concurrent callers: one wins, and nothing is lost or done twice.

use std::collections::BTreeSet;

use hapax_engine::model::{RunCommand, RunHead, RunId, RunState, RunStatus, Subscribers};
use hapax_engine::store::{
    ClaimOutbox, ClaimRuns, CommandRun, CommitOutcome, Purge, SettleOutcome, SignalOutcome, StartOutcome,
};

use crate::fixture::*;
use crate::must;

async fn start_at_once(t: &TestStore, orders: Vec<Order<'_>>) -> Vec<StartOutcome> {
    at_once(orders.into_iter().map(|order| {
        let (store, new) = (t.store.clone(), order.new_run());
        async move { store.start_run(new).await.unwrap() }
    }))
    .await
}

/// S2.13, S2.33, G0.1, invariants 7, 9: of 64 starts with one key one creates the run, and all return it.
pub(super) async fn starts_with_one_key_make_one_run(t: &TestStore) {
    let outcomes = start_at_once(t, (0..64).map(|_| t.order().key("k")).collect()).await;
    let (mut created, mut ids) = (0, BTreeSet::new());
    for outcome in outcomes {
        match outcome {
            StartOutcome::Created(run) => {
                created += 1;
                ids.insert(run.id());
            }
            StartOutcome::Existing(run) => drop(ids.insert(run.id())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((created, ids.len(), t.list(100, None).await.runs.len()), (1, 1, 1));
}

/// Invariants 7, 10: of starts with one key and different inputs one wins, and the others learn which run has the key.
pub(super) async fn starts_with_one_key_and_many_inputs_conflict(t: &TestStore) {
    let orders = (0..32).map(|n| t.order().key("k").input(&format!("{}", n % 4))).collect();
    let outcomes = start_at_once(t, orders).await;
    let winner = t.key("k").await.unwrap().run().unwrap();
    let mut counts = [0; 3];
    for outcome in outcomes {
        match outcome {
            StartOutcome::Created(run) if run.id() == winner => counts[0] += 1,
            StartOutcome::Existing(run) if run.id() == winner => counts[1] += 1,
            StartOutcome::KeyConflict { run, .. } if run == winner => counts[2] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [1, 7, 24]);
}

/// S2.44: of concurrent starts with one subject one wins.
pub(super) async fn starts_on_one_subject_make_one_run(t: &TestStore) {
    let outcomes =
        start_at_once(t, (0..32).map(|n| t.order().key(&format!("k{n}")).subject("s")).collect()).await;
    let created = outcomes.iter().filter(|outcome| matches!(outcome, StartOutcome::Created(_))).count();
    let busy = outcomes.iter().filter(|outcome| matches!(outcome, StartOutcome::SubjectBusy { .. })).count();
    assert_eq!((created, busy), (1, 31));
}

/// S0.21, invariant 19: concurrent claims grant every run, and none twice.
pub(super) async fn claims_never_grant_one_run_twice(t: &TestStore) {
    for _ in 0..100 {
        t.pending().await;
    }
    let owner = |n: u128| hapax_engine::model::OwnerId::from_u128(100 + n);
    let claims = at_once((0..16).map(|n| {
        let (store, request) = (t.store.clone(), ClaimRuns { grant: grant(owner(n)), limit: 10 });
        async move { store.claim_runs(request).await.unwrap().runs }
    }))
    .await;
    let granted: Vec<RunId> = claims.iter().flatten().map(|run| run.id()).collect();
    assert_eq!((granted.len(), granted.iter().collect::<BTreeSet<_>>().len()), (100, 100));
    for run in claims.iter().flatten() {
        assert_eq!(t.head(run).await, *run, "each holder has what the store has");
    }
}

/// S0.23, S0.39, invariant 18: of concurrent writes on one version one wins, and the others change nothing.
pub(super) async fn of_writes_on_one_version_one_wins(t: &TestStore) {
    let held = t.driven().await;
    let mut writes = Vec::new();
    for n in 0..32 {
        writes.push(t.write(&held).await.does(&format!("step-{n}")).advance());
    }
    let outcomes = at_once(writes.into_iter().map(|write| {
        let store = t.store.clone();
        async move { store.commit_run(write).await.unwrap() }
    }))
    .await;
    let won = outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Committed { .. })).count();
    let stale = outcomes.iter().filter(|outcome| matches!(outcome, CommitOutcome::Stale(_))).count();
    assert_eq!((won, stale), (1, 31));
    assert_eq!(t.log(&held).await.steps.len(), 1);
}

/// One write sent many times concurrently takes effect once.
pub(super) async fn one_write_sent_many_times_takes_effect_once(t: &TestStore) {
    let held = t.driven().await;
    let write = t.write(&held).await.does("charge").completes("1").advance();
    let outcomes = at_once((0..16).map(|_| {
        let (store, write) = (t.store.clone(), write.clone());
        async move { store.commit_run(write).await.unwrap() }
    }))
    .await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Committed { .. })),
        "{outcomes:?}"
    );
    assert_eq!(t.events(&held).await.len(), 2);
}

/// Invariants 39, 40: of settlements with different values one wins, and all callers get its value.
pub(super) async fn of_many_settlements_one_wins(t: &TestStore) {
    let held = t.driven().await;
    let parked = t.write(&held).await.awaits_promise("payment", None).parks().done().await;
    let outcomes = at_once((0..32).map(|n| {
        let (store, request) = (t.store.clone(), settlement_of(&parked, "payment", &format!("{}", n % 4)));
        async move { store.settle_promise(request).await.unwrap() }
    }))
    .await;
    let count = |form: fn(&SettleOutcome) -> bool| outcomes.iter().filter(|outcome| form(outcome)).count();
    assert_eq!(count(|outcome| matches!(outcome, SettleOutcome::Settled { .. })), 1);
    assert_eq!(count(|outcome| matches!(outcome, SettleOutcome::AlreadySettled { same: true, .. })), 7);
    assert_eq!(count(|outcome| matches!(outcome, SettleOutcome::AlreadySettled { same: false, .. })), 24);
    assert_eq!(t.head(&parked).await.arrivals, 1);
}

/// Concurrent claims grant every after-effect, and none twice.
pub(super) async fn after_effects_are_never_claimed_twice(t: &TestStore) {
    let run = t.driven().await;
    let mut write = t.write(&run).await;
    for n in 0..60 {
        write = write.leaves(&format!("notify-{n}"), if n % 3 == 0 { "hook" } else { "mail" });
    }
    write.done().await;
    let claims = at_once((0..16).map(|n| {
        let room = vec![(name("mail"), 5), (name("hook"), 5)];
        let owner = hapax_engine::model::OwnerId::from_u128(100 + n);
        let (store, request) = (t.store.clone(), ClaimOutbox { owner, lease_for: LEASE, room });
        async move { store.claim_outbox(request).await.unwrap().posts }
    }))
    .await;
    let granted: Vec<&str> = claims.iter().flatten().map(|post| post.id.as_str()).collect();
    assert_eq!((granted.len(), granted.iter().collect::<BTreeSet<_>>().len()), (60, 60));
    let stored = t.posts().await;
    assert!(claims.iter().flatten().all(|post| stored.contains(post)), "each holder has what the store has");
}

/// Invariant 44: each concurrent signal gets its own position, and a signal sent many times gets one.
pub(super) async fn signals_each_have_their_place(t: &TestStore) {
    let run = t.pending().await;
    let outcomes = at_once((0..32).map(|n| {
        let (store, signal) = (t.store.clone(), signal_to(&run, "go", Some(&format!("s{}", n / 2))));
        async move { store.send_signal(signal).await.unwrap() }
    }))
    .await;
    let mut places = BTreeSet::new();
    for outcome in outcomes {
        match outcome {
            SignalOutcome::Stored { seq, .. } => assert!(places.insert(seq), "{seq} twice"),
            SignalOutcome::Duplicate => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(places, (1..=16).collect());
}

/// Invariant 41: a park that races with a signal never misses it.
pub(super) async fn a_park_never_sleeps_over_a_racing_signal(t: &TestStore) {
    for _ in 0..50 {
        let held = t.driven().await;
        let park = t.write(&held).await.awaits_signal("go").parks().advance();
        let (parker, sender, signal) = (t.store.clone(), t.store.clone(), signal_to(&held, "go", None));
        let parking = tokio::spawn(async move { parker.commit_run(park).await.unwrap() });
        let sending = tokio::spawn(async move { sender.send_signal(signal).await.unwrap() });
        must!(parking.await.unwrap(), CommitOutcome::Committed { .. });
        must!(sending.await.unwrap(), SignalOutcome::Stored { .. });
        let parked = t.head(&held).await;
        assert_eq!(parked.state, RunState::Waiting { wake_at: Some(t.now()) });
        let claimed = t.claim_one(BOB).await;
        t.write(&claimed).await.gets("go").consumes(1).completes("1").done().await;
    }
}

/// Of many callers that deliver an arrival and offer to drive the run, one gets it.
pub(super) async fn of_many_offers_one_is_taken(t: &TestStore) {
    let held = t.driven().await;
    let parked = t.write(&held).await.awaits_signal("go").parks().done().await;
    let outcomes = at_once((0..16).map(|n| {
        let owner = hapax_engine::model::OwnerId::from_u128(100 + n);
        let mut signal = signal_to(&parked, "go", None);
        signal.grant = Some(grant(owner));
        let store = t.store.clone();
        async move {
            must!(store.send_signal(signal).await.unwrap(), SignalOutcome::Stored { granted, .. } => granted)
        }
    }))
    .await;
    let granted: Vec<RunHead> = outcomes.into_iter().flatten().collect();
    assert_eq!(granted.len(), 1);
    let now = t.head(&parked).await;
    assert_eq!((now.fence, now.state.lease()), (granted[0].fence, granted[0].state.lease()));
}

/// Invariants 25, 45: a cancellation that races with the end is either recorded or answered with the end.
pub(super) async fn a_cancellation_races_with_the_end(t: &TestStore) {
    for _ in 0..50 {
        let held = t.driven().await;
        let end = t.write(&held).await.completes("1").advance();
        let workspace = held.facts.workspace.clone();
        let steer = CommandRun {
            workspace,
            run: held.id(),
            command: cancel(),
            expected: None,
            note: None,
            announce: Subscribers::default(),
        };
        let (ender, steerer) = (t.store.clone(), t.store.clone());
        let ending = tokio::spawn(async move { ender.commit_run(end).await.unwrap() });
        let steering = tokio::spawn(async move { steerer.command_run(steer).await.unwrap() });
        let (ending, _) = (ending.await.unwrap(), steering.await.unwrap());
        let now = t.head(&held).await;
        match ending {
            CommitOutcome::Committed { .. } => assert_eq!(now.status(), RunStatus::Completed),
            CommitOutcome::Stale(head) => drop(t.write(&head).await.cancels().done().await),
            CommitOutcome::ChildrenRefused(refused) => panic!("it starts none: {refused}"),
            CommitOutcome::LeaseLost => panic!("nobody took it"),
        }
    }
}

/// Invariant 12: a start that races with the purge of its key returns the old run or one new run.
pub(super) async fn a_start_races_with_the_purge_of_its_key(t: &TestStore) {
    for n in 0..25 {
        let key = format!("k{n}");
        let held = t.order().key(&key).keep_key_for(SECOND).granted_to(ANN).start().await;
        t.write(&held).await.completes("1").done().await;
        t.pass(SECOND);
        let purge = Purge { runs_closed_before: Some(t.now()), after: None, limit: 100 };
        let purger = t.store.clone();
        let purging = tokio::spawn(async move { purger.purge(purge).await.unwrap() });
        let outcomes = start_at_once(t, (0..4).map(|_| t.order().key(&key)).collect()).await;
        purging.await.unwrap();
        let created = outcomes.iter().filter(|outcome| matches!(outcome, StartOutcome::Created(_))).count();
        assert_eq!(created, 1, "{outcomes:?}");
        assert_eq!(t.key(&key).await.unwrap().expires_at, None);
    }
}

/// Invariant 61: two concurrent purges delete everything once.
pub(super) async fn two_purges_at_once_delete_everything_once(t: &TestStore) {
    for n in 0..20 {
        let held = t.order().key(&format!("k{n}")).keep_key_for(SECOND).granted_to(ANN).start().await;
        t.write(&held).await.completes("1").done().await;
    }
    t.pass(HOUR);
    let purge = Purge { runs_closed_before: Some(t.now()), after: None, limit: 100 };
    let purged = at_once((0..4).map(|_| {
        let (store, purge) = (t.store.clone(), purge.clone());
        async move { store.purge(purge).await.unwrap() }
    }))
    .await;
    assert_eq!(purged.iter().map(|purged| purged.runs).sum::<usize>(), 20);
    assert_eq!(purged.iter().map(|purged| purged.keys).sum::<usize>(), 20);
    let paused = t.pending().await;
    t.steered(&paused, RunCommand::Pause).await;
}
