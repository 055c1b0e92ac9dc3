//! Reading the journal, the audit log and the steps in doubt.

use crate::model::{AuditSubject, JournalEntry, RunId, StepId, StepRecord, Timestamp, WorkspaceId};

/// Selects journal entries to list.
#[derive(Debug, Clone)]
pub struct ListJournal {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only entries about this run.
    pub run: Option<RunId>,
    /// Only entries of people.
    pub by_people: bool,
    /// Only entries after this sequence number, the last of the previous page.
    pub after: u64,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// A journal entry with its sequence number.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJournalEntry {
    /// Sequence number. It rises from entry to entry. If several processes write at the same time, an entry
    /// may become visible after one with a higher number.
    pub place: u64,
    /// The entry.
    pub note: JournalEntry,
}

/// Filter of the audit log. Absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Id of the credential.
    pub credential: Option<String>,
    /// The person ([`crate::model::Actor::person`]).
    pub name: Option<String>,
    /// The action ([`crate::model::JournalEvent::action`]).
    pub action: Option<String>,
    /// The run.
    pub run: Option<RunId>,
    /// The subject, if not a run ([`crate::model::JournalEvent::subject`]).
    pub subject: Option<AuditSubject>,
    /// Earliest time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest time, exclusive.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Returns true if the entry matches.
    pub fn fits(&self, note: &JournalEntry) -> bool {
        let Some(by) = &note.by else { return false };
        self.credential.as_deref().is_none_or(|credential| by.credential() == Some(credential))
            && self.name.as_deref().is_none_or(|name| by.person() == name)
            && self.action.as_deref().is_none_or(|action| note.what.action() == action)
            && self.run.is_none_or(|run| note.run == run)
            && self.subject.as_ref().is_none_or(|subject| note.what.subject().as_ref() == Some(subject))
            && self.since.is_none_or(|since| note.at >= since)
            && self.until.is_none_or(|until| note.at < until)
    }
}

/// Position in the audit log: by time, then by sequence number in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditCursor {
    /// Time of the entry.
    pub at: Timestamp,
    /// Sequence number in the journal.
    pub place: u64,
}

/// Selects a page of the audit log: actions of people, oldest first.
#[derive(Debug, Clone)]
pub struct ListAudit {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Only entries that match.
    pub filter: AuditFilter,
    /// Only entries after this position, the last of the previous page.
    pub after: Option<AuditCursor>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

impl ListAudit {
    /// Start of the page: only entries after this position are on it.
    pub fn start(&self) -> (Timestamp, u64) {
        // Sequence numbers begin at 1, so 0 is before every entry of its instant.
        let since = self.filter.since.map(|since| (since, 0));
        let after = self.after.map(|after| (after.at, after.place));
        since.max(after).unwrap_or((Timestamp::from_millis(0), 0))
    }
}

/// Selects doubts to list.
#[derive(Debug, Clone)]
pub struct ListDoubts {
    /// Only this workspace. `None` lists all.
    pub workspace: Option<WorkspaceId>,
    /// Only doubts after this position, the last of the previous page.
    pub after: Option<DoubtCursor>,
    /// Page size, at most [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

/// Position in the list of doubts: the oldest doubt comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoubtCursor {
    /// When it came into doubt.
    pub since: Timestamp,
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepId,
}

/// A step in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDoubt {
    /// Workspace of its run.
    pub workspace: WorkspaceId,
    /// Its run.
    pub run: RunId,
    /// Its record.
    pub step: StepRecord,
}
