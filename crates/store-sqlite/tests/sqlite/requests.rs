//! Requests under their keys: what only this store does about them, and files from before there were any.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hapax_engine::model::BeginOutcome;
use hapax_engine::store::{KeyRef, StoreError};
use hapax_store_conformance::fixture::{HOLD, TestStore, answer, replayed, run_key, uses};
use hapax_store_conformance::must;
use hapax_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;

use crate::fixture::*;

async fn stage(place: &TestFolder, options: SqliteOptions) -> TestStore {
    let store = SqliteStore::open(place.file(), options).await.unwrap();
    TestStore::new(Arc::new(store), place.clock.clone())
}

/// A replay, a conflict and a wait cost no commit: a store that cannot write can tell them.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_nothing() {
    let place = TestFolder::new();
    let t = stage(&place, place.options()).await;
    let answered = t.answered("answered").await;
    let held = t.ask("held").begin().await;
    let looking = stage(&place, place.options().read_only(true)).await;
    let begin = async |request| looking.book().begin_request(request).await;
    replayed(begin(answered.again().request()).await.unwrap());
    must!(begin(answered.again().amount(2).request()).await.unwrap(), BeginOutcome::Conflict(_));
    must!(begin(held.again().request()).await.unwrap(), BeginOutcome::InFlight { .. });
    must!(begin(t.ask("new").request()).await, Err(StoreError::Refused(_)));
    must!(begin(held.request()).await, Err(StoreError::Refused(_)));
}

/// The only process with the file knows that no request is in progress any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_process_that_died_is_taken_over_at_once() {
    let place = TestFolder::new();
    let t = stage(&place, place.options()).await;
    let (held, answered) = (t.ask("held").begin().await, t.answered("answered").await);
    t.store.close().await.unwrap();
    let shared = stage(&place, place.options().shared(true)).await;
    must!(shared.book().begin_request(held.again().request()).await.unwrap(), BeginOutcome::InFlight { .. });
    shared.store.close().await.unwrap();
    let alone = stage(&place, place.options()).await;
    let begun = alone.book().begin_request(held.again().request()).await.unwrap();
    assert_eq!(begun, BeginOutcome::Acquired { id: held.id(), is_taken_over: true });
    must!(alone.book().begin_request(held.again().request()).await.unwrap(),
        BeginOutcome::InFlight { until, .. } if until == alone.now().plus(HOLD));
    replayed(alone.book().begin_request(answered.again().request()).await.unwrap());
}

/// A file of the version before is brought up to date with what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_version_before_is_brought_up_to_date() {
    let place = TestFolder::new();
    let first = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/0001_runs_steps_keys.sql");
    let old = Connection::open(place.file()).unwrap();
    old.execute_batch(&fs::read_to_string(first).unwrap()).unwrap();
    old.execute_batch(
        "INSERT INTO hapax_workspaces (id, name) VALUES (1, 'default');
        INSERT INTO hapax_keys (workspace, kind, key, run, fingerprint, first_seen_at)
        VALUES (1, 0, 'k', randomblob(16), randomblob(32), 1)",
    )
    .unwrap();
    drop(old);
    let t = stage(&place, place.options()).await;
    assert!(t.key("k").await.is_some());
    assert_eq!(t.uses(&run_key("k")).await, uses(0, 0));
    t.count(&run_key("k"), uses(1, 2)).await;
    assert_eq!(t.uses(&run_key("k")).await, uses(1, 2));
    let ask = t.ask("k").begin().await.answered(answer(b"{}")).await;
    assert!(matches!(ask.place(), KeyRef::Request { .. }));
    t.item("d1", "payout").put().await;
}
