//! The ledger: for each effect, every time its code was entered, by whom, and what is known of it. Computed from the records of
//! steps, the history and the journal, so that it costs an effect that goes well nothing.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    Actor, EffectClass, EffectKey, EventKind, Failure, FailureClass, Fence, Generation, Note, Noted,
    Resolution, RunEvent, RunId, StepRecord, StepState, StepStatus,
};

/// One effect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerEntry {
    /// What the provider knows it by.
    pub key: String,
    /// Its run.
    pub run: String,
    /// The step.
    pub step: String,
    /// How it is kept from happening twice.
    pub class: EffectClass,
    /// Where it stands.
    pub status: &'static str,
    /// Every attempt that was, or may have been, entered.
    pub attempts: Vec<LedgerAttempt>,
    /// What probes said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<String>,
    /// What people decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rulings: Vec<LedgerRuling>,
    /// Outcomes that were refused, because their writer no longer held the run.
    pub refused_writes: u32,
    /// Times the code was entered though an earlier entry may have happened.
    pub duplicates: u32,
}

/// One time that an effect's code was, or may have been, entered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerAttempt {
    /// Which, from 1.
    pub number: u32,
    /// When it began, if that was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at: Option<String>,
    /// When its outcome was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The engine that entered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The fence it was entered under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// How it went.
    pub outcome: LedgerOutcome,
}

/// What is known of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOutcome {
    /// It happened.
    Completed,
    /// It did not happen.
    Failed,
    /// It may have happened.
    Unknown,
    /// It is under way, or was when its worker vanished.
    Open,
}

/// A decision of people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerRuling {
    /// Who.
    pub by: Actor,
    /// When.
    pub at: String,
    /// What.
    #[serde(flatten)]
    pub what: Noted,
}

/// The effects of one generation of a run. `notes` are of this run, oldest first.
pub fn ledger_of(
    run: RunId,
    generation: Generation,
    steps: &[StepRecord],
    events: &[RunEvent],
    notes: &[Note],
) -> Vec<LedgerEntry> {
    let entry = |step: &StepRecord| {
        let class = step.kind.effect_class()?;
        let about: Vec<&Note> = notes
            .iter()
            .filter(|note| note.generation == generation && note.step.as_ref() == Some(&step.id))
            .collect();
        let attempts: Vec<LedgerAttempt> =
            (1..=step.attempts).map(|number| attempt_of(step, number, events, &about)).collect();
        let probes = about.iter().filter_map(|note| match &note.what {
            Noted::Probed { answer } => Some(answer.clone()),
            _ => None,
        });
        let rulings = about.iter().filter_map(|note| {
            let by = note.by.clone()?;
            Some(LedgerRuling { by, at: note.at.to_string(), what: note.what.clone() })
        });
        let is_refused = |note: &&&Note| matches!(note.what, Noted::Refused { .. });
        Some(LedgerEntry {
            key: EffectKey::new(run, generation, &step.id).to_string(),
            run: run.to_string(),
            step: step.id.to_string(),
            class,
            status: step.state.status().as_str(),
            duplicates: count_duplicates(&attempts, &about),
            attempts,
            probes: probes.collect(),
            rulings: rulings.collect(),
            refused_writes: u32::try_from(about.iter().filter(is_refused).count()).unwrap_or(u32::MAX),
        })
    };
    steps.iter().filter_map(entry).collect()
}

fn attempt_of(step: &StepRecord, number: u32, events: &[RunEvent], about: &[&Note]) -> LedgerAttempt {
    let claim = about.iter().find(|note| note.what == (Noted::Claimed { attempt: number }));
    let end = about.iter().find_map(|note| match &note.what {
        Noted::Failed { attempt, failure } if *attempt == number => Some((*note, by_class(failure))),
        Noted::Doubted { attempt, .. } if *attempt == number => Some((*note, LedgerOutcome::Unknown)),
        _ => None,
    });
    let is_last = number == step.attempts;
    let (outcome, ended_at) = match (&step.state, &end) {
        (StepState::Completed { at, .. }, _) if is_last => (LedgerOutcome::Completed, Some(*at)),
        (StepState::Failed { at, failure }, None) if is_last => (by_class(failure), Some(*at)),
        (_, Some((note, outcome))) => (*outcome, Some(note.at)),
        (StepState::Running, None) if is_last => (LedgerOutcome::Open, None),
        _ => (LedgerOutcome::Unknown, None),
    };
    let fence = claim.map(|note| note.fence).or(end.as_ref().map(|(note, _)| note.fence));
    let fence = fence.or(is_last.then_some(step.fence));
    let began_at = claim.map(|note| note.at).or((number == 1).then_some(step.started_at));
    LedgerAttempt {
        number,
        began_at: began_at.map(|at| at.to_string()),
        ended_at: ended_at.map(|at| at.to_string()),
        owner: fence.and_then(|fence| owner_of(fence, events)),
        fence: fence.map(Fence::get),
        outcome,
    }
}

