//! Runs workflows of a Hapax server in this process.
//!
//! A [`Remote`] is a connection to a server: it starts runs and acts on them there, and it runs the code that is
//! registered with it. The code gets the same [`hapax_engine::Ctx`] as in an engine; `hapax_engine::remote` has its side
//! of the worker protocol, this crate the network's.

mod calls;
mod errors;
mod limits;
mod operations;
mod options;
mod outbox;
mod requests;
mod run_task;
mod session;
mod transition;
pub mod wire;
mod worker;

pub use calls::TaskCall;
pub use operations::{RemoteRunRef, RemoteSettled, RemoteStart};
pub use options::RemoteOptions;
pub use transition::{RemoteTransition, RemoteTransitionOutcome};
pub use worker::Remote;
