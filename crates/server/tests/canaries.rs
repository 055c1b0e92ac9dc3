//! Where secrets and payloads must not be: a program of its own, because it listens to all logs of its process.

mod support;

#[path = "routes/canaries.rs"]
mod scan;

const RUNS: &str = "/api/v1/workflow-runs";
