//! Workers: sessions over HTTP, and runs whose code is in a worker that the test plays.

use crate::support;

#[path = "workers/attempts.rs"]
mod attempts;
#[path = "workers/bound.rs"]
mod bound;
#[path = "workers/calls.rs"]
mod calls;
#[path = "workers/nodes.rs"]
mod nodes;
#[path = "workers/push.rs"]
mod push;
#[path = "workers/replays.rs"]
mod replays;
#[path = "workers/runs.rs"]
mod runs;
#[path = "workers/sessions.rs"]
mod sessions;
#[path = "workers/worker.rs"]
pub mod worker;
