//! Creates and changes sources. Each change is in the audit log, and takes effect on this node at
//! once.

use std::sync::Arc;

use hapax_api::{Code, Problem, SourceStatus};
use hapax_documents::CheckedSource;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Actor, CatalogKind, JournalEntry, JournalEvent, Name, Payload, Version, WorkspaceId,
};
use hapax_engine::store::{ListCatalogItems, PutCatalogItem, PutOutcome};
use serde_json::value::RawValue;

use super::InboundWebhooks;
use super::source::{SourceBody, StoredSource};
use super::sources::no_such_source;
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::limits::{
    MAX_DESCRIPTION_CHARS, MAX_SOURCE_NAMES_PER_WORKSPACE, MAX_SOURCES, MAX_SOURCES_PER_WORKSPACE,
};
use crate::uploaded::Uploaded;

/// How often a change is retried after a conflict.
const TRIES: u32 = 5;

/// Result of an upload.
pub(crate) enum Uploading {
    /// It was created.
    Made(Arc<StoredSource>),
    /// It already exists, unchanged.
    Found(Arc<StoredSource>),
}

impl InboundWebhooks {
    /// Checks a source and stores it under a new id. The same document is found; a different one of
    /// the same name is not replaced. A deleted source is recreated under its old id, so that its
    /// events are still recognized as duplicates.
    pub(crate) async fn create_source(
        &self,
        workspace: &WorkspaceId,
        uploaded: &Uploaded,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        let checked = uploaded.check_source()?;
        self.check_quota(workspace)?;
        self.check_names(workspace, &checked.source().name).await?;
        let kept =
            SourceBody { state: SourceStatus::Enabled, reason: None, document: document_of(&checked)? };
        for _ in 0..TRIES {
            let taken = match self.put_new(workspace, &checked, &kept, by.clone()).await? {
                Ok(made) => return Ok(Uploading::Made(made)),
                Err(taken) => taken,
            };
            if !taken.is_deleted() {
                return match taken.kept.document.get() == checked.canonical() {
                    true => Ok(Uploading::Found(taken)),
                    false => Err(name_taken(&taken)),
                };
            }
            let note = self.note(workspace, by.clone(), &taken.id, "created again");
            if let Some(made) = self.put_source(&taken, &kept, note).await? {
                return Ok(Uploading::Made(made));
            }
        }
        Err(keeps_changing())
    }

