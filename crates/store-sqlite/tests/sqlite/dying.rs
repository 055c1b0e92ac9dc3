//! State after a process is killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use hapax_engine::model::RunId;
use hapax_engine::store::Store;
use hapax_store_sqlite::{SqliteOptions, SqliteStore};

use crate::fixture::*;

const FILE: &str = "HAPAX_TEST_FILE";

/// Invariant 1: what was acknowledged is there after `kill -9`; invariant 6: nothing is there by half.
#[tokio::test]
async fn acknowledged_writes_outlive_a_killed_process() {
    let place = TestFolder::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dying::writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(FILE, place.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let acknowledged: Vec<u128> =
        lines.by_ref().filter_map(|line| line.strip_prefix("done ")?.parse().ok()).take(300).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(acknowledged.len(), 300, "the child wrote before it was killed");

    let store = SqliteStore::open(place.file(), SqliteOptions::default()).await.unwrap();
    let effects = effects(&store).await;
    assert!(
        effects.len() >= 300 && effects.values().all(|counts| *counts == (1, 1)),
        "none is there by half"
    );
    for id in acknowledged {
        assert!(effects.contains_key(&RunId::from_u128(id)), "run {id}");
        let log = store.find_log(&workspace(), RunId::from_u128(id)).await.unwrap().unwrap();
        assert_eq!(log.steps.len(), 1, "run {id}");
        assert_eq!(log.head.version.get(), 3, "run {id}");
    }
    let due = store.claim_runs(claim(9)).await.unwrap().runs;
    assert!(due.len() >= 100, "its leases are dead at once");
}

/// Not a test of its own: the process that is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by acknowledged_writes_outlive_a_killed_process"]
async fn writes_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let store = std::sync::Arc::new(SqliteStore::open(file, SqliteOptions::default()).await.unwrap());
    let writers = (0..8u128).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1.. {
                let id = n * 8 + writer;
                let head = start(&store, granted(facts(id))).await;
                advance(&store, one_step_with_effects(&store, &head, "a")).await;
                let mut out = std::io::stdout().lock();
                writeln!(out, "done {id}").unwrap();
                out.flush().unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}
