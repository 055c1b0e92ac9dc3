//! Evidence about the attempts at an effect, and how often the effect happened.
//!
//! Evidence is only ever added. The strongest evidence about an attempt counts, so neither order nor
//! repetition matters. All counts of repeated effects are computed from evidence and from nothing else.
//!
//! Probes and people find an effect by its key. Their "happened" proves that one of the attempts so far
//! happened, but not which one. It adds to the count only if no attempt is known to have happened.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    EffectClass, EffectKey, Failure, Generation, Resolution, RunId, StepId, StepKind, StepRecord, StepState,
    StepStatus, StepTransition,
};

/// True if one attempt had its effect. Ordered by strength: a later variant outweighs an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// The attempt began, and its outcome is unknown.
    MayHaveHappened,
    /// The provider, a probe or a person said that it did not happen.
    DidNotHappen,
    /// It happened.
    Happened,
}

impl Occurrence {
    /// Every variant, weakest first.
    pub const ALL: [Occurrence; 3] =
        [Occurrence::MayHaveHappened, Occurrence::DidNotHappen, Occurrence::Happened];

    /// The evidence in a failed attempt.
    pub fn from_failure(failure: &Failure) -> Self {
        match failure.may_have_happened() {
            true => Occurrence::MayHaveHappened,
            false => Occurrence::DidNotHappen,
        }
    }

    /// What a record shows about its last attempt. `None` if it shows nothing.
    pub fn from_state(state: &StepState) -> Option<Self> {
        match state {
            StepState::Running | StepState::InDoubt { .. } => Some(Occurrence::MayHaveHappened),
            StepState::Completed { .. } => Some(Occurrence::Happened),
            StepState::Pending { failure, .. } | StepState::Failed { failure, .. } => {
                Some(Occurrence::from_failure(failure))
            }
            StepState::Waiting { .. } | StepState::Skipped { .. } | StepState::Cancelled { .. } => None,
        }
    }
}

/// Evidence about one attempt at an effect, carried by a journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The effect.
    pub effect: EffectKey,
    /// Class of the effect.
    pub class: EffectClass,
    /// Number of the attempt, from 1. The count continues across retries of the run.
    pub attempt: u32,
    /// Whether the effect was found by its key. Then the evidence is about this attempt and all before it: at
    /// least one of them happened.
    pub by_key: bool,
    /// Outcome of the attempt: its effect happened, did not happen, or may have happened.
    pub occurrence: Occurrence,
}

impl Evidence {
    /// Evidence about an attempt of a step.
    pub fn for_step(
        run: RunId,
        generation: Generation,
        step: &StepId,
        kind: StepKind,
        attempt: u32,
        occurrence: Occurrence,
    ) -> Option<Self> {
        let class = kind.effect_class()?;
        // Effect and record commit together: an effect without a record did not happen.
        let is_certain = class == EffectClass::Transactional && occurrence != Occurrence::Happened;
        let occurrence = if is_certain { Occurrence::DidNotHappen } else { occurrence };
        let effect = EffectKey::new(run, generation, step);
        Some(Evidence { effect, class, attempt, by_key: false, occurrence })
    }

    /// What a ruling shows about the effect in doubt. What it does not show stays unknown.
    pub fn from_ruling(
        ruling: &Resolution,
        run: RunId,
        generation: Generation,
        record: &StepRecord,
    ) -> Option<Self> {
        let (occurrence, by_key) = match ruling {
            Resolution::Happened { .. } => (Occurrence::Happened, true),
            Resolution::DidNotHappen => (Occurrence::DidNotHappen, false),
            Resolution::Compensate { .. } | Resolution::Abandon => return None,
        };
        let evidence =
            Evidence::for_step(run, generation, &record.id, record.kind, record.attempts, occurrence)?;
        Some(Evidence { by_key, ..evidence })
    }

