//! One line of the inbox of doubts.

use hapax::model::{OperationState, Timestamp};
use hapax::{Doubt, Operation};
use serde::Serialize;

use super::id::DoubtId;
use crate::output::tables;
use crate::wire_text::{between, or_dash};

/// Kind of a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DoubtKind {
    Step,
    Operation,
}

/// One doubt, as programs read it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoubtRow {
    /// Argument of `hapax doubts resolve`.
    pub(super) id: String,
    pub(super) kind: DoubtKind,
    /// Value of `--seen`.
    pub(super) seen: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run_id: Option<String>,
    pub(super) step_id: String,
    /// `TYPE/ID` of the entity that an operation moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) entity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workflow: Option<String>,
    pub(super) effect_key: String,
    pub(super) attempts: u32,
    pub(super) since: String,
    pub(super) age_ms: u64,
    /// Why the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<String>,
    /// The engine that vanished; known only to the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<String>,
}

impl DoubtRow {
    pub(super) fn from_step(doubt: hapax_api::Doubt, now: jiff::Timestamp) -> Self {
        DoubtRow {
            id: format!("{}/{}", doubt.run_id, doubt.step_id),
            kind: DoubtKind::Step,
            seen: doubt.version,
            run_id: Some(doubt.run_id),
            step_id: doubt.step_id,
            entity: None,
            workflow: Some(doubt.workflow),
            effect_key: doubt.effect_key,
            attempts: doubt.attempts,
            age_ms: millis(between(&doubt.since, now)),
            since: doubt.since,
            why: Some(doubt.failure.message),
            code: doubt.failure.code,
            owner: None,
            workspace: None,
        }
    }

    pub(super) fn from_operation(operation: hapax_api::Operation, now: jiff::Timestamp) -> Self {
        let since = operation.in_doubt_since.unwrap_or(operation.began_at);
        DoubtRow {
            id: operation.id,
            kind: DoubtKind::Operation,
            seen: u64::from(operation.attempts),
            run_id: operation.run_id,
            step_id: operation.step_key,
            entity: Some(format!("{}/{}", operation.entity_type, operation.entity_id)),
            workflow: Some(operation.workflow),
            effect_key: operation.effect_key,
            attempts: operation.attempts,
            age_ms: millis(between(&since, now)),
            since,
            why: operation.failure.map(|failure| failure.message),
            code: None,
            owner: None,
            workspace: None,
        }
    }

    pub(super) fn from_stored_step(doubt: &Doubt, now: Timestamp) -> Self {
        DoubtRow {
            id: DoubtId::Step { run: doubt.run, step: doubt.step.clone() }.to_string(),
            kind: DoubtKind::Step,
            seen: doubt.version.get(),
            run_id: Some(doubt.run.to_string()),
            step_id: doubt.step.to_string(),
            entity: None,
            workflow: None,
            effect_key: doubt.key.to_string(),
            attempts: doubt.attempts,
            since: doubt.since.to_string(),
            age_ms: millis(now.since(doubt.since)),
            why: Some(doubt.failure.message().to_owned()),
            code: doubt.failure.code().map(str::to_owned),
            owner: doubt.owner.clone(),
            workspace: Some(doubt.workspace.to_string()),
        }
    }

    pub(super) fn from_stored_operation(operation: &Operation, now: Timestamp) -> Self {
        let since = match &operation.state {
            OperationState::InDoubt { since } => *since,
            _ => operation.began_at,
        };
        DoubtRow {
            id: operation.id.to_string(),
            kind: DoubtKind::Operation,
            seen: u64::from(operation.attempt),
            run_id: operation.run.map(|run| run.to_string()),
            step_id: operation.step.to_string(),
            entity: Some(format!("{}/{}", operation.entity.kind, operation.entity.id)),
            workflow: Some(operation.workflow.to_string()),
            effect_key: operation.effect_of.to_string(),
            attempts: operation.attempt,
            since: since.to_string(),
            age_ms: millis(now.since(since)),
            why: None,
            code: None,
            owner: Some(operation.owner.to_string()),
            workspace: Some(operation.workspace.to_string()),
        }
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A table for people.
pub(super) fn table(rows: &[DoubtRow]) -> String {
    if rows.is_empty() {
        return "no effect is in doubt\n".into();
    }
    let mut table = tables::table(["id", "seen", "age", "attempts", "what", "why", "owner", "effect key"]);
    for row in rows {
        let what = match (&row.entity, &row.workflow) {
            (Some(entity), _) => format!("{} of {entity}", row.step_id),
            (None, Some(workflow)) => format!("{} of {workflow}", row.step_id),
            (None, None) => row.step_id.clone(),
        };
        table.add_row([
            tables::plain(&row.id),
            row.seen.to_string(),
            tables::span(std::time::Duration::from_millis(row.age_ms)),
            row.attempts.to_string(),
            tables::plain(&what),
            or_dash(row.why.as_deref()),
            or_dash(row.owner.as_deref()),
            tables::plain(&row.effect_key),
        ]);
    }
    format!("{table}\n")
}
