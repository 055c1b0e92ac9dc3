//! The ledger: for each effect, every time its code was entered, the engine that did so, and the outcome.
//! It is computed from step records, history and journal, so an effect without trouble costs nothing extra.
//! The counts come from the evidence in the journal alone ([`Evidence`]), like the metrics.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Actor, EffectClass, EffectKey, EffectTally, EventKind, Evidence, Fence, Generation, JournalEntry,
    JournalEvent, KnownAttempts, Occurrence, RunEvent, RunId, StepRecord, StepState, StepStatus,
};

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Key that the provider received.
    pub key: String,
    /// Run that caused it, if a run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Workflow of that run, such as `order@2`, or of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Entity whose operation caused it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<LedgerEntity>,
    /// The step.
    pub step: String,
    /// Class of the effect.
    pub class: EffectClass,
    /// Status of the step. Absent if a retry deleted its record, or if it belongs to an earlier generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Every attempt that was entered or may have been.
    pub attempts: Vec<LedgerAttempt>,
    /// Answers of probes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// Rulings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<LedgerRuling>,
    /// Outcomes refused because their writer no longer held the run.
    pub refused_writes: u32,
    /// Attempts known to have happened.
    pub happened: u32,
    /// Attempts that may have happened.
    pub may_have_happened: u32,
    /// How often it is known to have happened after the first time.
    pub happened_twice: u32,
    /// How often more than that it may have happened after the first time.
    pub may_have_happened_twice: u32,
}

/// The entity that an operation acted on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntity {
    /// Kind of the entity.
    pub kind: String,
    /// Id of the entity.
    pub id: String,
    /// Id of the operation.
    pub operation: String,
}

/// One time that the code of an effect was entered, or may have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerAttempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// When it began, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at: Option<String>,
    /// When its outcome was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The engine that entered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Fence it was entered under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Outcome.
    pub outcome: LedgerOutcome,
}

/// Outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOutcome {
    /// It happened.
    Completed,
    /// It did not happen.
    Failed,
    /// It may have happened.
    Unknown,
    /// It is running, or was when its worker vanished. It may have happened.
    Open,
}

impl LedgerOutcome {
    pub(super) fn occurrence(self) -> Occurrence {
        match self {
            LedgerOutcome::Completed => Occurrence::Happened,
            LedgerOutcome::Failed => Occurrence::DidNotHappen,
            LedgerOutcome::Unknown | LedgerOutcome::Open => Occurrence::MayHaveHappened,
        }
    }
}

/// A ruling of a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerRuling {
    /// Who decided.
    pub by: Actor,
    /// When.
    pub at: String,
    /// The decision.
    #[serde(flatten)]
    pub what: JournalEvent,
}

/// Builds the ledger of a run: the effects of its current generation, and earlier effects that only the
/// journal shows. `notes` are the journal entries of the run, oldest first.
pub fn build_ledger(
    run: RunId,
    generation: Generation,
    steps: &[StepRecord],
    events: &[RunEvent],
    notes: &[JournalEntry],
) -> Vec<LedgerEntry> {
    let mut entries = Vec::new();
    let mut recorded = Vec::new();
    for step in steps {
        let Some(class) = step.kind.effect_class() else { continue };
        let about: Vec<&JournalEntry> = notes
            .iter()
            .filter(|note| note.generation == generation && note.step.as_ref() == Some(&step.id))
            .collect();
        let key = EffectKey::new(run, generation, &step.id);
        entries.push(entry_of(run, &key, step.id.as_str(), class, Some(step), events, &about));
        recorded.push(key);
    }
    let mut unrecorded: BTreeMap<&EffectKey, &JournalEntry> = BTreeMap::new();
    for note in notes {
        if let Some(evidence) = &note.evidence
            && !recorded.contains(&evidence.effect)
        {
            unrecorded.entry(&evidence.effect).or_insert(note);
        }
    }
    for (key, first) in unrecorded {
        let Some((step, evidence)) = first.step.as_ref().zip(first.evidence.as_ref()) else { continue };
        let is_about =
            |note: &&JournalEntry| note.generation == first.generation && note.step.as_ref() == Some(step);
        let about: Vec<&JournalEntry> = notes.iter().filter(is_about).collect();
        entries.push(entry_of(run, key, step.as_str(), evidence.class, None, events, &about));
    }
    entries
}

