//! Ledger entries of effects caused by operations on entities, built from the operation and the journal.

use super::{
    EffectTally, EntityJournalEntry, Evidence, JournalEntry, JournalEvent, KnownAttempts, LedgerAttempt,
    LedgerEntity, LedgerEntry, LedgerOutcome, LedgerRuling, Occurrence, Operation, OperationId,
    OperationState, StepStatus,
};

/// Everything known about one effect of an operation.
#[derive(Debug, Clone, Copy)]
pub struct EntityEffect<'a> {
    /// The newest operation under the effect key. `None` if it has been purged.
    pub operation: Option<&'a Operation>,
    /// Evidence about the attempts at the effect, in any order.
    pub evidence: &'a [JournalEntry],
    /// Journal entries about the operations under the key, oldest first.
    pub notes: &'a [EntityJournalEntry],
}

/// The operation that a journal entry is about.
pub fn operation_of(note: &JournalEntry) -> Option<OperationId> {
    match &note.what {
        JournalEvent::OnEntity { operation, .. } => operation.as_ref()?.parse().ok(),
        _ => None,
    }
}

impl EntityEffect<'_> {
    /// Builds the ledger entry. `None` if no action reached outside the store.
    pub fn entry(&self) -> Option<LedgerEntry> {
        let operation = self.operation.filter(|operation| operation.last_try() > 0);
        let first = self.evidence.iter().find_map(|note| Some((note, note.evidence.as_ref()?)));
        let key = operation.map(Operation::effect_key).or(first.map(|(_, proof)| proof.effect.clone()))?;
        let class = operation.map(Operation::effect_class).or(first.map(|(_, proof)| proof.class))?;
        let entity = match (operation, first) {
            (Some(operation), _) => LedgerEntity {
                kind: operation.entity.kind.to_string(),
                id: operation.entity.id.to_string(),
                operation: operation.id.to_string(),
            },
            (None, Some((note, _))) => entity_of(note)?,
            (None, None) => return None,
        };
        let step = key.as_str().split_once(':').map_or("", |(_, step)| step).to_owned();
        let mut known = KnownAttempts::default();
        self.proofs().for_each(|(_, proof)| known.learn(proof));
        if let Some(operation) = operation {
            known.learn_from_record(operation.last_try(), Some(operation.occurrence()));
        }
        let attempts: Vec<LedgerAttempt> = known
            .settled()
            .into_iter()
            .map(|(number, occurrence)| self.attempt(number, occurrence, operation))
            .collect();
        let tally = EffectTally::of(attempts.iter().map(|attempt| attempt.outcome.occurrence()));
        let probes = self.notes.iter().filter_map(|note| match &note.what {
            JournalEvent::Probed { answer } => Some(answer.clone()),
            _ => None,
        });
        let rulings = self.notes.iter().filter_map(|note| {
            let is_ruling =
                matches!(note.what, JournalEvent::Resolved { .. } | JournalEvent::Overridden { .. });
            let by = note.by.clone().filter(|_| is_ruling)?;
            Some(LedgerRuling { by, at: note.at.to_string(), what: note.what.clone() })
        });
        let is_refused = |note: &&EntityJournalEntry| matches!(note.what, JournalEvent::Refused { .. });
        Some(LedgerEntry {
            key: key.to_string(),
            run: None,
            workflow: operation.map(|operation| operation.workflow.to_string()),
            entity: Some(entity),
            step,
            class,
            status: operation.map(|operation| status_of(&operation.state).as_str()),
            attempts,
            probes: probes.collect(),
            rulings: rulings.collect(),
            refused_writes: u32::try_from(self.notes.iter().filter(is_refused).count()).unwrap_or(u32::MAX),
            happened: tally.happened,
            may_have_happened: tally.may_have_happened,
            happened_twice: tally.happened_twice(),
            may_have_happened_twice: tally.may_have_happened_twice(),
        })
    }

    fn proofs(&self) -> impl Iterator<Item = (&JournalEntry, &Evidence)> {
        self.evidence.iter().filter_map(|note| Some((note, note.evidence.as_ref()?)))
    }

    fn attempt(&self, number: u32, known: Occurrence, operation: Option<&Operation>) -> LedgerAttempt {
        let of_try = || self.proofs().filter(|(_, proof)| proof.attempt == number && !proof.by_key);
        let strongest = of_try().max_by_key(|(note, proof)| (proof.occurrence, std::cmp::Reverse(note.at)));
        let record = operation.filter(|operation| operation.last_try() == number);
        let is_open = record.is_some_and(|record| matches!(record.state, OperationState::Pending { .. }));
        let outcome = match known {
            Occurrence::Happened => LedgerOutcome::Completed,
            Occurrence::MayHaveHappened if is_open => LedgerOutcome::Open,
            Occurrence::MayHaveHappened => LedgerOutcome::Unknown,
            Occurrence::DidNotHappen => LedgerOutcome::Failed,
        };
        let noted_at = strongest.map(|(note, _)| note.at);
        let ended_at = noted_at.or(record.map(|record| record.state.at()));
        let ended_at = ended_at.filter(|_| outcome != LedgerOutcome::Open);
        let began_at = record.filter(|_| number == 1).map(|record| record.began_at);
        let owner = of_try().find_map(|(note, _)| note.owner).or(record.map(|record| record.owner));
        LedgerAttempt {
            number,
            began_at: began_at.map(|at| at.to_string()),
            ended_at: ended_at.map(|at| at.to_string()),
            owner: owner.map(|owner| owner.to_string()),
            fence: Some(number.into()),
            outcome,
        }
    }
}

