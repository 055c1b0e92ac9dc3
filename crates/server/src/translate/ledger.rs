//! The ledger of effects.

use hapax_api as api;
use hapax_engine::model::{EffectClass, JournalEvent, LedgerEntry, LedgerOutcome, StepStatus};

use super::doubts::{actor_to_api, resolution_to_api};
use super::entities::named;
use super::steps::status;

/// One effect with every attempt at it.
pub(crate) fn effect_to_api(entry: &LedgerEntry, provider: Option<String>) -> api::LedgerEntry {
    let attempts = entry.attempts.iter().map(|attempt| api::LedgerAttempt {
        number: attempt.number,
        began_at: attempt.began_at.clone(),
        ended_at: attempt.ended_at.clone(),
        owner: attempt.owner.clone(),
        fence: attempt.fence,
        status: match attempt.outcome {
            LedgerOutcome::Completed => api::LedgerOutcome::Completed,
            LedgerOutcome::Failed => api::LedgerOutcome::Failed,
            LedgerOutcome::Unknown => api::LedgerOutcome::Unknown,
            LedgerOutcome::Open => api::LedgerOutcome::Open,
        },
    });
    let rulings = entry.rulings.iter().map(|ruling| {
        let (resolution, reason) = match &ruling.what {
            JournalEvent::Resolved { resolution, reason, .. } => {
                (Some(resolution_to_api(resolution)), reason.clone())
            }
            JournalEvent::RepeatAllowed { reason, .. }
            | JournalEvent::Commanded { reason, .. }
            | JournalEvent::Redelivered { reason }
            | JournalEvent::Overridden { reason, .. } => (None, reason.clone()),
            JournalEvent::Remarked { text } => (None, text.clone()),
            JournalEvent::Claimed { .. }
            | JournalEvent::Failed { .. }
            | JournalEvent::Doubted { .. }
            | JournalEvent::Probed { .. }
            | JournalEvent::Attempted { .. }
            | JournalEvent::Superseded { .. }
            | JournalEvent::Refused { .. }
            | JournalEvent::KeyReleased { .. }
            | JournalEvent::SetUp { .. }
            | JournalEvent::Answered { .. }
            | JournalEvent::RulingProposed { .. }
            | JournalEvent::PayloadsRevealed { .. }
            | JournalEvent::SignInsRefused { .. }
            | JournalEvent::Settled { .. }
            | JournalEvent::TokenIssued { .. }
            | JournalEvent::Stepped { .. }
            | JournalEvent::Reverted { .. }
            | JournalEvent::StrayReverted { .. }
            | JournalEvent::Held { .. }
            | JournalEvent::TriedAgain { .. }
            | JournalEvent::OnEntity { .. } => (None, String::new()),
        };
        api::LedgerRuling { actor: actor_to_api(&ruling.by), at: ruling.at.clone(), resolution, reason }
    });
    api::LedgerEntry {
        effect_key: entry.key.clone(),
        run_id: entry.run.clone(),
        workflow: entry.workflow.clone(),
        provider,
        entity: entry.entity.as_ref().map(|entity| named(&entity.kind, &entity.id)),
        operation_id: entry.entity.as_ref().map(|entity| entity.operation.clone()),
        step_id: entry.step.clone(),
        class: class_to_api(entry.class),
        status: entry
            .status
            .and_then(|name| StepStatus::ALL.into_iter().find(|known| known.as_str() == name))
            .map(status),
        attempt_log: attempts.collect(),
        probes: entry.probes.clone(),
        rulings: rulings.collect(),
        refused_writes: entry.refused_writes,
        happened: entry.happened,
        may_have_happened: entry.may_have_happened,
        happened_twice: entry.happened_twice,
        may_have_happened_twice: entry.may_have_happened_twice,
    }
}

/// How an effect is protected from happening twice.
pub(super) fn class_to_api(class: EffectClass) -> api::LedgerClass {
    match class {
        EffectClass::Idempotent => api::LedgerClass::Idempotent,
        EffectClass::Claimed => api::LedgerClass::Claimed,
        EffectClass::Transactional => api::LedgerClass::Transactional,
    }
}
