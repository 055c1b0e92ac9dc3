//! The engine of Hapax: a pure model with the rules, a store with few atomic verbs, and a runtime that drives runs.

pub mod clock;
pub mod ctx;
pub mod duration_text;
pub mod fsck;
pub mod hold;
pub mod lease;
pub mod limits;
pub mod memory;
pub mod model;
mod patience;
pub mod runtime;
pub mod store;
pub mod testing;

pub use ctx::Ctx;
pub use hold::Hold;
pub use model::Failure;
pub use runtime::{Engine, EngineOptions, Error, RunHandle};
