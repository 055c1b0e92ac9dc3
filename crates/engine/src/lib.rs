//! The engine of Hapax: a pure model with the rules, a store with few atomic verbs, and a runtime that executes runs.
//!
//! [`Engine`] is the entry point. Launch it on a [`store::Store`], register workflows, and start runs:
//!
//! ```
//! use std::sync::Arc;
//!
//! use hapax_engine::clock::SystemClock;
//! use hapax_engine::memory::MemoryStore;
//! use hapax_engine::{Ctx, Engine, EngineOptions, Failure};
//!
//! async fn greeting(name: &str) -> Result<String, Failure> {
//!     Ok(format!("Hello, {name}"))
//! }
//!
//! async fn greet(ctx: Ctx, name: String) -> Result<String, Failure> {
//!     ctx.step("greet", |_| greeting(&name)).await
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let clock = Arc::new(SystemClock::new());
//! let store = Arc::new(MemoryStore::new(clock.clone()));
//! let engine = Engine::launch(store, clock, EngineOptions::default())?;
//! engine.register("greet", greet)?;
//! let run = engine.start("greet", "Ada").idempotency_key("greet-ada").await?;
//! assert_eq!(run.result::<String>().await?, "Hello, Ada");
//! # Ok::<_, hapax_engine::Error>(())
//! # }).unwrap();
//! ```
//!
//! Inside a workflow, [`Ctx`] gives access to steps, timers, signals, promises and child runs. Most programs depend
//! on the `hapax` crate, which opens a store by URL and launches the engine.

pub mod clock;
pub mod ctx;
pub mod duration_text;
pub mod fsck;
pub mod hold;
pub mod lease;
pub mod limits;
pub mod memory;
pub mod model;
pub mod remote;
pub mod runtime;
pub mod store;
pub mod testing;
mod timeout;

pub use ctx::Ctx;
pub use hold::Hold;
pub use model::Failure;
pub use runtime::{Engine, EngineOptions, Error, RunHandle};
