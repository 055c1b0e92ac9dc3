//! The ledger of effects, for operators and auditors.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{Engine, Error};
use crate::limits::MAX_PAGE;
use crate::model::{
    ClassCount, EffectClass, EffectKey, Invalid, JournalEntry, LedgerEntry, OperationId, RepeatCount,
    RunEvent, RunId, Version, build_ledger, count_repeats,
};
use crate::store::{ListRuns, RunLog};

/// Number of runs or operations per page when walking the whole ledger.
const PAGE: usize = 100;

/// Position in the ledger at the end of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerPlace {
    /// Among runs, before this one.
    Runs(Option<RunId>),
    /// Among operations, before this one.
    Operations(Option<OperationId>),
    /// Among journal entries whose operation was deleted, after this position.
    Journal(u64),
}

/// One page of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerPage {
    /// Effects on this page. A page may be empty although more follow, because not every run or operation has
    /// effects.
    pub entries: Vec<LedgerEntry>,
    /// Start of the next page; `None` on the last page.
    pub next: Option<LedgerPlace>,
}

impl fmt::Display for LedgerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerPlace::Runs(before) => {
                write!(f, "runs {}", before.map_or(String::new(), |id| id.to_string()))
            }
            LedgerPlace::Operations(before) => {
                write!(f, "operations {}", before.map_or(String::new(), |id| id.to_string()))
            }
            LedgerPlace::Journal(after) => write!(f, "journal {after}"),
        }
    }
}

impl FromStr for LedgerPlace {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let unknown = || Invalid::Payload(format!("{text:?} is not a place in the ledger"));
        let (part, place) = text.split_once(' ').ok_or_else(unknown)?;
        Ok(match (part, place) {
            ("runs", "") => LedgerPlace::Runs(None),
            ("runs", before) => LedgerPlace::Runs(Some(before.parse()?)),
            ("operations", "") => LedgerPlace::Operations(None),
            ("operations", before) => LedgerPlace::Operations(Some(before.parse()?)),
            ("journal", after) => LedgerPlace::Journal(after.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        })
    }
}

impl Engine {
    /// Lists the effects of a run with every attempt, claim, probe, ruling and refused write.
    pub async fn ledger(&self, run: RunId) -> Result<Vec<LedgerEntry>, Error> {
        let log = self.get_log(run).await?;
        self.ledger_of_log(&log).await
    }

