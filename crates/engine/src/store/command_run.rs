//! Operator commands.

use crate::model::{JournalEntry, Refusal, RunCommand, RunHead, RunId, Subscribers, Version, WorkspaceId};

/// An operator's command on a run.
#[derive(Debug, Clone)]
pub struct CommandRun {
    /// Workspace of the run.
    pub workspace: WorkspaceId,
    /// Id of the run.
    pub run: RunId,
    /// The command.
    pub command: RunCommand,
    /// Version that the run must have, if given.
    pub expected: Option<Version>,
    /// Journal entry to append if the command is accepted.
    pub note: Option<JournalEntry>,
    /// Subscribers to announce the runs to that this command ends.
    pub announce: Subscribers,
}

/// Outcome of [`CommandRun`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum RunCommandOutcome {
    /// Carried out, or durably requested. The run as it is now.
    Accepted(RunHead),
    /// Refused. The run is unchanged.
    Refused(Refusal, RunHead),
    /// The workspace has no such run.
    NoSuchRun,
}
