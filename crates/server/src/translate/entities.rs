//! Entities, operations, and allowed steps.

use std::time::Duration;

use hapax_api as api;
use hapax_engine::model::{
    AllowedAction, Entity, EntityJournalEntry, Name, Operation, OperationState, OperationStatus, Timestamp,
};
use hapax_engine::runtime::EntityView;

use super::doubts::actor_to_api;
use super::journal::{entry_at, journal_entry_to_api, tell};
use super::{failure_to_api, raw};

/// An entity in its current state.
pub(crate) fn entity_to_api(entity: &Entity) -> api::Entity {
    api::Entity {
        kind: entity.entity.kind.to_string(),
        id: entity.entity.id.to_string(),
        status: entity.status.to_string(),
        version: entity.version.get(),
        data: raw(&entity.data),
        updated_at: entity.updated_at.to_string(),
    }
}

/// An entity with its allowed steps.
pub(crate) fn entity_view_to_api(view: &EntityView, workflow: &Name, now: Timestamp) -> api::EntityDetail {
    api::EntityDetail {
        entity: entity_to_api(&view.entity),
        workflow: workflow.to_string(),
        pending_operation: view.holder.as_ref().map(|holder| pending_operation_to_api(holder, now)),
        janitor: None,
        allowed_actions: view.allowed.iter().map(action_to_api).collect(),
    }
}

/// An operation that blocks others.
pub(crate) fn pending_operation_to_api(operation: &Operation, now: Timestamp) -> api::PendingOperation {
    let since = match &operation.state {
        OperationState::InDoubt { since } => *since,
        _ => operation.began_at,
    };
    api::PendingOperation {
        id: operation.id.to_string(),
        step_key: operation.step.to_string(),
        status: operation_status_to_api(operation.state.status()),
        since: since.to_string(),
        // Whole seconds, for people and for stable tests.
        age: Duration::from_secs(now.since(since).as_secs()).into(),
    }
}

fn action_to_api(action: &AllowedAction) -> api::AllowedAction {
    let hindrance = action.hindrance.as_ref();
    api::AllowedAction {
        step_key: action.step.to_string(),
        step_number: action.step_id,
        to: action.to.to_string(),
        enabled: hindrance.is_none(),
        reason: hindrance.map(ToString::to_string),
        code: hindrance.map(|hindrance| hindrance.code().to_owned()),
        operation_id: hindrance.and_then(|hindrance| hindrance.operation()).map(|id| id.to_string()),
        irreversible: action.irreversible,
    }
}

/// One operation.
pub(crate) fn operation_to_api(operation: &Operation) -> api::Operation {
    let at = operation.state.at().to_string();
    let status = operation.state.status();
    let (mut result, mut failure) = (None, None);
    match &operation.state {
        OperationState::Done { result: given, .. } => result = Some(raw(given)),
        OperationState::Rejected { failure: why, .. } | OperationState::Failed { failure: why, .. } => {
            failure = Some(failure_to_api(why));
        }
        OperationState::Pending { .. } | OperationState::Reverted { .. } | OperationState::InDoubt { .. } => {
        }
    }
    api::Operation {
        id: operation.id.to_string(),
        entity_type: operation.entity.kind.to_string(),
        entity_id: operation.entity.id.to_string(),
        workflow: operation.workflow.to_string(),
        module: operation.module.to_string(),
        step_key: operation.step.to_string(),
        status: operation_status_to_api(status),
        requester: operation.requester.as_ref().map(ToString::to_string),
        actor: operation.by.as_ref().map(actor_to_api),
        idempotency_key: operation.key.as_ref().map(ToString::to_string),
        input: raw(&operation.input),
        from: operation.from.to_string(),
        to: operation.to.to_string(),
        claim_into: operation.claim.as_ref().map(|claim| claim.into.to_string()),
        revert_to: operation.claim.as_ref().map(|claim| claim.revert_to.to_string()),
        recovery: operation.recovery.as_str().to_owned(),
        irreversible: operation.irreversible,
        run_id: operation.run.map(|run| run.to_string()),
        effect_key: operation.effect_key().to_string(),
        may_repeat: operation.may_repeat,
        document_version: operation.document.map(|version| version.get()),
        attempts: operation.attempt,
        began_at: operation.began_at.to_string(),
        heard_at: (status == OperationStatus::Pending).then(|| at.clone()),
        in_doubt_since: (status == OperationStatus::InDoubt).then(|| at.clone()),
        ended_at: status.has_ended().then_some(at),
        result,
        failure,
    }
}

/// Status of an operation, in one word.
pub(crate) fn operation_status_to_api(status: OperationStatus) -> api::OperationStatus {
    match status {
        OperationStatus::Pending => api::OperationStatus::Pending,
        OperationStatus::Done => api::OperationStatus::Done,
        OperationStatus::Rejected => api::OperationStatus::Rejected,
        OperationStatus::Failed => api::OperationStatus::Failed,
        OperationStatus::Reverted => api::OperationStatus::Reverted,
        OperationStatus::InDoubt => api::OperationStatus::InDoubt,
    }
}

/// A note on an entity.
pub(crate) fn entity_entry_to_api(note: &EntityJournalEntry) -> api::JournalEntry {
    if let Some(audited) = note.to_audit_entry() {
        return journal_entry_to_api(&audited);
    }
    let mut entry = entry_at(note.at);
    entry.entity = Some(named(note.entity.kind.as_str(), note.entity.id.as_str()));
    entry.operation_id = note.operation.map(|operation| operation.to_string());
    tell(&mut entry, &note.what);
    entry
}

/// History of an operation: its beginning, notes, and end.
pub(crate) fn history_to_api(operation: &Operation, notes: &[EntityJournalEntry]) -> Vec<api::JournalEntry> {
    let about = |what, at| {
        let mut entry = entry_at(at);
        entry.what = what;
        entry.entity = Some(named(operation.entity.kind.as_str(), operation.entity.id.as_str()));
        entry.operation_id = Some(operation.id.to_string());
        entry
    };
    let mut began = about(api::JournalKind::Began, operation.began_at);
    began.actor = operation.by.as_ref().map(actor_to_api);
    began.attempt = Some(1);
    began.status = Some(api::OperationStatus::Pending.as_str().to_owned());
    let mut history = vec![began];
    history.extend(notes.iter().map(entity_entry_to_api));
    let status = operation.state.status();
    let mut ended = about(api::JournalKind::Ended, operation.state.at());
    ended.attempt = Some(operation.attempt);
    ended.status = Some(status.as_str().to_owned());
    match &operation.state {
        OperationState::Done { result, .. } => ended.result = Some(raw(result)),
        OperationState::Rejected { failure, .. } | OperationState::Failed { failure, .. } => {
            ended.failure = Some(failure_to_api(failure));
        }
        // The janitor's actions are in the notes, and the other states have not ended.
        OperationState::Pending { .. } | OperationState::Reverted { .. } | OperationState::InDoubt { .. } => {
            return history;
        }
    }
    history.push(ended);
    history
}

/// An entity by its name.
pub(super) fn named(kind: &str, id: &str) -> api::EntityName {
    api::EntityName { kind: kind.to_owned(), id: id.to_owned() }
}
