//! The SQLite store does what every store must do.

use std::sync::Arc;

use hapax_engine::clock::ManualClock;
use hapax_store_conformance::Candidate;
use hapax_store_sqlite::{SqliteOptions, SqliteStore};

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("test.db"), SqliteOptions::default().clock(clock))
        .await
        .unwrap();
    Candidate::with_guard(store, folder)
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_store);
hapax_store_conformance::interleaving_suite!(make_store);