fn entity_of(note: &JournalEntry) -> Option<LedgerEntity> {
    let JournalEvent::OnEntity { kind, id, operation, .. } = &note.what else { return None };
    Some(LedgerEntity { kind: kind.clone(), id: id.clone(), operation: operation.clone()? })
}

/// Maps the state of an operation to the status of a step.
fn status_of(state: &OperationState) -> StepStatus {
    match state {
        OperationState::Pending { .. } => StepStatus::Running,
        OperationState::Done { .. } => StepStatus::Completed,
        OperationState::Rejected { .. } | OperationState::Failed { .. } => StepStatus::Failed,
        OperationState::Reverted { .. } => StepStatus::Cancelled,
        OperationState::InDoubt { .. } => StepStatus::InDoubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::transition::example_operation;
    use crate::model::{EffectClass, Failure, FinishBy, Payload, Timestamp};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn operation(tries: u32, state: OperationState) -> Operation {
        Operation { tries, ..example_operation(state) }
    }

    fn entry(operation: &Operation, evidence: &[JournalEntry]) -> LedgerEntry {
        EntityEffect { operation: Some(operation), evidence, notes: &[] }.entry().expect("it has an effect")
    }

    #[test]
    fn an_action_that_went_well_happened_once_and_needs_no_evidence() {
        let done = operation(1, OperationState::Done { at: NOW, result: Payload::null() });
        let entry = entry(&done, &[]);
        assert_eq!(entry.key, done.effect_key().to_string());
        assert_eq!((entry.happened, entry.may_have_happened, entry.attempts.len()), (1, 0, 1));
        assert_eq!((entry.status, entry.class), (Some("COMPLETED"), EffectClass::Idempotent));
        assert_eq!(entry.step, "close");
        assert_eq!(entry.entity.unwrap().operation, done.id.to_string());
    }

    #[test]
    fn a_reverted_action_and_its_successor_are_one_effect_that_may_have_happened_twice() {
        let pending = operation(1, OperationState::Pending { heard_at: NOW });
        let reverted =
            Operation { state: OperationState::Reverted { at: NOW, settled: false }, ..pending.clone() };
        let janitor = FinishBy::Janitor { unheard_since: NOW };
        let mut evidence = reverted.proofs_of_change(&pending, janitor, NOW);
        assert_eq!(entry(&reverted, &evidence).may_have_happened, 1);
        let next = Operation {
            id: OperationId::from_u128(2),
            tries_before: 1,
            state: OperationState::Pending { heard_at: NOW },
            ..pending
        };
        evidence.extend(next.proofs_of_begin(NOW));
        let done =
            Operation { state: OperationState::Done { at: NOW, result: Payload::null() }, ..next.clone() };
        evidence.extend(done.proofs_of_change(&next, FinishBy::Holder(next.owner), NOW));
        let entry = entry(&done, &evidence);
        assert_eq!((entry.happened, entry.may_have_happened), (1, 1));
        assert_eq!((entry.happened_twice, entry.may_have_happened_twice), (0, 1));
        let outcomes: Vec<LedgerOutcome> = entry.attempts.iter().map(|attempt| attempt.outcome).collect();
        assert_eq!(outcomes, [LedgerOutcome::Unknown, LedgerOutcome::Completed]);
    }

    #[test]
    fn an_entry_that_is_only_in_the_journal_has_no_status() {
        let lost = operation(1, OperationState::Failed { at: NOW, failure: Failure::unknown("cut") });
        let pending = operation(1, OperationState::Pending { heard_at: NOW });
        let evidence = lost.proofs_of_change(&pending, FinishBy::Holder(pending.owner), NOW);
        let entry = EntityEffect { operation: None, evidence: &evidence, notes: &[] }.entry().unwrap();
        assert_eq!((entry.status, entry.may_have_happened), (None, 1));
        assert_eq!(entry.entity.unwrap().operation, lost.id.to_string());
        assert_eq!(operation_of(&evidence[0]), Some(lost.id));
    }

    #[test]
    fn an_operation_without_an_effect_is_not_in_the_ledger() {
        let done = operation(0, OperationState::Done { at: NOW, result: Payload::null() });
        assert_eq!(EntityEffect { operation: Some(&done), evidence: &[], notes: &[] }.entry(), None);
    }
}
