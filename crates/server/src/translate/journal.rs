//! The journal and the audit log.

use hapax_api as api;
use hapax_engine::model::{JournalEntry, JournalEvent, Occurrence, Resolution, RunId, Timestamp};

use super::doubts::{actor_to_api, resolution_to_api};
use super::entities::named;
use super::failure_to_api;

/// One entry.
pub(crate) fn journal_entry_to_api(note: &JournalEntry) -> api::JournalEntry {
    let is_of_run = note.run != RunId::NONE;
    let mut entry = api::JournalEntry {
        run_id: is_of_run.then(|| note.run.to_string()),
        generation: is_of_run.then(|| note.generation.get().into()),
        step_id: note.step.as_ref().map(ToString::to_string),
        owner: note.owner.map(|owner| owner.to_string()),
        actor: note.by.as_ref().map(actor_to_api),
        ..entry_at(note.at)
    };
    tell(&mut entry, &note.what);
    entry.occurrence = note.evidence.as_ref().map(|evidence| occurrence_to_api(evidence.occurrence));
    entry
}

/// An entry with only its time.
pub(super) fn entry_at(at: Timestamp) -> api::JournalEntry {
    api::JournalEntry {
        id: None,
        what: api::JournalKind::Noted,
        at: at.to_string(),
        run_id: None,
        generation: None,
        step_id: None,
        target: None,
        entity: None,
        operation_id: None,
        status: None,
        last_heard_at: None,
        result: None,
        owner: None,
        actor: None,
        seconded_by: None,
        attempt: None,
        occurrence: None,
        failure: None,
        answer: None,
        resolution: None,
        command: None,
        reason: None,
        proposal_id: None,
        version: None,
    }
}

/// The output that a ruling gives to the run.
fn output_of(resolution: &Resolution) -> Option<api::RawJson> {
    match resolution {
        Resolution::Happened { output } | Resolution::Compensate { output } => {
            api::RawJson::from_text(output.to_string()).ok()
        }
        Resolution::DidNotHappen | Resolution::Abandon => None,
    }
}

fn occurrence_to_api(occurrence: Occurrence) -> api::Occurrence {
    match occurrence {
        Occurrence::MayHaveHappened => api::Occurrence::MayHaveHappened,
        Occurrence::DidNotHappen => api::Occurrence::DidNotHappen,
        Occurrence::Happened => api::Occurrence::Happened,
    }
}

