//! Reading runs, events, keys and promises.

use std::ops::Bound::{Excluded, Unbounded};

use super::state::{RunRow, State};
use crate::limits::MAX_PAGE;
use crate::model::{
    IdempotencyKey, KeyKind, KeyRecord, KeyTarget, Promise, PromiseId, RunEvent, RunId, RunResult,
    StepRecord, StepStatus, Timestamp, Version, WorkspaceId,
};
use crate::store::{ListRuns, RunLog, RunPage, RunView, StoredKey, WaitsFor};

impl State {
    pub(super) fn find_run(&self, workspace: &WorkspaceId, run: RunId) -> Option<RunView> {
        self.row_in(workspace, run).map(view)
    }

    pub(super) fn find_log(&self, workspace: &WorkspaceId, run: RunId) -> Option<RunLog> {
        let row = self.row_in(workspace, run)?;
        let mut steps: Vec<StepRecord> = row.steps.values().cloned().collect();
        steps.sort_by_key(|step| step.started_version);
        let waiting = steps.iter().filter(|step| step.state.status() == StepStatus::Waiting);
        let children: Vec<(RunId, Option<RunResult>)> = waiting
            .filter_map(|step| step.child)
            .map(|child| (child, self.row_in(workspace, child).and_then(|row| row.result.clone())))
            .collect();
        let promises =
            row.promises.iter().chain(&row.awaits).filter_map(|id| self.promise(workspace, id).cloned());
        Some(RunLog {
            head: row.head.clone(),
            input: row.input.clone(),
            promises: promises.collect(),
            signals: row.signals.values().cloned().collect(),
            steps,
            children,
            attempts_before: self.list_reruns(&row.head),
        })
    }

    pub(super) fn list_runs(&self, request: &ListRuns) -> RunPage {
        let limit = request.limit.clamp(1, MAX_PAGE);
        let older = (Unbounded, request.before.map_or(Unbounded, Excluded));
        let matching =
            self.rows().range(older).rev().map(|(_, row)| row).filter(|row| self.fits(row, request));
        let mut runs: Vec<RunView> = matching.take(limit + 1).map(view).collect();
        let more = runs.len() > limit;
        runs.truncate(limit);
        let next = runs.last().filter(|_| more).map(|run| run.head.id());
        RunPage { runs, next }
    }

    fn fits(&self, row: &RunRow, request: &ListRuns) -> bool {
        let (id, workspace) = (row.head.id(), &row.head.facts.workspace);
        let mut steps: Vec<StepRecord> = Vec::new();
        if request.filter.needs_steps() {
            steps.extend(row.steps.values().cloned());
            steps.sort_by_key(|step| step.started_version);
        }
        let is_waiter = match &request.filter.waits_for {
            Some(WaitsFor::Promise(promise)) => self.waiters(workspace, promise).contains(&id),
            _ => false,
        };
        let names_it = |key: &IdempotencyKey| {
            let record = self.find_key(workspace, KeyKind::Run, key);
            record.is_some_and(|record| matches!(record.target, KeyTarget::Run { run, .. } if run == id))
        };
        request.admits(&row.head)
            && request.filter.fits_steps(&row.head, &steps, is_waiter)
            && request.filter.key.as_ref().is_none_or(names_it)
    }

    pub(super) fn list_events(&self, workspace: &WorkspaceId, run: RunId, after: Version) -> Vec<RunEvent> {
        let Some(row) = self.row_in(workspace, run) else { return Vec::new() };
        let first = row.events.partition_point(|event| event.version <= after);
        row.events[first..].iter().take(MAX_PAGE).cloned().collect()
    }

    pub(super) fn find_key(
        &self,
        workspace: &WorkspaceId,
        kind: KeyKind,
        key: &IdempotencyKey,
    ) -> Option<KeyRecord> {
        let place = StoredKey { workspace: workspace.clone(), kind, key: key.clone() };
        self.keys().get(&place).cloned()
    }

    pub(super) fn list_keys(&self, after: Option<StoredKey>) -> Vec<(StoredKey, KeyRecord)> {
        let from = after.map_or(Unbounded, Excluded);
        let keys = self.keys().range((from, Unbounded)).take(MAX_PAGE);
        keys.map(|(place, record)| (place.clone(), record.clone())).collect()
    }

    pub(super) fn find_promise(
        &self,
        workspace: &WorkspaceId,
        id: &PromiseId,
        now: Timestamp,
    ) -> Option<Promise> {
        let promise = self.promise(workspace, id)?;
        Some(promise.clone().seen_at(now))
    }
}

fn view(row: &RunRow) -> RunView {
    RunView { head: row.head.clone(), input: row.input.clone(), result: row.result.clone() }
}