/// A failure that says that the effect did not happen, or one that leaves it open.
fn by_class(failure: &Failure) -> LedgerOutcome {
    match failure.class() {
        FailureClass::Retryable | FailureClass::Permanent => LedgerOutcome::Failed,
        FailureClass::Unknown => LedgerOutcome::Unknown,
    }
}

/// The engine that a lease with this fence was granted to.
fn owner_of(fence: Fence, events: &[RunEvent]) -> Option<String> {
    let is_grant = |event: &&RunEvent| {
        event.fence == fence
            && matches!(event.kind, EventKind::Started | EventKind::Claimed | EventKind::TakenOver)
    };
    events.iter().find(is_grant)?.note.clone()
}

/// An entry is a duplicate if an earlier one may have happened, and neither a probe nor a person said that it did not.
fn count_duplicates(attempts: &[LedgerAttempt], about: &[&Note]) -> u32 {
    let mut denied = BTreeSet::new();
    let mut doubted = None;
    for note in about {
        match &note.what {
            Noted::Doubted { attempt, .. } => doubted = Some(*attempt),
            Noted::Probed { answer } if answer == "did_not_happen" => denied.extend(doubted),
            Noted::Resolved { resolution: Resolution::DidNotHappen, .. } => denied.extend(doubted),
            _ => {}
        }
    }
    let mut may_have_happened = false;
    let mut duplicates = 0;
    for attempt in attempts {
        duplicates += u32::from(may_have_happened);
        may_have_happened |= match attempt.outcome {
            LedgerOutcome::Failed => false,
            LedgerOutcome::Unknown => !denied.contains(&attempt.number),
            LedgerOutcome::Completed | LedgerOutcome::Open => true,
        };
    }
    duplicates
}

/// Counts over all effects of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ClassCount {
    /// Effects.
    pub effects: u64,
    /// Times their code was, or may have been, entered.
    pub entries: u64,
    /// Of those, entries made though an earlier one may have happened.
    pub duplicates: u64,
    /// Effects in doubt now.
    pub in_doubt: u64,
    /// Outcomes refused.
    pub refused_writes: u64,
}

impl ClassCount {
    /// Counts `entry`.
    pub fn add(&mut self, entry: &LedgerEntry) {
        self.effects += 1;
        self.entries += entry.attempts.len() as u64;
        self.duplicates += u64::from(entry.duplicates);
        self.in_doubt += u64::from(entry.status == StepStatus::InDoubt.as_str());
        self.refused_writes += u64::from(entry.refused_writes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::step;
    use crate::model::{Payload, StepKind, Timestamp, WorkspaceId};

    const NOW: Timestamp = Timestamp::from_millis(100);

    fn note(what: Noted) -> Note {
        Note {
            workspace: WorkspaceId::default(),
            run: RunId::from_u128(1),
            generation: Generation::default(),
            step: Some(crate::model::StepId::from_stored("wire")),
            at: NOW,
            fence: Fence::new(1),
            owner: None,
            by: None,
            what,
        }
    }

    fn entry(attempts: u32, kind: StepKind, notes: &[Noted]) -> LedgerEntry {
        let state = StepState::Completed { at: NOW, output: Payload::null() };
        let record = StepRecord { attempts, kind, state, ..step("wire", 2, true) };
        let notes: Vec<Note> = notes.iter().cloned().map(note).collect();
        ledger_of(RunId::from_u128(1), Generation::default(), &[record], &[], &notes).remove(0)
    }

    #[test]
    fn an_effect_that_went_well_is_no_duplicate_and_needs_no_note() {
        let entry = entry(1, StepKind::Effect, &[]);
        assert_eq!((entry.duplicates, entry.attempts.len()), (0, 1));
        assert_eq!(entry.attempts[0].outcome, LedgerOutcome::Completed);
    }

    #[test]
    fn what_may_have_happened_before_makes_a_duplicate() {
        let failed = |attempt, failure| Noted::Failed { attempt, failure };
        let refused = entry(2, StepKind::Effect, &[failed(1, Failure::retryable("busy"))]);
        assert_eq!(refused.duplicates, 0, "the first did not happen");
        let lost = entry(2, StepKind::Effect, &[failed(1, Failure::unknown("reset"))]);
        assert_eq!(lost.duplicates, 1);
        assert_eq!(
            entry(3, StepKind::Effect, &[]).duplicates,
            2,
            "attempts cut off by crashes may have happened"
        );
    }

    #[test]
    fn a_doubt_that_was_denied_makes_none() {
        let doubted = Noted::Doubted { attempt: 1, failure: Failure::unknown("reset") };
        let claims = [Noted::Claimed { attempt: 1 }, doubted, Noted::Claimed { attempt: 2 }];
        assert_eq!(entry(2, StepKind::Claimed, &claims).duplicates, 1);
        let mut denied = claims.to_vec();
        denied.push(Noted::Probed { answer: "did_not_happen".into() });
        assert_eq!(entry(2, StepKind::Claimed, &denied).duplicates, 0);
    }
}
