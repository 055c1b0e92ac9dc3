//! Uploads and replacements of entity workflows: checked against this server, and stored under one
//! id per entity type.

use std::sync::Arc;

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_documents::CheckedEntity;
use hapax_engine::Error;
use hapax_engine::limits::MAX_PAGE;
use hapax_engine::model::{
    Actor, CatalogKind, EntityWorkflow, JournalEntry, JournalEvent, Name, OperationStatus, Payload,
    UncoveredClaim, Version, WorkspaceId,
};
use hapax_engine::store::{ListOperations, OpenClaim, PutCatalogItem, PutOutcome, StoreError};
use serde_json::value::RawValue;

use super::Entities;
use super::stored::{EntityWorkflowBody, StoredWorkflow};
use super::workflows::id_of;
use crate::definitions::{check_reason, with_reason};
use crate::errors::{problem_of, problem_of_invalid, problem_of_store};
use crate::identity::Acting;
use crate::limits::{MAX_ENTITY_WORKFLOWS, MAX_ENTITY_WORKFLOWS_PER_WORKSPACE};
use crate::uploaded::{Uploaded, with_secrets};

/// How often a change is retried after a conflict.
const TRIES: u32 = 5;

/// Result of an upload.
pub(crate) enum Uploading {
    /// It was created.
    Made(Arc<StoredWorkflow>),
    /// It already exists and is the same, or was replaced.
    Found(Arc<StoredWorkflow>),
}

impl Entities {
    /// Checks an entity workflow and stores it. The same document is found; a different one of the
    /// same name is not replaced.
    pub(crate) async fn create(
        &self,
        workspace: &WorkspaceId,
        uploaded: &Uploaded,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        let checked = self.check(workspace, uploaded).await?;
        self.put_new(workspace, &checked, by).await
    }