    /// What a changed record shows, unless the record alone shows as much. The record suffices for a first
    /// attempt that is running, succeeded or did not happen. So an effect without trouble needs no evidence.
    pub fn from_change(
        run: RunId,
        generation: Generation,
        previous: Option<&StepRecord>,
        transition: StepTransition,
        record: &StepRecord,
    ) -> Option<Self> {
        let was_under_way = previous.is_none_or(|previous| previous.state.status() == StepStatus::Running);
        let occurrence = match transition {
            // The outcome of the attempt will not be recorded.
            StepTransition::Cancel if was_under_way => Occurrence::MayHaveHappened,
            StepTransition::Withdraw => Occurrence::DidNotHappen,
            _ => Occurrence::from_state(&record.state)?,
        };
        let was_in_doubt = previous.is_some_and(|previous| previous.state.status() == StepStatus::InDoubt);
        let is_unknown =
            occurrence == Occurrence::MayHaveHappened && record.state.status() != StepStatus::Running;
        // The record does not show that a withdrawn attempt did not happen. If a retry deletes it, only this
        // evidence does.
        let is_withdrawn = transition == StepTransition::Withdraw;
        if record.attempts < 2 && !was_in_doubt && !is_unknown && !is_withdrawn {
            return None;
        }
        let evidence =
            Evidence::for_step(run, generation, &record.id, record.kind, record.attempts, occurrence)?;
        let tells_nothing =
            evidence.class == EffectClass::Transactional && evidence.occurrence == Occurrence::DidNotHappen;
        let by_key = transition == StepTransition::Happened;
        (!tells_nothing).then_some(Evidence { by_key, ..evidence })
    }
}

/// Evidence about all attempts at one effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownAttempts {
    attempts: BTreeMap<u32, Occurrence>,
    /// The effect was found by its key when it had been attempted so often; the first time counts.
    found_after: Option<u32>,
}

impl KnownAttempts {
    /// Takes evidence into account.
    pub fn learn(&mut self, evidence: &Evidence) {
        match evidence.by_key {
            true => {
                let found = self.found_after.map_or(evidence.attempt, |found| found.min(evidence.attempt));
                self.found_after = Some(found);
            }
            false => {
                let known = self.attempts.entry(evidence.attempt).or_insert(evidence.occurrence);
                *known = evidence.occurrence.max(*known);
            }
        }
    }

    /// Adds the outcome that the step's record states for its last attempt. Evidence about an attempt after the first
    /// overrules the record: a completed record does not say which attempt made the effect.
    pub fn learn_from_record(&mut self, attempt: u32, occurrence: Option<Occurrence>) {
        let Some(occurrence) = occurrence else { return };
        let known = self.attempts.entry(attempt).or_insert(occurrence);
        if attempt == 1 {
            *known = occurrence.max(*known);
        }
    }

    /// Outcome of each attempt with evidence. An effect found by its key is attributed to the last attempt that may
    /// have made it, unless an earlier attempt is known to have made it.
    pub fn settled(&self) -> BTreeMap<u32, Occurrence> {
        let mut settled = self.attempts.clone();
        let Some(found_after) = self.found_after else { return settled };
        let is_known = |occurrence: &Occurrence| *occurrence == Occurrence::Happened;
        if settled.range(..=found_after).any(|(_, occurrence)| is_known(occurrence)) {
            return settled;
        }
        let may_have = |(number, occurrence): (&u32, &Occurrence)| {
            (*occurrence == Occurrence::MayHaveHappened).then_some(*number)
        };
        let made_by = settled.range(..=found_after).rev().find_map(may_have).unwrap_or(found_after);
        settled.insert(made_by, Occurrence::Happened);
        settled
    }

    /// How often the effect happened, and how often more it may have.
    pub fn tally(&self) -> EffectTally {
        EffectTally::of(self.settled().into_values())
    }
}

/// How often an effect happened, and how often more it may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EffectTally {
    /// Attempts known to have happened.
    pub happened: u32,
    /// Attempts with an unknown outcome.
    pub may_have_happened: u32,
}

impl EffectTally {
    /// Counts attempts by outcome.
    pub fn of(attempts: impl IntoIterator<Item = Occurrence>) -> Self {
        let mut tally = EffectTally::default();
        for occurrence in attempts {
            match occurrence {
                Occurrence::Happened => tally.happened += 1,
                Occurrence::MayHaveHappened => tally.may_have_happened += 1,
                Occurrence::DidNotHappen => {}
            }
        }
        tally
    }

    /// How often the effect is known to have happened after the first time.
    pub const fn happened_twice(self) -> u32 {
        self.happened.saturating_sub(1)
    }

    /// How often more than that it may have happened after the first time.
    pub const fn may_have_happened_twice(self) -> u32 {
        (self.happened + self.may_have_happened).saturating_sub(1) - self.happened_twice()
    }

