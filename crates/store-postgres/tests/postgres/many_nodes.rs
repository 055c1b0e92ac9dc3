//! Several nodes on one database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::RunId;
use hapax_engine::store::{ClaimRuns, CommitOutcome};
use hapax_store_conformance::fixture::{ANN, BOB, Stage, grant};
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, open};

async fn two_nodes(url: &str) -> (Arc<Stage>, Arc<Stage>) {
    let clock = Arc::new(ManualClock::default());
    let options = PostgresOptions::default().clock(clock.clone());
    let one = Stage::new(open(url, options.clone()).await, clock.clone());
    let other = Stage::new(open(url, options).await, clock);
    (Arc::new(one), Arc::new(other))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_never_claim_one_run_twice() {
    let database = database().await;
    let (one, other) = two_nodes(&database.url()).await;
    for _ in 0..120 {
        one.pending().await;
    }
    let claim = |t: Arc<Stage>, owner| {
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