    /// Finds one effect by the key that its provider received.
    pub async fn find_effect(&self, key: &EffectKey) -> Result<Option<LedgerEntry>, Error> {
        let Some((cause, _)) = key.as_str().split_once(':') else { return Ok(None) };
        // From the second generation on the key names the generation after the run.
        let run = cause.split_once('.').map_or(cause, |(run, _)| run);
        let Ok(run) = run.parse::<RunId>() else { return self.find_operation_effect(cause, key).await };
        match self.ledger(run).await {
            Ok(entries) => Ok(entries.into_iter().find(|entry| entry.key == key.as_str())),
            Err(Error::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
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
        let notes: Vec<JournalEntry> =
            self.list_run_journal(run).await?.into_iter().map(|placed| placed.note).collect();
        let mut entries = build_ledger(run, log.head.generation, &log.steps, &events, &notes);
        let of = &log.head.facts.workflow;
        let workflow = format!("{}@{}", of.name, of.version);
        entries.iter_mut().for_each(|entry| entry.workflow = Some(workflow.clone()));
        Ok(entries)
    }

    /// Calls `tell` for each effect of the workspace: first effects of runs, newest run first, then effects of
    /// entity operations, newest operation first.
    pub async fn for_each_effect(&self, mut tell: impl FnMut(LedgerEntry)) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.list_effects(after, PAGE).await?;
            page.entries.into_iter().for_each(&mut tell);
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Lists one page of the workspace's effects, in the order of [`Engine::for_each_effect`]. `limit` counts
    /// runs and operations.
    pub async fn list_effects(&self, after: Option<LedgerPlace>, limit: usize) -> Result<LedgerPage, Error> {
        let limit = limit.clamp(1, MAX_PAGE);
        let (mut entries, mut room) = (Vec::new(), limit);
        let mut place = after.unwrap_or(LedgerPlace::Runs(None));
        while room > 0 {
            let (looked_at, next) = match place {
                LedgerPlace::Runs(before) => self.list_run_effects(before, room, &mut entries).await?,
                LedgerPlace::Operations(before) => {
                    self.list_operation_effects(before, room, &mut entries).await?
                }
                LedgerPlace::Journal(after) => self.list_journal_effects(after, room, &mut entries).await?,
            };
            room -= looked_at.min(room);
            match next {
                Some(next) => place = next,
                None => return Ok(LedgerPage { entries, next: None }),
            }
        }
        Ok(LedgerPage { entries, next: Some(place) })
    }

    async fn list_run_effects(
        &self,
        before: Option<RunId>,
        limit: usize,
        entries: &mut Vec<LedgerEntry>,
    ) -> Result<(usize, Option<LedgerPlace>), Error> {
        let workspace = Some(self.workspace.clone());
        let request = ListRuns {
            workspace,
            statuses: vec![],
            workflow: None,
            filter: Default::default(),
            before,
            limit,
        };
        let page = self.inner.call_store(self.inner.store.list_runs(request)).await?;
        for view in &page.runs {
            match self.ledger(view.head.id()).await {
                Ok(of_run) => entries.extend(of_run),
                // The run was deleted since the page was read.
                Err(Error::NoSuchRun(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let then = self.inner.store.entity_store().map(|_| LedgerPlace::Operations(None));
        Ok((page.runs.len(), page.next.map(|next| LedgerPlace::Runs(Some(next))).or(then)))
    }

    async fn list_operation_effects(
        &self,
        before: Option<OperationId>,
        limit: usize,
        entries: &mut Vec<LedgerEntry>,
    ) -> Result<(usize, Option<LedgerPlace>), Error> {
        let page = self.list_operations(self.all_operations(before, limit)).await?;
        for operation in &page {
            entries.extend(self.effect_of(operation).await?);
        }
        let is_last = page.len() < limit;
        let next = match page.last() {
            Some(last) if !is_last => LedgerPlace::Operations(Some(last.id)),
            _ => LedgerPlace::Journal(0),
        };
        Ok((page.len(), Some(next)))
    }

    /// Lists effects of operations that were deleted.
    async fn list_journal_effects(
        &self,
        after: u64,
        limit: usize,
        entries: &mut Vec<LedgerEntry>,
    ) -> Result<(usize, Option<LedgerPlace>), Error> {
        let page = self.list_journal_without_run(after, limit).await?;
        for placed in &page {
            entries.extend(self.effect_without_operation(placed).await?);
        }
        let next = page.last().filter(|_| page.len() >= limit);
        Ok((page.len(), next.map(|last| LedgerPlace::Journal(last.place))))
    }

    /// Counts, by class, effects that happened twice or may have happened twice, in the whole workspace.
    pub async fn count_repeats(&self) -> Result<BTreeMap<EffectClass, RepeatCount>, Error> {
        let tallies = self.inner.call_store(self.inner.store.count_tallies(Some(&self.workspace))).await?;
        Ok(count_repeats(&tallies))
    }

    /// Counts effects, attempts and repeats by class, over all runs and entities of the workspace.
    pub async fn count_effects(&self) -> Result<BTreeMap<EffectClass, ClassCount>, Error> {
        let mut counts: BTreeMap<EffectClass, ClassCount> =
            EffectClass::ALL.into_iter().map(|class| (class, ClassCount::default())).collect();
        self.for_each_effect(|entry| counts.entry(entry.class).or_default().add(&entry)).await?;
        Ok(counts)
    }
}
