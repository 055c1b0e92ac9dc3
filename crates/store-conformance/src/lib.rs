//! What every store must do, as tests: `hapax_store_conformance::conformance_suite!(make_store);` applies them all.
//!
//! `make_store` is an async function that takes the clock the store must follow and returns a [`Candidate`]. A behaviour
//! that is not tested here is not promised by [`hapax_engine::store::Store`].
//! `differential_suite!(make_store);` compares its answers to random requests with those of the memory store.

pub mod fixture;

mod candidate;
mod cases;
mod differential;
mod interleaving;
mod memory_tables;
mod suite;
mod user_tables;

pub use candidate::Candidate;
#[doc(hidden)]
pub use differential::run_differential;
pub use differential::{Exercised, differential};
#[doc(hidden)]
pub use interleaving::run_interleavings;
pub use memory_tables::MemoryTables;
#[doc(hidden)]
pub use suite::run_case;
pub use user_tables::{UserRow, UserTables};
