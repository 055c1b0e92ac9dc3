//! Requests under their keys on several nodes, and databases from before there were any.

use std::sync::Arc;

use hapax_engine::clock::ManualClock;
use hapax_engine::model::{BeginOutcome, RequestEnd};
use hapax_engine::store::PutOutcome;
use hapax_postgres_fixture::Database;
use hapax_store_conformance::fixture::{Ask, TestStore, answer, at_once, kept, replayed, run_key, uses};
use hapax_store_conformance::must;
use hapax_store_postgres::{Migrated, PostgresOptions, migrate};

use crate::fixture::{database, open, stage};

async fn nodes(url: &str) -> (Vec<TestStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let options = PostgresOptions::default().clock(clock.clone());
        nodes.push(TestStore::new(open(url, options).await, clock.clone()));
    }
    (nodes, clock)
}

/// Begins on every node, all at the same moment.
async fn begin_everywhere(nodes: &[TestStore], asks: Vec<Ask<'_>>) -> Vec<BeginOutcome> {
    at_once(asks.into_iter().enumerate().map(|(n, ask)| {
        let (store, request) = (nodes[n % nodes.len()].store.clone(), ask.request());
        async move { store.request_key_store().unwrap().begin_request(request).await.unwrap() }
    }))
    .await
}

/// S2.13, S2.33: of requests on several nodes at once one is handled, and no caller gets an error.
#[tokio::test(flavor = "multi_thread")]
async fn of_requests_on_several_nodes_one_is_worked_on() {
    let database = database().await;
    let (nodes, _) = nodes(&database.url()).await;
    let t = &nodes[0];
    for round in 0..20 {
        let keys: Vec<_> = (0..3).map(|n| t.ask(&format!("k{round}-{n}"))).collect();
        let asks: Vec<_> = (0..48).map(|n| keys[n % 3].again()).collect();
        let begun = begin_everywhere(&nodes, asks).await;
        let yours =
            begun.iter().filter(|begun| matches!(begun, BeginOutcome::Acquired { is_taken_over: false, .. }));
        assert_eq!(yours.count(), 3, "{begun:?}");
        assert_eq!(begun.iter().filter(|begun| matches!(begun, BeginOutcome::InFlight { .. })).count(), 45);
    }
}

/// Keys that are released while others request them: each time one request holds it, and its
/// response is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_freed_again_and_again_has_one_holder_at_a_time() {
    let database = database().await;
    let (nodes, _) = nodes(&database.url()).await;
    let key = nodes[0].ask("k");
    let tasks: Vec<_> = (0..24)
        .map(|n| {
            let (store, ask) = (nodes[n % 3].store.clone(), key.again());
            let (begin, end) = (ask.request(), ask.end(RequestEnd::Released));
            async move {
                let book = store.request_key_store().unwrap();
                let mut held = 0;
                for _ in 0..20 {
                    if matches!(
                        book.begin_request(begin.clone()).await.unwrap(),
                        BeginOutcome::Acquired { .. }
                    ) {
                        assert!(book.finish_request(end.clone()).await.unwrap(), "nobody else has it");
                        held += 1;
                    }
                }
                held
            }
        })
        .collect();
    let held: i32 = at_once(tasks).await.into_iter().sum();
    assert!(held > 0);
    let last = key.again().begin().await.answered(answer(b"{}")).await;
    replayed(nodes[1].book().begin_request(last.again().request()).await.unwrap());
}

/// Counts and ends from several nodes in any order do not interfere.
#[tokio::test(flavor = "multi_thread")]
async fn ends_and_counts_on_several_nodes_all_count() {
    let database = database().await;
    let (nodes, _) = nodes(&database.url()).await;
    let t = &nodes[0];
    let asks: Vec<_> = (0..60).map(|n| t.ask(&format!("k{n}")).workspace(["b", "a", "c"][n % 3])).collect();
    for begun in begin_everywhere(&nodes, asks.clone()).await {
        must!(begun, BeginOutcome::Acquired { .. });
    }
    let ends = at_once(asks.iter().rev().enumerate().map(|(n, ask)| {
        let (store, end) = (nodes[n % 3].store.clone(), ask.end(kept(answer(b"{}"))));
        let place = ask.place();
        async move {
            let book = store.request_key_store().unwrap();
            let counted = hapax_engine::store::KeyUsageDelta { place, uses: uses(1, 0) };
            book.add_key_usage(vec![counted]).await.unwrap();
            book.finish_request(end).await.unwrap()
        }
    }));
    assert_eq!(ends.await, [true; 60]);
    for ask in &asks {
        assert_eq!(t.uses(&ask.place()).await, uses(1, 0));
    }
}

/// Of items that several nodes create at once one wins.
#[tokio::test(flavor = "multi_thread")]
async fn of_items_on_several_nodes_one_is_made() {
    let database = database().await;
    let (nodes, _) = nodes(&database.url()).await;
    for round in 0..10 {
        let (id, name) = (format!("d{round}"), format!("n{round}"));
        let outcomes = at_once((0..30).map(|n| {
            let id = if n % 2 == 0 { id.clone() } else { format!("{id}-{n}") };
            let (store, request) = (nodes[n % 3].store.clone(), nodes[0].item(&id, &name).request());
            async move { store.catalog().unwrap().put_item(request).await.unwrap() }
        }))
        .await;
        let made = outcomes.iter().filter(|outcome| matches!(outcome, PutOutcome::Put(_))).count();
        let told =
            |outcome: &&PutOutcome| matches!(outcome, PutOutcome::Exists(_) | PutOutcome::NameTaken(_));
        assert_eq!((made, outcomes.iter().filter(told).count()), (1, 29), "{outcomes:?}");
    }
}

/// Invariant 62: tables of the previous version are migrated with their contents, and its writes
/// continue.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_the_version_before_are_brought_up_to_date() {
    let database = Database::empty().await.unwrap();
    let admin = database.connect().await.unwrap();
    let set_up = "SET search_path = hapax; SELECT set_config('hapax.schema', 'hapax', false)";
    let first = include_str!("../../migrations/0001_runs_steps_keys.sql");
    for sql in [set_up, include_str!("../../sql/create_schema.sql"), first] {
        admin.batch_execute(sql).await.unwrap();
    }
    admin
        .batch_execute(
            "INSERT INTO schema_versions (version, oldest_program) VALUES (1, 1);
            INSERT INTO workspaces (name) VALUES ('default')",
        )
        .await
        .unwrap();
    let insert = "INSERT INTO keys (workspace, kind, key, run, fingerprint, first_seen_at)
        SELECT id, 0, $1, gen_random_uuid(), sha256(''), 1 FROM workspaces";
    admin.execute(insert, &[&"before"]).await.unwrap();
    let migrated = migrate(&database.url(), &PostgresOptions::default()).await.unwrap();
    assert_eq!(migrated, Migrated { from: 1, to: 9 });
    admin.execute(insert, &[&"beside"]).await.unwrap();
    let t = stage(&database.url(), PostgresOptions::default()).await;
    for key in ["before", "beside"] {
        t.count(&run_key(key), uses(1, 2)).await;
        assert_eq!(t.uses(&run_key(key)).await, uses(1, 2));
    }
    t.answered("k").await;
    t.item("d1", "payout").put().await;
}