fn entry_of(
    run: RunId,
    key: &EffectKey,
    step: &str,
    class: EffectClass,
    record: Option<&StepRecord>,
    events: &[RunEvent],
    about: &[&JournalEntry],
) -> LedgerEntry {
    let proven: Vec<(&JournalEntry, &Evidence)> =
        about.iter().filter_map(|note| Some((*note, note.evidence.as_ref()?))).collect();
    let mut known = KnownAttempts::default();
    proven.iter().for_each(|(_, evidence)| known.learn(evidence));
    if let Some(record) = record {
        known.learn_from_record(record.attempts, Occurrence::from_state(&record.state));
    }
    let known = known.settled();
    let last_known = known.keys().next_back().copied().unwrap_or(0);
    let last = record.map_or(0, |record| record.attempts).max(last_known);
    let attempts: Vec<LedgerAttempt> = (1..=last)
        .map(|number| attempt_of(number, known.get(&number).copied(), record, &proven, events, about))
        .collect();
    let probes = about.iter().filter_map(|note| match &note.what {
        JournalEvent::Probed { answer } => Some(answer.clone()),
        _ => None,
    });
    let rulings = about.iter().filter_map(|note| {
        let by = note.by.clone()?;
        Some(LedgerRuling { by, at: note.at.to_string(), what: note.what.clone() })
    });
    let is_refused = |note: &&&JournalEntry| matches!(note.what, JournalEvent::Refused { .. });
    let tally = EffectTally::of(attempts.iter().map(|attempt| attempt.outcome.occurrence()));
    LedgerEntry {
        key: key.to_string(),
        run: Some(run.to_string()),
        workflow: None,
        entity: None,
        step: step.to_string(),
        class,
        status: record.map(|record| record.state.status().as_str()),
        happened: tally.happened,
        may_have_happened: tally.may_have_happened,
        happened_twice: tally.happened_twice(),
        may_have_happened_twice: tally.may_have_happened_twice(),
        attempts,
        probes: probes.collect(),
        rulings: rulings.collect(),
        refused_writes: u32::try_from(about.iter().filter(is_refused).count()).unwrap_or(u32::MAX),
    }
}

fn attempt_of(
    number: u32,
    known: Option<Occurrence>,
    record: Option<&StepRecord>,
    proven: &[(&JournalEntry, &Evidence)],
    events: &[RunEvent],
    about: &[&JournalEntry],
) -> LedgerAttempt {
    let claim = about.iter().find(|note| note.what == (JournalEvent::Claimed { attempt: number }));
    let end = about.iter().find(|note| match &note.what {
        JournalEvent::Failed { attempt, .. } | JournalEvent::Doubted { attempt, .. } => *attempt == number,
        _ => false,
    });
    // Among equally strong evidence, the first tells when the outcome became known.
    let of_attempt =
        |(_, evidence): &&(&JournalEntry, &Evidence)| evidence.attempt == number && !evidence.by_key;
    let strongest =
        proven.iter().filter(of_attempt).fold(None, |best: Option<&(&JournalEntry, &Evidence)>, next| {
            match best {
                Some(best) if best.1.occurrence >= next.1.occurrence => Some(best),
                _ => Some(next),
            }
        });
    let record = record.filter(|record| record.attempts == number);
    let is_open = record.is_some_and(|record| record.state == StepState::Running);
    let outcome = match known {
        Some(Occurrence::Happened) => LedgerOutcome::Completed,
        Some(Occurrence::MayHaveHappened) if is_open => LedgerOutcome::Open,
        Some(Occurrence::MayHaveHappened) => LedgerOutcome::Unknown,
        // An attempt that was followed by another has evidence, unless it is known not to have happened.
        Some(Occurrence::DidNotHappen) | None => LedgerOutcome::Failed,
    };
    let recorded_at = record.and_then(|record| match &record.state {
        StepState::Completed { at, .. } | StepState::Failed { at, .. } => Some(*at),
        _ => None,
    });
    let noted_at = end.map(|note| note.at).or(strongest.map(|(note, _)| note.at));
    let ended_at = recorded_at.or(noted_at).filter(|_| outcome != LedgerOutcome::Open);
    let fence = claim.map(|note| note.fence).or(end.map(|note| note.fence));
    let fence = fence.or(record.map(|record| record.fence)).or(strongest.map(|(note, _)| note.fence));
    let began_at = claim.map(|note| note.at);
    let began_at = began_at.or(record.filter(|_| number == 1).map(|record| record.started_at));
    LedgerAttempt {
        number,
        began_at: began_at.map(|at| at.to_string()),
        ended_at: ended_at.map(|at| at.to_string()),
        owner: fence.and_then(|fence| owner_of(fence, events)),
        fence: fence.map(Fence::get),
        outcome,
    }
}

