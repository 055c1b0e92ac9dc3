//! Messages between the demo, its worker and the outside world: one JSON object a line.

use serde::{Deserialize, Serialize};

use super::order::Order;

/// Message from the demo to its worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Request {
    /// Start this order; `start` numbers the request.
    Start { start: u64, order: Order },
    /// Count everything and check it.
    Audit,
}

/// Message from the worker to the demo.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub(super) enum Report {
    /// The database is open; these orders were cut off, those are done.
    Opened { unfinished: Vec<u32>, finished: Vec<u32> },
    /// A start was answered.
    Started { start: u64 },
    /// The run of an order has completed.
    Finished { order: u32 },
    /// The run of an order has failed.
    Failed { order: u32, why: String },
    /// Result of an audit.
    Audited(Audit),
}

/// Counts from the database at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Audit {
    pub(super) runs: u64,
    pub(super) completed: u64,
    pub(super) violations: Vec<String>,
}

/// An effect on the outside world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Effect {
    Reserve,
    Charge,
    Ship,
    Mail,
}

impl Effect {
    pub(super) const ALL: [Effect; 4] = [Effect::Reserve, Effect::Charge, Effect::Ship, Effect::Mail];
}

/// A request to a provider. The key is what it tells a repetition by.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) effect: Effect,
    pub(super) order: u32,
    pub(super) cents: u64,
    pub(super) key: String,
}

/// A provider's answer: the number of what it did, the same for every call under one key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProviderAnswer {
    pub(super) reference: String,
}