    /// Stores a source under a fresh id, or returns the one that has its name.
    async fn put_new(
        &self,
        workspace: &WorkspaceId,
        checked: &CheckedSource,
        kept: &SourceBody,
        by: Actor,
    ) -> Result<Result<Arc<StoredSource>, Arc<StoredSource>>, Problem> {
        let id = fresh_id()?;
        let request = PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::Source,
            name: checked.source().name.clone(),
            body: body_of(kept)?,
            expected: None,
            note: Some(self.note(workspace, by, &id, "created")),
            id,
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => Ok(Ok(self.learn(&item)?)),
            PutOutcome::NameTaken(item) => Ok(Err(self.learn(&item)?)),
            other @ (PutOutcome::Exists(_) | PutOutcome::Stale(_) | PutOutcome::Missing) => {
                tracing::error!(?other, "a fresh source id was taken");
                let detail = "The source could not be created. Send the request again.";
                Err(Problem::new(Code::Internal, detail))
            }
        }
    }

    /// Replaces the document of a source; its id, and so its address, stays. `expected` is the
    /// version to replace, if the caller gave one.
    pub(crate) async fn replace_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        uploaded: &Uploaded,
        expected: Option<Version>,
        by: Actor,
    ) -> Result<Arc<StoredSource>, Problem> {
        let checked = uploaded.check_source()?;
        if checked.source().name != name {
            let detail = format!("The document names the source {:?}; send it there.", checked.source().name);
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/name"));
        }
        let document = document_of(&checked)?;
        self.change_source(workspace, name, expected, by, "replaced", Change::Replace { document }).await
    }

    /// Enables, disables or deletes a source. Repeating the request changes nothing.
    pub(crate) async fn steer_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        to: SourceStatus,
        reason: Option<&str>,
        expected: Option<Version>,
        by: Actor,
    ) -> Result<Arc<StoredSource>, Problem> {
        if let Some(reason) = reason
            && (reason.trim().is_empty() || reason.chars().count() > MAX_DESCRIPTION_CHARS)
        {
            let detail = format!("Use 1 to {MAX_DESCRIPTION_CHARS} characters.");
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/reason"));
        }
        let verb = match to {
            SourceStatus::Enabled => "enabled",
            SourceStatus::Disabled => "disabled",
            SourceStatus::Deleted => "deleted",
        };
        let what = reason.map_or(verb.into(), |reason| format!("{verb}: {reason}"));
        self.change_source(workspace, name, expected, by, &what, Change::RunCommand { to, reason }).await
    }

    /// Changes a stored source. Retries after a conflict if no version was expected.
    async fn change_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        expected: Option<Version>,
        by: Actor,
        what: &str,
        change: Change<'_>,
    ) -> Result<Arc<StoredSource>, Problem> {
        for _ in 0..TRIES {
            let found = self.find_source(workspace, name).await?.ok_or_else(no_such_source)?;
            let changed = decide_change(&found.kept, &change);
            if matches!(changed, SourceChange::Gone) {
                return Err(no_such_source());
            }
            if let Some(expected) = expected.filter(|expected| *expected != found.version) {
                let detail = format!(
                    "The source is at version {}, not {}; look at it again.",
                    found.version.get(),
                    expected.get()
                );
                return Err(Problem::new(Code::Concurrency, detail).with("version", found.version.get()));
            }
            let SourceChange::To(kept) = changed else { return Ok(found) };
            let note = self.note(workspace, by.clone(), &found.id, what);
            if let Some(changed) = self.put_source(&found, &kept, note).await? {
                return Ok(changed);
            }
        }
        Err(keeps_changing())
    }

    /// Writes a stored source, unless it has changed in the meantime.
    async fn put_source(
        &self,
        found: &StoredSource,
        kept: &SourceBody,
        note: JournalEntry,
    ) -> Result<Option<Arc<StoredSource>>, Problem> {
        let request = PutCatalogItem {
            workspace: found.workspace.clone(),
            kind: CatalogKind::Source,
            id: found.id.clone(),
            name: found.name().to_owned(),
            body: body_of(kept)?,
            expected: Some(found.version),
            note: Some(note),
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => self.learn(&item).map(Some),
            PutOutcome::Stale(_) | PutOutcome::NameTaken(_) | PutOutcome::Exists(_) | PutOutcome::Missing => {
                Ok(None)
            }
        }
    }

    fn check_quota(&self, workspace: &WorkspaceId) -> Result<(), Problem> {
        let known = self.known.read().expect("no holder panics");
        let living = || known.by_id.values().filter(|one| !one.is_deleted());
        let here = living().filter(|one| one.workspace == *workspace).count();
        let (most, of) = match () {
            () if here >= MAX_SOURCES_PER_WORKSPACE => (MAX_SOURCES_PER_WORKSPACE, "workspace"),
            () if living().count() >= MAX_SOURCES => (MAX_SOURCES, "server"),
            () => return Ok(()),
        };
        let detail =
            format!("This {of} holds at most {most} webhook sources. Delete one that is no longer needed.");
        Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "webhookSources"))
    }

    /// Checks the limit on names. Names of deleted sources stay taken, so that no event is accepted
    /// twice; they count too.
    async fn check_names(&self, workspace: &WorkspaceId, name: &str) -> Result<(), Problem> {
        if self.find_source(workspace, name).await?.is_some() {
            return Ok(());
        }
        let (mut names, mut after) = (0, None);
        loop {
            let request = ListCatalogItems {
                workspace: Some(workspace.clone()),
                kind: CatalogKind::Source,
                changed_since: None,
                after,
                limit: MAX_PAGE,
            };
            let items = self.catalog().list_items(request).await.map_err(|error| problem_of_store(&error))?;
            names += items.len();
            if names >= MAX_SOURCE_NAMES_PER_WORKSPACE {
                let detail = format!(
                    "This workspace has used {MAX_SOURCE_NAMES_PER_WORKSPACE} names of webhook sources, which is the limit. Use the name of a deleted source again."
                );
                return Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "webhookSourceNames"));
            }
            match items.last() {
                Some(last) if items.len() == MAX_PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    pub(super) fn note(&self, workspace: &WorkspaceId, by: Actor, id: &Name, change: &str) -> JournalEntry {
        let kind = CatalogKind::Source.as_str().into();
        let what = JournalEvent::SetUp { kind, id: id.to_string(), change: change.into() };
        JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what)
    }
}

/// Requested change of an existing source.
#[derive(Debug)]
enum Change<'a> {
    /// A new document.
    Replace { document: Box<RawValue> },
    /// A new status, and the reason.
    RunCommand { to: SourceStatus, reason: Option<&'a str> },
}

/// Result of a change.
#[derive(Debug, Clone)]
enum SourceChange {
    /// Write this.
    To(SourceBody),
    /// Nothing to change.
    Not,
    /// It was deleted and cannot be changed. Creating a source of that name recreates it.
    Gone,
}

