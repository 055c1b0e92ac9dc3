//! Commands of people.

use crate::model::{JournalEntry, Refusal, RunCommand, RunHead, RunId, Subscribers, Version, WorkspaceId};

/// A person's command on a run.
#[derive(Debug, Clone)]
pub struct CommandRun {
    /// The workspace of the run.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: RunId,
    /// What to do.
    pub command: RunCommand,
    /// Only if the run still has this version.
    pub expected: Option<Version>,
    /// What the journal is told, if the command is carried out.
    pub note: Option<JournalEntry>,
    /// Who is told, if the command ends the run or others with it.
    pub announce: Subscribers,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RunCommandOutcome {
    /// Done, or durably asked for; the run as it is now.
    Steered(RunHead),
    /// Refused; the run as it is.
    Refused(Refusal, RunHead),
    /// There is no such run in the workspace.
    NoSuchRun,
}
