//! Runs that stand still until people do something. They are found by the indexes of paused runs and of steps in doubt, never by reading all runs.

use std::collections::BTreeSet;

use super::doubts::open_promise;
use super::{Engine, Error};
use crate::limits::{MAX_DOUBTS_SCANNED, MAX_PAGE};
use crate::model::{
    Attention, RunHead, RunId, RunStatus, StepState, Version, attention_for_doubt, attention_for_pause,
};
use crate::store::{DoubtCursor, ListDoubts, ListRuns, RunLog, RunPage, RunView, StoredDoubt};

/// One page of runs, each with what people must look at.
#[derive(Debug, Clone, Default)]
pub struct AttentionPage {
    /// The runs, newest first.
    pub runs: Vec<(RunView, Option<Attention>)>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<RunId>,
}

impl Engine {
    /// What people must look at in a run whose log was just read.
    pub async fn find_attention(&self, log: &RunLog) -> Result<Option<Attention>, Error> {
        let in_doubt = log.steps.iter().filter(|step| matches!(step.state, StepState::InDoubt { .. }));
        let mut open = in_doubt.filter(|step| open_promise(log, step).is_some());
        match open.next() {
            Some(step) => Ok(Some(attention_for_doubt(step))),
            None => self.attention_of_paused(&log.head).await,
        }
    }

    /// Runs, newest first, each with what people must look at.
    pub async fn list_with_attention(&self, request: ListRuns) -> Result<AttentionPage, Error> {
        let RunPage { runs, next } = self.list(request).await?;
        let (doubts, is_whole) = self.doubts_by_run().await?;
        let mut found = Vec::with_capacity(runs.len());
        for view in runs {
            let attention = match doubts.contains(&view.head.id()) || !is_whole {
                true => self.look_at(view.head.id()).await?,
                false => self.attention_of_paused(&view.head).await?,
            };
            found.push((view, attention));
        }
        Ok(AttentionPage { runs: found, next })
    }

    /// Runs that people must look at, newest first. A page may be short and not the last; `next` says.
    ///
    /// At most [`MAX_DOUBTS_SCANNED`] steps in doubt are looked at, those longest in doubt: beyond that, runs are found when older doubts are
    /// resolved.
    pub async fn list_needing_attention(&self, request: ListRuns) -> Result<AttentionPage, Error> {
        let limit = request.limit.clamp(1, MAX_PAGE);
        let is_wanted = |status: RunStatus| request.statuses.is_empty() || request.statuses.contains(&status);
        let is_older = |run: &RunId| request.before.is_none_or(|before| *run < before);
        let mut candidates = self.doubts_by_run().await?.0;
        candidates.retain(is_older);
        let mut last_looked_at = None;
        if is_wanted(RunStatus::Paused) {
            let paused = ListRuns { statuses: vec![RunStatus::Paused], limit, ..request.clone() };
            let page = self.list(paused).await?;
            candidates.extend(page.runs.iter().map(|view| view.head.id()));
            last_looked_at = page.next;
        }
        // Beyond the last paused run that was read there may be others, newer than the next candidate.
        let candidates = candidates.into_iter().rev();
        let candidates = candidates.take_while(|run| last_looked_at.is_none_or(|last| *run >= last));
        let mut found = AttentionPage { runs: Vec::new(), next: last_looked_at };
        for run in candidates {
            if found.runs.len() == limit {
                found.next = found.runs.last().map(|(view, _)| view.head.id());
                return Ok(found);
            }
            let view = match self.get(run).await {
                Ok(view) => view,
                // It was deleted meanwhile.
                Err(Error::NoSuchRun(_)) => continue,
                Err(error) => return Err(error),
            };
            let is_of = request.workflow.as_ref().is_none_or(|name| *name == view.head.facts.workflow.name);
            if is_of
                && is_wanted(view.head.status())
                && let Some(attention) = self.look_at(run).await?
            {
                found.runs.push((view, Some(attention)));
            }
        }
        Ok(found)
    }

    async fn look_at(&self, run: RunId) -> Result<Option<Attention>, Error> {
        match self.get_log(run).await {
            Ok(log) => self.find_attention(&log).await,
            Err(Error::NoSuchRun(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Only the last event of a paused run is read.
    async fn attention_of_paused(&self, head: &RunHead) -> Result<Option<Attention>, Error> {
        if head.status() != RunStatus::Paused {
            return Ok(None);
        }
        let before = Version::new(head.version.get().saturating_sub(1));
        let events = self.list_events(head.id(), before).await?;
        Ok(attention_for_pause(head, events.last()))
    }

    /// Runs that have a step in doubt, and whether these are all.
    async fn doubts_by_run(&self) -> Result<(BTreeSet<RunId>, bool), Error> {
        let (mut runs, mut after, mut looked_at) = (BTreeSet::new(), None::<DoubtCursor>, 0);
        loop {
            let request = ListDoubts { workspace: Some(self.workspace.clone()), after, limit: MAX_PAGE };
            let doubts = self.inner.answer(self.inner.store.list_doubts(request)).await?;
            looked_at += doubts.len();
            runs.extend(doubts.iter().map(|doubt| doubt.run));
            match doubts.last() {
                Some(last) if doubts.len() == MAX_PAGE && looked_at < MAX_DOUBTS_SCANNED => {
                    after = Some(place_of(last));
                }
                last => return Ok((runs, last.is_none() || doubts.len() < MAX_PAGE)),
            }
        }
    }
}

fn place_of(doubt: &StoredDoubt) -> DoubtCursor {
    let since = match doubt.step.state {
        StepState::InDoubt { since, .. } => since,
        _ => doubt.step.started_at,
    };
    DoubtCursor { since, run: doubt.run, step: doubt.step.id.clone() }
}
