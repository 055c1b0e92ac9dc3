//! The ledger of effects, for people and auditors.

use std::collections::BTreeMap;

use super::{Engine, Error};
use crate::model::{
    ClassCount, EffectClass, LedgerEntry, Note, RepeatCount, RunEvent, RunId, Version, count_repeats,
    ledger_of,
};
use crate::store::{ListRuns, RunLog};

/// Runs whose effects are put together at once.
const PAGE: usize = 100;

impl Engine {
    /// The effects of a run: every attempt, claim, probe, ruling and refused write.
    pub async fn ledger(&self, run: RunId) -> Result<Vec<LedgerEntry>, Error> {
        let log = self.get_log(run).await?;
        self.ledger_of_log(&log).await
    }

    async fn ledger_of_log(&self, log: &RunLog) -> Result<Vec<LedgerEntry>, Error> {
        let run = log.head.id();
        let mut events: Vec<RunEvent> = Vec::new();
        loop {
            let after = events.last().map_or(Version::default(), |last| last.version);
            let page = self.list_events(run, after).await?;
            if page.is_empty() {
                break;
            }
            events.extend(page);
        }
        let notes: Vec<Note> = self.notes_of(run).await?.into_iter().map(|placed| placed.note).collect();
        Ok(ledger_of(run, log.head.generation, &log.steps, &events, &notes))
    }

    /// Walks the effects of every run of the workspace, newest run first.
    pub async fn each_effect(&self, mut tell: impl FnMut(LedgerEntry)) -> Result<(), Error> {
        let mut before = None;
        loop {
            let workspace = Some(self.workspace.clone());
            let request = ListRuns { workspace, statuses: vec![], workflow: None, before, limit: PAGE };
            let page = self.inner.answer(self.inner.store.list_runs(request)).await?;
            for view in &page.runs {
                match self.ledger(view.head.id()).await {
                    Ok(entries) => entries.into_iter().for_each(&mut tell),
                    // It was deleted meanwhile.
                    Err(Error::NoSuchRun(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            before = page.next;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    /// How often effects happened twice, and how often they may have, by class; of the whole workspace.
    pub async fn count_repeats(&self) -> Result<BTreeMap<EffectClass, RepeatCount>, Error> {
        let tallies = self.inner.answer(self.inner.store.count_tallies(Some(&self.workspace))).await?;
        Ok(count_repeats(&tallies))
    }

    /// Effects, entries and repeats by class, over every run of the workspace.
    pub async fn count_effects(&self) -> Result<BTreeMap<EffectClass, ClassCount>, Error> {
        let mut counts: BTreeMap<EffectClass, ClassCount> =
            EffectClass::ALL.into_iter().map(|class| (class, ClassCount::default())).collect();
        self.each_effect(|entry| counts.entry(entry.class).or_default().add(&entry)).await?;
        Ok(counts)
    }
}
