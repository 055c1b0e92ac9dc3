//! Making and changing sources. Each change is in the audit log, and counts on this node at once.

use std::sync::Arc;

use hapax_api::{Code, Problem, SourceState};
use hapax_documents::CheckedSource;
use hapax_engine::model::{Actor, ItemKind, Name, Note, Noted, Payload, Version, WorkspaceId};
use hapax_engine::store::{PutItem, PutOutcome};
use serde_json::value::RawValue;

use super::Hooks;
use super::source::{Kept, StoredSource};
use super::sources::no_such_source;
use crate::errors::{of_invalid, of_store};
use crate::limits::{MAX_DESCRIPTION_CHARS, MAX_SOURCES, MAX_SOURCES_PER_WORKSPACE};
use crate::uploaded::Uploaded;

/// How often a change that met another one is tried anew.
const TRIES: u32 = 5;

/// What an upload came to.
pub(crate) enum Uploading {
    /// It is there now.
    Made(Arc<StoredSource>),
    /// It was there, and says the same.
    Found(Arc<StoredSource>),
}

impl Hooks {
    /// Checks a source and keeps it under a new id. One of its name that says the same is found; another one is not replaced, unless it was
    /// deleted: then it is made again under the id it had, so that what came to it stays a duplicate.
    pub(crate) async fn create_source(
        &self,
        workspace: &WorkspaceId,
        uploaded: &Uploaded,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        let checked = uploaded.check_source()?;
        self.check_quota(workspace)?;
        let id = fresh_id()?;
        let kept = Kept { state: SourceState::Enabled, reason: None, document: document_of(&checked)? };
        let request = PutItem {
            workspace: workspace.clone(),
            kind: ItemKind::Source,
            name: checked.source().name.clone(),
            body: body_of(&kept)?,
            expected: None,
            note: Some(self.note(workspace, by.clone(), &id, "created")),
            id,
        };
        match self.catalog().put_item(request).await.map_err(|error| of_store(&error))? {
            PutOutcome::Put(item) => Ok(Uploading::Made(self.learn(&item)?)),
            PutOutcome::NameTaken(item) => {
                let found = self.learn(&item)?;
                if found.is_deleted() {
                    return self.make_again(&found, kept, by).await;
                }
                match found.kept.document.get() == checked.canonical() {
                    true => Ok(Uploading::Found(found)),
                    false => Err(Problem::new(
                        Code::NameTaken,
                        format!(
                            "The source {} says something else; replace it with POST /api/v1/webhook-sources/{0} and `If-Match: \"{}\"`.",
                            found.name(),
                            found.version.get()
                        ),
                    )
                    .with("version", found.version.get())),
                }
            }
            other @ (PutOutcome::Exists(_) | PutOutcome::Stale(_) | PutOutcome::Missing) => {
                tracing::error!(?other, "a fresh source id was taken");
                let detail = "The source could not be made. Send the request again.";
                Err(Problem::new(Code::Internal, detail))
            }
        }
    }

    async fn make_again(&self, deleted: &StoredSource, kept: Kept, by: Actor) -> Result<Uploading, Problem> {
        let note = self.note(&deleted.workspace, by, &deleted.id, "created again");
        match self.put_source(deleted, &kept, note).await? {
            Some(made) => Ok(Uploading::Made(made)),
            None => Err(keeps_changing()),
        }
    }

    /// Replaces what a source says; its id, and so its address, stays. `expected` is the version that is to be replaced, if it matters.
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
        let replace = |kept: &mut Kept| {
            let is_news = kept.document.get() != document.get() || kept.state == SourceState::Deleted;
            kept.document = document.clone();
            is_news
        };
        self.change_source(workspace, name, expected, by, "replaced", replace).await
    }

    /// Enables, disables or deletes a source. The same again changes nothing.
    pub(crate) async fn steer_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        to: SourceState,
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
            SourceState::Enabled => "enabled",
            SourceState::Disabled => "disabled",
            SourceState::Deleted => "deleted",
        };
        let what = reason.map_or(verb.into(), |reason| format!("{verb}: {reason}"));
        let steer = |kept: &mut Kept| {
            let is_news = kept.state != to;
            kept.state = to;
            if is_news {
                kept.reason = reason.filter(|_| to != SourceState::Enabled).map(Into::into);
            }
            is_news
        };
        self.change_source(workspace, name, expected, by, &what, steer).await
    }

    /// Changes what is kept; anew on what is there, if another change came first and no version was expected. `change` says whether there
    /// is anything to write.
    async fn change_source(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        expected: Option<Version>,
        by: Actor,
        what: &str,
        change: impl Fn(&mut Kept) -> bool,
    ) -> Result<Arc<StoredSource>, Problem> {
        for _ in 0..TRIES {
            let found = self.find_source(workspace, name).await?.ok_or_else(no_such_source)?;
            let mut kept = found.kept.clone();
            let is_news = change(&mut kept);
            if found.is_deleted() && is_news {
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
            if !is_news {
                return Ok(found);
            }
            let note = self.note(workspace, by.clone(), &found.id, what);
            if let Some(changed) = self.put_source(&found, &kept, note).await? {
                return Ok(changed);
            }
        }
        Err(keeps_changing())
    }

    /// Keeps something else of a source, unless it is not any more as it was found.
    async fn put_source(
        &self,
        found: &StoredSource,
        kept: &Kept,
        note: Note,
    ) -> Result<Option<Arc<StoredSource>>, Problem> {
        let request = PutItem {
            workspace: found.workspace.clone(),
            kind: ItemKind::Source,
            id: found.id.clone(),
            name: found.name().to_owned(),
            body: body_of(kept)?,
            expected: Some(found.version),
            note: Some(note),
        };
        match self.catalog().put_item(request).await.map_err(|error| of_store(&error))? {
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

    pub(super) fn note(&self, workspace: &WorkspaceId, by: Actor, id: &Name, change: &str) -> Note {
        let kind = ItemKind::Source.as_str().into();
        let what = Noted::SetUp { kind, id: id.to_string(), change: change.into() };
        Note::on_workspace(workspace.clone(), by, self.store.now(), what)
    }
}

fn keeps_changing() -> Problem {
    let detail = "Others keep changing the source. Send the request again.";
    Problem::new(Code::StoreUnavailable, detail).retry_after(1)
}

/// Not to be guessed, because it is all that stands in an address; what proves a webhook is its signature.
fn fresh_id() -> Result<Name, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the operating system gives no random bytes");
        Problem::new(Code::Internal, "No id could be made. Report `traceId` to the operator.")
    })?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Name::new("source id", &format!("whk_{hex}")).expect("hex digits are a plain word"))
}

fn document_of(checked: &CheckedSource) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(checked.canonical().to_owned())
        .map_err(|error| Problem::new(Code::SourceInvalid, error.to_string()))
}

fn body_of(kept: &Kept) -> Result<Payload, Problem> {
    Payload::of(kept).map_err(|invalid| of_invalid(&invalid))
}