/// Decides the result of a change. Deleting a deleted source changes nothing.
fn decide_change(kept: &SourceBody, change: &Change<'_>) -> SourceChange {
    match (kept.state, change) {
        (SourceStatus::Deleted, Change::RunCommand { to: SourceStatus::Deleted, .. }) => SourceChange::Not,
        (SourceStatus::Deleted, Change::RunCommand { .. } | Change::Replace { .. }) => SourceChange::Gone,
        (SourceStatus::Enabled | SourceStatus::Disabled, Change::Replace { document }) => {
            match kept.document.get() == document.get() {
                true => SourceChange::Not,
                false => SourceChange::To(SourceBody { document: document.clone(), ..kept.clone() }),
            }
        }
        (now @ (SourceStatus::Enabled | SourceStatus::Disabled), Change::RunCommand { to, reason }) => {
            let reason = reason.filter(|_| *to != SourceStatus::Enabled).map(Into::into);
            match now == *to {
                true => SourceChange::Not,
                false => SourceChange::To(SourceBody { state: *to, reason, ..kept.clone() }),
            }
        }
    }
}

fn name_taken(by: &StoredSource) -> Problem {
    let detail = format!(
        "The source {} has different content; replace it with PUT /api/v1/webhook-sources/{0} and `If-Match: \"{}\"`.",
        by.name(),
        by.version.get()
    );
    Problem::new(Code::NameTaken, detail).with("version", by.version.get())
}

fn keeps_changing() -> Problem {
    let detail = "Other requests keep changing the source. Send the request again.";
    Problem::new(Code::StoreUnavailable, detail).retry_after(1)
}

/// A random id. It makes the address hard to guess; the signature is what authenticates a webhook.
fn fresh_id() -> Result<Name, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random bytes");
        Problem::new(Code::Internal, "No id could be created. Report `traceId` to the operator.")
    })?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Name::new("source id", &format!("whk_{hex}")).expect("hex digits are a plain word"))
}

fn document_of(checked: &CheckedSource) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(checked.canonical().to_owned())
        .map_err(|error| Problem::new(Code::SourceInvalid, error.to_string()))
}

fn body_of(kept: &SourceBody) -> Result<Payload, Problem> {
    Payload::of(kept).map_err(|invalid| problem_of_invalid(&invalid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn kept(state: SourceStatus) -> SourceBody {
        SourceBody { state, reason: None, document: document("{}") }
    }

    fn state_after(state: SourceStatus, change: &Change<'_>) -> Result<Option<SourceStatus>, ()> {
        match decide_change(&kept(state), change) {
            SourceChange::To(kept) => Ok(Some(kept.state)),
            SourceChange::Not => Ok(None),
            SourceChange::Gone => Err(()),
        }
    }

    #[test]
    fn a_deleted_source_is_never_changed_whatever_is_asked() {
        use SourceStatus::{Deleted, Disabled, Enabled};
        let steer = |to| Change::RunCommand { to, reason: None };
        for (from, to, expected) in [
            (Enabled, Enabled, Ok(None)),
            (Enabled, Disabled, Ok(Some(Disabled))),
            (Enabled, Deleted, Ok(Some(Deleted))),
            (Disabled, Enabled, Ok(Some(Enabled))),
            (Disabled, Disabled, Ok(None)),
            (Disabled, Deleted, Ok(Some(Deleted))),
            (Deleted, Enabled, Err(())),
            (Deleted, Disabled, Err(())),
            (Deleted, Deleted, Ok(None)),
        ] {
            assert_eq!(state_after(from, &steer(to)), expected, "{from:?} to {to:?}");
        }
        for text in ["{}", "[]"] {
            let replace = Change::Replace { document: document(text) };
            let news = |state| (text != "{}").then_some(state);
            assert_eq!(state_after(Enabled, &replace), Ok(news(Enabled)), "{text}");
            assert_eq!(state_after(Disabled, &replace), Ok(news(Disabled)), "it stays disabled: {text}");
            assert_eq!(state_after(Deleted, &replace), Err(()), "not even the same: {text}");
        }
    }

    #[test]
    fn a_reason_is_kept_for_as_long_as_what_it_is_the_reason_for() {
        let reason = |state, to| {
            let before = SourceBody { reason: Some("before".into()), ..kept(state) };
            match decide_change(&before, &Change::RunCommand { to, reason: Some("now") }) {
                SourceChange::To(kept) => kept.reason,
                SourceChange::Not => before.reason,
                SourceChange::Gone => None,
            }
        };
        assert_eq!(reason(SourceStatus::Enabled, SourceStatus::Disabled).as_deref(), Some("now"));
        assert_eq!(reason(SourceStatus::Disabled, SourceStatus::Disabled).as_deref(), Some("before"));
        assert_eq!(reason(SourceStatus::Disabled, SourceStatus::Enabled), None);
    }
}
