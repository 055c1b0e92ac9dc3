//! Runs over HTTP: start, read and steer them.

use crate::support;

#[path = "runs/approvals.rs"]
mod approvals;
#[path = "runs/by_name.rs"]
mod by_name;
#[path = "runs/doubts.rs"]
mod doubts;
#[path = "runs/events.rs"]
mod events;
#[path = "runs/families.rs"]
mod families;
#[path = "runs/input_schemas.rs"]
mod input_schemas;
#[path = "runs/lists.rs"]
mod lists;
#[path = "runs/masking.rs"]
mod masking;
#[path = "runs/nodes.rs"]
mod nodes;
#[path = "runs/reference_pages.rs"]
mod reference_pages;
#[path = "runs/starting.rs"]
mod starting;
#[path = "runs/steering.rs"]
mod steering;

use serde_json::{Value, json};

const RUNS: &str = "/api/v1/workflow-runs";

/// A document that waits for the signal `go` and gives what it carries.
fn waits(name: &str) -> Value {
    json!({ "name": name, "version": 1, "steps": [{ "name": "go", "type": "signal" }] })
}
