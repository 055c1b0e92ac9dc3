//! Renewing leases.

use std::time::Duration;

use crate::model::{Fence, OwnerId, RunId, WorkspaceId};

/// A lease that the caller believes it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// Workspace of the run.
    pub workspace: WorkspaceId,
    /// Id of the run.
    pub run: RunId,
    /// Fence it was granted under.
    pub fence: Fence,
}

/// A worker's request to renew its leases.
#[derive(Debug, Clone)]
pub struct RenewLeases {
    /// The worker.
    pub owner: OwnerId,
    /// New duration, from now.
    pub lease_for: Duration,
    /// The leases, at most [`crate::limits::MAX_RENEWALS`].
    pub leases: Vec<HeldLease>,
}