/// Fills the entry with the event.
pub(super) fn tell(entry: &mut api::JournalEntry, what: &JournalEvent) {
    match what {
        JournalEvent::Claimed { attempt } => {
            entry.what = api::JournalKind::Claimed;
            entry.attempt = Some(*attempt);
        }
        JournalEvent::Failed { attempt, failure } => {
            entry.what = api::JournalKind::Failed;
            entry.attempt = Some(*attempt);
            entry.failure = Some(failure_to_api(failure));
        }
        JournalEvent::Doubted { attempt, failure } => {
            entry.what = api::JournalKind::Doubted;
            entry.attempt = Some(*attempt);
            entry.failure = Some(failure_to_api(failure));
        }
        JournalEvent::Probed { answer } => {
            entry.what = api::JournalKind::Probed;
            entry.answer = Some(answer.clone());
        }
        JournalEvent::Attempted { attempt, .. } => {
            entry.what = api::JournalKind::Attempted;
            entry.attempt = Some(*attempt);
        }
        JournalEvent::Superseded { attempt, .. } => {
            entry.what = api::JournalKind::Superseded;
            entry.attempt = Some(*attempt);
        }
        JournalEvent::RepeatAllowed { attempt, seconded_by, reason } => {
            entry.what = api::JournalKind::RepeatAllowed;
            entry.attempt = Some(*attempt);
            entry.seconded_by = seconded_by.as_ref().map(actor_to_api);
            entry.reason = Some(reason.clone());
        }
        JournalEvent::Refused { attempt, .. } => {
            entry.what = api::JournalKind::Refused;
            entry.attempt = Some(*attempt);
        }
        JournalEvent::Resolved { resolution, seconded_by, reason, .. } => {
            entry.what = api::JournalKind::Resolved;
            entry.resolution = Some(resolution_to_api(resolution));
            entry.seconded_by = seconded_by.as_ref().map(actor_to_api);
            entry.reason = Some(reason.clone());
        }
        JournalEvent::RulingProposed { resolution, reason, seen, request } => {
            entry.what = api::JournalKind::RulingProposed;
            entry.resolution = Some(resolution_to_api(resolution));
            entry.result = output_of(resolution);
            entry.reason = Some(reason.clone());
            entry.proposal_id = Some(request.clone());
            entry.version = Some(*seen);
        }
        JournalEvent::PayloadsRevealed { reason } => {
            entry.what = api::JournalKind::PayloadsRevealed;
            entry.reason = Some(reason.clone());
        }
        JournalEvent::SignInsRefused { times, examples } => {
            entry.what = api::JournalKind::SignInsRefused;
            entry.command = Some(format!("{times} times"));
            entry.reason = Some(examples.join("; "));
        }
        JournalEvent::Answered { decision, comment, .. } => {
            entry.what = api::JournalKind::ApprovalAnswered;
            entry.command = Some(decision.clone());
            entry.reason.clone_from(comment);
        }
        JournalEvent::Settled { promise, key, settlement } => {
            entry.what = api::JournalKind::PromiseSettled;
            entry.target = match (promise, key) {
                (Some(promise), _) => Some(format!("promise {promise}")),
                (None, key) => key.as_ref().map(|key| format!("promise key {key}")),
            };
            entry.command = Some(settlement.clone());
        }
        JournalEvent::TokenIssued { promise, .. } => {
            entry.what = api::JournalKind::SettleTokenIssued;
            entry.target = Some(format!("promise {promise}"));
        }
        JournalEvent::Stepped { step, .. } => {
            entry.what = api::JournalKind::StepTaken;
            entry.step_id = Some(step.clone());
        }
        JournalEvent::Commanded { command, reason } => {
            entry.what = api::JournalKind::Steered;
            entry.command = Some(command.clone());
            entry.reason = Some(reason.clone());
        }
        JournalEvent::KeyReleased { kind, key, caller, reason } => {
            entry.what = api::JournalKind::KeyReleased;
            let of = caller.as_ref().map(|caller| format!(" of {caller}")).unwrap_or_default();
            entry.target = Some(format!("{kind} key {key}{of}"));
            entry.reason = Some(reason.clone());
        }
        JournalEvent::SetUp { kind, id, change } => {
            entry.what = match kind.as_str() {
                "credential" => api::JournalKind::CredentialChanged,
                "workspace" => api::JournalKind::WorkspaceChanged,
                "subscription" => api::JournalKind::SubscriptionChanged,
                "push_worker" => api::JournalKind::PushWorkerChanged,
                "source" => api::JournalKind::SourceChanged,
                "webhook-event" => api::JournalKind::WebhookReprocessed,
                "announcement" => api::JournalKind::WebhookDiscarded,
                "entity_workflow" => api::JournalKind::EntityWorkflowChanged,
                _ => api::JournalKind::DefinitionUploaded,
            };
            entry.target = Some(id.clone());
            entry.command = Some(change.clone());
        }
        JournalEvent::Remarked { text } => entry.reason = Some(text.clone()),
        JournalEvent::Redelivered { reason } => {
            entry.what = api::JournalKind::Redelivered;
            entry.reason = Some(reason.clone());
        }
        JournalEvent::Reverted { attempt, last_heard_at, status } => {
            entry.what = api::JournalKind::Reverted;
            entry.attempt = Some(*attempt);
            entry.last_heard_at = Some(last_heard_at.clone());
            entry.status.clone_from(status);
        }
        JournalEvent::StrayReverted { status } => {
            entry.what = api::JournalKind::Reverted;
            entry.status = Some(status.clone());
        }
        JournalEvent::Held { attempt, last_heard_at } => {
            entry.what = api::JournalKind::Held;
            entry.attempt = Some(*attempt);
            entry.last_heard_at = Some(last_heard_at.clone());
        }
        JournalEvent::TriedAgain { attempt } => {
            entry.what = api::JournalKind::TriedAgain;
            entry.attempt = Some(*attempt);
        }
        JournalEvent::Overridden { operation, reason } => {
            entry.what = api::JournalKind::Overridden;
            entry.target.clone_from(operation);
            entry.reason = Some(reason.clone());
        }
        JournalEvent::OnEntity { kind, id, operation, did } => {
            entry.entity = Some(named(kind, id));
            entry.operation_id.clone_from(operation);
            tell(entry, did);
        }
    }
}

/// The action of the audit log for entries of this kind; `None` if no person causes them.
pub(crate) fn action_of(kind: api::JournalKind) -> Option<&'static str> {
    Some(match kind {
        api::JournalKind::Resolved => "resolved",
        api::JournalKind::RulingProposed => "ruling_proposed",
        api::JournalKind::PayloadsRevealed => "payloads_revealed",
        api::JournalKind::SignInsRefused => "sign_ins_refused",
        api::JournalKind::ApprovalAnswered => "answered",
        api::JournalKind::PromiseSettled => "settled",
        api::JournalKind::SettleTokenIssued => "token_issued",
        api::JournalKind::StepTaken => "stepped",
        api::JournalKind::Steered => "steered",
        api::JournalKind::RepeatAllowed => "repeat_allowed",
        api::JournalKind::Redelivered => "redelivered",
        api::JournalKind::Noted => "remarked",
        api::JournalKind::KeyReleased => "key_released",
        api::JournalKind::CredentialChanged => "set_up:credential",
        api::JournalKind::WorkspaceChanged => "set_up:workspace",
        api::JournalKind::DefinitionUploaded => "set_up:definition",
        api::JournalKind::SubscriptionChanged => "set_up:subscription",
        api::JournalKind::PushWorkerChanged => "set_up:push_worker",
        api::JournalKind::SourceChanged => "set_up:source",
        api::JournalKind::WebhookReprocessed => "set_up:webhook-event",
        api::JournalKind::WebhookDiscarded => "set_up:announcement",
        api::JournalKind::EntityWorkflowChanged => "set_up:entity_workflow",
        api::JournalKind::Overridden => "overridden",
        api::JournalKind::Claimed
        | api::JournalKind::Failed
        | api::JournalKind::Doubted
        | api::JournalKind::Attempted
        | api::JournalKind::Superseded
        | api::JournalKind::Probed
        | api::JournalKind::Refused
        | api::JournalKind::Began
        | api::JournalKind::TriedAgain
        | api::JournalKind::Reverted
        | api::JournalKind::Held
        | api::JournalKind::Ended => return None,
    })
}
