//! Signals: messages to a run, kept until it consumes them.

use super::{Name, Payload, SignalId, Timestamp};

/// A stored signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Sequence number among the arrivals of the run.
    pub seq: u64,
    /// Name that the run waits for.
    pub name: Name,
    /// Id of this sending, if the sender gave one.
    pub id: Option<SignalId>,
    /// Content.
    pub payload: Payload,
    /// When it was stored.
    pub at: Timestamp,
    /// True if a step has consumed it.
    pub consumed: bool,
}
