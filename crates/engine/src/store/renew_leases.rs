//! Keeping leases alive.

use std::time::Duration;

use crate::model::{Fence, OwnerId, RunId, WorkspaceId};

/// One lease the caller believes to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The workspace of the run.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: RunId,
    /// The fence it was granted under.
    pub fence: Fence,
}

/// A worker's request to hold on to its runs.
#[derive(Debug, Clone)]
pub struct RenewLeases {
    /// Who asks.
    pub owner: OwnerId,
    /// For how long from now.
    pub lease_for: Duration,
    /// Which leases; at most [`crate::limits::MAX_RENEWALS`].
    pub leases: Vec<HeldLease>,
}
