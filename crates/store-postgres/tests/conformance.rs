//! The PostgreSQL store does what every store must do.

use std::sync::Arc;

use hapax_engine::clock::ManualClock;
use hapax_postgres_fixture::Database;
use hapax_store_conformance::Candidate;
use hapax_store_postgres::{PostgresOptions, PostgresStore, migrate};

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    let prepare = async |url: String| {
        migrate(&url, &PostgresOptions::default()).await.unwrap();
    };
    let database = Database::from_template(prepare).await.unwrap();
    let store = PostgresStore::open(&database.url(), PostgresOptions::default().clock(clock)).await.unwrap();
    Candidate::with_guard(store, database)
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_store);
