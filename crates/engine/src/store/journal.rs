//! Reading the journal, and the effects in doubt.

use crate::model::{AuditSubject, JournalEntry, RunId, StepId, StepRecord, Timestamp, WorkspaceId};

/// Which entries of the journal to list.
#[derive(Debug, Clone)]
pub struct ListJournal {
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
pub struct PlacedEntry {
    /// Its place: rises from entry to entry. Of entries written at the same time by several processes, one with a lower place may
    /// become visible after one with a higher.
    pub place: u64,
    /// The entry.
    pub note: JournalEntry,
}

/// Which entries of the audit log to list. Absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Id of the credential.
    pub credential: Option<String>,
    /// The person ([`crate::model::Actor::person`]).
    pub name: Option<String>,
    /// What was done ([`crate::model::JournalEvent::action`]).
    pub action: Option<String>,
    /// The run it is about.
    pub run: Option<RunId>,
    /// What else it is about ([`crate::model::JournalEvent::subject`]).
    pub subject: Option<AuditSubject>,
    /// Not before this instant.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
}

impl AuditFilter {
    /// Does an entry fit?
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

/// An entry's place in the audit log: by time, then by place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditPlace {
    /// When.
    pub at: Timestamp,
    /// Its place in the journal.
    pub place: u64,
}

/// A page of the audit log: what people did, oldest first.
#[derive(Debug, Clone)]
pub struct ListAudit {
    /// Of this workspace.
    pub workspace: WorkspaceId,
    /// Only entries that fit.
    pub filter: AuditFilter,
    /// Only entries after this one; where the page before ended.
    pub after: Option<AuditPlace>,
    /// How many at most; cut to [`crate::limits::MAX_PAGE`].
    pub limit: usize,
}

impl ListAudit {
    /// Where the page begins: only entries beyond this place are on it.
    pub fn start(&self) -> (Timestamp, u64) {
        // Places begin at 1, so that of 0 is before every entry of its instant.
        let since = self.filter.since.map(|since| (since, 0));
        let after = self.after.map(|after| (after.at, after.place));
        since.max(after).unwrap_or((Timestamp::from_millis(0), 0))
    }
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
