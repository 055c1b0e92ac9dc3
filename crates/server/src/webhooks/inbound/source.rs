//! The stored form and the wire form of a source.

use hapax_api as api;
use hapax_api::{Code, Problem, SourceStatus};
use hapax_documents::{CheckedSource, DeclaredNames, Format, Source, check_source};
use hapax_engine::model::{CatalogItem, Name, Timestamp, Version, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::uploaded::document_problem_to_api;

/// Stored part of a source, without its times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SourceBody {
    pub(super) state: SourceStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The document in its canonical form.
    pub(super) document: Box<RawValue>,
}

/// A source, ready for use.
#[derive(Debug)]
pub(crate) struct StoredSource {
    pub(super) id: Name,
    pub(crate) workspace: WorkspaceId,
    pub(super) version: Version,
    pub(super) kept: SourceBody,
    checked: CheckedSource,
    created_at: Timestamp,
    changed_at: Timestamp,
}

impl StoredSource {
    pub(super) fn of(item: &CatalogItem) -> Result<Self, Problem> {
        let broken = |cause: &dyn std::fmt::Display| {
            tracing::error!(source = %item.id, %cause, "a stored webhook source cannot be read");
            let detail = "A stored webhook source cannot be read. Report `traceId` to the operator.";
            Problem::new(Code::StoreBroken, detail)
        };
        let kept: SourceBody = item.body.to().map_err(|error| broken(&error))?;
        let checked = check_source(kept.document.get(), Format::Json, &DeclaredNames::default());
        let checked = checked.map_err(|problems| broken(&format!("{} problems", problems.len())))?;
        Ok(StoredSource {
            id: item.id.clone(),
            workspace: item.workspace.clone(),
            version: item.version,
            kept,
            checked,
            created_at: item.created_at,
            changed_at: item.changed_at,
        })
    }

    /// The document.
    pub(crate) fn source(&self) -> &Source {
        self.checked.source()
    }

    pub(crate) fn name(&self) -> &str {
        &self.checked.source().name
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.kept.state == SourceStatus::Enabled
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.kept.state == SourceStatus::Deleted
    }

    pub(super) fn changed_at(&self) -> Timestamp {
        self.changed_at
    }

    /// Summary for lists.
    pub(crate) fn summary(&self) -> api::WebhookSourceSummary {
        api::WebhookSourceSummary {
            id: self.id.to_string(),
            name: self.name().to_owned(),
            description: self.source().description.clone(),
            scheme: self.source().signature.as_str().to_owned(),
            status: self.kept.state,
            reason: self.kept.reason.clone(),
            version: self.version.get(),
            path: format!("/api/v1/webhooks/{}", self.id),
            created_at: self.created_at.to_string(),
            changed_at: self.changed_at.to_string(),
        }
    }

    /// Full wire form.
    pub(crate) fn shown(&self) -> Result<api::WebhookSource, Problem> {
        let document = api::RawJson::from_text(self.kept.document.get().to_owned());
        let document = document.map_err(|error| Problem::new(Code::StoreBroken, error.to_string()))?;
        let warnings = self.checked.warnings().iter().map(document_problem_to_api).collect();
        Ok(api::WebhookSource { summary: self.summary(), document, warnings })
    }
}
