//! The journal, and the steps in doubt.

use std::collections::BTreeMap;

use super::state::State;
use crate::limits::MAX_PAGE;
use crate::model::{
    EffectClass, EffectKey, EffectTally, Evidence, JournalEntry, KnownAttempts, RunHead, StepId, StepState,
    TallyCount, WorkspaceId,
};
use crate::store::{
    DoubtCursor, ListAudit, ListDoubts, ListEvidence, ListJournal, StoredDoubt, StoredJournalEntry,
};

impl State {
    pub(super) fn list_journal(&self, request: &ListJournal) -> Vec<StoredJournalEntry> {
        let fits = |note: &JournalEntry| {
            note.workspace == request.workspace
                && request.run.is_none_or(|run| run == note.run)
                && (!request.by_people || note.by.is_some())
        };
        let later = self.notes().range(request.after.saturating_add(1)..);
        let fitting = later.filter(|(_, note)| fits(note)).take(request.limit.clamp(1, MAX_PAGE));
        fitting.map(|(place, note)| StoredJournalEntry { place: *place, note: note.clone() }).collect()
    }

    pub(super) fn list_audit(&self, request: &ListAudit) -> Vec<StoredJournalEntry> {
        let start = request.start();
        let of_workspace = self.notes().iter().filter(|(_, note)| note.workspace == request.workspace);
        let later = of_workspace.filter(|(place, note)| (note.at, **place) > start);
        let mut fitting: Vec<(&u64, &JournalEntry)> =
            later.filter(|(_, note)| request.filter.fits(note)).collect();
        fitting.sort_by_key(|(place, note)| (note.at, **place));
        fitting.truncate(request.limit.clamp(1, MAX_PAGE));
        fitting
            .into_iter()
            .map(|(place, note)| StoredJournalEntry { place: *place, note: note.clone() })
            .collect()
    }

    pub(super) fn list_evidence(&self, request: &ListEvidence) -> Vec<StoredJournalEntry> {
        let mut found: Vec<(&Evidence, StoredJournalEntry)> = Vec::new();
        for (place, note) in self.notes() {
            if let Some(evidence) = &note.evidence
                && note.workspace == request.workspace
                && evidence.effect == request.effect
                && (request.after_try == 0 || (!evidence.by_key && evidence.attempt > request.after_try))
            {
                found.push((evidence, StoredJournalEntry { place: *place, note: note.clone() }));
            }
        }
        found.sort_by_key(|(evidence, placed)| {
            let attempt = i64::from(evidence.attempt);
            let number = if evidence.by_key { -attempt } else { attempt };
            (number, evidence.occurrence, evidence.class, placed.place)
        });
        found.into_iter().map(|(_, placed)| placed).take(request.limit.clamp(1, MAX_PAGE)).collect()
    }

    /// Highest number of a try under an effect key.
    pub(super) fn last_try(&self, workspace: &WorkspaceId, effect: &EffectKey) -> u32 {
        let of_workspace = self.notes().values().filter(|note| note.workspace == *workspace);
        let proofs = of_workspace.filter_map(|note| note.evidence.as_ref());
        proofs.filter(|proof| proof.effect == *effect).map(|proof| proof.attempt).max().unwrap_or(0)
    }

    /// Steps of the current generation of a run whose records were deleted by retries, with the last deleted
    /// attempt.
    pub(super) fn list_reruns(&self, head: &RunHead) -> Vec<(StepId, u32)> {
        let mut last: BTreeMap<StepId, u32> = BTreeMap::new();
        let of_run = |note: &&JournalEntry| {
            (&note.workspace, note.run, note.generation)
                == (&head.facts.workspace, head.id(), head.generation)
        };
        for note in self.notes().values().filter(of_run).filter(|note| note.is_superseded_record()) {
            if let (Some(step), Some(evidence)) = (&note.step, &note.evidence) {
                let attempt = last.entry(step.clone()).or_default();
                *attempt = evidence.attempt.max(*attempt);
            }
        }
        last.into_iter().collect()
    }

    /// Counts effects that happened more than once, or may have.
    pub(super) fn count_tallies(&self, workspace: Option<&WorkspaceId>) -> Vec<TallyCount> {
        let mut effects: BTreeMap<(&WorkspaceId, &EffectKey), (EffectClass, KnownAttempts)> = BTreeMap::new();
        for note in self.notes().values() {
            let Some(evidence) = &note.evidence else { continue };
            if workspace.is_some_and(|wanted| *wanted != note.workspace) {
                continue;
            }
            let known = effects
                .entry((&note.workspace, &evidence.effect))
                .or_insert_with(|| (evidence.class, KnownAttempts::default()));
            known.0 = known.0.min(evidence.class);
            known.1.learn(evidence);
        }
        let mut counts: BTreeMap<(EffectClass, EffectTally), u64> = BTreeMap::new();
        for (class, attempts) in effects.into_values() {
            let tally = attempts.tally();
            if tally.is_repeated() {
                *counts.entry((class, tally)).or_default() += 1;
            }
        }
        let counts = counts.into_iter();
        counts.map(|((class, tally), effects)| TallyCount { class, tally, effects }).collect()
    }

    pub(super) fn list_doubts(&self, request: &ListDoubts) -> Vec<StoredDoubt> {
        let mut doubts: Vec<(DoubtCursor, StoredDoubt)> = Vec::new();
        for (run, row) in self.rows() {
            let workspace = &row.head.facts.workspace;
            if request.workspace.as_ref().is_some_and(|wanted| wanted != workspace) {
                continue;
            }
            for step in row.steps.values() {
                let StepState::InDoubt { since, .. } = step.state else { continue };
                let place = DoubtCursor { since, run: *run, step: step.id.clone() };
                doubts.push((
                    place,
                    StoredDoubt { workspace: workspace.clone(), run: *run, step: step.clone() },
                ));
            }
        }
        doubts.sort_by(|(a, _), (b, _)| a.cmp(b));
        let later =
            doubts.into_iter().filter(|(place, _)| request.after.as_ref().is_none_or(|after| place > after));
        later.map(|(_, doubt)| doubt).take(request.limit.clamp(1, MAX_PAGE)).collect()
    }
}
