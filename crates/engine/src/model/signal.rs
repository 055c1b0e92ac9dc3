//! Messages sent to a run, kept until it asks for them.

use super::{Name, Payload, SignalId, Timestamp};

/// One stored signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Its place among the arrivals of the run.
    pub seq: u64,
    /// What the run asks for it by.
    pub name: Name,
    /// What the sender calls this sending, if it does.
    pub id: Option<SignalId>,
    /// What it carries.
    pub payload: Payload,
    /// When it was stored.
    pub at: Timestamp,
    /// Was it given to a step?
    pub consumed: bool,
}
