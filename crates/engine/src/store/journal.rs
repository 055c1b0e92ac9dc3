//! Reading the journal, and the effects in doubt.

use crate::model::{Note, RunId, StepId, StepRecord, Timestamp, WorkspaceId};

/// Which entries of the journal to list.
#[derive(Debug, Clone)]
pub struct ListNotes {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only what people did.
    pub by_people: bool,
    /// Only entries after this place; where the page before ended.
    pub after: u64,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One entry with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedNote {
    /// Its place: rises from entry to entry. Of entries written at the same time by several processes, one with a lower place may
    /// become visible after one with a higher.
    pub place: u64,
    /// The entry.
    pub note: Note,
}

/// Which doubts to list.
#[derive(Debug, Clone)]
pub struct ListDoubts {
    /// Of this workspace; `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only doubts after this one; where the page before ended.
    pub after: Option<DoubtPlace>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// A doubt's place in the list: the longest in doubt first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoubtPlace {
    /// Since when.
    pub since: Timestamp,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
}

/// A step in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDoubt {
    /// The workspace of its run.
    pub workspace: WorkspaceId,
    /// Its run.
    pub run: RunId,
    /// The record.
    pub step: StepRecord,
}
