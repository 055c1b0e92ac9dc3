//! Commands of people.

use crate::model::{Note, Refusal, RunHead, RunId, Steer, Subscribers, Version, WorkspaceId};

/// A person's command on a run.
#[derive(Debug, Clone)]
pub struct SteerRun {
    /// The workspace of the run.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: RunId,
    /// What to do.
    pub command: Steer,
    /// Only if the run still has this version.
    pub expected: Option<Version>,
    /// What the journal is told, if the command is carried out.
    pub note: Option<Note>,
    /// Who is told, if the command ends the run or others with it.
    pub announce: Subscribers,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SteerOutcome {
    /// Done, or durably asked for; the run as it is now.
    Steered(RunHead),
    /// Refused; the run as it is.
    Refused(Refusal, RunHead),
    /// There is no such run in the workspace.
    NoSuchRun,
}