/// The engine that the lease with this fence was granted to.
fn owner_of(fence: Fence, events: &[RunEvent]) -> Option<String> {
    let is_grant = |event: &&RunEvent| {
        event.fence == fence
            && matches!(event.kind, EventKind::Started | EventKind::Claimed | EventKind::TakenOver)
    };
    events.iter().find(is_grant)?.note.clone()
}

/// Counts over all effects of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassCount {
    /// Number of effects.
    pub effects: u64,
    /// Number of times their code was entered, or may have been.
    pub entries: u64,
    /// Times an effect is known to have happened after the first.
    pub happened_twice: u64,
    /// Times more than that an effect may have happened after the first.
    pub may_have_happened_twice: u64,
    /// Effects in doubt now.
    pub in_doubt: u64,
    /// Refused outcomes.
    pub refused_writes: u64,
}

impl ClassCount {
    /// Adds `entry` to the counts.
    pub fn add(&mut self, entry: &LedgerEntry) {
        self.effects += 1;
        self.entries += entry.attempts.len() as u64;
        self.happened_twice += u64::from(entry.happened_twice);
        self.may_have_happened_twice += u64::from(entry.may_have_happened_twice);
        self.in_doubt += u64::from(entry.status == Some(StepStatus::InDoubt.as_str()));
        self.refused_writes += u64::from(entry.refused_writes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::step;
    use crate::model::{Failure, Payload, StepId, StepKind, Timestamp, WorkspaceId};

    const NOW: Timestamp = Timestamp::from_millis(100);
    const RUN: RunId = RunId::from_u128(1);

    fn note(what: JournalEvent, evidence: Option<(u32, Occurrence)>) -> JournalEntry {
        let step = StepId::from_stored("wire");
        let evidence = evidence.and_then(|(attempt, occurrence)| {
            Evidence::for_step(RUN, Generation::default(), &step, StepKind::Claimed, attempt, occurrence)
        });
        JournalEntry {
            workspace: WorkspaceId::default(),
            run: RUN,
            generation: Generation::default(),
            step: Some(step),
            at: NOW,
            fence: Fence::new(1),
            owner: None,
            by: None,
            what,
            evidence,
        }
    }

    fn tried(attempt: u32, occurrence: Occurrence) -> JournalEntry {
        note(JournalEvent::Attempted { attempt, occurrence }, Some((attempt, occurrence)))
    }

    fn record(attempts: u32) -> StepRecord {
        let state = StepState::Completed { at: NOW, output: Payload::null() };
        StepRecord { attempts, kind: StepKind::Claimed, state, ..step("wire", 2, true) }
    }

    fn entry(attempts: u32, notes: &[JournalEntry]) -> LedgerEntry {
        build_ledger(RUN, Generation::default(), &[record(attempts)], &[], notes).remove(0)
    }

    fn repeats(attempts: u32, notes: &[JournalEntry]) -> (u32, u32) {
        let entry = entry(attempts, notes);
        (entry.happened_twice, entry.may_have_happened_twice)
    }

    #[test]
    fn an_effect_that_went_well_happened_once_and_needs_no_note() {
        let entry = entry(1, &[]);
        assert_eq!((entry.happened, entry.may_have_happened, entry.attempts.len()), (1, 0, 1));
        assert_eq!((entry.happened_twice, entry.may_have_happened_twice), (0, 0));
        assert_eq!(entry.attempts[0].outcome, LedgerOutcome::Completed);
    }

    #[test]
    fn an_attempt_that_may_have_happened_makes_the_next_a_possible_repeat() {
        let busy = JournalEvent::Failed { attempt: 1, failure: Failure::retryable("busy") };
        assert_eq!(repeats(2, &[note(busy, None)]), (0, 0), "the first did not happen");
        let cut = JournalEvent::Failed { attempt: 1, failure: Failure::unknown("reset") };
        assert_eq!(repeats(2, &[note(cut, Some((1, Occurrence::MayHaveHappened)))]), (0, 1));
        let crashes = [tried(1, Occurrence::MayHaveHappened), tried(2, Occurrence::MayHaveHappened)];
        assert_eq!(repeats(3, &crashes), (0, 2), "attempts cut off by crashes may have happened");
    }

    #[test]
    fn a_denial_takes_an_attempt_out_of_the_count_and_a_late_result_puts_it_back_as_known() {
        let doubted = JournalEvent::Doubted { attempt: 1, failure: Failure::unknown("reset") };
        let mut notes = vec![note(doubted, Some((1, Occurrence::MayHaveHappened)))];
        assert_eq!(repeats(2, &notes), (0, 1));
        notes.push(note(
            JournalEvent::Probed { answer: "did_not_happen".into() },
            Some((1, Occurrence::DidNotHappen)),
        ));
        assert_eq!(repeats(2, &notes), (0, 0));
        let late = JournalEvent::Refused { attempt: 1, occurrence: Some(Occurrence::Happened) };
        notes.push(note(late, Some((1, Occurrence::Happened))));
        assert_eq!(repeats(2, &notes), (1, 0));
        notes.reverse();
        assert_eq!(repeats(2, &notes), (1, 0), "whatever comes first");
    }

    /// The probe finds the effect of the first attempt.
    #[test]
    fn a_repeated_effect_that_a_probe_finds_is_known_to_have_happened_once() {
        let dropped = JournalEvent::Superseded { attempt: 1, occurrence: Occurrence::Happened };
        let mut by_key = tried(2, Occurrence::Happened);
        by_key.evidence.as_mut().expect("it is evidence").by_key = true;
        let doubted = tried(2, Occurrence::MayHaveHappened);
        let notes = [note(dropped, Some((1, Occurrence::Happened))), doubted.clone(), by_key.clone()];
        let found = entry(2, &notes);
        assert_eq!((found.happened, found.may_have_happened), (1, 1));
        assert_eq!((found.happened_twice, found.may_have_happened_twice), (0, 1));
        let failed = JournalEvent::Superseded { attempt: 1, occurrence: Occurrence::DidNotHappen };
        let notes = [note(failed, Some((1, Occurrence::DidNotHappen))), doubted, by_key];
        let found = entry(2, &notes);
        assert_eq!((found.happened, found.may_have_happened), (1, 0), "it can only be the second");
        assert_eq!(found.attempts[1].outcome, LedgerOutcome::Completed);
    }

    #[test]
    fn what_a_retry_dropped_stays_in_the_ledger() {
        let dropped = JournalEvent::Superseded { attempt: 1, occurrence: Occurrence::Happened };
        let notes = [note(dropped, Some((1, Occurrence::Happened)))];
        let gone = build_ledger(RUN, Generation::default(), &[], &[], &notes).remove(0);
        assert_eq!((gone.status, gone.happened, gone.happened_twice), (None, 1, 0));
        let again = entry(2, &[notes[0].clone(), tried(2, Occurrence::Happened)]);
        assert_eq!((again.happened, again.happened_twice), (2, 1));
        assert_eq!(again.attempts.len(), 2);
    }
}
