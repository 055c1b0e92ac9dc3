//! Checks that secrets and payloads do not leak. It is a program of its own, because it reads all
//! logs of its process.

mod support;

#[path = "routes/canaries.rs"]
mod scan;

const RUNS: &str = "/api/v1/workflow-runs";