    /// Returns true if the effect happened twice, or may have.
    pub const fn is_repeated(self) -> bool {
        self.happened + self.may_have_happened > 1
    }
}

/// Number of effects of a class with the same tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TallyCount {
    /// The effect class.
    pub class: EffectClass,
    /// The tally.
    pub tally: EffectTally,
    /// Number of effects with this tally.
    pub effects: u64,
}

/// Number of repetitions. Each time after the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepeatCount {
    /// Known repetitions.
    pub happened_twice: u64,
    /// Possible repetitions.
    pub may_have_happened_twice: u64,
}

/// Sums up by class. Every class is present.
pub fn count_repeats(tallies: &[TallyCount]) -> BTreeMap<EffectClass, RepeatCount> {
    let mut counts: BTreeMap<EffectClass, RepeatCount> =
        EffectClass::ALL.into_iter().map(|class| (class, RepeatCount::default())).collect();
    for TallyCount { class, tally, effects } in tallies {
        let count = counts.entry(*class).or_default();
        count.happened_twice += u64::from(tally.happened_twice()) * effects;
        count.may_have_happened_twice += u64::from(tally.may_have_happened_twice()) * effects;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::step;
    use crate::model::{Payload, Timestamp};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn tally(happened: u32, may_have_happened: u32) -> (u32, u32) {
        let tally = EffectTally { happened, may_have_happened };
        (tally.happened_twice(), tally.may_have_happened_twice())
    }

    #[test]
    fn every_time_beyond_the_first_counts_as_known_or_as_possible() {
        assert_eq!(tally(0, 0), (0, 0));
        assert_eq!(tally(1, 0), (0, 0));
        assert_eq!(tally(0, 1), (0, 0), "it may have happened, but not twice");
        assert_eq!(tally(1, 1), (0, 1));
        assert_eq!(tally(0, 3), (0, 2));
        assert_eq!(tally(2, 1), (1, 1));
        assert_eq!(tally(3, 0), (2, 0));
    }

    /// How often an effect happened and may have, by what was said of attempts, and after which attempts it was found by its key.
    fn counted(said: &[(u32, Occurrence)], found_after: &[u32]) -> (u32, u32) {
        let effect = EffectKey::new(RunId::from_u128(1), Generation::default(), &StepId::from_stored("wire"));
        let of = |attempt, by_key, occurrence| {
            let (effect, class) = (effect.clone(), EffectClass::Claimed);
            Evidence { effect, class, attempt, by_key, occurrence }
        };
        let mut all: Vec<Evidence> =
            said.iter().map(|(attempt, occurrence)| of(*attempt, false, *occurrence)).collect();
        all.extend(found_after.iter().map(|attempt| of(*attempt, true, Occurrence::Happened)));
        let tally = |all: &[Evidence]| {
            let mut known = KnownAttempts::default();
            all.iter().for_each(|evidence| known.learn(evidence));
            known.tally()
        };
        let forth = tally(&all);
        all.reverse();
        assert_eq!(forth, tally(&all), "whatever comes first");
        (forth.happened, forth.may_have_happened)
    }

    /// Any attempt before the lookup can explain why an effect was found by its key.
    #[test]
    fn an_effect_that_is_found_by_its_key_happened_at_least_once() {
        use Occurrence::{DidNotHappen, Happened, MayHaveHappened};
        assert_eq!(counted(&[(1, MayHaveHappened)], &[1]), (1, 0));
        assert_eq!(counted(&[(1, MayHaveHappened), (2, MayHaveHappened)], &[2]), (1, 1));
        assert_eq!(counted(&[(1, Happened), (2, MayHaveHappened)], &[2]), (1, 1), "it was the first");
        assert_eq!(counted(&[(1, DidNotHappen), (2, MayHaveHappened)], &[2]), (1, 0));
        assert_eq!(
            counted(&[(1, MayHaveHappened), (2, Happened)], &[2, 2]),
            (1, 1),
            "saying it twice is nothing"
        );
        assert_eq!(counted(&[(1, DidNotHappen)], &[1]), (1, 0), "whoever denied it erred");
        // One of the first two, and the third, which began after the effect was found.
        assert_eq!(counted(&[(1, MayHaveHappened), (2, MayHaveHappened), (3, Happened)], &[2]), (2, 1));
        assert_eq!(counted(&[(1, MayHaveHappened), (2, Happened), (3, MayHaveHappened)], &[1, 3]), (2, 1));
        assert_eq!(counted(&[(1, Happened), (2, MayHaveHappened), (3, MayHaveHappened)], &[2, 3]), (1, 2));
    }

    #[test]
    fn the_strongest_evidence_of_an_attempt_counts() {
        assert!(Occurrence::MayHaveHappened < Occurrence::DidNotHappen);
        assert!(Occurrence::DidNotHappen < Occurrence::Happened, "a late result outweighs a ruling");
    }

    fn evidence(previous: Option<StepState>, attempts: u32, state: StepState) -> Option<Occurrence> {
        evidence_by(StepTransition::Begin, previous, attempts, state)
    }

    fn evidence_by(
        transition: StepTransition,
        previous: Option<StepState>,
        attempts: u32,
        state: StepState,
    ) -> Option<Occurrence> {
        let record = |state| StepRecord { attempts, state, ..step("charge", 2, true) };
        let previous = previous.map(record);
        let found = Evidence::from_change(
            RunId::from_u128(1),
            Generation::default(),
            previous.as_ref(),
            transition,
            &record(state),
        );
        found.map(|evidence| evidence.occurrence)
    }

    #[test]
    fn a_first_attempt_that_ends_in_a_known_way_needs_no_evidence() {
        let done = || StepState::Completed { at: NOW, output: Payload::null() };
        let failed = |failure| StepState::Failed { at: NOW, failure };
        let doubted = || StepState::InDoubt { since: NOW, failure: Failure::unknown("reset") };
        assert_eq!(evidence(None, 1, done()), None);
        assert_eq!(evidence(None, 1, StepState::Running), None);
        assert_eq!(evidence(None, 1, failed(Failure::permanent("no"))), None);
        assert_eq!(evidence(None, 1, failed(Failure::unknown("reset"))), Some(Occurrence::MayHaveHappened));
        assert_eq!(evidence(None, 1, doubted()), Some(Occurrence::MayHaveHappened));
        let denied = || StepState::Pending { due_at: NOW, failure: Failure::retryable("did not happen") };
        assert_eq!(evidence(Some(doubted()), 1, denied()), Some(Occurrence::DidNotHappen));
        assert_eq!(evidence(Some(doubted()), 1, done()), Some(Occurrence::Happened));
        assert_eq!(evidence(None, 2, StepState::Running), Some(Occurrence::MayHaveHappened));
        assert_eq!(evidence(None, 2, done()), Some(Occurrence::Happened));
        assert_eq!(evidence(None, 2, failed(Failure::permanent("no"))), Some(Occurrence::DidNotHappen));
        let charged_and_500 = Failure::retryable("the answer was 500").that_may_have_happened();
        assert_eq!(evidence(None, 1, failed(charged_and_500)), Some(Occurrence::MayHaveHappened));
    }

    #[test]
    fn an_attempt_that_is_cut_off_may_have_happened_and_one_that_is_withdrawn_did_not() {
        let cancelled = || StepState::Cancelled { at: NOW };
        let cut_off =
            |previous, attempts| evidence_by(StepTransition::Cancel, previous, attempts, cancelled());
        assert_eq!(cut_off(Some(StepState::Running), 1), Some(Occurrence::MayHaveHappened));
        assert_eq!(cut_off(Some(StepState::Running), 2), Some(Occurrence::MayHaveHappened));
        assert_eq!(cut_off(None, 1), Some(Occurrence::MayHaveHappened), "it was entered without a record");
        let failed = StepState::Pending { due_at: NOW, failure: Failure::retryable("busy") };
        assert_eq!(cut_off(Some(failed), 2), None, "of its last attempt all is known");
        let doubt = StepState::InDoubt { since: NOW, failure: Failure::unknown("reset") };
        let completed = StepState::Completed { at: NOW, output: Payload::null() };
        let by_key = evidence_by(StepTransition::Happened, Some(doubt), 2, completed);
        assert_eq!(by_key, Some(Occurrence::Happened));
        let withdrawn =
            |attempts| evidence_by(StepTransition::Withdraw, Some(StepState::Running), attempts, cancelled());
        assert_eq!(withdrawn(1), Some(Occurrence::DidNotHappen));
        assert_eq!(withdrawn(2), Some(Occurrence::DidNotHappen));
    }
}
