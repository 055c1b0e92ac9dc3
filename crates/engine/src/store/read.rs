//! What can be read from a store.

use crate::model::{
    IdempotencyKey, KeyKind, Name, Payload, Promise, RunHead, RunId, RunResult, RunStatus, Signal, StepId,
    StepRecord, WorkspaceId,
};

/// One run for people: where it stands, what it works on, what it ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// Where it stands.
    pub head: RunHead,
    /// What its current generation works on.
    pub input: Payload,
    /// What it ended with, if it ended.
    pub result: Option<RunResult>,
}

/// Everything a replay needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLog {
    /// Where the run stands.
    pub head: RunHead,
    /// What its current generation works on.
    pub input: Payload,
    /// The step records of its current generation, in the order they started.
    pub steps: Vec<StepRecord>,
    /// Its promises, and those that stand alone and that it waits for.
    pub promises: Vec<Promise>,
    /// Its unconsumed signals, in the order they came.
    pub signals: Vec<Signal>,
    /// Its children that waiting steps name, with what they ended with, if they ended.
    pub children: Vec<(RunId, Option<RunResult>)>,
    /// Steps of its current generation whose records retries dropped, by id, with the highest attempt that was dropped.
    pub attempts_before: Vec<(StepId, u32)>,
}

/// Which runs to list.
#[derive(Debug, Clone)]
pub struct ListRuns {
    /// Of this workspace; `None` lists all, for checks of the whole store.
    pub workspace: Option<WorkspaceId>,
    /// Only with one of these statuses; empty means any.
    pub statuses: Vec<RunStatus>,
    /// Only of this workflow.
    pub workflow: Option<Name>,
    /// Only runs older than this one; where the page before ended.
    pub before: Option<RunId>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// One page of runs, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunView>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<RunId>,
}

/// A key's place in its store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKey {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What it names.
    pub kind: KeyKind,
    /// The key.
    pub key: IdempotencyKey,
}
