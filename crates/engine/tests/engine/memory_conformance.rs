//! The memory store passes the conformance suite of every store.

use std::sync::Arc;

use hapax_engine::clock::ManualClock;
use hapax_engine::memory::MemoryStore;
use hapax_store_conformance::{Candidate, MemoryTables};

async fn make_store(clock: Arc<ManualClock>) -> Candidate {
    let store = Arc::new(MemoryStore::new(clock));
    Candidate::shared(store.clone()).with_tables(MemoryTables(store))
}

hapax_store_conformance::conformance_suite!(make_store);
hapax_store_conformance::differential_suite!(make_store);
hapax_store_conformance::interleaving_suite!(make_store);
hapax_store_conformance::entity_suite!(make_store);
