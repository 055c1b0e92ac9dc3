//! Families of runs: cancelling a root together with everything that descends from it.

use async_trait::async_trait;

use super::StoreResult;
use crate::model::{JournalEntry, RunHead, RunId, Subscribers, Version, WorkspaceId};

/// What a store keeps of the descendants of a root beyond the runs themselves.
#[async_trait]
pub trait FamilyStore: Send + Sync {
    /// Marks the family of a root as cancelled. From then on nobody is born into it ([`crate::model::decide_births`]), so that the members
    /// that a sweep has to reach are all there.
    ///
    /// The root may have ended. A family that is marked stays as it is, and is swept again.
    async fn cancel_family(&self, request: CancelFamily) -> StoreResult<CancelFamilyOutcome>;

    /// Asks open members of a cancelled family to cancel, by [`crate::model::decide_command`]: the root, and then its descendants in the order
    /// of their ids, a bounded number at a time. Refusals are ignored. What ends by it has the consequences of every ending.
    ///
    /// Once nobody is left it marks the family as swept. A family that was not cancelled is left alone.
    async fn sweep_family(&self, request: SweepFamily) -> StoreResult<SweptFamily>;

    /// Cancelled families that are not swept, of all workspaces, in the order of their roots.
    async fn list_unswept_families(&self, limit: usize) -> StoreResult<Vec<(WorkspaceId, RunId)>>;
}

/// A person's wish to end a root with everything that descends from it.
#[derive(Debug, Clone)]
pub struct CancelFamily {
    /// The workspace of the root.
    pub workspace: WorkspaceId,
    /// The root.
    pub root: RunId,
    /// Why, for the histories.
    pub reason: String,
    /// Only if the root still has this version.
    pub expected: Option<Version>,
    /// What the journal is told.
    pub note: Option<JournalEntry>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum CancelFamilyOutcome {
    /// Nobody is born into the family any more; the root as it is.
    Cancelled(RunHead),
    /// The run has a parent: this is the root of its family.
    NotRoot(RunId),
    /// The root moved on since the caller looked.
    Stale(Version),
    /// There is no such run in the workspace.
    NoSuchRun,
}

/// One batch of a sweep.
#[derive(Debug, Clone)]
pub struct SweepFamily {
    /// The workspace of the family.
    pub workspace: WorkspaceId,
    /// Its root.
    pub root: RunId,
    /// Descendants after this one; `None` begins with the root.
    pub after: Option<RunId>,
    /// How many at most; cut to [`crate::limits::MAX_SWEEP`].
    pub limit: usize,
    /// Who is told of runs that end by it.
    pub announce: Subscribers,
}

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweptFamily {
    /// Members that were asked to cancel, or ended at once.
    pub steered: Vec<RunHead>,
    /// Where the next batch begins; `None` if there is none.
    pub next: Option<RunId>,
}
