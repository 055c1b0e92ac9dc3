//! Reading runs and keys.

use crate::model::{
    IdempotencyKey, KeyKind, Name, Payload, Promise, RunHead, RunId, RunResult, RunStatus, Signal, StepId,
    StepRecord, WorkspaceId,
};
use crate::store::RunFilter;

/// A run with its input and result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// State of the run.
    pub head: RunHead,
    /// Input of its current generation.
    pub input: Payload,
    /// Result of the run, if it ended.
    pub result: Option<RunResult>,
}

/// Everything that a replay of a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLog {
    /// State of the run.
    pub head: RunHead,
    /// Input of its current generation.
    pub input: Payload,
    /// Step records of its current generation, in the order they started.
    pub steps: Vec<StepRecord>,
    /// Its promises, and the standalone promises it waits for.
    pub promises: Vec<Promise>,
    /// Its unconsumed signals, in the order they came.
    pub signals: Vec<Signal>,
    /// The children that waiting steps name, with their results if they ended.
    pub children: Vec<(RunId, Option<RunResult>)>,
    /// Steps of its current generation whose records were deleted by retries, by id, each with the highest
    /// deleted attempt.
    pub attempts_before: Vec<(StepId, u32)>,
}

/// Selects runs to list.
#[derive(Debug, Clone)]
pub struct ListRuns {
    /// Only this workspace. `None` lists all, for checks of the whole store.
    pub workspace: Option<WorkspaceId>,
    /// Only these statuses. Empty means any.
    pub statuses: Vec<RunStatus>,
    /// Only this workflow.
    pub workflow: Option<Name>,
    /// Further conditions. A list of all workspaces takes none.
    pub filter: RunFilter,
    /// Only runs older than this one, the last of the previous page.
    pub before: Option<RunId>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One page of runs, newest first. If few runs fit the filter, a page may be short although more follow; check
/// `next`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Where the next page continues. `None` at the end.
    pub next: Option<RunId>,
}

/// Identifies a stored key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKey {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Kind of object the key names.
    pub kind: KeyKind,
    /// The key.
    pub key: IdempotencyKey,
}
