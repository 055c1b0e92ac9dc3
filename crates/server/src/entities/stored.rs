//! The stored form and the wire form of an entity workflow.

use std::collections::BTreeSet;
use std::sync::Arc;

use hapax_api as api;
use hapax_api::{Code, Problem};
use hapax_documents::{CheckedEntity, DeclaredNames, EntityDocument, Format, check_entity};
use hapax_engine::model::{CatalogItem, EntityWorkflow, Name, Timestamp, Version, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::uploaded::document_problem_to_api;

/// Stored part of an entity workflow, without its times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EntityWorkflowBody {
    /// The document in its canonical form.
    pub(super) document: Box<RawValue>,
    /// Deleted: no step begins under it. The item stays, because operations were guarded by its version.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_deleted: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// An entity workflow, ready for use.
#[derive(Debug)]
pub(crate) struct StoredWorkflow {
    pub(super) id: Name,
    pub(super) workspace: WorkspaceId,
    pub(super) version: Version,
    pub(super) kept: EntityWorkflowBody,
    pub(super) checked: Arc<CheckedEntity>,
    created_at: Timestamp,
    changed_at: Timestamp,
}

impl StoredWorkflow {
    pub(super) fn of(item: &CatalogItem) -> Result<Self, Problem> {
        let broken = |cause: &dyn std::fmt::Display| {
            tracing::error!(workflow = %item.id, %cause, "a stored entity workflow cannot be read");
            let detail = "A stored entity workflow cannot be read. Report `traceId` to the operator.";
            Problem::new(Code::StoreBroken, detail)
        };
        let kept: EntityWorkflowBody = item.body.to().map_err(|error| broken(&error))?;
        let checked = check_entity(kept.document.get(), Format::Json, &DeclaredNames::default());
        let checked = checked.map_err(|problems| broken(&format!("{} problems", problems.len())))?;
        Ok(StoredWorkflow {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            version: item.version,
            kept,
            checked: Arc::new(checked),
            created_at: item.created_at,
            changed_at: item.changed_at,
        })
    }

    /// The document.
    pub(crate) fn document(&self) -> &EntityDocument {
        self.checked.document()
    }

    /// The engine's form of the workflow.
    pub(crate) fn workflow(&self) -> &EntityWorkflow {
        self.checked.document().workflow()
    }

    pub(crate) fn id(&self) -> &Name {
        &self.id
    }

    pub(crate) fn name(&self) -> &Name {
        &self.workflow().name
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.kept.is_deleted
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Summary for lists; `modules` have janitors on this server.
    pub(crate) fn summary(&self, modules: &BTreeSet<Name>) -> api::EntityWorkflowSummary {
        let workflow = self.workflow();
        let covered_by = modules.contains(&workflow.module).then(|| workflow.module.to_string());
        let claims = workflow.claims().into_iter().map(|claim| api::ClaimCover {
            claim_into: claim.into.to_string(),
            revert_to: claim.revert_to.to_string(),
            covered_by: covered_by.clone(),
        });
        api::EntityWorkflowSummary {
            id: self.id.to_string(),
            name: workflow.name.to_string(),
            module: workflow.module.to_string(),
            entity_type: workflow.entity.to_string(),
            table: workflow.home.table().map(|table| table.table.clone()),
            description: self.document().description().map(Into::into),
            claims: claims.collect(),
            version: self.version.get(),
            created_at: self.created_at.to_string(),
            changed_at: self.changed_at.to_string(),
        }
    }

    /// Full wire form.
    pub(crate) fn shown(&self, modules: &BTreeSet<Name>) -> Result<api::EntityWorkflow, Problem> {
        let document = api::RawJson::from_text(self.kept.document.get().to_owned());
        let document = document.map_err(|error| Problem::new(Code::StoreBroken, error.to_string()))?;
        let warnings = self.checked.warnings().iter().map(document_problem_to_api).collect();
        Ok(api::EntityWorkflow { summary: self.summary(modules), document, warnings })
    }
}
