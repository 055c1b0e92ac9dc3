//! Entity workflows, entities and operations, one method per route.

use std::time::Duration;

use super::routes::{CreatedOrExisting, Document, Paging, segment, with_reason};
use super::sending::Ask;
use super::{Client, ClientError, RequestOptions};
use crate::{
    AddEntityNote, CreateEntity, CreatedEntity, DiagramFormat, Entity, EntityDetail, EntityWorkflow,
    EntityWorkflowSummary, JournalEntry, Operation, OperationDetail, OperationStatus, OverrideStep, Page,
    ResolveOperation, TakeStep, TakenStep,
};

/// Filter for a list of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// Only operations with this status.
    pub status: Option<OperationStatus>,
    /// Only those on entities of this type.
    pub entity_type: Option<String>,
    /// Only operations of this step.
    pub step: Option<String>,
    /// Only the one under this key.
    pub idempotency_key: Option<String>,
}

/// Entity workflows.
impl Client {
    /// Uploads an entity workflow. It does not replace a different one of the same name.
    pub async fn create_entity_workflow(
        &self,
        document: Document<'_>,
        options: RequestOptions,
    ) -> Result<CreatedOrExisting<EntityWorkflow>, ClientError> {
        let path = "/api/v1/entity-workflows".to_owned();
        self.make(match document {
            Document::Json(text) => Ask::change_text(path, "application/json", text, options)?,
            Document::Yaml(text) => Ask::change_text(path, "application/yaml", text, options)?,
        })
        .await
    }

    /// Replaces the entity workflow of this name, or creates it. `if_version` is the version to
    /// replace.
    pub async fn put_entity_workflow(
        &self,
        name: &str,
        document: Document<'_>,
        if_version: Option<u64>,
    ) -> Result<CreatedOrExisting<EntityWorkflow>, ClientError> {
        let path = workflow_path(name, "")?;
        let (kind, text) = match document {
            Document::Json(text) => ("application/json", text),
            Document::Yaml(text) => ("application/yaml", text),
        };
        let options = RequestOptions { idempotency_key: None, if_version };
        self.make(Ask::put_text(path, kind, text, options)?).await
    }

    /// Entity workflows, in the order of their ids.
    pub async fn list_entity_workflows(
        &self,
        paging: &Paging,
    ) -> Result<Page<EntityWorkflowSummary>, ClientError> {
        self.page("/api/v1/entity-workflows".into(), paging, &[]).await
    }

    /// One entity workflow with its document.
    pub async fn get_entity_workflow(&self, name: &str) -> Result<EntityWorkflow, ClientError> {
        self.call(Ask::read(workflow_path(name, "")?)).await
    }

    /// Deletes an entity workflow without open operations; answers with the workflow as it was. Its entities stay.
    pub async fn delete_entity_workflow(
        &self,
        name: &str,
        reason: Option<&str>,
        options: RequestOptions,
    ) -> Result<EntityWorkflow, ClientError> {
        self.call(Ask::delete(with_reason(workflow_path(name, "")?, reason), options)?).await
    }

    /// Draws an entity workflow.
    pub async fn draw_entity_workflow(
        &self,
        name: &str,
        format: DiagramFormat,
    ) -> Result<String, ClientError> {
        let path = format!("{}?format={}", workflow_path(name, "/diagram")?, format.as_str());
        let ask =
            Ask::read(path).header("accept", format!("{}, application/problem+json", format.media_type()));
        self.send(ask).await?.text()
    }
}

/// Entities.
impl Client {
    /// Creates an entity, or finds the same one.
    pub async fn create_entity(
        &self,
        kind: &str,
        asked: &CreateEntity,
        options: RequestOptions,
    ) -> Result<CreatedEntity, ClientError> {
        self.call(Ask::change(format!("/api/v1/entities/{}", segment(kind)?), asked, options)?).await
    }

    /// Entities of one type, in the order of their ids.
    pub async fn list_entities(
        &self,
        kind: &str,
        status: Option<&str>,
        paging: &Paging,
    ) -> Result<Page<Entity>, ClientError> {
        let query: Vec<_> = status.map(|status| ("status", status.to_owned())).into_iter().collect();
        self.page(format!("/api/v1/entities/{}", segment(kind)?), paging, &query).await
    }

