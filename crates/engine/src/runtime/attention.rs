//! Finds runs that need a person. It uses the indexes of paused runs and of steps in doubt and never scans
//! all runs.

use std::collections::BTreeSet;

use super::doubts::open_promise;
use super::{Engine, Error};
use crate::limits::{MAX_DOUBTS_SCANNED, MAX_PAGE};
use crate::model::{
    Attention, RunHead, RunId, RunStatus, StepState, Version, attention_for_doubt, attention_for_pause,
};
use crate::store::{DoubtCursor, ListDoubts, ListRuns, RunLog, RunPage, RunView, StoredDoubt};

/// One page of runs, each with the reason why it needs a person.
#[derive(Debug, Clone, Default)]
pub struct AttentionPage {
    /// Runs, newest first.
    pub runs: Vec<(RunView, Option<Attention>)>,
    /// Start of the next page; `None` on the last page.
    pub next: Option<RunId>,
}

impl Engine {
    /// Returns why a run needs a person, based on a log that was just read.
    pub async fn find_attention(&self, log: &RunLog) -> Result<Option<Attention>, Error> {
        let in_doubt = log.steps.iter().filter(|step| matches!(step.state, StepState::InDoubt { .. }));
        let mut open = in_doubt.filter(|step| open_promise(log, step).is_some());
        match open.next() {
            Some(step) => Ok(Some(attention_for_doubt(step))),
            None => self.attention_of_paused(&log.head).await,
        }
    }

    /// Lists runs, newest first, each with the reason why it needs a person.
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

    /// Lists runs that need a person, newest first. A page may be short although more follow; check `next`.
    ///
    /// At most [`MAX_DOUBTS_SCANNED`] steps in doubt are checked, oldest doubt first. Runs beyond that
    /// limit appear once older doubts are resolved.
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
        // Beyond the last paused run on this page there may be others that are newer than the next candidate.
        let candidates = candidates.into_iter().rev();
        let candidates = candidates.take_while(|run| last_looked_at.is_none_or(|last| *run >= last));
        let mut found = AttentionPage { runs: Vec::new(), next: last_looked_at };
        for run in candidates {
            if found.runs.len() == limit {
                found.next = found.runs.last().map(|(view, _)| view.head.id());
                return Ok(found);
            }
            let (view, log) = match (self.get(run).await, self.get_log(run).await) {
                (Ok(view), Ok(log)) => (view, log),
                // The run was deleted since the page was read.
                (Err(Error::NoSuchRun(_)), _) | (_, Err(Error::NoSuchRun(_))) => continue,
                (Err(error), _) | (_, Err(error)) => return Err(error),
            };
            if request.admits(&view.head)
                && request.admits_log(&log)
                && let Some(attention) = self.find_attention(&log).await?
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

    /// Reads only the last event of a paused run.
    async fn attention_of_paused(&self, head: &RunHead) -> Result<Option<Attention>, Error> {
        if head.status() != RunStatus::Paused {
            return Ok(None);
        }
        let before = Version::new(head.version.get().saturating_sub(1));
        let events = self.list_events(head.id(), before).await?;
        Ok(attention_for_pause(head, events.last()))
    }

    /// Returns the runs with a step in doubt, and whether the list is complete.
    async fn doubts_by_run(&self) -> Result<(BTreeSet<RunId>, bool), Error> {
        let (mut runs, mut after, mut looked_at) = (BTreeSet::new(), None::<DoubtCursor>, 0);
        loop {
            let request = ListDoubts { workspace: Some(self.workspace.clone()), after, limit: MAX_PAGE };
            let doubts = self.inner.call_store(self.inner.store.list_doubts(request)).await?;
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
