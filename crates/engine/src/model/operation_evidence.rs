//! Evidence in the record of an operation about the attempts at its action.
//!
//! Attempts are counted by effect key, over all operations that share it. No two attempts have the same
//! number. The first attempt of the operation that began the effect needs no evidence if its outcome is known:
//! the operation itself shows it. Evidence about every other attempt is written to the journal together with
//! the change that shows it.

use super::{
    EffectClass, EntityJournalEntry, Evidence, FinishBy, JournalEntry, JournalEvent, Occurrence, Operation,
    OperationState, Recovery, Timestamp,
};
use crate::limits::MAX_SETTLED_TRIES;

impl Operation {
    /// Number of its last attempt among all under its effect key. 0 if its action has no effect outside the
    /// store.
    pub fn last_try(&self) -> u32 {
        match self.tries {
            0 => 0,
            tries => self.tries_before + tries,
        }
    }

    /// Class of its effect. With `recovery: hold` the action is never run again without a ruling. Otherwise
    /// it is run again under the same key.
    pub fn effect_class(&self) -> EffectClass {
        match self.recovery {
            Recovery::Hold => EffectClass::Claimed,
            Recovery::Revert => EffectClass::Idempotent,
        }
    }

    /// Outcome of its last attempt, as its state shows it.
    pub fn occurrence(&self) -> Occurrence {
        match &self.state {
            OperationState::Pending { .. } | OperationState::InDoubt { .. } => Occurrence::MayHaveHappened,
            OperationState::Done { .. } => Occurrence::Happened,
            OperationState::Rejected { .. } => Occurrence::DidNotHappen,
            OperationState::Failed { failure, .. } => Occurrence::from_failure(failure),
            OperationState::Reverted { settled: true, .. } => Occurrence::DidNotHappen,
            OperationState::Reverted { settled: false, .. } => Occurrence::MayHaveHappened,
        }
    }

    /// Evidence about one of its attempts. `None` if its action has no effect outside the store.
    pub fn evidence(&self, number: u32, occurrence: Occurrence) -> Option<Evidence> {
        let (effect, class) = (self.effect_key(), self.effect_class());
        (self.tries > 0).then_some(Evidence { effect, class, attempt: number, by_key: false, occurrence })
    }

    /// A journal entry with the evidence about one of its attempts.
    fn proof(&self, number: u32, occurrence: Occurrence, at: Timestamp) -> Option<JournalEntry> {
        let note = EntityJournalEntry {
            workspace: self.workspace.clone(),
            entity: self.entity.clone(),
            operation: Some(self.id),
            at,
            by: None,
            what: JournalEvent::Attempted { attempt: number, occurrence },
            evidence: self.evidence(number, occurrence),
        };
        note.to_journal_entry().map(|note| JournalEntry { owner: Some(self.owner), ..note })
    }

    /// Returns whether only the journal shows the last attempt. The operation that began an effect shows the
    /// first attempt under its key.
    fn is_told_by_journal(&self) -> bool {
        self.last_try() > 1 || self.effect_of != self.id
    }

    /// Evidence in its beginning. For a first attempt that is nothing beyond the operation itself.
    pub(super) fn proofs_of_begin(&self, at: Timestamp) -> Vec<JournalEntry> {
        let proof = || self.proof(self.last_try(), Occurrence::MayHaveHappened, at);
        self.is_told_by_journal().then(proof).flatten().into_iter().collect()
    }

    /// Evidence in the change by `by` from `before` to this state.
    pub(super) fn proofs_of_change(
        &self,
        before: &Operation,
        by: FinishBy,
        at: Timestamp,
    ) -> Vec<JournalEntry> {
        let (number, occurrence) = (self.last_try(), self.occurrence());
        let is_pending = matches!(self.state, OperationState::Pending { .. });
        let was_in_doubt = matches!(before.state, OperationState::InDoubt { .. });
        let is_open = occurrence == Occurrence::MayHaveHappened && !is_pending;
        let numbers = match occurrence {
            // The action is entered again because its previous outcome is unknown.
            _ if is_pending => vec![before.last_try(), number],
            // A search for the key that finds nothing is evidence about every attempt under it.
            Occurrence::DidNotHappen if was_in_doubt => {
                (number.saturating_sub(MAX_SETTLED_TRIES).saturating_add(1)..=number).collect()
            }
            // A lookup that finds the effect is evidence about every attempt too: any of them may have made it.
            Occurrence::Happened if matches!(by, FinishBy::Probe | FinishBy::People) => {
                return self.proof(number, occurrence, at).map(found_by_key).into_iter().collect();
            }
            _ if self.is_told_by_journal() || was_in_doubt || is_open => vec![number],
            _ => return Vec::new(),
        };
        numbers.into_iter().filter_map(|number| self.proof(number, occurrence, at)).collect()
    }
}

