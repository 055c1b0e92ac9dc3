//! Workers in any language: their sessions, and runs whose code is in a worker.
//!
//! The server decides, workers propose. A worker opens a session and names the workflows that it has the code of. Each is
//! registered in the engine as a workflow whose function forwards to a session ([`Workers`]). Each item of the worker
//! becomes a call on the context of its run, so every rule is the engine's own: gates, claims, doubts, retries,
//! compensation, the order of a replay.

mod calls;
mod commit;
mod items;
pub mod limits;
mod link;
mod mailbox;
mod messages;
mod open_operations;
mod operations;
mod push;
mod remote_workflow;
mod session;
mod workers;

pub use calls::RemoteTask;
pub use commit::Answer;
pub use push::{PushFunction, PushTarget, Pushed, keep_pushing};
pub use workers::{KnownName, Workers};
