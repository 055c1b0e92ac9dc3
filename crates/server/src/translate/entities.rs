//! Entities, operations, and allowed steps.

use std::time::Duration;

use hapax_api as api;
use hapax_engine::model::{
    AllowedAction, Entity, EntityJournalEntry, Name, Operation, OperationState, OperationStatus, Timestamp,
};
use hapax_engine::runtime::EntityView;

use super::doubts::shown_actor;
use super::journal::{entry_at, shown_note, tell};
use super::{raw, shown_failure};

/// An entity in its current state.
pub(crate) fn shown_entity(entity: &Entity) -> api::Entity {
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
pub(crate) fn shown_entity_view(view: &EntityView, workflow: &Name, now: Timestamp) -> api::EntityDetail {
    api::EntityDetail {
        entity: shown_entity(&view.entity),
        workflow: workflow.to_string(),
        pending_operation: view.holder.as_ref().map(|holder| shown_pending(holder, now)),
        janitor: None,
        allowed_actions: view.allowed.iter().map(shown_action).collect(),
    }
}

/// An operation that blocks others.
pub(crate) fn shown_pending(operation: &Operation, now: Timestamp) -> api::PendingOperation {
    let since = match &operation.state {
        OperationState::InDoubt { since } => *since,
        _ => operation.began_at,
    };
    api::PendingOperation {
        id: operation.id.to_string(),
        step_key: operation.step.to_string(),
        status: shown_operation_status(operation.state.status()),
        since: since.to_string(),
        // Whole seconds, for people and for stable tests.
        age: Duration::from_secs(now.since(since).as_secs()).into(),
    }
}

fn shown_action(action: &AllowedAction) -> api::AllowedAction {
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
pub(crate) fn shown_operation(operation: &Operation) -> api::Operation {
    let at = operation.state.at().to_string();
    let status = operation.state.status();
    let (mut result, mut failure) = (None, None);
    match &operation.state {
        OperationState::Done { result: given, .. } => result = Some(raw(given)),
        OperationState::Rejected { failure: why, .. } | OperationState::Failed { failure: why, .. } => {
            failure = Some(shown_failure(why));
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
        status: shown_operation_status(status),
        requester: operation.requester.as_ref().map(ToString::to_string),
        actor: operation.by.as_ref().map(shown_actor),
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
pub(crate) fn shown_operation_status(status: OperationStatus) -> api::OperationStatus {
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
pub(crate) fn shown_entity_note(note: &EntityJournalEntry) -> api::JournalEntry {
    if let Some(audited) = note.to_audit_entry() {
        return shown_note(&audited);
    }
    let mut entry = entry_at(note.at);
    entry.entity = Some(named(note.entity.kind.as_str(), note.entity.id.as_str()));
    entry.operation_id = note.operation.map(|operation| operation.to_string());
    tell(&mut entry, &note.what);
    entry
}

/// History of an operation: its beginning, notes, and end.
pub(crate) fn shown_history(operation: &Operation, notes: &[EntityJournalEntry]) -> Vec<api::JournalEntry> {
    let about = |what, at| {
        let mut entry = entry_at(at);
        entry.what = what;
        entry.entity = Some(named(operation.entity.kind.as_str(), operation.entity.id.as_str()));
        entry.operation_id = Some(operation.id.to_string());
        entry
    };
    let mut began = about(api::JournalKind::Began, operation.began_at);
    began.actor = operation.by.as_ref().map(shown_actor);
    began.attempt = Some(1);
    began.status = Some(api::OperationStatus::Pending.as_str().to_owned());
    let mut history = vec![began];
    history.extend(notes.iter().map(shown_entity_note));
    let status = operation.state.status();
    let mut ended = about(api::JournalKind::Ended, operation.state.at());
    ended.attempt = Some(operation.attempt);
    ended.status = Some(status.as_str().to_owned());
    match &operation.state {
        OperationState::Done { result, .. } => ended.result = Some(raw(result)),
        OperationState::Rejected { failure, .. } | OperationState::Failed { failure, .. } => {
            ended.failure = Some(shown_failure(failure));
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
