//! Values that the tests share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_engine::clock::ManualClock;
use hapax_engine::model::{
    CommitBuilder, Payload, StepChange, StepId, StepKind, StepState, StepTransition, Timestamp,
};
use hapax_postgres_fixture::Database;
use hapax_store_conformance::fixture::TestStore;
use hapax_store_postgres::{PostgresOptions, PostgresStore, migrate};

/// A database with our tables, on the shared server.
pub(crate) async fn database() -> Database {
    let prepare = async |url: String| {
        migrate(&url, &PostgresOptions::default()).await.unwrap();
    };
    Database::from_template(prepare).await.unwrap()
}

pub(crate) async fn open(url: &str, options: PostgresOptions) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open(url, options).await.unwrap())
}

/// A store on a stopped clock, with helpers to work with it.
pub(crate) async fn stage(url: &str, options: PostgresOptions) -> TestStore {
    let clock = Arc::new(ManualClock::default());
    TestStore::new(open(url, options.clock(clock.clone())).await, clock)
}

/// Adds the completion of a step to a write, without reading the store.
pub(crate) fn complete(advancing: &mut CommitBuilder, step: &str, now: Timestamp) {
    let change = StepChange {
        id: StepId::from_stored(step),
        kind: StepKind::Effect,
        previous: None,
        transition: StepTransition::Complete,
        state: StepState::Completed { at: now, output: Payload::null() },
        attempts: 1,
        started_at: now,
        child: None,
    };
    advancing.step(change).unwrap();
}

/// Waits until `is_so`, up to `patience`.
pub(crate) async fn until(what: &str, patience: Duration, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < patience, "{what} did not happen within {patience:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