    /// One entity, its pending operation, and the steps that `requester` may take.
    pub async fn get_entity(
        &self,
        kind: &str,
        id: &str,
        requester: Option<&str>,
    ) -> Result<EntityDetail, ClientError> {
        let query: Vec<_> =
            requester.map(|requester| ("requester", requester.to_owned())).into_iter().collect();
        self.call(Ask::read(super::routes::with_query(entity_path(kind, id, "")?, &query))).await
    }

    /// Takes a step with an entity, and waits up to `wait` for the end. The status says if it is
    /// still in progress.
    pub async fn take_step(
        &self,
        (kind, id): (&str, &str),
        step: &str,
        asked: &TakeStep,
        wait: Option<Duration>,
        options: RequestOptions,
    ) -> Result<TakenStep, ClientError> {
        let path = entity_path(kind, id, &format!("/steps/{}", segment(step)?))?;
        self.call(waiting(Ask::change(path, asked, options)?, wait)).await
    }

    /// Forces an irreversible step that may have happened already. For managers.
    pub async fn override_step(
        &self,
        (kind, id): (&str, &str),
        step: &str,
        asked: &OverrideStep,
        wait: Option<Duration>,
        options: RequestOptions,
    ) -> Result<TakenStep, ClientError> {
        let path = entity_path(kind, id, &format!("/steps/{}/override", segment(step)?))?;
        self.call(waiting(Ask::change(path, asked, options)?, wait)).await
    }

    /// Adds a note to an entity.
    pub async fn add_entity_note(
        &self,
        kind: &str,
        id: &str,
        asked: &AddEntityNote,
        options: RequestOptions,
    ) -> Result<JournalEntry, ClientError> {
        self.call(Ask::change(entity_path(kind, id, "/notes")?, asked, options)?).await
    }

    /// Notes on an entity, oldest first.
    pub async fn list_entity_notes(
        &self,
        kind: &str,
        id: &str,
        paging: &Paging,
    ) -> Result<Page<JournalEntry>, ClientError> {
        self.page(entity_path(kind, id, "/notes")?, paging, &[]).await
    }

    /// The operations of one entity, newest first.
    pub async fn list_operations_of(
        &self,
        kind: &str,
        id: &str,
        paging: &Paging,
    ) -> Result<Page<Operation>, ClientError> {
        self.page(entity_path(kind, id, "/operations")?, paging, &[]).await
    }
}

/// Operations.
impl Client {
    /// Operations, newest first.
    pub async fn list_operations(
        &self,
        filter: &OperationFilter,
        paging: &Paging,
    ) -> Result<Page<Operation>, ClientError> {
        let mut query = Vec::new();
        query.extend(filter.status.map(|status| ("status", status.as_str().to_owned())));
        query.extend(filter.entity_type.clone().map(|kind| ("type", kind)));
        query.extend(filter.step.clone().map(|step| ("stepKey", step)));
        query.extend(filter.idempotency_key.clone().map(|key| ("idempotencyKey", key)));
        self.page("/api/v1/operations".into(), paging, &query).await
    }

    /// One operation with what happened to it.
    pub async fn get_operation(&self, id: &str) -> Result<OperationDetail, ClientError> {
        self.call(Ask::read(format!("/api/v1/operations/{}", segment(id)?))).await
    }

    /// The operation under a key, if there is one.
    pub async fn find_operation_by_key(&self, key: &str) -> Result<Option<Operation>, ClientError> {
        let filter = OperationFilter { idempotency_key: Some(key.to_owned()), ..OperationFilter::default() };
        Ok(self.list_operations(&filter, &Paging::default()).await?.items.into_iter().next())
    }

    /// Decides an operation in doubt.
    pub async fn resolve_operation(
        &self,
        id: &str,
        asked: &ResolveOperation,
        options: RequestOptions,
    ) -> Result<Operation, ClientError> {
        let path = format!("/api/v1/operations/{}/resolve", segment(id)?);
        self.call(Ask::change(path, asked, options)?).await
    }
}

fn waiting(ask: Ask, wait: Option<Duration>) -> Ask {
    match wait {
        Some(wait) => ask.header("prefer", format!("wait={}", wait.as_secs())),
        None => ask,
    }
}

fn workflow_path(name: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/entity-workflows/{}{rest}", segment(name)?))
}

fn entity_path(kind: &str, id: &str, rest: &str) -> Result<String, ClientError> {
    Ok(format!("/api/v1/entities/{}/{}{rest}", segment(kind)?, segment(id)?))
}
