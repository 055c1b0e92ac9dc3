//! Families of runs: cancelling a root together with all its descendants.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{JournalEntry, RunHead, RunId, Subscribers, Version, WorkspaceId};

/// Stores the state of families beyond the runs themselves.
#[async_trait]
pub trait FamilyStore: Send + Sync {
    /// Marks the family of a root as cancelled. From then on no more children start in it
    /// ([`crate::model::decide_add_children`]), so a sweep reaches all members.
    ///
    /// The root may have ended. If the family is marked, it keeps its mark and is swept again.
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome>;

    /// Asks open members of a cancelled family to cancel, by [`crate::model::decide_command`]: first the
    /// root, then its descendants in the order of their ids, a limited number per call. Refusals are ignored.
    /// Members that end by it have the usual consequences of an ending.
    ///
    /// When no member is left, it marks the family as swept. A family that was not cancelled is left alone.
    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweepFamilyOutcome>;

    /// Lists cancelled families that are not swept, in all workspaces, in the order of their roots.
    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>>;
}

/// An operator's request to cancel a root with all its descendants.
#[derive(Debug, Clone)]
pub struct CancelFamily {
    /// Workspace of the root.
    pub workspace: WorkspaceId,
    /// Id of the root.
    pub root: RunId,
    /// The reason, for the histories.
    pub reason: String,
    /// Version that the root must have, if given.
    pub expected: Option<Version>,
    /// Entry for the journal.
    pub note: Option<JournalEntry>,
}

/// Outcome of [`CancelFamily`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CancelFamilyOutcome {
    /// No more children start in the family. The root as it is now.
    Cancelled(RunHead),
    /// The run has a parent. This is the root of its family.
    NotRoot(RunId),
    /// The root has changed. This is its version.
    Stale(Version),
    /// The workspace has no such run.
    NoSuchRun,
}

/// One batch of a sweep.
#[derive(Debug, Clone)]
pub struct SweepFamily {
    /// Workspace of the family.
    pub workspace: WorkspaceId,
    /// Root of the family.
    pub root: RunId,
    /// Continue after this descendant. `None` starts with the root.
    pub after: Option<RunId>,
    /// Maximum number of members, at most [`crate::limits::MAX_SWEEP`].
    pub limit: usize,
    /// Subscribers to announce the runs to that this batch ends.
    pub announce: Subscribers,
}

/// Outcome of [`SweepFamily`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepFamilyOutcome {
    /// Members that were asked to cancel, or ended at once.
    pub steered: Vec<RunHead>,
    /// Where the next batch continues. `None` at the end.
    pub next: Option<RunId>,
}
