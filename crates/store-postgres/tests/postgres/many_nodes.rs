//! Several nodes on one database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::{OwnerId, RunId};
use hapax_engine::store::{ClaimRuns, CommitOutcome};
use hapax_store_conformance::fixture::{ANN, BOB, TestStore, grant, grant_for, workflow};
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, open};

async fn two_nodes(url: &str) -> (Arc<TestStore>, Arc<TestStore>) {
    let clock = Arc::new(ManualClock::default());
    let options = PostgresOptions::default().clock(clock.clone());
    let one = TestStore::new(open(url, options.clone()).await, clock.clone());
    let other = TestStore::new(open(url, options).await, clock);
    (Arc::new(one), Arc::new(other))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_never_claim_one_run_twice() {
    let database = database().await;
    let (one, other) = two_nodes(&database.url()).await;
    for _ in 0..120 {
        one.pending().await;
    }
    let claim = |t: Arc<TestStore>, owner| {
        tokio::spawn(async move {
            let mut granted = Vec::new();
            for _ in 0..200 {
                let claimed = t.store.claim_runs(ClaimRuns { grant: grant(owner), limit: 7 }).await.unwrap();
                granted.extend(claimed.runs.iter().map(|run| run.id()));
                if claimed.runs.is_empty() && claimed.next_wake_at.is_none_or(|at| at > t.now()) {
                    break;
                }
            }
            granted
        })
    };
    let claims = [claim(one.clone(), ANN), claim(other.clone(), BOB), claim(one.clone(), ANN)];
    let mut all: Vec<RunId> = Vec::new();
    for claimed in claims {
        all.extend(claimed.await.unwrap());
    }
    let distinct: BTreeSet<RunId> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (120, 120));
}

/// A hint saves the wait for a poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_that_another_made_a_run_due() {
    let database = database().await;
    let (one, other) = two_nodes(&database.url()).await;
    let mut hints = other.store.hints().expect("the store gives hints");
    let patience = Duration::from_secs(10);
    // The first hint says that it listens.
    tokio::time::timeout(patience, hints.changed()).await.expect("it listens").unwrap();
    one.driven().await;
    let nothing = tokio::time::timeout(Duration::from_millis(300), hints.changed()).await;
    assert!(nothing.is_err(), "a run that is driven where it started is nobody else's business");
    one.pending().await;
    tokio::time::timeout(patience, hints.changed()).await.expect("a hint comes").unwrap();
    let many: Vec<_> = (0..50)
        .map(|_| {
            let one = one.clone();
            tokio::spawn(async move { one.pending().await })
        })
        .collect();
    for started in many {
        started.await.unwrap();
    }
    tokio::time::timeout(patience, hints.changed()).await.expect("a hint comes").unwrap();
}

/// Fault 19: children end on two nodes while their parent does. There is no deadlock and no
/// failure.
#[tokio::test(flavor = "multi_thread")]
async fn families_end_on_several_nodes_at_once() {
    let database = database().await;
    let (one, other) = two_nodes(&database.url()).await;
    for _ in 0..10 {
        let parent = one.driven().await;
        let mut write = one.write(&parent).await;
        let steps: Vec<String> = (0..8).map(|n| format!("child-{n}")).collect();
        let orders: Vec<_> = steps.iter().map(|step| one.child_of(&parent, step).granted_to(BOB)).collect();
        for (step, order) in steps.iter().zip(&orders) {
            write = write.awaits_child(step, order);
        }
        let parent = write.done().await;
        let mut ending = Vec::new();
        for (n, order) in orders.iter().enumerate() {
            let t = if n % 2 == 0 { one.clone() } else { other.clone() };
            let child = order.start().await;
            let advance = t.write(&child).await.does("work").completes("1").advance();
            ending.push(tokio::spawn(async move { t.store.commit_run(advance).await.unwrap() }));
        }
        let mut write = one.write(&parent).await;
        for step in &steps {
            write = write.gives_up(step);
        }
        let advance = write.completes("1").advance();
        let t = other.clone();
        ending.push(tokio::spawn(async move { t.store.commit_run(advance).await.unwrap() }));
        for ended in ending {
            let ended = ended.await.unwrap();
            assert!(matches!(ended, CommitOutcome::Committed { .. } | CommitOutcome::Stale(_)), "{ended:?}");
        }
    }
    let report = one.fsck().await;
    assert!(report.is_clean(), "{report}");
}

/// CONTRACT 5: what a dead process held goes on at once. Others keep their leases, and timers do not fire early.
#[tokio::test(flavor = "multi_thread")]
async fn the_leases_of_a_dead_owner_end_at_once() {
    let database = database().await;
    let clock = Arc::new(ManualClock::default());
    let store = open(&database.url(), PostgresOptions::default().clock(clock.clone())).await;
    let t = TestStore::new(store.clone(), clock);
    let all = || ["order", "refund"].into_iter().flat_map(|name| (1..=3).map(move |n| workflow(name, n)));
    let mut dead = Vec::new();
    for n in 0..7 {
        let order = t.order().workflow(["order", "refund"][n % 2], 1 + n as u32 % 3);
        dead.push(order.offered(grant_for(ANN, all())).start().await);
    }
    let alive = t.order().granted_to(BOB).start().await;
    let later = t.order().due_in(Duration::from_secs(5)).start().await;
    assert_eq!(store.end_leases(OwnerId::fresh()).await.unwrap(), 0);
    assert_eq!(store.end_leases(ANN).await.unwrap(), 7);
    assert_eq!(store.end_leases(ANN).await.unwrap(), 0);
    for run in &dead {
        let now = t.head(run).await;
        assert_eq!(now.state.lease().map(|lease| (lease.owner, lease.until)), Some((ANN, t.now())));
        assert_eq!((now.version, now.fence), (run.version, run.fence), "nobody else holds it yet");
    }
    assert_eq!((t.head(&alive).await, t.head(&later).await), (alive, later));
    // A write that the dead process had sent still counts, until another node claims the run.
    let late = t.write(&dead[0]).await.does("charge").done().await;
    assert_eq!(late.state.lease().map(|lease| lease.until), Some(t.now()));
    let taken =
        t.store.claim_runs(ClaimRuns { grant: grant_for(BOB, all()), limit: 100 }).await.unwrap().runs;
    assert_eq!(taken.len(), 7);
    let dead = dead.iter().find(|run| run.id() == taken[1].id()).expect("it was the dead owner's");
    assert_eq!((taken[1].fence, taken[1].stalls), (dead.fence.next(), 1));
    assert!(matches!(t.write(dead).await.does("charge").send().await, CommitOutcome::LeaseLost));
}