fn found_by_key(mut proof: JournalEntry) -> JournalEntry {
    if let Some(evidence) = &mut proof.evidence {
        evidence.by_key = true;
    }
    proof
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::transition::example_operation;
    use crate::model::{Failure, Payload};

    const NOW: Timestamp = Timestamp::from_millis(100);

    use Occurrence::{DidNotHappen, Happened, MayHaveHappened};

    fn pending() -> OperationState {
        OperationState::Pending { heard_at: NOW }
    }

    fn operation(tries_before: u32, tries: u32, state: OperationState) -> Operation {
        Operation { tries_before, tries, ..example_operation(state) }
    }

    fn said(notes: Vec<JournalEntry>) -> Vec<(u32, Occurrence)> {
        let said = notes.into_iter().map(|note| note.evidence.expect("it is evidence"));
        said.map(|evidence| (evidence.attempt, evidence.occurrence)).collect()
    }

    /// Evidence written when an operation with `counts` (attempts before, attempts now) ends in `state`.
    fn ending(before: OperationState, counts: (u32, u32), state: OperationState) -> Vec<(u32, Occurrence)> {
        let before = operation(counts.0, counts.1, before);
        let holder = FinishBy::Holder(before.owner);
        said(Operation { state, ..before.clone() }.proofs_of_change(&before, holder, NOW))
    }

    #[test]
    fn a_first_try_that_ends_in_a_known_way_needs_no_evidence() {
        let done = || OperationState::Done { at: NOW, result: Payload::null() };
        let failed = |failure| OperationState::Failed { at: NOW, failure };
        let rejected = || OperationState::Rejected { at: NOW, failure: Failure::permanent("no") };
        assert_eq!(said(operation(0, 1, pending()).proofs_of_begin(NOW)), []);
        assert_eq!(ending(pending(), (0, 1), done()), []);
        assert_eq!(ending(pending(), (0, 1), rejected()), []);
        assert_eq!(ending(pending(), (0, 1), failed(Failure::permanent("no"))), []);
        assert_eq!(said(operation(2, 1, pending()).proofs_of_begin(NOW)), [(3, MayHaveHappened)]);
        assert_eq!(ending(pending(), (1, 1), done()), [(2, Happened)]);
        assert_eq!(ending(pending(), (1, 1), rejected()), [(2, DidNotHappen)]);
        assert_eq!(ending(pending(), (1, 1), failed(Failure::retryable("busy"))), [(2, DidNotHappen)]);
    }

    #[test]
    fn an_unknown_outcome_may_have_happened() {
        let failed = |failure| OperationState::Failed { at: NOW, failure };
        let in_doubt = || OperationState::InDoubt { since: NOW };
        let reverted = |settled| OperationState::Reverted { at: NOW, settled };
        assert_eq!(ending(pending(), (0, 1), failed(Failure::unknown("reset"))), [(1, MayHaveHappened)]);
        let charged_and_500 = Failure::retryable("the answer was 500").that_may_have_happened();
        assert_eq!(ending(pending(), (0, 1), failed(charged_and_500)), [(1, MayHaveHappened)]);
        assert_eq!(ending(pending(), (0, 1), reverted(false)), [(1, MayHaveHappened)], "its holder vanished");
        assert_eq!(ending(pending(), (0, 1), in_doubt()), [(1, MayHaveHappened)]);
        assert_eq!(ending(in_doubt(), (0, 1), reverted(true)), [(1, DidNotHappen)]);
        let done = OperationState::Done { at: NOW, result: Payload::null() };
        assert_eq!(ending(in_doubt(), (0, 1), done), [(1, Happened)]);
    }

    #[test]
    fn an_action_that_is_entered_again_leaves_evidence_of_both_tries() {
        let before = operation(0, 1, pending());
        let again = Operation { tries: 2, ..before.clone() };
        let proofs = again.proofs_of_change(&before, FinishBy::Holder(before.owner), NOW);
        assert_eq!(said(proofs), [(1, MayHaveHappened), (2, MayHaveHappened)]);
    }

    /// A probe and people find an effect by its key. The worker that made a try knows of that try.
    #[test]
    fn a_found_key_is_evidence_about_some_try_under_it() {
        let before = operation(1, 1, OperationState::InDoubt { since: NOW });
        let done =
            Operation { state: OperationState::Done { at: NOW, result: Payload::null() }, ..before.clone() };
        for (by, by_key) in [(FinishBy::Probe, true), (FinishBy::People, true), (FinishBy::LateResult, false)]
        {
            let proofs = done.proofs_of_change(&before, by, NOW);
            let evidence: Vec<_> = proofs.into_iter().filter_map(|note| note.evidence).collect();
            assert!(
                matches!(&evidence[..], [one] if (one.attempt, one.by_key, one.occurrence) == (2, by_key, Happened)),
                "{by:?}: {evidence:?}"
            );
        }
    }

    /// The operation that began the effect may be tried again later: then nothing else would tell that the number is taken.
    #[test]
    fn a_try_under_the_key_of_another_operation_is_always_in_the_journal() {
        let other =
            Operation { effect_of: crate::model::OperationId::from_u128(9), ..operation(0, 1, pending()) };
        assert_eq!(said(other.proofs_of_begin(NOW)), [(1, MayHaveHappened)]);
        let done =
            Operation { state: OperationState::Done { at: NOW, result: Payload::null() }, ..other.clone() };
        let proofs = done.proofs_of_change(&other, FinishBy::Holder(other.owner), NOW);
        assert_eq!(said(proofs), [(1, Happened)]);
    }

    #[test]
    fn a_denied_key_is_evidence_about_every_try_under_it() {
        let in_doubt = OperationState::InDoubt { since: NOW };
        let denied = ending(in_doubt, (1, 2), OperationState::Reverted { at: NOW, settled: true });
        assert_eq!(denied, [(1, DidNotHappen), (2, DidNotHappen), (3, DidNotHappen)]);
    }

    #[test]
    fn what_has_no_effect_outside_the_store_leaves_none() {
        let failed = OperationState::Failed { at: NOW, failure: Failure::unknown("any") };
        assert_eq!(ending(pending(), (0, 0), failed), []);
        assert_eq!(ending(pending(), (3, 0), OperationState::Reverted { at: NOW, settled: false }), []);
    }

    #[test]
    fn what_people_decide_about_is_claimed_and_the_rest_is_idempotent() {
        let of = |recovery| Operation { recovery, ..operation(0, 1, pending()) }.effect_class();
        assert_eq!(of(Recovery::Hold), EffectClass::Claimed);
        assert_eq!(of(Recovery::Revert), EffectClass::Idempotent);
    }
}
