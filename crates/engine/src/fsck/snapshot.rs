//! Reading a consistent snapshot of a run.

use std::collections::BTreeMap;

use super::outbox;
use crate::model::{
    IdempotencyKey, KeyKind, KeyRecord, OutboxMessage, RunEvent, RunHead, RunId, RunStatus, StepStatus,
    Version, WorkspaceId,
};
use crate::store::{RunLog, RunView, Store, StoreError, StoreResult};

/// How often a changing run is read before it is skipped.
const TRIES: usize = 5;

/// A run with everything that must be consistent.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) view: RunView,
    pub(super) log: RunLog,
    pub(super) events: Vec<RunEvent>,
    /// Record of its key, whichever run that names.
    pub(super) key: Option<KeyRecord>,
    /// Children that waiting steps name, as far as they exist.
    pub(super) children: BTreeMap<RunId, RunStatus>,
    pub(super) parent: Option<RunStatus>,
    /// Its outbox messages, by id.
    pub(super) posts: Vec<OutboxMessage>,
}

/// Result of reading a run.
#[derive(Debug)]
pub(super) enum RunReading {
    Still(Box<Snapshot>),
    /// It changed each time.
    Moving,
    /// It was deleted while it was read.
    Gone,
}

pub(super) async fn read(store: &dyn Store, workspace: &WorkspaceId, run: RunId) -> StoreResult<RunReading> {
    for _ in 0..TRIES {
        let Some(log) = store.find_log(workspace, run).await? else { return Ok(RunReading::Gone) };
        let events = read_events(store, workspace, run).await?;
        let key = read_key(store, workspace, log.head.facts.key.as_ref()).await?;
        let waiting = log.steps.iter().filter(|step| step.state.status() == StepStatus::Waiting);
        let mut children = BTreeMap::new();
        for child in waiting.filter_map(|step| step.child) {
            if let Some(found) = store.find_run(workspace, child).await? {
                children.insert(child, found.head.status());
            }
        }
        let parent = match &log.head.facts.parent {
            Some(parent) => store.find_run(workspace, parent.run).await?.map(|found| found.head.status()),
            None => None,
        };
        let posts = outbox::read(store, workspace, &log).await?;
        let Some(view) = store.find_run(workspace, run).await? else { return Ok(RunReading::Gone) };
        if stood_still(&log.head, &view.head) {
            let snapshot = Snapshot { view, log, events, key, children, parent, posts };
            return Ok(RunReading::Still(Box::new(snapshot)));
        }
    }
    Ok(RunReading::Moving)
}

/// Every change to a run raises its version or its arrival count. Renewing a lease does not count.
fn stood_still(first: &RunHead, last: &RunHead) -> bool {
    (first.version, first.arrivals) == (last.version, last.arrivals)
}

async fn read_events(store: &dyn Store, workspace: &WorkspaceId, run: RunId) -> StoreResult<Vec<RunEvent>> {
    let mut events: Vec<RunEvent> = Vec::new();
    let mut after = Version::default();
    loop {
        let page = store.list_events(workspace, run, after).await?;
        let Some(last) = page.last() else { return Ok(events) };
        if last.version <= after {
            return Err(StoreError::Broken(format!("the history of {run} goes back at {after}")));
        }
        after = last.version;
        events.extend(page);
    }
}

async fn read_key(
    store: &dyn Store,
    workspace: &WorkspaceId,
    key: Option<&IdempotencyKey>,
) -> StoreResult<Option<KeyRecord>> {
    match key {
        Some(key) => store.find_key(workspace, KeyKind::Run, key).await,
        None => Ok(None),
    }
}
