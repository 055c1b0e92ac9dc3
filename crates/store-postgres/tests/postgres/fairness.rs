//! Invariant 59: one workspace's long backlog does not starve another's one run.

use std::collections::BTreeSet;
use std::sync::Arc;

use hapax_engine::model::{Priority, RunId};
use hapax_engine::store::StartOutcome;
use hapax_store_conformance::fixture::{ANN, Order, SECOND, TestStore};
use hapax_store_postgres::PostgresOptions;

use crate::fixture::{database, stage};

async fn start_many(t: &Arc<TestStore>, orders: Vec<Order<'_>>) -> Vec<RunId> {
    let starting: Vec<_> = orders
        .iter()
        .map(|order| {
            let (store, new) = (t.store.clone(), order.new_run());
            tokio::spawn(async move { store.start_run(new).await.unwrap() })
        })
        .collect();
    let mut ids = Vec::new();
    for started in starting {
        match started.await.unwrap() {
            StartOutcome::Created(run) => ids.push(run.id()),
            other => panic!("{other:?}"),
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_backlog_does_not_starve_other_workspaces() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default()).await);
    let flood = start_many(&t, (0..1_200).map(|_| t.order().workspace("flood")).collect()).await;
    t.pass(SECOND);
    let mut others = BTreeSet::new();
    for workspace in ["small", "quiet", "late"] {
        others.extend(start_many(&t, vec![t.order().workspace(workspace)]).await);
    }
    let claimed = t.claim_upto(20, ANN).await;
    let granted: BTreeSet<RunId> = claimed.runs.iter().map(|run| run.id()).collect();
    assert_eq!(granted.len(), 20);
    assert!(others.is_subset(&granted), "every workspace has its turn");
    assert!(flood.iter().filter(|run| granted.contains(run)).count() >= 10, "and so have the oldest runs");
    // The backlog is still long: a higher priority goes first, in every workspace.
    let urgent = start_many(&t, vec![t.order().workspace("flood").priority(Priority::High)]).await;
    let granted = t.claim_upto(2, ANN).await.runs;
    assert!(granted.iter().any(|run| run.id() == urgent[0]), "{granted:?}");
    t.store.close().await.unwrap();
}

/// For any batch size, and from any position of the rotation.
#[tokio::test(flavor = "multi_thread")]
async fn one_run_beside_a_long_backlog_is_in_the_next_claim() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default()).await);
    start_many(&t, (0..1_100).map(|_| t.order().workspace("flood")).collect()).await;
    for limit in [2, 3, 20] {
        t.claim_upto(limit, ANN).await;
        t.pass(SECOND);
        let one = start_many(&t, vec![t.order().workspace("small")]).await;
        let granted = t.claim_upto(limit, ANN).await.runs;
        assert!(granted.iter().any(|run| run.id() == one[0]), "limit {limit}: {granted:?}");
    }
    t.store.close().await.unwrap();
}

/// Workspaces that do not fit into one claim get their turn in one of the next.
#[tokio::test(flavor = "multi_thread")]
async fn many_workspaces_take_turns() {
    let database = database().await;
    let t = Arc::new(stage(&database.url(), PostgresOptions::default()).await);
    start_many(&t, (0..1_300).map(|_| t.order().workspace("flood")).collect()).await;
    t.pass(SECOND);
    let names: Vec<String> = (0..90).map(|n| format!("tenant-{n}")).collect();
    let others: BTreeSet<RunId> =
        start_many(&t, names.iter().map(|name| t.order().workspace(name)).collect())
            .await
            .into_iter()
            .collect();
    let mut granted = BTreeSet::new();
    for _ in 0..3 {
        granted.extend(t.claim_upto(64, ANN).await.runs.iter().map(|run| run.id()));
    }
    let left = others.difference(&granted).count();
    assert!(left <= 30, "{left} of 90 workspaces were not served by three claims of 64");
    for _ in 0..3 {
        granted.extend(t.claim_upto(64, ANN).await.runs.iter().map(|run| run.id()));
    }
    assert!(others.is_subset(&granted));
    t.store.close().await.unwrap();
}
