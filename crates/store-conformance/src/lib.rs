//! Conformance tests for stores: `hapax_store_conformance::conformance_suite!(make_store);` runs them all.
//!
//! `make_store` is an async function that takes the clock the store must follow and returns a [`Candidate`].
//! [`hapax_engine::store::Store`] promises only behaviour that is tested here. `differential_suite!(make_store);`
//! compares the store's answers to random requests with the answers of the memory store.

pub mod fixture;

mod candidate;
mod cases;
mod differential;
mod interleaving;
mod memory_tables;
mod stories;
mod suite;
mod user_tables;

pub use candidate::Candidate;
#[doc(hidden)]
pub use differential::run_differential;
pub use differential::{AnswerCoverage, differential};
#[doc(hidden)]
pub use interleaving::run_interleavings;
pub use memory_tables::MemoryTables;
#[doc(hidden)]
pub use stories::run_story;
#[doc(hidden)]
pub use suite::run_case;
pub use user_tables::{UserRow, UserTables};
