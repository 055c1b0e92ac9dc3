//! The PostgreSQL store does what every store must do.

use std::sync::Arc;

use hapax_engine::clock::ManualClock;
use hapax_postgres_fixture::Database;
use hapax_store_conformance::Candidate;
use hapax_store_postgres::{PostgresOptions, PostgresStore, migrate};

async fn open_store(clock: Arc<ManualClock>, query: &str) -> Candidate {
    let prepare = async |url: String| {
        migrate(&url, &PostgresOptions::default()).await.unwrap();
    };
    let database = Database::from_template(prepare).await.unwrap();
    let url = format!("{}{query}", database.url());
    let store = PostgresStore::open(&url, PostgresOptions::default().clock(clock)).await.unwrap();
    Candidate::with_guard(store, database)
}

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    open_store(clock, "").await
}

/// Many thousand requests one after the other, whose answers do not depend on when they reach the disk.
async fn make_hasty_store(clock: Arc<ManualClock>) -> Candidate {
    open_store(clock, "?options=-c%20synchronous_commit%3Doff").await
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_hasty_store);
hapax_store_conformance::interleaving_suite!(make_hasty_store);