    /// Replaces the entity workflow of this name, or creates it. `expected` is the version to
    /// replace, if the caller gave one.
    pub(crate) async fn replace(
        &self,
        workspace: &WorkspaceId,
        name: &str,
        uploaded: &Uploaded,
        expected: Option<Version>,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        let checked = self.check(workspace, uploaded).await?;
        let workflow = checked.document().workflow();
        if workflow.name.as_str() != name {
            let detail = format!(
                "The document names the entity workflow {:?}; send it there.",
                workflow.name.as_str()
            );
            return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/name"));
        }
        for _ in 0..TRIES {
            let Some(found) = self.find(workspace, name).await? else {
                if expected.is_some() {
                    let detail = "There is no such entity workflow to replace; omit `If-Match` to create it.";
                    return Err(Problem::new(Code::NotFound, detail));
                }
                match self.put_new(workspace, &checked, by.clone()).await {
                    // Another request created it in the meantime.
                    Err(problem) if problem.code == Code::NameTaken => continue,
                    answer => return answer,
                }
            };
            // The same document is accepted for any expected version: its first response may have
            // been lost.
            if found.kept.document.get() == checked.canonical() {
                return Ok(Uploading::Found(found));
            }
            if let Some(expected) = expected.filter(|expected| *expected != found.version) {
                let detail = format!(
                    "The entity workflow is at version {}, not {}; look at it again.",
                    found.version.get(),
                    expected.get()
                );
                return Err(Problem::new(Code::Concurrency, detail).with("version", found.version.get()));
            }
            if found.workflow().entity != workflow.entity {
                let detail = format!(
                    "{name} moves entities of type {}, and that cannot change; give a workflow for {} a name of its own.",
                    found.workflow().entity,
                    workflow.entity
                );
                return Err(Problem::new(Code::InvalidRequest, detail).with("path", "/entity"));
            }
            let request = self.put(workspace, &checked, Some(found.version), by.clone(), "replaced")?;
            match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
                PutOutcome::Put(item) => return self.learn(&item).await.map(Uploading::Found),
                PutOutcome::Stale(_)
                | PutOutcome::NameTaken(_)
                | PutOutcome::Exists(_)
                | PutOutcome::Missing => {}
            }
        }
        let detail = "Other requests keep changing the entity workflow. Send the request again.";
        Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1))
    }

    /// Deletes an entity workflow, unless open operations need it. Its entities stay as they are.
    pub(crate) async fn delete(
        &self,
        identity: &Acting,
        name: &str,
        reason: Option<&str>,
        expected: Option<Version>,
    ) -> Result<Arc<StoredWorkflow>, Problem> {
        check_reason("query:reason", reason)?;
        let found = self.get(&identity.workspace, name).await?;
        if let Some(expected) = expected.filter(|expected| *expected != found.version) {
            let (now, seen) = (found.version.get(), expected.get());
            let detail = format!("The entity workflow is at version {now}, not {seen}; look at it again.");
            return Err(Problem::new(Code::Concurrency, detail).with("version", now));
        }
        self.check_unused(identity, &found).await?;
        let deleted = self.mark(identity, &found, true, &with_reason("deleted", reason)).await?;
        // A step may have begun since the first look. None begins from now on, so this look is the last word.
        if let Err(in_use) = self.check_unused(identity, &deleted).await {
            self.mark(identity, &deleted, false, "kept, because an operation had begun").await?;
            return Err(in_use);
        }
        Ok(deleted)
    }

    /// Rejects a deletion while an operation on entities of the workflow's type is pending or in doubt.
    async fn check_unused(&self, identity: &Acting, of: &StoredWorkflow) -> Result<(), Problem> {
        let engine = self.engine.workspace(identity.workspace.clone());
        for status in [OperationStatus::Pending, OperationStatus::InDoubt] {
            let request = ListOperations {
                workspace: identity.workspace.clone(),
                kind: Some(of.workflow().entity.clone()),
                entity: None,
                step: None,
                status: Some(status),
                before: None,
                limit: 1,
            };
            let open = engine.list_operations(request).await.map_err(|error| problem_of(&error))?;
            if let Some(open) = open.first() {
                let detail = format!(
                    "The operation {} ({} of {}) is open and needs {}; nothing was deleted.",
                    open.id,
                    open.step,
                    open.entity,
                    of.name()
                );
                return Err(
                    Problem::new(Code::EntityWorkflowInUse, detail).with("operationId", open.id.to_string())
                );
            }
        }
        Ok(())
    }

    /// Marks a workflow as deleted, or as in place again. A deleted one gives its name free.
    async fn mark(
        &self,
        identity: &Acting,
        found: &StoredWorkflow,
        is_deleted: bool,
        change: &str,
    ) -> Result<Arc<StoredWorkflow>, Problem> {
        let kept = EntityWorkflowBody { is_deleted, ..found.kept.clone() };
        let name = if is_deleted { found.id.to_string() } else { found.name().to_string() };
        let request = PutCatalogItem {
            workspace: identity.workspace.clone(),
            kind: CatalogKind::EntityWorkflow,
            id: found.id.clone(),
            name,
            body: Payload::of(&kept).map_err(|invalid| problem_of_invalid(&invalid))?,
            expected: Some(found.version),
            note: Some(self.note(&identity.workspace, identity.actor(None), found.name(), change)),
        };
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => self.learn(&item).await,
            PutOutcome::Stale(_) | PutOutcome::NameTaken(_) | PutOutcome::Exists(_) | PutOutcome::Missing => {
                let detail = "Another request changed the entity workflow in between; read it again.";
                Err(Problem::new(Code::Concurrency, detail))
            }
        }
    }

    async fn put_new(
        &self,
        workspace: &WorkspaceId,
        checked: &CheckedEntity,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        self.check_quota(workspace, checked)?;
        let workflow = checked.document().workflow();
        let request = self.put(workspace, checked, None, by.clone(), "created")?;
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => self.learn(&item).await.map(Uploading::Made),
            PutOutcome::Exists(item) | PutOutcome::NameTaken(item) => {
                let found = self.learn(&item).await?;
                if found.is_deleted() {
                    return self.put_again(workspace, checked, &found, by).await;
                }
                if found.kept.document.get() == checked.canonical() {
                    return Ok(Uploading::Found(found));
                }
                match *found.name() == workflow.name {
                    true => Err(Problem::new(
                        Code::NameTaken,
                        format!(
                            "The entity workflow {} has different content; replace it with PUT /api/v1/entity-workflows/{0} and \
                             `If-Match: \"{}\"`.",
                            found.name(),
                            found.version.get()
                        ),
                    )
                    .with("version", found.version.get())),
                    false => Err(Problem::new(
                        Code::EntityTypeTaken,
                        format!(
                            "The entity workflow {} moves entities of type {}; replace it, or name another type in `entity`.",
                            found.name(),
                            workflow.entity
                        ),
                    )
                    .with("workflow", found.name().as_str())),
                }
            }
            other @ (PutOutcome::Stale(_) | PutOutcome::Missing) => {
                tracing::error!(?other, "an entity workflow was to be new, and was found to be old");
                Err(Problem::new(
                    Code::Internal,
                    "The entity workflow could not be created. Send the request again.",
                ))
            }
        }
    }

    /// Puts a workflow in the place of a deleted one for the same entity type.
    async fn put_again(
        &self,
        workspace: &WorkspaceId,
        checked: &CheckedEntity,
        deleted: &StoredWorkflow,
        by: Actor,
    ) -> Result<Uploading, Problem> {
        let request = self.put(workspace, checked, Some(deleted.version), by, "created again")?;
        match self.catalog().put_item(request).await.map_err(|error| problem_of_store(&error))? {
            PutOutcome::Put(item) => self.learn(&item).await.map(Uploading::Made),
            PutOutcome::Stale(_) | PutOutcome::NameTaken(_) | PutOutcome::Exists(_) | PutOutcome::Missing => {
                let detail =
                    "Another request uploaded an entity workflow for this type. Send the request again.";
                Err(Problem::new(Code::StoreUnavailable, detail).retry_after(1))
            }
        }
    }

    /// Checks the document by itself, and against this server's tables, actions and janitors.
    async fn check(&self, workspace: &WorkspaceId, uploaded: &Uploaded) -> Result<CheckedEntity, Problem> {
        let checked = uploaded.check_entity(self.services.of(workspace))?;
        let workflow = checked.document().workflow();
        if let Some(table) = workflow.home.table() {
            self.check_allowed(workspace, table)?;
            if let Some(book) = self.store.entity_store() {
                book.check_table(table).await.map_err(|error| match error {
                    StoreError::Refused(why) => refused("/table", "table_unusable", why),
                    error => problem_of_store(&error),
                })?;
            }
        }
        let services = self.services.of(workspace);
        let is_missing =
            |name: &&Name| !self.engine.has_action(name) && !services.has_action_elsewhere(name.as_str());
        let missing = checked.document().handlers().into_iter().find(is_missing);
        if let Some(name) = missing {
            let why = format!(
                "no worker has ever offered the action {name}, and the server has none of this name; start a worker that offers \
                 it, or use `http` or `workflow`"
            );
            return Err(refused("/steps", "unknown_action", why));
        }
        if let Some(uncovered) = workflow.find_uncovered(&self.engine.modules()) {
            return Err(problem_of(&Error::UncoveredClaims(vec![uncovered])));
        }
        self.check_open_claims(workspace, workflow).await?;
        Ok(checked)
    }

    /// A claim under the current document must still have a janitor when the document names another
    /// module.
    async fn check_open_claims(&self, workspace: &WorkspaceId, next: &EntityWorkflow) -> Result<(), Problem> {
        let Some(book) = self.store.entity_store() else { return Ok(()) };
        let modules = self.engine.modules();
        let open = book
            .list_open_claims(Some(workspace), MAX_PAGE)
            .await
            .map_err(|error| problem_of_store(&error))?;
        // Another node may have stored the document, and this one may not know it yet. Then the
        // name identifies it.
        let of_this = |claim: &OpenClaim| {
            let known = self.find_by_type(workspace, next.entity.as_str());
            claim.workflow == next.name || known.is_some_and(|known| *known.name() == claim.workflow)
        };
        let uncovered: Vec<UncoveredClaim> = open
            .into_iter()
            .filter(|claim| !modules.contains(&claim.module) && of_this(claim))
            .map(|OpenClaim { module, workflow, claim_into }| UncoveredClaim {
                workflow,
                module,
                claim_into,
                is_open: true,
            })
            .collect();
        match uncovered.is_empty() {
            true => Ok(()),
            false => Err(problem_of(&Error::UncoveredClaims(uncovered))),
        }
    }

    fn put(
        &self,
        workspace: &WorkspaceId,
        checked: &CheckedEntity,
        expected: Option<Version>,
        by: Actor,
        change: &str,
    ) -> Result<PutCatalogItem, Problem> {
        let workflow = checked.document().workflow();
        let id = id_of(workspace, workflow.entity.as_str());
        let document = RawValue::from_string(checked.canonical().to_owned())
            .map_err(|error| Problem::new(Code::EntityWorkflowInvalid, error.to_string()))?;
        Ok(PutCatalogItem {
            workspace: workspace.clone(),
            kind: CatalogKind::EntityWorkflow,
            name: workflow.name.to_string(),
            body: Payload::of(&EntityWorkflowBody { document, is_deleted: false })
                .map_err(|invalid| problem_of_invalid(&invalid))?,
            expected,
            note: Some(self.note(workspace, by, &workflow.name, &with_secrets(change, checked.canonical()))),
            id,
        })
    }

    fn note(&self, workspace: &WorkspaceId, by: Actor, name: &Name, change: &str) -> JournalEntry {
        let kind = CatalogKind::EntityWorkflow.as_str().into();
        let what = JournalEvent::SetUp { kind, id: name.to_string(), change: change.into() };
        JournalEntry::on_workspace(workspace.clone(), by, self.store.now(), what)
    }

    fn check_quota(&self, workspace: &WorkspaceId, checked: &CheckedEntity) -> Result<(), Problem> {
        let known = self.known.read().expect("no holder panics");
        let is_live = |workflow: &&Arc<StoredWorkflow>| !workflow.is_deleted();
        let id = id_of(workspace, checked.document().workflow().entity.as_str());
        if known.get(&id).as_ref().is_some_and(is_live) {
            return Ok(());
        }
        let here = known.values().filter(is_live).filter(|one| one.workspace == *workspace).count();
        let (most, of) = match () {
            () if here >= MAX_ENTITY_WORKFLOWS_PER_WORKSPACE => {
                (MAX_ENTITY_WORKFLOWS_PER_WORKSPACE, "workspace")
            }
            () if known.values().filter(is_live).count() >= MAX_ENTITY_WORKFLOWS => {
                (MAX_ENTITY_WORKFLOWS, "server")
            }
            () => return Ok(()),
        };
        let detail =
            format!("This {of} holds at most {most} entity workflows. Replace one that is no longer needed.");
        Err(Problem::new(Code::QuotaExceeded, detail).with("quota", "entityWorkflows"))
    }
}

/// An error that only the server can detect.
fn refused(path: &str, rule: &str, why: String) -> Problem {
    let detail = format!("1 problem(s); the first, at {path:?}: {why}");
    let problem = api::DefinitionProblem { path: path.into(), rule: rule.into(), message: why };
    let problems = serde_json::to_value([problem]).unwrap_or_default();
    Problem::new(Code::EntityWorkflowInvalid, detail).with("problems", problems)
}
