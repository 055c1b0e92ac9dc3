//! Fault 28: a log that was cut off reopens to a prefix of what was committed.

use std::fs;
use std::path::Path;

use hapax_engine::model::RunId;
use hapax_engine::store::Store;
use hapax_store_sqlite::SqliteStore;

use crate::fixture::*;

const RUNS: u128 = 40;

/// How many of the runs are there; checks that they are the first ones, each whole.
async fn prefix(place: &TestFolder, file: &Path) -> u128 {
    let store = SqliteStore::open(file, place.options()).await.unwrap();
    let (effects, mut found) = (effects(&store).await, 0);
    for id in 1..=RUNS {
        let Some(log) = store.find_log(&workspace(), RunId::from_u128(id)).await.unwrap() else { break };
        // Start and step were two commits.
        assert_eq!(log.head.version.get(), if log.steps.is_empty() { 1 } else { 3 }, "run {id}");
        let expected = if log.steps.is_empty() { None } else { Some(&(1, 1)) };
        assert_eq!(
            effects.get(&log.head.id()),
            expected,
            "run {id}: what it noted and left is there with the step"
        );
        found = id;
        if log.steps.is_empty() {
            break;
        }
    }
    for id in found + 1..=RUNS {
        let later = store.find_run(&workspace(), RunId::from_u128(id)).await.unwrap();
        assert!(later.is_none(), "run {id} is there, but run {} is not whole", found + 1);
    }
    found
}

#[tokio::test]
async fn a_log_cut_anywhere_reopens_to_a_prefix_of_the_commits() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..=RUNS {
        let head = start(&store, granted(facts(id))).await;
        advance(&store, one_step_with_effects(&store, &head, "a")).await;
    }
    // A copy while the store is open: what a crash would leave.
    let log = fs::read(place.folder.path().join("orders.db-wal")).unwrap();
    let file = fs::read(place.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(28);
    let mut seen = Vec::new();
    for cut in (0..40).map(|_| random.usize(..log.len())).chain([0, log.len()]) {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("orders.db");
        fs::write(&copy, &file).unwrap();
        fs::write(folder.path().join("orders.db-wal"), &log[..cut]).unwrap();
        seen.push((cut, prefix(&place, &copy).await));
    }
    seen.sort_unstable();
    assert!(seen.is_sorted_by_key(|(_, runs)| *runs), "a longer log holds no less: {seen:?}");
    assert_eq!((seen[0].1, seen[seen.len() - 1].1), (0, RUNS));
    assert!(seen.iter().any(|(_, runs)| (2..RUNS).contains(runs)), "some cuts fell in between: {seen:?}");
}

/// Fault 29: bits that rot in the log cost the commits from there on, and no others.
#[tokio::test]
async fn a_rotten_log_reopens_to_a_prefix_of_the_commits() {
    let place = TestFolder::new();
    let store = place.open().await;
    for id in 1..=RUNS {
        let head = start(&store, granted(facts(id))).await;
        advance(&store, one_step_with_effects(&store, &head, "a")).await;
    }
    let log = fs::read(place.folder.path().join("orders.db-wal")).unwrap();
    let file = fs::read(place.file()).unwrap();
    let mut random = fastrand::Rng::with_seed(29);
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("orders.db");
        fs::write(&copy, &file).unwrap();
        let mut rotten = log.clone();
        rotten[random.usize(..log.len())] ^= 1 << random.u8(..8);
        fs::write(folder.path().join("orders.db-wal"), rotten).unwrap();
        prefix(&place, &copy).await;
    }
}
