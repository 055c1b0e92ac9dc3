//! Archives and deletes definitions. Each change is in the audit log, and takes effect on this node
//! at once.

use std::sync::Arc;

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{CatalogKind, JournalEntry, JournalEvent, Name, Payload, Version, WorkspaceId};
use hapax_engine::store::{ListRuns, PutCatalogItem, PutOutcome};
use serde_json::value::RawValue;

use super::{Definition, DefinitionBody, Definitions, Lifecycle, absent};
use crate::errors::{problem_of_invalid, problem_of_store};
use crate::identity::Acting;
use crate::limits::{MAX_COUNTED_OPEN_RUNS, MAX_DESCRIPTION_CHARS};
use crate::open_runs::OPEN;

/// How often a change is retried after a conflict.
const TRIES: u32 = 5;

impl Definitions {
    /// Archives or unarchives a definition. Repeating the request changes nothing.
    pub(crate) async fn change(
        &self,
        identity: &Acting,
        id: &str,
        asked: &api::ChangeDefinition,
        expected: Option<Version>,
    ) -> Result<Arc<Definition>, Problem> {
        check_reason("/reason", asked.reason.as_deref())?;
        self.get(&identity.workspace, id).await?;
        let (to, verb) = match asked.status {
            api::DefinitionStatus::Active => (Lifecycle::Active, "taken out of the archive"),
            api::DefinitionStatus::Archived => (Lifecycle::Archived, "archived"),
        };
        self.put(identity, id, to, expected, &with_reason(verb, asked.reason.as_deref())).await
    }

    /// Deletes a definition, unless open runs need it.
    pub(crate) async fn delete(
        &self,
        identity: &Acting,
        id: &str,
        reason: Option<&str>,
        expected: Option<Version>,
    ) -> Result<Arc<Definition>, Problem> {
        check_reason("query:reason", reason)?;
        let found = self.get(&identity.workspace, id).await?;
        let open = self.count_open_runs(&identity.workspace, &found).await?;
        if open > 0 {
            let detail = format!(
                "{open} open run(s) of {} need it; nothing was deleted. Archive it, wait for them or cancel them, then \
                 delete it.",
                found.selector()
            );
            return Err(Problem::new(Code::DefinitionInUse, detail).with("openRuns", open));
        }
        self.put(identity, id, Lifecycle::Deleted, expected, &with_reason("deleted", reason)).await
    }

    /// Recreates a deleted definition with the same content.
    pub(super) async fn revive(
        &self,
        identity: &Acting,
        found: &Definition,
    ) -> Result<Arc<Definition>, Problem> {
        self.put(identity, found.id.as_str(), Lifecycle::Active, None, "created again").await
    }

    /// Counts the runs of this version that have not ended, up to a limit.
    async fn count_open_runs(&self, workspace: &WorkspaceId, of: &Definition) -> Result<usize, Problem> {
        let (mut open, mut before) = (0, None);
        loop {
            let request = ListRuns {
                workspace: Some(workspace.clone()),
                statuses: OPEN.into(),
                workflow: Some(of.selector().name),
                filter: Default::default(),
                before,
                limit: MAX_PAGE,
            };
            let page = self.store.list_runs(request).await.map_err(|error| problem_of_store(&error))?;
            open += page.runs.iter().filter(|run| run.head.facts.workflow.version == of.version()).count();
            before = page.next;
            if before.is_none() || open >= MAX_COUNTED_OPEN_RUNS {
                return Ok(open.min(MAX_COUNTED_OPEN_RUNS));
            }
        }
    }

    /// Writes the next lifecycle state. Retries after a conflict if no revision was expected.
    async fn put(
        &self,
        identity: &Acting,
        id: &str,
        to: Lifecycle,
        expected: Option<Version>,
        what: &str,
    ) -> Result<Arc<Definition>, Problem> {
        let workspace = &identity.workspace;
        let id = Name::new("definition id", id).map_err(|_| absent())?;
        for _ in 0..TRIES {
            let item = self.catalog().find_item(CatalogKind::Definition, &id).await;
            let item =
                item.map_err(|error| problem_of_store(&error))?.filter(|item| item.workspace == *workspace);
            let item = item.ok_or_else(absent)?;
            let found = self.learn(&item)?;
            if let Some(expected) = expected.filter(|expected| *expected != item.version) {
                let (now, seen) = (item.version.get(), expected.get());
                let detail = format!("The definition is at revision {now}, not {seen}; look at it again.");
                return Err(Problem::new(Code::Concurrency, detail).with("version", now));
            }
            if found.lifecycle == to {
                return Ok(found);
            }
            let document = RawValue::from_string(found.document.text().to_owned()).map_err(|error| {
                tracing::error!(definition = %id, %error, "a stored definition cannot be read");
                let detail = "A stored definition cannot be read. Report `traceId` to the operator.";
                Problem::new(Code::StoreBroken, detail)
            })?;
            let kept = DefinitionBody { digest: found.digest.clone(), document, lifecycle: to };
            let event =
                JournalEvent::SetUp { kind: "definition".into(), id: id.to_string(), change: what.into() };
            let by = identity.actor(None);
            let note = JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), event);
            let request = PutCatalogItem {
                workspace: workspace.clone(),
                kind: CatalogKind::Definition,
                id: id.clone(),
                name: item.name.clone(),
                body: Payload::of(&kept).map_err(|invalid| problem_of_invalid(&invalid))?,
                expected: Some(item.version),
                note: Some(note),
            };
            match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
                PutOutcome::Put(item) => return self.learn(&item),
                PutOutcome::Stale(_)
                | PutOutcome::NameTaken(_)
                | PutOutcome::Exists(_)
                | PutOutcome::Missing => {}
            }
        }
        let detail = "Other requests keep changing the definition. Send the request again.";
        Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1))
    }
}

pub(crate) fn check_reason(path: &'static str, reason: Option<&str>) -> Result<(), Problem> {
    match reason {
        Some(reason) if reason.trim().is_empty() || reason.chars().count() > MAX_DESCRIPTION_CHARS => {
            let detail = format!("Use 1 to {MAX_DESCRIPTION_CHARS} characters.");
            Err(Problem::new(Code::InvalidRequest, detail).with("path", path))
        }
        _ => Ok(()),
    }
}

pub(crate) fn with_reason(verb: &str, reason: Option<&str>) -> String {
    reason.map_or(verb.into(), |reason| format!("{verb}: {reason}"))
}
