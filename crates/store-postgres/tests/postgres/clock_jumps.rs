//! The clock of the database server jumps: keys keep their lifetime, and all nodes use the same
//! time.
//!
//! The tests share their server, so its clock is not really set. Instead, the correction is changed
//! behind the nodes' back, which looks the same to them.

use std::sync::Arc;
use std::time::Duration;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::{RunId, Timestamp};
use hapax_engine::store::{Purge, StartOutcome, Store};
use hapax_postgres_fixture::Database;
use hapax_store_conformance::fixture::{ANN, TestStore};
use hapax_store_conformance::must;
use hapax_store_postgres::{PostgresOptions, PostgresStore};

use crate::fixture::{database, open};

const HOUR: Duration = Duration::from_secs(3600);

async fn node(url: &str) -> Arc<PostgresStore> {
    open(url, PostgresOptions::default()).await
}

/// Helpers to work with a node, at the current time of its clock.
fn stage(node: &Arc<PostgresStore>) -> TestStore {
    TestStore::new(node.clone(), Arc::new(ManualClock::new(node.now())))
}

async fn jump(database: &Database, hours: i64) {
    let client = database.connect().await.unwrap();
    let jump =
        format!("UPDATE hapax.clock_correction SET correction_ms = correction_ms + {}", hours * 3_600_000);
    client.batch_execute(&jump).await.unwrap();
}

/// All nodes read the clock, one after another, until each has published its time.
async fn all_read(nodes: &[Arc<PostgresStore>]) {
    for _ in 0..3 {
        for node in nodes {
            node.read_clock().await.unwrap();
        }
    }
}

fn is_about(now: Timestamp, expected: Timestamp) -> bool {
    now.since(expected).max(expected.since(now)) < Duration::from_secs(60)
}

/// With +25 h, a retry under its key was once a new run: the key had expired early.
#[tokio::test(flavor = "multi_thread")]
async fn a_jump_of_the_server_clock_ends_no_key() {
    let database = database().await;
    let mut nodes = vec![node(&database.url()).await, node(&database.url()).await];
    all_read(&nodes).await;
    let t = stage(&nodes[0]);
    let before = nodes[0].now();
    let order = t.order().key("order-7").keep_key_for(24 * HOUR).granted_to(ANN);
    let held = order.start().await;
    t.write(&held).await.completes("1").done().await;
    for hours in [25, -50, 1_000] {
        jump(&database, hours).await;
        all_read(&nodes).await;
        // A node that starts later uses the same time.
        nodes.push(node(&database.url()).await);
        all_read(&nodes).await;
        for node in &nodes {
            assert!(is_about(node.now(), before), "{hours} h: {} is not about {before}", node.now());
            let t = stage(node);
            let again = t.order().id(RunId::new(before)).key("order-7").keep_key_for(24 * HOUR).send().await;
            must!(again, StartOutcome::Existing(run) if run.id() == held.id());
            let purge = Purge { runs_closed_before: Some(before.minus(HOUR)), after: None, limit: 100 };
            let purged = node.purge(purge).await.unwrap();
            assert_eq!((purged.keys, purged.runs), (0, 0), "{hours} h");
        }
    }
    let seen: u64 = nodes.iter().map(|node| node.clock_jumps()).sum();
    assert_eq!(seen, 3, "each jump is corrected, and told, once");
}

/// Without a node, a jump looks like time that passed. But time never goes back.
#[tokio::test(flavor = "multi_thread")]
async fn time_does_not_go_back_while_no_node_is_there() {
    let database = database().await;
    let first = node(&database.url()).await;
    all_read(std::slice::from_ref(&first)).await;
    let before = first.now();
    first.close().await.unwrap();
    drop(first);
    jump(&database, -30).await;
    let next = node(&database.url()).await;
    assert!(is_about(next.now(), before), "{} is not about {before}", next.now());
}
