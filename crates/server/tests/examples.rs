//! The examples of the API description: each is sent to a real server, and the answer has the status and the shape of the example.

use crate::support;

#[path = "examples/entities.rs"]
mod entities;
#[path = "examples/ledger.rs"]
mod ledger;
#[path = "examples/promises.rs"]
mod promises;
#[path = "examples/recorder.rs"]
mod recorder;
#[path = "examples/runs.rs"]
mod runs;
#[path = "examples/server.rs"]
mod server;
#[path = "examples/webhooks_in.rs"]
mod webhooks_in;
#[path = "examples/webhooks_out.rs"]
mod webhooks_out;
#[path = "examples/workers.rs"]
mod workers;
