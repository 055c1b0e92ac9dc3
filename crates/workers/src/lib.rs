//! Workers in any language: their sessions, and runs whose code is in a worker.
//!
//! The server decides, workers propose. A worker opens a session and names the workflows that it has the code of. Each is
//! registered in the engine as a workflow whose function forwards to a session ([`Workers`]). Each item of the worker
//! becomes a call on the context of its run, so every rule is the engine's own: gates, claims, doubts, retries,
//! compensation, the order of a replay.

mod caller;
mod calls;
mod commit;
mod items;
pub mod limits;
mod link;
mod mailbox;
mod mailbox_budget;
mod messages;
mod node_tag;
mod open_operations;
mod operations;
mod push;
mod remote_workflow;
mod session;
#[cfg(test)]
mod simulation;
mod workers;

pub use caller::{WorkerCaller, check_bound_names};
pub use calls::RemoteTask;
pub use commit::Answer;
pub use node_tag::NodeTag;
pub use push::{PushFunction, PushTarget, Pushed, keep_pushing};
pub use workers::{KnownName, Workers};
