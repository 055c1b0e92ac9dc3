//! The contract on idempotency, clause by clause, over HTTP (CONTRACT §2 to §5), and on promises (§7).

use crate::support;

#[path = "contract/acceptance.rs"]
mod acceptance;
#[path = "contract/business_keys.rs"]
mod business_keys;
#[path = "contract/conformance.rs"]
mod conformance;
#[path = "contract/crowds.rs"]
mod crowds;
#[path = "contract/durable_promises.rs"]
mod durable_promises;
#[path = "contract/faults.rs"]
mod faults;
#[path = "contract/key_support.rs"]
mod key_support;
#[path = "contract/promise_keys.rs"]
mod promise_keys;
#[path = "contract/promises.rs"]
mod promises;
#[path = "contract/request_keys.rs"]
mod request_keys;
#[path = "contract/settle_links.rs"]
mod settle_links;

use serde_json::{Value, json};
use support::{Answer, TestServer};

const RUNS: &str = "/api/v1/workflow-runs";

/// A request for a run of `definition` that charges this amount.
fn charge(definition: &str, amount: u64) -> Value {
    json!({ "definitionId": definition, "input": { "amount": amount } })
}

/// How many runs the workspace has.
async fn count_runs(server: &TestServer) -> usize {
    server.get(&format!("{RUNS}?limit=200")).await.json()["items"].as_array().unwrap().len()
}

fn run_of(answer: &Answer) -> String {
    let shown = answer.json();
    let id = shown["run"]["id"].as_str();
    id.unwrap_or_else(|| panic!("no run in {} {shown}", answer.status)).to_owned()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == Some("true")
}
